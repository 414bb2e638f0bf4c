//! The cost of access control: a decision under many rules, and a page of a listing of which most is hidden.
//!
//! `cargo bench --workspace --bench access`; with `-- --quick` for a first look. No times are asserted: they depend
//! on the machine. The figures are in `docs/performance.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking, and prints what it finds"
)]

mod entries;
mod rules;

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use mcp_resource_host::access::{Access, Principal};
use mcp_resource_host::config::Operation;
use mcp_resource_host::uri::{Mount, Uri};

use self::entries::Pages;
use self::rules::{GROUPS, RULES, config, member_of};

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("threads for the host");
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500))
        .configure_from_args();
    decisions(&mut criterion);
    let pages = runtime.block_on(Pages::new());
    let mut table =
        String::from("\n| a page | entries looked at | µs | µs an entry | ÷ unfiltered |\n|---|---|---|---|---|\n");
    let mut unfiltered = None;
    for (name, principal) in [("unfiltered", Principal::LOCAL), ("filtered: 1 % is visible", member_of([GROUPS / 2]))] {
        let (mut took, mut entries, mut count) = (Duration::ZERO, 0, 0);
        criterion.bench_function(&format!("page of 100, {name}"), |bencher| {
            bencher.iter_custom(|times| {
                let start = Instant::now();
                let looked_at = runtime.block_on(pages.ask(&principal, times));
                let sample = start.elapsed();
                (took, entries, count) = (took + sample, entries + looked_at, count + times);
                sample
            });
        });
        if count > 0 {
            #[allow(clippy::cast_precision_loss, reason = "nobody counts that many")]
            let (micros, looked_at) = (took.as_secs_f64() * 1e6 / count as f64, entries as f64 / count as f64);
            let each = micros / looked_at;
            let ratio = each / *unfiltered.get_or_insert(each);
            writeln!(table, "| {name} | {looked_at:.0} | {micros:.0} | {each:.2} | {ratio:.2} |")
                .expect("it is memory");
        }
    }
    criterion.final_summary();
    print!("{table}");
}

/// The decision on a request: the policy of its principal, and the decision on its URI.
fn decisions(criterion: &mut Criterion) {
    let access = Access::new(&config());
    let mount: Mount = "a:///".parse().expect("a mount");
    let uri = |path: &str| -> Uri { mount.compose(path).expect("a path").uri };
    let (one, all) = (GROUPS / 2, GROUPS);
    let principals = [
        ("a stranger", Principal::new("corp/stranger")),
        ("a member of one group", member_of([one])),
        ("a member of all groups", member_of(0..all)),
    ];
    let uris = [
        ("allowed", uri(&format!("team{one}/area5/docs/a.md"))),
        ("denied", uri(&format!("team{one}/area5/private-{one}-5/a.md"))),
        ("named by no rule", uri("elsewhere/docs/a.md")),
    ];
    let mut group = criterion.benchmark_group(format!("decide, {RULES} rules, {GROUPS} groups"));
    for (who, principal) in &principals {
        for (what, uri) in &uris {
            group.bench_function(format!("{who}, {what}"), |bencher| {
                bencher
                    .iter(|| access.policy(black_box(principal)).decide(Operation::Read, black_box(uri)).is_allowed());
            });
        }
    }
    group.finish();
}
