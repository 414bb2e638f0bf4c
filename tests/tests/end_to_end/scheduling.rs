//! How calls share processors and instance slots: the host's own calls beside those of many clients, plugins that hold what they
//! can get beside one that needs little, and processor time on a machine that is busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mcp_host_tests::{ConfigFile, Connection, Folder, Http, HttpWire, PATIENCE, Plugin, Revision, until};
use reqwest::{Response, Version};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

const REVISION: Revision = Revision::V_2026_07_28;

/// Clients that read in a loop, each on a connection of its own, until they are told to stop.
struct Readers {
    tasks: JoinSet<()>,
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl Readers {
    fn start(server: &Http, number: usize, uri: &str) -> Self {
        let (is_over, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut tasks = JoinSet::new();
        for _ in 0..number {
            let (address, uri) = (server.address().to_owned(), uri.to_owned());
            let (is_over, answered) = (is_over.clone(), answered.clone());
            let mut wire = server.stranger(REVISION);
            tasks.spawn(async move {
                let mut connection = Connection::plain(&address, Version::HTTP_11).await;
                while !is_over.load(Ordering::Relaxed) {
                    let response = connection.send(wire.prepared("resources/read", json!({ "uri": uri }))).await;
                    assert_eq!(response.status(), 200, "{:?}", response.body());
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { tasks, is_over, answered }
    }

    /// How many reads have been answered so far.
    fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        timeout(PATIENCE, self.tasks.join_all()).await.expect("every read is answered");
    }
}

/// A stream on which changes of one resource are told.
struct Listener {
    stream: Response,
    text: String,
}

impl Listener {
    async fn start(wire: &mut HttpWire, uri: &str) -> Self {
        let wanted = json!({ "notifications": { "resourceSubscriptions": [uri] } });
        let request = wire.prepared("subscriptions/listen", wanted);
        let stream = timeout(PATIENCE, request.send()).await.expect("an answer in time").expect("the server answers");
        assert_eq!(stream.status(), 200);
        let mut listener = Self { stream, text: String::new() };
        // Told once as soon as the subscription counts.
        listener.updated().await;
        listener
    }

    /// Waits for the next update.
    async fn updated(&mut self) {
        const UPDATED: &str = "notifications/resources/updated";
        while !self.text.contains(UPDATED) {
            let chunk = timeout(PATIENCE, self.stream.chunk()).await.expect("it hears in time").expect("the stream goes on");
            self.text.push_str(&String::from_utf8_lossy(&chunk.expect("the stream does not end")));
        }
        self.text.clear();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_hear_of_an_edit_while_clients_read_without_pause() {
    let notes = (0..200).map(|number| (format!("{number}.md"), "text"));
    let folder = Folder::with_files(notes);
    let config = ConfigFile::new().plugin(Plugin::notes("n", folder.path()).limit("rate", 1_000_000).limit("queue", 128).limit("wait", "30s")).open().write();
    let server = Http::start(&config).await;
    let mut listeners = Vec::new();
    for _ in 0..100 {
        listeners.push(Listener::start(&mut server.stranger(REVISION), "notes://n/0.md").await);
    }
    let readers = Readers::start(&server, 64, "notes://n/1.md");
    until("all clients read", || readers.answered() > 640).await;
    for round in 0..3 {
        let before = readers.answered();
        let began = std::time::Instant::now();
        folder.write("0.md", format!("round {round}"));
        for (number, listener) in listeners.iter_mut().enumerate() {
            listener.updated().await;
            if number == 0 || number == 99 { eprintln!("{number}: {:?} {}", began.elapsed(), readers.answered() - before); }
        }
    }
    readers.end().await;
    drop(listeners);
    let log = server.end().await.log;
    assert!(!log.contains("limits.deadline"), "{log}");
}
