//! What the program says when it is called wrong, or finds no server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::process::{Command, Output};

fn smoke_client(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_smoke-client")).args(arguments).output().unwrap()
}

#[test]
fn without_a_url_the_usage_is_printed() {
    let output = smoke_client(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "usage: smoke-client URL [URI…]\n");
}

#[test]
fn a_server_that_does_not_answer_is_named() {
    // A port that was free a moment ago: nothing listens there.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().port();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let output = smoke_client(&[&url]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.starts_with(&format!("error: cannot connect to {url}")), "{message}");
}
