//! A client over a server's standard streams, for as many who ask at once as there are.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rmcp::model::ProtocolVersion;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Mutex as AsyncMutex, oneshot};

use crate::question::{self, Question};

/// How much an answer holds at once, so that a large one takes few reads.
const BUFFER: usize = 64 << 10;

/// The standard streams of a server that has been met. Clones share them.
#[derive(Clone)]
pub(crate) struct PipeClient {
    shared: Arc<Shared>,
    revision: ProtocolVersion,
}

struct Shared {
    stdin: AsyncMutex<ChildStdin>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<String>>>,
    last_id: AtomicU64,
}

impl PipeClient {
    /// Opens a session over those streams.
    pub(crate) async fn connect(stdin: ChildStdin, stdout: ChildStdout, revision: ProtocolVersion) -> Self {
        let shared =
            Arc::new(Shared { stdin: AsyncMutex::new(stdin), waiting: Mutex::default(), last_id: AtomicU64::new(0) });
        tokio::spawn(deliver(BufReader::with_capacity(BUFFER, stdout), shared.clone()));
        let client = Self { shared, revision };
        let hello = client.shared.answer_to(0);
        client.send(question::initialize(&client.revision)).await;
        hello.await.expect("the server says hello");
        client.send(question::initialized()).await;
        client
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(&self, question: &Question) {
        let answer = self.answer(question).await;
        question.check(answer.len(), answer.as_bytes().get(..1024).unwrap_or(answer.as_bytes()));
    }

    /// Asks, and gives the answer as it came.
    pub(crate) async fn answer(&self, question: &Question) -> String {
        let id = self.shared.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = self.shared.answer_to(id);
        self.send(question.message(id, &self.revision)).await;
        answer.await.expect("the server answers")
    }

    async fn send(&self, mut message: String) {
        message.push('\n');
        self.shared.stdin.lock().await.write_all(message.as_bytes()).await.expect("the server reads");
    }
}

impl Shared {
    fn answer_to(&self, id: u64) -> oneshot::Receiver<String> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().expect("nobody panics with it").insert(id, sender);
        receiver
    }
}

/// Hands each answer to who waits for it, until the server closes its end.
async fn deliver(mut stdout: BufReader<ChildStdout>, shared: Arc<Shared>) {
    loop {
        let mut line = String::new();
        if !matches!(stdout.read_line(&mut line).await, Ok(1..)) {
            break;
        }
        let waiting = question::id_of(&line).and_then(|id| shared.waiting.lock().ok()?.remove(&id));
        // A line without an id is a notification.
        waiting.into_iter().for_each(|waiting| drop(waiting.send(std::mem::take(&mut line))));
    }
    // Nobody will be answered any more.
    shared.waiting.lock().expect("nobody panics with it").clear();
}
