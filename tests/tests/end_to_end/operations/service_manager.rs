//! Service managers: the messages of `Type=notify`, and a socket that stays open across restarts.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, TIMEOUT, host_command};
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use tokio::net::UnixDatagram;
use tokio::time::timeout;

fn config(folder: &Folder) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::files("f", folder.path())).allow_all()
}

/// A service manager's notification socket.
struct Manager {
    socket: UnixDatagram,
    folder: Folder,
}

impl Manager {
    fn new() -> Self {
        let folder = Folder::with_files::<&str, &str>([]);
        Self { socket: UnixDatagram::bind(folder.path().join("notify")).unwrap(), folder }
    }

    fn variable(&self) -> (&'static str, String) {
        ("NOTIFY_SOCKET", self.folder.path().join("notify").to_str().unwrap().to_owned())
    }

    async fn message(&self) -> String {
        let mut buffer = [0; 4096];
        let read = timeout(TIMEOUT, self.socket.recv(&mut buffer)).await.expect("a message arrives").unwrap();
        String::from_utf8_lossy(&buffer[..read]).trim().to_owned()
    }
}

/// A listening socket that processes inherit, with the environment variables that announce it.
fn passed_socket() -> (TcpListener, [(&'static str, String); 2]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::io::fcntl_setfd(&listener, FdFlags::empty()).unwrap();
    let first = listener.as_raw_fd().to_string();
    (listener, [("LISTEN_FDS", "1".to_owned()), ("LISTEN_FDS_FIRST_FD", first)])
}

#[tokio::test]
async fn a_service_reports_that_it_is_ready_alive_and_stopping_also_if_it_is_confined() {
    let folder = Folder::with_files([("a.md", "a")]);
    for confine in [false, true] {
        let manager = Manager::new();
        let config = config(&folder).server("confine", confine).write();
        let watchdog = ("WATCHDOG_USEC", "200000".to_owned());
        let server = HttpServer::start_service(&config, &[manager.variable(), watchdog]).await;
        assert_eq!(manager.message().await, "READY=1\nSTATUS=generation 1");
        for _ in 0..3 {
            assert_eq!(manager.message().await, "WATCHDOG=1");
        }
        server.signal(Signal::TERM);
        while manager.message().await != "STOPPING=1" {}
        server.wait_clean_exit().await;
    }
}

#[tokio::test]
async fn a_service_reports_when_a_reload_on_request_begins_and_how_it_ends() {
    let folder = Folder::with_files([("a.md", "a")]);
    let manager = Manager::new();
    let config = config(&folder).write();
    let server = HttpServer::start_service(&config, &[manager.variable()]).await;
    assert_eq!(manager.message().await, "READY=1\nSTATUS=generation 1");
    server.signal(Signal::HUP);
    let began = manager.message().await;
    assert!(began.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{began}");
    assert_eq!(manager.message().await, "READY=1\nSTATUS=generation 1");
    config.replace_text("[[plugin]]\nnam = \"f\"\n");
    server.signal(Signal::HUP);
    assert!(manager.message().await.starts_with("RELOADING=1\n"));
    let ended = manager.message().await;
    assert!(ended.starts_with("READY=1\nSTATUS=the reload failed: ") && ended.lines().count() == 2, "{ended}");
    server.end().await;
}

#[tokio::test]
async fn no_connection_is_refused_while_a_service_with_a_passed_socket_restarts() {
    let folder = Folder::with_files([("a.md", "a")]);
    let config = config(&folder).write();
    let (socket, variables) = passed_socket();
    let address = socket.local_addr().unwrap();
    let mut server = HttpServer::start_service(&config, &variables).await;
    assert_eq!(server.address(), address.to_string());

    let (is_over, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (over, answered) = (is_over.clone(), answers.clone());
    let client = tokio::spawn(async move {
        while !over.load(Ordering::Relaxed) {
            // One connection per request, because a pooled connection may end between two requests.
            let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
            let answer = client.get(format!("http://{address}/healthz")).timeout(TIMEOUT).send().await;
            // 503: the connection was accepted before the shutdown, and its request arrived after it.
            match answer.expect("no connection is refused or closed").status().as_u16() {
                200 => drop(answered.fetch_add(1, Ordering::Relaxed)),
                status => assert_eq!(status, 503),
            }
        }
    });
    for _ in 0..3 {
        let before = answers.load(Ordering::Relaxed);
        server.signal(Signal::TERM);
        server.wait_clean_exit().await;
        server = HttpServer::start_service(&config, &variables).await;
        while answers.load(Ordering::Relaxed) < before + 10 && !client.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    client.await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn what_is_no_tcp_socket_is_an_error_before_anything_is_served() {
    let folder = Folder::with_files([("a.md", "a")]);
    let config = config(&folder).write();
    let (_socket, mut variables) = passed_socket();
    variables[0].1 = "2".to_owned();
    let bound = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&bound, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let bound = bound.as_raw_fd().to_string();
    for (variables, expected) in [
        (variables.to_vec(), "expected one TCP socket, found 2 sockets"),
        (vec![("LISTEN_FDS", "1".to_owned()), ("LISTEN_FDS_FIRST_FD", "0".to_owned())], "is not a socket"),
        (vec![("LISTEN_FDS", "1000000000".to_owned())], "found `LISTEN_FDS=1000000000`"),
        (vec![("LISTEN_FDS", "1".to_owned()), ("LISTEN_FDS_FIRST_FD", bound)], "expected a socket that listens"),
    ] {
        let mut command = host_command();
        command.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(config.path()).envs(variables);
        let output = timeout(TIMEOUT, command.stdin(Stdio::null()).output()).await.unwrap().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && err.contains(expected) && err.contains("ListenStream="), "{err}");
    }
}
