//! A good plugin beside a hostile one: what its callers notice.
//!
//! One client reads from the good plugin. On a thread of their own, [`HOSTILE_CLIENTS`] clients have the hostile one commit a deed as
//! often as it lets them, with a [`THINK_TIME`] after each: what is measured is what a plugin does to its neighbours, not what a
//! flood of requests does to a server. In between they read something of it that works, so that the host has no reason to set
//! it aside. The good plugin takes turns: alone, then beside a deed. The last row, a plugin that just answers, is what any
//! other use of the machine costs.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mcp_host_tests::{ConfigFile, Plugin, WrittenConfig};
use rmcp::model::ProtocolVersion;
use tokio::runtime;
use tokio::sync::oneshot;

use crate::bench_request::BenchRequest;
use crate::http::HttpClient;
use crate::load::{self, Client, Sample};
use crate::options::Options;
use crate::process::{Program, Server};
use crate::requests::sizes;
use crate::table;

/// Clients of the hostile plugin: as many as it may have calls at once, and as many again that wait.
const HOSTILE_CLIENTS: usize = 16;

/// For how long a hostile client does nothing after each answer.
const THINK_TIME: Duration = Duration::from_millis(10);

/// What the guest `misbehaving` does, with what is said of it.
const ACTIONS: [(&str, &str); 13] = [
    ("loop", "computes without end"),
    ("host-calls", "calls the host without end"),
    ("sleep", "never answers"),
    ("grow", "wants all memory"),
    ("hold", "takes 48 MiB and writes to all of it"),
    ("recurse", "uses up the stack"),
    ("trap", "traps"),
    ("panic", "panics"),
    ("flood-log", "logs 2 MB"),
    ("flood-stdout", "prints 2 MB"),
    ("large", "answers 8 MiB"),
    ("too-large", "answers 32 MiB, twice what it may"),
    ("good", "answers"),
];

/// Measures each deed.
pub(crate) async fn run(options: &Options) {
    let config = config();
    let mut rows = Vec::new();
    for (action, what) in ACTIONS {
        let (server, address) = Program::Host(&config).over_http().await;
        let good = HttpClient::connect(address, ProtocolVersion::V_2026_07_28).await;
        let mut good = vec![Client::Http(good)];
        let (mut alone, mut beside) = (Sample::default(), Sample::default());
        for _ in 0..options.rounds() {
            alone.add(measure(&server, &mut good, options.load_duration()).await);
            let attack = HostileClients::start(address, action);
            beside.add(measure(&server, &mut good, options.load_duration() * 2).await);
            attack.stop();
        }
        rows.push(row(what, &alone, &beside, &server));
        server.end().await;
    }
    let header = [
        "the other plugin",
        "alone p50 ms",
        "beside p50 ms",
        "alone p99 ms",
        "beside p99 ms",
        "p50 ratio",
        "p99 ratio",
        "peak MiB",
    ];
    table::print("A read of 1 KiB from a good plugin, beside a hostile one", &header, rows);
}

fn config() -> WrittenConfig {
    // One client alone makes more calls in a second than the default lets it.
    ConfigFile::new().allow_all().plugin(sizes().limit("rate", "1000000/s")).plugin(Plugin::misbehaving("bad")).write()
}

/// Clients that attack, on a thread of their own.
struct HostileClients {
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl HostileClients {
    fn start(address: SocketAddr, action: &'static str) -> Self {
        let (end, ended) = oneshot::channel();
        let thread = thread::spawn(move || {
            lower_priority();
            let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                for _ in 0..HOSTILE_CLIENTS {
                    tokio::spawn(run_hostile_client(address, action));
                }
                // Whoever begins an attack ends it.
                let _ = ended.await;
            });
        });
        Self { end, thread }
    }

    fn stop(self) {
        drop(self.end);
        self.thread.join().expect("the attack does not fail");
    }
}

/// Has this thread compute only while no other wants to: attackers would be on machines of their own, and what their clients do
/// with megabytes of answers is no plugin's doing.
fn lower_priority() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads one number, and keeps nothing of it.
    #[allow(unsafe_code, reason = "no library has this call")]
    let failed = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    assert_eq!(failed, 0, "any thread may give way");
}

async fn run_hostile_client(address: SocketAddr, action: &'static str) {
    let mut client = HttpClient::connect(address, ProtocolVersion::V_2026_07_28).await;
    loop {
        // Whatever comes back, a refusal too.
        for path in [action, "good"] {
            client.send_unchecked(&BenchRequest::read("an attack", &format!("misbehaving://bad/{path}"), 0)).await;
            tokio::time::sleep(THINK_TIME).await;
        }
    }
}

/// The good plugin's turn, after a quarter of that to get warm.
async fn measure(server: &Server, clients: &mut Vec<Client>, span: Duration) -> Sample {
    let question = BenchRequest::read("read 1 KiB of text", "sizes:///text/1024", 1 << 10);
    load::apply(clients, &question, span / 4).await;
    let before = server.cpu_time();
    let sample = load::apply(clients, &question, span).await;
    sample.with_cpu(server.cpu_time().saturating_sub(before))
}

fn row(what: &str, alone: &Sample, beside: &Sample, server: &Server) -> Vec<String> {
    let ratio = |part: f64| table::ratio(beside.percentile(part).as_secs_f64(), alone.percentile(part).as_secs_f64());
    vec![
        what.to_owned(),
        table::millis(alone.percentile(0.5)),
        table::millis(beside.percentile(0.5)),
        table::millis(alone.percentile(0.99)),
        table::millis(beside.percentile(0.99)),
        ratio(0.5),
        ratio(0.99),
        table::mebibytes(server.peak_memory()),
    ]
}
