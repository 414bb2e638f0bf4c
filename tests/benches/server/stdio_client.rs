//! A client over a server's standard streams, for any number of concurrent requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rmcp::model::ProtocolVersion;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Mutex as AsyncMutex, oneshot};

use crate::bench_request::{self, BenchRequest};

/// The read buffer, so that a large response takes few reads.
const BUFFER: usize = 64 << 10;

/// The standard streams of a server after the handshake. Clones share them.
#[derive(Clone)]
pub(crate) struct StdioClient {
    shared: Arc<Shared>,
    revision: ProtocolVersion,
}

struct Shared {
    stdin: AsyncMutex<ChildStdin>,
    pending: Mutex<HashMap<u64, oneshot::Sender<String>>>,
    last_id: AtomicU64,
}

impl StdioClient {
    /// Opens a session over those streams.
    pub(crate) async fn connect(stdin: ChildStdin, stdout: ChildStdout, revision: ProtocolVersion) -> Self {
        let shared =
            Arc::new(Shared { stdin: AsyncMutex::new(stdin), pending: Mutex::default(), last_id: AtomicU64::new(0) });
        tokio::spawn(dispatch_responses(BufReader::with_capacity(BUFFER, stdout), shared.clone()));
        let client = Self { shared, revision };
        let hello = client.shared.register(0);
        client.write_line(bench_request::initialize(&client.revision)).await;
        hello.await.expect("the server says hello");
        client.write_line(bench_request::initialized()).await;
        client
    }

    /// Sends a request and waits for the response.
    pub(crate) async fn send(&self, question: &BenchRequest) {
        let answer = self.send_for_text(question).await;
        question.check(answer.len(), answer.as_bytes().get(..1024).unwrap_or(answer.as_bytes()));
    }

    /// Sends a request and returns the response as it was received.
    pub(crate) async fn send_for_text(&self, question: &BenchRequest) -> String {
        let id = self.shared.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = self.shared.register(id);
        self.write_line(question.message(id, &self.revision)).await;
        answer.await.expect("the server answers")
    }

    async fn write_line(&self, mut message: String) {
        message.push('\n');
        self.shared.stdin.lock().await.write_all(message.as_bytes()).await.expect("the server reads");
    }
}

impl Shared {
    fn register(&self, id: u64) -> oneshot::Receiver<String> {
        let (sender, receiver) = oneshot::channel();
        self.pending.lock().expect("nobody panics with it").insert(id, sender);
        receiver
    }
}

/// Dispatches each response to its request, until the server closes its end.
async fn dispatch_responses(mut stdout: BufReader<ChildStdout>, shared: Arc<Shared>) {
    loop {
        let mut line = String::new();
        if !matches!(stdout.read_line(&mut line).await, Ok(1..)) {
            break;
        }
        let waiting = bench_request::response_id(&line).and_then(|id| shared.pending.lock().ok()?.remove(&id));
        // A line without an id is a notification.
        waiting.into_iter().for_each(|waiting| drop(waiting.send(std::mem::take(&mut line))));
    }
    // Requests in flight fail.
    shared.pending.lock().expect("nobody panics with it").clear();
}
