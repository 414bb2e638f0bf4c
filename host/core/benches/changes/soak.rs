//! Soak test: thousands of subscribers for some minutes. No subscriber loses an update, and memory stays
//! flat.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mcp_resource_host::access::Principal;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::latency::print;
use crate::setup::{Setup, resident};

const SUBSCRIBERS: usize = 4000;
const FILES: usize = 20;
const PLUGINS: usize = 5;
/// The number of subscribers that are replaced in each round.
const REPLACED_PER_ROUND: usize = 20;
/// The timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The memory growth allowed from the end of the first third to the end.
const MAX_GROWTH: usize = 16 << 20;
const FAULTS: [&str; 3] = ["changes.trap", "changes.hang", "changes.fail"];

/// The subscribers of one file, of any plugin.
#[derive(Default)]
struct FileProgress {
    /// The number of subscribers that got the update and then read the latest content.
    notified: AtomicUsize,
    changed: Notify,
}

pub(crate) async fn run(time: Duration) -> ExitCode {
    let setup = Setup::start(PLUGINS, FILES).await;
    let waiting: Arc<Vec<FileProgress>> = Arc::new((0..FILES).map(|_| FileProgress::default()).collect());
    let mut tasks = std::collections::VecDeque::new();
    for number in 0..SUBSCRIBERS {
        tasks.push_back(spawn_subscriber(&setup, &waiting, number).await);
    }
    let began = Instant::now();
    let (mut turn, mut rows, mut sizes) = (0_usize, Vec::new(), Vec::new());
    let mut next_row = Duration::ZERO;
    while began.elapsed() < time {
        turn += 1;
        for _ in 0..REPLACED_PER_ROUND {
            let (number, task): (usize, tokio::task::JoinHandle<()>) = tasks.pop_front().expect("there are thousands");
            task.abort();
            // Wait until the subscriber is dropped, so that it is not counted below.
            let _ = task.await;
            tasks.push_back(spawn_subscriber(&setup, &waiting, number).await);
        }
        let file = turn % FILES;
        let fault = FAULTS[turn % FAULTS.len()];
        let fault = setup.folder.path().join(".faults").join(fault);
        if turn.is_multiple_of(5) {
            std::fs::write(&fault, "").expect("a file");
        }
        waiting[file].notified.store(0, Ordering::SeqCst);
        setup.edit(file, &format!("turn {turn}"));
        if turn.is_multiple_of(10) {
            setup.reload(turn).await;
        }
        if turn.is_multiple_of(5) {
            std::fs::remove_file(&fault).expect("it is there");
        }
        let all = SUBSCRIBERS / FILES;
        let everyone = async {
            while waiting[file].notified.load(Ordering::SeqCst) < all {
                waiting[file].changed.notified().await;
            }
        };
        if timeout(TIMEOUT, everyone).await.is_err() {
            let told = waiting[file].notified.load(Ordering::SeqCst);
            println!("turn {turn}: {told} of {all} subscribers were told of a change within {TIMEOUT:?}");
            return ExitCode::FAILURE;
        }
        if began.elapsed() >= next_row {
            next_row = began.elapsed() + time / 12;
            sizes.push(resident());
            let told = turn * all;
            let size = format!("{:.1}", resident() as f64 / f64::from(1 << 20));
            rows.push([began.elapsed().as_secs().to_string(), turn.to_string(), told.to_string(), size]);
        }
    }
    println!(
        "\n{SUBSCRIBERS} subscribers, {PLUGINS} plugins, {FILES} files; a reload every 10 turns, a crash every 5:\n"
    );
    print(["s", "iterations", "updates expected and delivered", "MiB"], rows);
    let growth = sizes.last().copied().unwrap_or(0).saturating_sub(sizes.get(sizes.len() / 3).copied().unwrap_or(0));
    println!("\nLost: 0. Memory grew by {:.1} MiB after the first third.", growth as f64 / f64::from(1 << 20));
    if growth > MAX_GROWTH { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Waits for updates of the file with this number, until the task is aborted.
async fn spawn_subscriber(
    setup: &Setup,
    waiting: &Arc<Vec<FileProgress>>,
    number: usize,
) -> (usize, tokio::task::JoinHandle<()>) {
    let (file, plugin) = (number % FILES, number / FILES % PLUGINS);
    let subscriber = setup.host.subscriber(&Principal::LOCAL);
    let uri = format!("faulty://p{plugin}/f{file}");
    // A provider that has just crashed is called again, as a client would do.
    while let Err(error) = setup.host.subscribe(&subscriber, &uri).await {
        tracing::debug!(%error, "not yet");
    }
    let (waiting, path) = (waiting.clone(), setup.folder.path().join(format!("f{file}")));
    let mut last = std::fs::read_to_string(&path).expect("the file is there");
    let task = tokio::spawn(async move {
        loop {
            subscriber.next().await;
            // The new text must be read after an update; an additional update does no harm.
            let now = std::fs::read_to_string(&path).expect("the file is there");
            if !now.is_empty() && now != last {
                last = now;
                waiting[file].notified.fetch_add(1, Ordering::SeqCst);
                waiting[file].changed.notify_one();
            }
        }
    });
    (number, task)
}
