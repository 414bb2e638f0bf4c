//! The console's part of the administration API, with the principal's token: lists, reads and completions.

use std::net::SocketAddr;
use std::sync::Arc;

use mcp_resource_host::host::Host;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::notifications::TIMEOUT;
use super::world::{ADA, Contents, HIDDEN, Rules, is_allowed, started};
use super::{Client, Exchange, principal, transcript, world};
use crate::revision::Revision;
use crate::{AdminControls, AdminListener, serve_admin};

/// A user of the console.
struct ConsoleClient {
    address: SocketAddr,
    _server: AbortOnDropHandle<()>,
}

impl ConsoleClient {
    async fn start(host: &Arc<Host>) -> Self {
        let config = host.config();
        let listener = AdminListener::bind(&config.admin.as_ref().unwrap().listen).await.unwrap();
        let address = listener.url(&config).strip_prefix("http://").unwrap().parse().unwrap();
        let host = host.clone();
        let serving = tokio::spawn(async move {
            let Ok(never) = serve_admin(host, listener, CancellationToken::new(), AdminControls::new()).await else {
                panic!("it serves")
            };
            match never {}
        });
        Self { address, _server: AbortOnDropHandle::new(serving) }
    }

    async fn post(&self, door: &str, body: &Value) -> Value {
        let (body, address) = (body.to_string(), self.address);
        let request = format!(
            "POST /api/v1/browse/{door} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {ADA}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let exchange = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let answer = timeout(TIMEOUT, exchange).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap();
        assert_ne!(status, "429", "{door} {body}");
        json!({ "status": status, "body": serde_json::from_str::<Value>(body).unwrap() })
    }
}

impl Client for ConsoleClient {
    fn revision(&self) -> Revision {
        Revision::LATEST
    }

    async fn send(&self, method: &str, params: &Value) -> Option<Value> {
        let (door, body) = match method {
            "resources/list" => ("list", json!({ "parent": params["uri"], "cursor": params["cursor"], "limit": 3 })),
            "resources/templates/list" => ("templates", json!({ "cursor": params["cursor"] })),
            "resources/read" => ("read", json!({ "uri": params["uri"] })),
            "completion/complete" => {
                let (argument, known) = (&params["argument"], &params["context"]["arguments"]);
                let template = &params["ref"]["uri"];
                let body = json!({
                    "template": template, "variable": argument["name"], "value": argument["value"], "known": known
                });
                ("complete", body)
            }
            _ => return None,
        };
        let mut answer = self.post(door, &body).await;
        // Renames the member, because `walk` expects `nextCursor`.
        if let Some(cursor) = answer["body"].as_object_mut().and_then(|members| members.remove("next")) {
            answer["body"]["nextCursor"] = cursor;
        }
        Some(answer)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_worlds_are_the_same_for_a_user_of_the_console() {
    let (common, own, drawn, pool) = world::two_worlds();
    for rules in [Rules::Nothing, Rules::Deny, Rules::Both] {
        let (_dir, providers, host) = started(rules).await;
        let policy = host.policy(&principal());
        let client = ConsoleClient::start(&host).await;
        let mut answers: [Vec<Exchange>; 2] = [Vec::new(), Vec::new()];
        for (own, answers) in own.iter().zip(&mut answers) {
            providers.set(Contents::new(&drawn, &common, own, &|uri| is_allowed(&policy, uri)));
            *answers = transcript(&host, &client, &providers, &pool).await;
            assert_eq!(providers.calls_of(HIDDEN), 0, "{rules:?}: no call reaches what it may see nothing of");
        }
        let [first, second] = answers;
        let sees = first.iter().any(|(request, answers, _)| {
            request.contains("resources/read") && answers.iter().any(|answer| answer["status"] == "200")
        });
        assert_eq!(sees, rules != Rules::Nothing, "{rules:?}");
        for (one, other) in first.into_iter().zip(second) {
            assert_eq!(one, other, "{rules:?}");
        }
    }
}
