//! Shared sessions, and clients of 2026-07-28, behind a balancer without stickiness: each request goes to another
//! replica.

use std::collections::BTreeSet;

use mcp_host_tests::{Balancer, RawHttp, Revision};
use serde_json::json;

use super::{ADA, BOB, REVISION, Replicas, ping, subscribe, uri};
use crate::subscriptions::session_streams::EventStream;

/// The maximum number of sessions until each replica has opened one.
const MAX_SESSIONS: usize = 20;

/// The replica that opened a session: the end of the session's id.
fn opener(session: &RawHttp) -> String {
    session.session_id().expect("a session has an id")[32..].to_owned()
}

/// Asserts that the session exists at each replica that the balancer chooses.
async fn exists_everywhere(session: &mut RawHttp) {
    for _ in 0..6 {
        assert_eq!(ping(session).await.0, 200);
    }
}

/// Opens a stream of 2026-07-28 about all files.
async fn listen(client: &mut RawHttp) -> EventStream {
    let wanted = ["a.txt", "b.txt", "c.txt", "secret.txt"].map(uri);
    let params = json!({ "notifications": { "resourceSubscriptions": wanted } });
    let response = client.request_builder("subscriptions/listen", params).send().await.expect("a stream");
    let mut stream = EventStream::of(response);
    let first = stream.next().await.expect("it begins");
    assert_eq!(first["method"], crate::subscriptions::ACKNOWLEDGED, "{first}");
    stream
}

#[tokio::test]
async fn behind_a_balancer_without_stickiness_sessions_go_on_and_every_change_is_told_though_replicas_die() {
    let mut replicas = Replicas::start(3).await;
    let addresses = replicas.servers.iter().map(|(server, _)| server.as_ref().unwrap().address().to_owned());
    let balancer = Balancer::start_without_stickiness(addresses.collect::<Vec<_>>()).await;
    let url = balancer.mcp_url();
    let (mut sessions, mut openers) = (Vec::new(), BTreeSet::new());
    while openers.len() < 3 {
        assert!(sessions.len() < MAX_SESSIONS, "the balancer does not choose all replicas: {openers:?}");
        let session = RawHttp::start_with_token(&url, REVISION, ADA).await;
        openers.insert(opener(&session));
        sessions.push(session);
    }
    let mut newest = RawHttp::start_with_token(&url, Revision::V_2026_07_28, BOB).await;
    let mut listening = listen(&mut newest).await;
    let mut streams = Vec::new();
    for session in &mut sessions {
        exists_everywhere(session).await;
        for file in ["a.txt", "b.txt", "c.txt"] {
            subscribe(session, file).await;
        }
        streams.push(EventStream::open(session, None).await);
    }
    replicas.edit("a.txt", "xx");
    for stream in streams.iter_mut().chain([&mut listening]) {
        while stream.next_file().await != "a.txt" {}
    }

    // Two replicas die, one after the other. A client whose stream has ended opens another one; what changed in between
    // is told in a session.
    for index in [0, 1] {
        let last = streams.into_iter().map(|stream| stream.last_id).collect::<Vec<_>>();
        replicas.kill(index).await;
        replicas.edit("b.txt", &"x".repeat(index + 3));
        streams = Vec::new();
        for (session, last) in sessions.iter_mut().zip(last) {
            exists_everywhere(session).await;
            streams.push(EventStream::open(session, last.as_deref()).await);
        }
        listening = listen(&mut newest).await;
        for stream in &mut streams {
            while stream.next_file().await != "b.txt" {}
        }
        replicas.edit("c.txt", &"x".repeat(index + 3));
        for stream in streams.iter_mut().chain([&mut listening]) {
            while stream.next_file().await != "c.txt" {}
        }
    }

    for session in sessions {
        let mut ended = session.at(&url);
        session.delete_session().await;
        assert_eq!(ping(&mut ended).await.0, 404);
    }
    drop(listening);
    replicas.end().await;
}
