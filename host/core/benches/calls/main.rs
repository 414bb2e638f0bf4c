//! The cost of a call: the same response from a sandboxed provider and from a map in this process.
//!
//! `cargo bench --workspace --bench calls`; with `-- --quick` for a first look, with `-- read` for a part. One run
//! times every request in five [`Backend`]s, with one caller and with one caller per processor. The table at the end
//! has the ratios. No times are asserted: they depend on the machine. The ratios are in `docs/performance.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking, and prints what it finds"
)]

mod backends;
mod report;
mod setup;

use std::thread::available_parallelism;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use mcp_resource_host::config::instances::InstanceReuse;

use self::backends::Backend;
use self::report::Report;
use self::setup::Request;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("threads for the callers");
    let kept = setup::StateDir::new();
    let fresh = runtime.block_on(setup::host(&kept, None));
    let reused = runtime.block_on(setup::host(&kept, Some(InstanceReuse::default())));
    let requests = setup::requests();
    let ways = runtime.block_on(backends::all(&kept, fresh, reused, &requests));
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500))
        .configure_from_args();
    let mut ratios = Report::default();
    let processors = available_parallelism().map_or(1, usize::from);
    for callers in [1, processors] {
        for request in &requests {
            let row = format!("{request}, callers: {callers}");
            let mut group = criterion.benchmark_group(&row);
            group.throughput(Throughput::Elements(1));
            for way in &ways {
                group.bench_function(way.name(), |bencher| {
                    bencher.iter_custom(|calls| {
                        let took = runtime.block_on(timed(way, request, callers, calls));
                        ratios.record(&row, way.name(), took, calls);
                        took
                    });
                });
            }
            group.finish();
        }
    }
    criterion.final_summary();
    print!("{ratios}");
}

/// Returns the time that `calls` calls take in total when `callers` callers share them. Each caller repeats the request
/// as soon as it has the response.
async fn timed(way: &Backend, request: &Request, callers: usize, calls: u64) -> Duration {
    let callers = callers as u64;
    let start = std::time::Instant::now();
    let shares = (0..callers).map(|caller| {
        let share = calls / callers + u64::from(caller < calls % callers);
        let (way, request) = (way.clone(), request.clone());
        tokio::spawn(async move {
            for _ in 0..share {
                way.answer(&request).await;
            }
        })
    });
    for share in shares.collect::<Vec<_>>() {
        share.await.expect("no call fails");
    }
    start.elapsed()
}
