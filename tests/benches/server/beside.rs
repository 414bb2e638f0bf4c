//! Requests to a host over stdio, with a fresh instance for each call and with reused ones, beside a native program
//! that does the same work. Its time includes the start of its process.

use std::process::Command;
use std::time::{Duration, Instant};

use mcp_host_tests::Plugin;

use crate::bench_request::BenchRequest;
use crate::chart::{Chart, Ratio};
use crate::load::percentile;
use crate::options::Options;
use crate::stdio_host::StdioHost;
use crate::table;

/// One kind of work.
pub(crate) struct Comparison {
    /// The request to each host; they differ where it has a cursor, which only the host that made it understands.
    requests: [BenchRequest; 2],
    program: Box<dyn Fn() -> Command>,
}

impl Comparison {
    /// Compares a request with the run of a program.
    pub(crate) fn new(request: BenchRequest, program: impl Fn() -> Command + 'static) -> Self {
        Self::of_each([request.clone(), request], program)
    }

    /// The same with a request of its own for each host.
    pub(crate) fn of_each(requests: [BenchRequest; 2], program: impl Fn() -> Command + 'static) -> Self {
        Self { requests, program: Box::new(program) }
    }
}

/// A host with fresh instances, and one that reuses them.
pub(crate) struct Hosts {
    pub(crate) fresh: StdioHost,
    pub(crate) reused: StdioHost,
}

impl Hosts {
    /// Starts both with that plugin.
    pub(crate) async fn start(plugin: Plugin) -> Self {
        Self {
            fresh: StdioHost::start(plugin.clone()).await,
            reused: StdioHost::start(plugin.instances("max-calls", 1_000_000)).await,
        }
    }

    /// Measures each comparison, in turn, and prints the medians. `file` is the name of the chart.
    pub(crate) async fn compare(
        &self,
        options: &Options,
        [heading, file, program]: [&str; 3],
        comparisons: Vec<Comparison>,
    ) {
        let mut rows = Vec::new();
        let axis = format!("time of a request ÷ {program}, with the start of its process: less is better");
        let mut chart = Chart::new(heading, &axis, ["fresh", "reused"]);
        for comparison in &comparisons {
            let (row, ratios) = self.row(options, comparison).await;
            chart.add(&comparison.requests[0].name, ratios);
            rows.push(row);
        }
        chart.write(options.charts.as_deref(), file);
        let header = [
            "request".to_owned(),
            format!("{program} ms"),
            "fresh ms".to_owned(),
            "reused ms".to_owned(),
            format!("fresh ÷ {program}"),
            format!("reused ÷ {program}"),
            "fresh CPU ms a request".to_owned(),
        ];
        table::print(heading, &header, rows);
    }

    async fn row(&self, options: &Options, comparison: &Comparison) -> (Vec<String>, Vec<Ratio>) {
        let [to_fresh, to_reused] = &comparison.requests;
        let [mut of_program, mut of_fresh, mut of_reused] = [const { Vec::new() }; 3];
        let mut cpu = Duration::ZERO;
        // The first of each fills caches, of the kernel, too.
        for round in 0..=options.starts() {
            let of_one = time_program((comparison.program)());
            let before = self.fresh.server.cpu_time();
            let fresh = self.fresh.time(to_fresh).await;
            let spent = self.fresh.server.cpu_time().saturating_sub(before);
            let reused = self.reused.time(to_reused).await;
            if round > 0 {
                cpu += spent;
                of_program.push(of_one);
                of_fresh.push(fresh);
                of_reused.push(reused);
            }
        }
        let ratios = [&of_fresh, &of_reused].map(|times| {
            let each = times.iter().zip(&of_program);
            Ratio::of(each.map(|(time, program)| time.as_secs_f64() / program.as_secs_f64()).collect())
        });
        let each = u32::try_from(of_fresh.len()).expect("a small number");
        let [program, fresh, reused] = [of_program, of_fresh, of_reused].map(|mut times| {
            times.sort_unstable();
            percentile(&times, 0.5)
        });
        let row = vec![
            to_fresh.name.clone(),
            table::millis(program),
            table::millis(fresh),
            table::millis(reused),
            table::ratio(fresh.as_secs_f64(), program.as_secs_f64()),
            table::ratio(reused.as_secs_f64(), program.as_secs_f64()),
            table::millis(cpu / each),
        ];
        (row, ratios.to_vec())
    }

    /// The peak resident memory of both processes so far, in MiB.
    pub(crate) fn peak_memory(&self) -> String {
        let [fresh, reused] = [&self.fresh, &self.reused].map(|host| table::mebibytes(host.server.peak_memory()));
        format!("fresh {fresh} MiB, reused {reused} MiB")
    }

    /// Ends both.
    pub(crate) async fn end(self) {
        self.fresh.end().await;
        self.reused.end().await;
    }
}

/// Runs a program to its end, and returns the time that it took.
fn time_program(mut program: Command) -> Duration {
    let start = Instant::now();
    let output = program.output().expect("the program runs");
    assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
    start.elapsed()
}
