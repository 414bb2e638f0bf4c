//! The cost of search: indexing compared with SQLite alone, queries over many documents, the time until an edit is
//! found, and reads of other resources while a plugin is indexed.
//!
//! `cargo bench --workspace --bench search`; with `-- --quick` over 10,000 documents, with `-- --full` over 1,000,000
//! as well. A native provider in this process generates the documents, so the figures describe the index only. No times
//! are asserted: they depend on the machine. The figures are in `docs/performance.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark fails by panicking, and prints what it finds"
)]

mod corpus;
mod fts5;
mod host;

use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};

use self::corpus::{Corpus, Frequency};
use self::host::Searched;

/// The number of queries of each kind.
const QUERIES: usize = 500;
/// The number of edits.
const EDITS: usize = 20;
/// The time for which reads of another resource are measured while no plugin is indexed: before, and once more after.
const IDLE_TIME: Duration = Duration::from_secs(3);

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("threads for the host");
    let has = |option: &str| std::env::args().any(|argument| argument == option);
    let counts: &[usize] = match () {
        () if has("--quick") => &[10_000],
        () if has("--full") => &[100_000, 1_000_000],
        () => &[100_000],
    };
    for count in counts {
        runtime.block_on(measure(*count));
    }
}

/// Measures everything over `count` documents.
async fn measure(count: usize) {
    let corpus = Arc::new(Corpus::new(count));
    let bytes = corpus.bytes();
    println!("\n{count} documents of {} on average\n", size(bytes / count as u64));
    let alone = fts5::index(&corpus);

    let host = Searched::start(&corpus).await;
    let mut idle = host.read_another_for(IDLE_TIME).await;
    let began = Instant::now();
    host.begin();
    let mut busy = host.read_another_until_indexed().await;
    let took = began.elapsed();
    print(
        ["indexing", "s", "MB/s", "÷ SQLite", "on disk", "÷ text"],
        vec![
            indexed("SQLite with FTS5 alone", alone.took, alone.took, bytes, alone.size),
            indexed("mcp-host", took, alone.took, bytes, host.index_size()),
        ],
    );
    let mut rows = Vec::new();
    for frequency in [Frequency::Rare, Frequency::Usual, Frequency::Frequent] {
        let (mut times, mut partial, mut matches) = (Vec::new(), 0, 0);
        for query in corpus.queries(frequency, QUERIES) {
            let began = Instant::now();
            let results = host.search(&query).await;
            times.push(began.elapsed());
            partial += usize::from(results.is_partial);
            matches += results.total;
        }
        rows.push(vec![
            frequency.describe().to_owned(),
            format!("{:.2} %", matches as f64 * 100.0 / (QUERIES * count) as f64),
            millis(percentile(&mut times, 0.5)),
            millis(percentile(&mut times, 0.99)),
            millis(percentile(&mut times, 1.0)),
            format!("{:.1} %", partial as f64 * 100.0 / QUERIES as f64),
        ]);
    }
    print(["queries", "matches", "p50 ms", "p99 ms", "longest ms", "partial"], rows);
    idle.extend(host.read_another_for(IDLE_TIME).await);
    let mut edits = Vec::new();
    for edit in 0..EDITS {
        edits.push(host.edit_to_found(edit).await);
    }
    print(
        ["an edit until it is found", "p50 ms", "longest ms"],
        vec![vec![
            "interval of polls: 100 ms".to_owned(),
            millis(percentile(&mut edits, 0.5)),
            millis(percentile(&mut edits, 1.0)),
        ]],
    );
    let ratio = |part: f64, busy: &mut Vec<Duration>, idle: &mut Vec<Duration>| {
        format!("{:.2}", percentile(busy, part).as_secs_f64() / percentile(idle, part).as_secs_f64())
    };
    print(
        ["a read of another resource", "p50 µs", "p99 µs"],
        vec![
            vec!["idle".to_owned(), micros(percentile(&mut idle, 0.5)), micros(percentile(&mut idle, 0.99))],
            vec!["while indexing".to_owned(), micros(percentile(&mut busy, 0.5)), micros(percentile(&mut busy, 0.99))],
            vec!["÷ idle".to_owned(), ratio(0.5, &mut busy, &mut idle), ratio(0.99, &mut busy, &mut idle)],
        ],
    );
}

fn indexed(name: &str, took: Duration, alone: Duration, bytes: u64, on_disk: u64) -> Vec<String> {
    vec![
        name.to_owned(),
        format!("{:.1}", took.as_secs_f64()),
        format!("{:.2}", bytes as f64 / 1e6 / took.as_secs_f64()),
        format!("{:.2}", took.as_secs_f64() / alone.as_secs_f64()),
        size(on_disk),
        format!("{:.2}", on_disk as f64 / bytes as f64),
    ]
}

fn print<const N: usize>(header: [&str; N], rows: Vec<Vec<String>>) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    table.add_rows(rows);
    println!("{table}\n");
}

fn percentile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let index = ((times.len() as f64 * part) as usize).min(times.len() - 1);
    *times.get(index).expect("something was measured")
}

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

fn micros(time: Duration) -> String {
    format!("{:.0}", time.as_secs_f64() * 1e6)
}

fn size(bytes: u64) -> String {
    if bytes < 1_000_000 { format!("{bytes} B") } else { format!("{:.1} MB", bytes as f64 / 1e6) }
}
