//! Scheduling: how calls share processors and instance slots. The host's own calls compete with many clients, plugins
//! that use all available resources run together with one that needs little, and CPU time is measured on a machine
//! under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mcp_host_tests::{
    ConfigFile, Connection, Folder, HttpServer, Plugin, RawHttp, Revision, StdioServer, TIMEOUT, content_bytes,
    fixture, wait_until,
};
use reqwest::{Response, Version};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

const REVISION: Revision = Revision::V_2026_07_28;

/// Clients that read in a loop, each on a separate connection, until they are stopped.
struct Readers {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl Readers {
    fn start(server: &HttpServer, number: usize, uri: &str) -> Self {
        let (is_over, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut tasks = JoinSet::new();
        for _ in 0..number {
            let (address, uri) = (server.address().to_owned(), uri.to_owned());
            let (is_over, answered) = (is_over.clone(), answered.clone());
            let mut wire = server.uninitialized(REVISION);
            tasks.spawn(async move {
                let mut connection = Connection::plain(&address, Version::HTTP_11).await;
                while !is_over.load(Ordering::Relaxed) {
                    let response = connection.send(wire.request_builder("resources/read", json!({ "uri": uri }))).await;
                    assert_eq!(response.status(), 200, "{:?}", response.body());
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { tasks, stop: is_over, answered }
    }

    /// Returns the number of reads answered so far.
    fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        timeout(TIMEOUT, self.tasks.join_all()).await.expect("every read is answered");
    }
}

/// A stream of updates of one resource.
struct Listener {
    stream: Response,
    text: String,
}

impl Listener {
    async fn start(wire: &mut RawHttp, uri: &str) -> Self {
        let wanted = json!({ "notifications": { "resourceSubscriptions": [uri] } });
        let request = wire.request_builder("subscriptions/listen", wanted);
        let stream = timeout(TIMEOUT, request.send()).await.expect("an answer in time").expect("the server answers");
        assert_eq!(stream.status(), 200);
        let mut listener = Self { stream, text: String::new() };
        // The first update is sent as soon as the subscription is active.
        listener.wait_until_updated().await;
        listener
    }

    /// Waits for the next update.
    async fn wait_until_updated(&mut self) {
        const UPDATED: &str = "notifications/resources/updated";
        while !self.text.contains(UPDATED) {
            let chunk =
                timeout(TIMEOUT, self.stream.chunk()).await.expect("it hears in time").expect("the stream goes on");
            self.text.push_str(&String::from_utf8_lossy(&chunk.expect("the stream does not end")));
        }
        self.text.clear();
    }
}

/// Starts `number` listeners of one resource.
async fn start_listeners(server: &HttpServer, number: usize, uri: &str) -> Vec<Listener> {
    let starting = (0..number).map(|_| async { Listener::start(&mut server.uninitialized(REVISION), uri).await });
    futures::future::join_all(starting).await
}

/// Threads of this process that spin until the value is dropped.
struct CpuLoad(Arc<AtomicBool>);

impl CpuLoad {
    fn start(threads: usize) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        for _ in 0..threads {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    // No pause instruction, because a virtual machine would be descheduled.
                    std::hint::black_box(());
                }
            });
        }
        Self(is_over)
    }
}

impl Drop for CpuLoad {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn busy_plugin(name: &str) -> Plugin {
    Plugin::new(name, &fixture("busy"), &format!("busy://{name}/"))
}

/// A folder of many notes. Change detection reads all of them.
fn many_notes() -> Folder {
    Folder::with_files((0..1000).map(|number| (format!("{number}.md"), "text")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_hear_of_edits_while_clients_read_without_pause() {
    let folder = many_notes();
    let patient = |plugin: Plugin| {
        plugin.limit("rate", "1000000/s").limit("queue", 256).limit("queue-timeout", "1m").limit("deadline", "1m")
    };
    let cheap = patient(Plugin::sample("cheap")).instances("max-calls", 128);
    let config = ConfigFile::new().plugin(patient(Plugin::notes("n", folder.path()))).plugin(cheap).allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut listeners = start_listeners(&server, 100, "notes://n/0.md").await;
    // Cheap reads of another plugin, then reads of the same one.
    for uri in ["sample://cheap/plain", "notes://n/1.md"] {
        let readers = Readers::start(&server, 64, uri);
        wait_until("all clients read", || readers.answered() > 640).await;
        for round in 0..3 {
            folder.write("0.md", format!("round {round} beside {uri}"));
            for listener in &mut listeners {
                listener.wait_until_updated().await;
            }
        }
        readers.end().await;
    }
    drop(listeners);
    let log = server.end().await.log;
    assert!(!log.contains("limits.deadline"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_hear_of_edits_beside_plugins_that_spin_when_they_are_asked_what_changed() {
    let folder = many_notes();
    let spinning =
        |number: usize| busy_plugin(&format!("s{number}")).config("changes", "spin").set("watch-interval", "100ms");
    let config = (0..16).map(spinning).fold(ConfigFile::new(), ConfigFile::plugin);
    let config = config.plugin(Plugin::notes("n", folder.path())).allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut listener = Listener::start(&mut server.uninitialized(REVISION), "notes://n/0.md").await;
    let mut subscribing = JoinSet::new();
    for number in 0..16 {
        let mut wire = server.uninitialized(REVISION);
        let wanted = json!({ "notifications": { "resourceSubscriptions": [format!("busy://s{number}/good")] } });
        let request = wire.request_builder("subscriptions/listen", wanted);
        // The acknowledgement is sent before the plugin is called, and the calls continue only while the stream is
        // open.
        subscribing.spawn(async move {
            let mut stream = request.send().await.unwrap();
            while stream.chunk().await.unwrap().is_some() {}
        });
    }
    // One of the calls has reached a limit.
    server.log_line("function=\"changes\"").await;
    for round in 0..3 {
        folder.write("0.md", format!("round {round}"));
        listener.wait_until_updated().await;
    }
    drop((listener, subscribing));
    let log = server.end().await.log;
    let good =
        log.lines().filter(|line| line.contains(r#"plugin="n""#) && line.contains("limits.")).collect::<Vec<_>>();
    assert!(good.is_empty(), "{good:?}");
}

/// Starts `of_each` sleeping calls of each plugin. They are cancelled on drop.
fn start_sleeping_calls(server: &HttpServer, plugins: usize, of_each: usize) -> JoinSet<()> {
    let mut asked = JoinSet::new();
    for number in 0..plugins * of_each {
        let uri = format!("misbehaving://p{}/slow?ms=3600000", number % plugins);
        let request = server.uninitialized(REVISION).request_builder("resources/read", json!({ "uri": uri }));
        asked.spawn(async move { drop(request.send().await) });
    }
    asked
}

async fn text(server: &HttpServer, uri: &str) -> Value {
    let answer = server.uninitialized(REVISION).request("resources/read", json!({ "uri": uri })).await;
    answer.result()["contents"][0]["text"].clone()
}

#[tokio::test]
async fn calls_that_sleep_in_eight_plugins_leave_instances_for_a_ninth() {
    let sleepy = |number: usize| {
        let plugin = Plugin::misbehaving(&format!("p{number}")).limit("concurrency", 64).limit("queue", 1000);
        plugin.limit("queue-timeout", "60s").limit("deadline", "10m").limit("memory", "1GiB").limit("log", "16MiB/m")
    };
    let config = (0..8).map(sleepy).fold(ConfigFile::new(), ConfigFile::plugin);
    let config = config.plugin(Plugin::misbehaving("good")).allow_all().write();
    let server = HttpServer::start(&config).await;
    // The maximum share of eight plugins in 256 slots, and the same again after all of these calls were cancelled.
    for round in 1..=2 {
        let asleep = start_sleeping_calls(&server, 8, 40);
        server.log_lines("a slow read has begun", round * 8 * 28).await;
        for _ in 0..50 {
            assert_eq!(text(&server, "misbehaving://good/good").await, "good");
        }
        drop(asleep);
        for number in 0..8 {
            assert_eq!(text(&server, &format!("misbehaving://p{number}/good")).await, "good");
        }
    }
    server.end().await;
}

/// Reads a resource, and returns the text or the reason of the failure.
async fn try_read(server: &StdioServer, uri: &str) -> Result<String, String> {
    let contents = server.client().read(uri).await.map_err(|error| error.message.into_owned())?;
    Ok(String::from_utf8(content_bytes(&contents[0])).unwrap())
}

#[tokio::test]
async fn a_guest_has_its_processor_time_on_a_busy_machine_and_no_more() {
    let config = ConfigFile::new().plugin(busy_plugin("b").limit("cpu", "100ms").limit("deadline", "10m")).write();
    let server = StdioServer::start(&config).await;
    let compute = |rounds: u64| format!("busy://b/compute?rounds={rounds}");
    // The maximum work within the CPU time limit, to a factor of two. Beside other load it is less, because
    // hyperthreads share a core.
    let mut rounds: u64 = 1000;
    while try_read(&server, &compute(rounds * 2)).await.is_ok() {
        rounds *= 2;
    }
    let noise = CpuLoad::start(16);
    for _ in 0..5 {
        assert_eq!(try_read(&server, &compute(rounds / 8)).await.as_deref(), Ok("computed"));
    }
    let ended = try_read(&server, "busy://b/spin").await.unwrap_err();
    assert!(ended.contains("it used up its CPU time"), "{ended}");
    drop(noise);
    server.end().await;
}
