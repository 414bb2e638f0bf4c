//! Reads from git packs of different sizes: time and memory.
//!
//! The provider `git` serves through the host, over stdio, with `limits.memory = "64MiB"`, with a fresh instance for
//! each call and with reused ones. Hosts for all packs run at the same time and get their requests in turn, so that
//! other load on the machine affects all of them alike. `git cat-file --batch` serves the same for comparison. The
//! memory that a request needs is found by lowering the limit until requests fail.

use std::time::{Duration, Instant};

use mcp_host_tests::Plugin;

use crate::bench_request::BenchRequest;
use crate::git_cat_file::CatFile;
use crate::git_pack_fixture::{GitPack, SMALL_TEXT};
use crate::load::percentile;
use crate::options::Options;
use crate::stdio_host::StdioHost;
use crate::table;

/// The sizes of the packs, in MiB. Ratios are relative to the first.
const SIZES: [usize; 3] = [1, 64, 1024];
/// The memory limit while time is measured, in MiB.
const MEMORY_LIMIT: usize = 64;
/// The memory limits that are tried, in MiB, in descending order.
const MEMORY_LIMITS: [usize; 7] = [MEMORY_LIMIT, 32, 16, 8, 4, 3, 2];
const HEADER: [&str; 11] = [
    "request",
    "pack MiB",
    "objects",
    "median ms",
    "p99 ms",
    "ratio to 1 MiB",
    "reused ms",
    "`git cat-file` ms",
    "fresh ÷ git",
    "reused ÷ git",
    "least memory MiB",
];

/// Measures all sizes.
pub(crate) async fn run(options: &Options) {
    let mut subjects = Vec::new();
    for size in SIZES {
        subjects.push(PackBench::open(size).await);
    }
    let mut rows = Vec::new();
    for asked in pack_requests() {
        let mut baseline = None;
        let measured = measure_times(&mut subjects, &asked, options.reads()).await;
        for (subject, times) in subjects.iter().zip(measured) {
            let median = percentile(&times.host, 0.5);
            let baseline = *baseline.get_or_insert(median);
            let reused = percentile(&times.reused, 0.5);
            let to_git = |show: &dyn Fn(Duration) -> String| match asked.object {
                Some(_) => show(percentile(&times.git, 0.5)),
                None => "–".to_owned(),
            };
            let least = min_memory(&subject.pack, &asked.request).await;
            rows.push(vec![
                asked.request.name.to_owned(),
                table::mebibytes(subject.bytes),
                subject.objects.to_string(),
                table::millis(median),
                table::millis(percentile(&times.host, 0.99)),
                table::ratio(median.as_secs_f64(), baseline.as_secs_f64()),
                table::millis(reused),
                to_git(&|git| table::millis(git)),
                to_git(&|git| table::ratio(median.as_secs_f64(), git.as_secs_f64())),
                to_git(&|git| table::ratio(reused.as_secs_f64(), git.as_secs_f64())),
                least.map_or_else(|| format!("more than {MEMORY_LIMIT}"), |mebibytes| mebibytes.to_string()),
            ]);
        }
    }
    table::print("Git packs, with `limits.memory = \"64MiB\"`", &HEADER, rows);
    let mut peaks = Vec::new();
    for subject in subjects {
        peaks.push(format!("{} MiB", table::mebibytes(subject.fresh.server.peak_memory())));
        subject.fresh.end().await;
        subject.reused.end().await;
        subject.git.end();
    }
    println!("\nPeak memory of the whole host process, by pack: {}.", peaks.join(", "));
}

/// A kind of read.
struct PackRequest {
    request: BenchRequest,
    /// The same for `git`.
    object: Option<&'static str>,
}

fn pack_requests() -> [PackRequest; 3] {
    let history = BenchRequest::read("read history.txt", "git://pack/blob/HEAD/history.txt", 5000);
    [
        PackRequest { request: small_request(), object: Some("HEAD:small.txt") },
        PackRequest { request: history, object: Some("HEAD:history.txt") },
        PackRequest { request: BenchRequest::list("list the first page", 1000), object: None },
    ]
}

fn small_request() -> BenchRequest {
    BenchRequest::read("read small.txt", "git://pack/blob/HEAD/small.txt", SMALL_TEXT.len())
}

/// A pack, and its readers.
struct PackBench {
    pack: GitPack,
    bytes: u64,
    objects: u64,
    fresh: StdioHost,
    reused: StdioHost,
    git: CatFile,
}

impl PackBench {
    async fn open(size: usize) -> Self {
        let pack = GitPack::open_or_create(size);
        let (bytes, objects) = pack.size();
        let fresh = start_host(plugin(&pack, MEMORY_LIMIT)).await;
        let reused = start_host(plugin(&pack, MEMORY_LIMIT).instances("max-calls", 1_000_000)).await;
        let git = CatFile::start(&pack);
        Self { pack, bytes, objects, fresh, reused, git }
    }
}

/// Starts a host that serves a pack.
async fn start_host(plugin: Plugin) -> StdioHost {
    let host = StdioHost::start(plugin).await;
    assert!(host.client.send_for_text(&small_request()).await.contains(SMALL_TEXT.trim_end()), "the file has its text");
    host
}

/// The times of each kind of read, sorted.
#[derive(Clone, Default)]
struct ReadTimes {
    host: Vec<Duration>,
    reused: Vec<Duration>,
    git: Vec<Duration>,
}

async fn measure_times(subjects: &mut [PackBench], asked: &PackRequest, number: usize) -> Vec<ReadTimes> {
    let mut all = vec![ReadTimes::default(); subjects.len()];
    for _ in 0..number {
        for (subject, times) in subjects.iter_mut().zip(&mut all) {
            times.host.push(subject.fresh.time(&asked.request).await);
            times.reused.push(subject.reused.time(&asked.request).await);
            if let Some(object) = asked.object {
                let start = Instant::now();
                subject.git.read(object);
                times.git.push(start.elapsed());
            }
        }
    }
    for times in &mut all {
        times.host.sort_unstable();
        times.reused.sort_unstable();
        times.git.sort_unstable();
    }
    all
}

/// Returns the lowest of the limits with which the request succeeds.
async fn min_memory(pack: &GitPack, question: &BenchRequest) -> Option<usize> {
    let mut least = None;
    for limit in MEMORY_LIMITS {
        let host = StdioHost::start(plugin(pack, limit)).await;
        let answer = host.client.send_for_text(question).await;
        host.end().await;
        if answer.contains("\"error\"") || answer.len() < question.min_size {
            break;
        }
        least = Some(limit);
    }
    least
}

fn plugin(pack: &GitPack, mebibytes: usize) -> Plugin {
    Plugin::git("pack", pack.path()).limit("memory", format!("{mebibytes}MiB"))
}
