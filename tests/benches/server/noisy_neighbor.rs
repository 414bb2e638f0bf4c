//! A good plugin beside a hostile one: latency of the good one.
//!
//! One client reads from the good plugin. On a thread of their own, [`HOSTILE_CLIENTS`] clients make the hostile one
//! perform an action as often as the host admits, with a [`THINK_TIME`] after each: this measures the effect of a
//! plugin on its neighbors, not of a flood of requests on a server. Between the actions they read a resource that
//! works, so that the circuit breaker stays closed. The good plugin is measured alone and beside each action in turn.
//! The last row, a plugin that just responds, is the cost of any other use of the machine.

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

/// The number of hostile clients: as many as the plugin's concurrency limit, and as many again that wait for admission.
const HOSTILE_CLIENTS: usize = 16;

/// The pause of a hostile client after each response.
const THINK_TIME: Duration = Duration::from_millis(10);

/// The actions of the guest `misbehaving`, with their descriptions in the table.
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

/// Measures beside each action.
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
    // One client alone exceeds the default rate limits.
    ConfigFile::new()
        .http_limit("client-rate", "1000000/s")
        .http_limit("rate", "1000000/s")
        .allow_all()
        .plugin(sizes().limit("rate", "1000000/s"))
        .plugin(Plugin::misbehaving("bad"))
        .write()
}

/// Hostile clients, on a thread of their own.
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
                // The thread that starts the load also stops it.
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

/// Lowers the priority of this thread to idle: attackers would be on machines of their own, and the CPU time that their
/// clients spend on megabytes of responses is not the plugin's.
fn lower_priority() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads one number, and retains no pointer.
    #[allow(unsafe_code, reason = "no library has this call")]
    let failed = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    assert_eq!(failed, 0, "any thread may give way");
}

async fn run_hostile_client(address: SocketAddr, action: &'static str) {
    let mut client = HttpClient::connect(address, ProtocolVersion::V_2026_07_28).await;
    loop {
        // Any response counts, an error too.
        for path in [action, "good"] {
            client.send_unchecked(&BenchRequest::read("an attack", &format!("misbehaving://bad/{path}"), 0)).await;
            tokio::time::sleep(THINK_TIME).await;
        }
    }
}

/// Measures the good plugin, after a warm-up of a quarter of that time.
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
