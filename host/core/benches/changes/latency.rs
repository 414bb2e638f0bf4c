//! The measurements, each with its table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use futures::stream::{FuturesUnordered, StreamExt};
use mcp_resource_host::Subscriber;
use mcp_resource_host::access::Principal;
use tokio::sync::Notify;

use crate::setup::{Setup, resident};

const EDITS: usize = 300;
/// The interval in which updates of one resource are coalesced, and a little more.
const COALESCING_WINDOW: Duration = Duration::from_millis(120);
/// The number of subscriptions requested concurrently.
const MAX_CONCURRENT: usize = 8;
const PLUGINS: usize = 100;
const CALLERS: usize = 8;
const RELOADS: usize = 20;

/// Measures the time from a file that is saved to an update.
pub(crate) async fn edit_to_notification() {
    let setup = Setup::start(1, 1).await;
    let subscribers = subscribers(&setup, 1).await;
    let mut took = Vec::new();
    for edit in 0..EDITS {
        let saved = Instant::now();
        setup.edit(0, &format!("edit {edit}"));
        subscribers[0].next().await;
        took.push(saved.elapsed());
        tokio::time::sleep(COALESCING_WINDOW).await;
    }
    println!("\nFrom a file saved to an update received, {EDITS} edits:\n");
    print(
        ["p50 ms", "p99 ms", "longest ms"],
        [[ms(percentile(&mut took, 0.5)), ms(percentile(&mut took, 0.99)), ms(percentile(&mut took, 1.0))]],
    );
}

/// Measures the time until many subscribers have received the update for one change, and the memory of a
/// subscriber.
pub(crate) async fn fan_out() {
    let mut rows = Vec::new();
    for count in [1, 1000, 10_000] {
        let setup = Setup::start(1, 1).await;
        // The first subscriber has the cost that all of them share.
        let _first = subscribers(&setup, 1).await;
        let before = resident();
        let waiting = subscribers(&setup, count).await;
        let each = resident().saturating_sub(before) / count;
        let (told, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        for subscriber in waiting {
            let (told, all) = (told.clone(), all.clone());
            tokio::spawn(async move {
                loop {
                    subscriber.next().await;
                    if (told.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(count) {
                        all.notify_one();
                    }
                }
            });
        }
        let mut took = Vec::new();
        for edit in 0..20 {
            let saved = Instant::now();
            setup.edit(0, &format!("edit {edit}"));
            all.notified().await;
            took.push(saved.elapsed());
            tokio::time::sleep(COALESCING_WINDOW).await;
        }
        let each = if count == 1 { "-".to_owned() } else { each.to_string() };
        rows.push([count.to_string(), ms(percentile(&mut took, 0.5)), ms(percentile(&mut took, 1.0)), each]);
    }
    println!("\nFrom a file saved until the last of so many subscribers has its update, 20 edits:\n");
    print(["subscribers", "p50 ms", "longest ms", "bytes a subscriber"], rows);
}

/// Measures how a reload of one plugin among many delays concurrent requests.
pub(crate) async fn reload() {
    let setup = Arc::new(Setup::start(PLUGINS, 1).await);
    let (reloading, ending) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (setup, reloading, ending) = (setup.clone(), reloading.clone(), ending.clone());
            tokio::spawn(async move {
                let (mut before, mut during, mut failed) = (Vec::new(), Vec::new(), 0_usize);
                let mut call = caller;
                while !ending.load(Ordering::SeqCst) {
                    call += CALLERS;
                    let uri = format!("faulty://p{}/f0", call % PLUGINS);
                    let (asked, is_reloading) = (Instant::now(), reloading.load(Ordering::SeqCst));
                    let answer = setup.host.read(&Principal::LOCAL, &uri).await;
                    failed += usize::from(answer.is_err());
                    if is_reloading { during.push(asked.elapsed()) } else { before.push(asked.elapsed()) }
                }
                (before, during, failed)
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(3)).await;
    reloading.store(true, Ordering::SeqCst);
    let mut took = Vec::new();
    for time in 1..=RELOADS {
        took.push(setup.reload(time).await);
    }
    ending.store(true, Ordering::SeqCst);
    let (mut before, mut during, mut failed) = (Vec::new(), Vec::new(), 0);
    for caller in callers {
        let one = caller.await.expect("no caller panics");
        before.extend(one.0);
        during.extend(one.1);
        failed += one.2;
    }
    println!("\nReads of {CALLERS} callers, before and during {RELOADS} reloads of one plugin among {PLUGINS}:\n");
    let row = |name: &str, times: &mut Vec<Duration>| {
        [name.to_owned(), times.len().to_string(), ms(percentile(times, 0.5)), ms(percentile(times, 0.99))]
    };
    print(["reads", "count", "p50 ms", "p99 ms"], [row("before", &mut before), row("during", &mut during)]);
    println!(
        "\nFailed: {failed}. One reload: {} ms (p50), {} ms (longest).",
        ms(percentile(&mut took, 0.5)),
        ms(percentile(&mut took, 1.0))
    );
}

/// Creates `count` subscribers, each subscribed to the same resource.
async fn subscribers(setup: &Setup, count: usize) -> Vec<Subscriber> {
    let (mut ready, mut under_way) = (Vec::with_capacity(count), FuturesUnordered::new());
    for _ in 0..count {
        if under_way.len() == MAX_CONCURRENT {
            ready.extend(under_way.next().await);
        }
        under_way.push(async {
            let subscriber = setup.host.subscriber(&Principal::LOCAL);
            setup.host.subscribe(&subscriber, "faulty://p0/f0").await.expect("it can be subscribed to");
            subscriber
        });
    }
    ready.extend(under_way.collect::<Vec<_>>().await);
    ready
}

/// Returns a percentile of the times.
fn percentile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place")]
    let place = (share * (times.len().saturating_sub(1)) as f64).round() as usize;
    times.get(place).copied().unwrap_or_default()
}

fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

pub(crate) fn print<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(head);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    println!("{table}");
}
