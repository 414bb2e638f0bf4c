//! Pages, trees and histories of a real repository: the provider `git` through the host, over stdio, with a fresh instance for each
//! call and with reused ones, beside `git` with the start of its process.
//!
//! The repository is this one, or the one at `MCP_HOST_BENCH_REPOSITORY`; the path whose history is read is the file that
//! `MCP_HOST_BENCH_PATH` names, or `Cargo.toml`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mcp_host_tests::Plugin;

use crate::bench_request::BenchRequest;
use crate::git_pack_fixture::git;
use crate::load::percentile;
use crate::options::Options;
use crate::setup;
use crate::stdio_host::StdioHost;
use crate::table;

const HEADER: [&str; 7] =
    ["request", "`git` ms", "fresh ms", "reused ms", "fresh ÷ git", "reused ÷ git", "fresh CPU ms a request"];

/// What is asked of both.
struct HistoryRequest {
    request: BenchRequest,
    git: Vec<String>,
}

/// Measures each kind of request.
pub(crate) async fn run(options: &Options) {
    let repository = std::env::var_os("MCP_HOST_BENCH_REPOSITORY").map_or_else(setup::repository, PathBuf::from);
    let path = std::env::var("MCP_HOST_BENCH_PATH").unwrap_or_else(|_| "Cargo.toml".to_owned());
    let fresh = StdioHost::start(plugin(&repository)).await;
    let reused = StdioHost::start(plugin(&repository).instances("max-calls", 1_000_000)).await;
    let mut rows = Vec::new();
    for asked in requests(&path) {
        let [mut of_git, mut of_fresh, mut of_reused] = [const { Vec::new() }; 3];
        let mut cpu = Duration::ZERO;
        // The first of each fills caches, those of the kernel included.
        for round in 0..=options.starts() {
            let times = [
                time_git(&repository, &asked.git),
                time(&fresh, &asked.request, &mut cpu).await,
                time(&reused, &asked.request, &mut Duration::default()).await,
            ];
            if round == 0 {
                cpu = Duration::ZERO;
                continue;
            }
            for (all, time) in [&mut of_git, &mut of_fresh, &mut of_reused].into_iter().zip(times) {
                all.push(time);
            }
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort_unstable();
            percentile(times, 0.5)
        };
        let each = u32::try_from(of_fresh.len()).expect("a small number");
        let (git, fresh, reused) = (median(&mut of_git), median(&mut of_fresh), median(&mut of_reused));
        rows.push(vec![
            asked.request.name,
            table::millis(git),
            table::millis(fresh),
            table::millis(reused),
            table::ratio(fresh.as_secs_f64(), git.as_secs_f64()),
            table::ratio(reused.as_secs_f64(), git.as_secs_f64()),
            table::millis(cpu / each),
        ]);
    }
    table::print("A real repository", &HEADER, rows);
    fresh.server.end().await;
    reused.server.end().await;
}

fn requests(path: &str) -> [HistoryRequest; 5] {
    let folder = Path::new(path).parent().and_then(Path::to_str).unwrap_or_default();
    let tree = if folder.is_empty() { String::new() } else { format!("/{folder}") };
    let of = |request: BenchRequest, arguments: &[&str]| HistoryRequest {
        request,
        git: arguments.iter().map(|&argument| argument.to_owned()).collect(),
    };
    let read = |name: &str, path: &str| BenchRequest::read(name, &format!("git://r/{path}"), 200);
    let log = ["log", "-50", "--format=%H%x09%aI%x09%an%x09%s", "HEAD", "--", path];
    [
        of(BenchRequest::list("first page of the files", 1000), &["ls-tree", "-r", "HEAD"]),
        of(read("tree of a directory", &format!("tree/HEAD{tree}")), &["ls-tree", &format!("HEAD:{folder}")]),
        of(read("a file", &format!("blob/HEAD/{path}")), &["cat-file", "blob", &format!("HEAD:{path}")]),
        of(read("log of 50", "log/HEAD?limit=50"), &log[..3]),
        of(read("log of a path", &format!("log/HEAD?path={path}&limit=50")), &log),
    ]
}

fn time_git(repository: &Path, arguments: &[String]) -> Duration {
    let start = Instant::now();
    let output = git(repository).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    start.elapsed()
}

/// Sends a request; its CPU time is added.
async fn time(host: &StdioHost, request: &BenchRequest, cpu: &mut Duration) -> Duration {
    let (before, start) = (host.server.cpu_time(), Instant::now());
    host.client.send(request).await;
    let time = start.elapsed();
    *cpu += host.server.cpu_time().saturating_sub(before);
    time
}

fn plugin(repository: &Path) -> Plugin {
    Plugin::git("r", repository).limit("memory", "256MiB")
}
