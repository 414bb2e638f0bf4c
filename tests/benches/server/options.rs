//! Command-line options: the parts to run, and their duration.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::event_stream::Version;

/// Measures the host end to end, each part beside a baseline in the same run
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --workspace --bench server --")]
pub(crate) struct Options {
    /// The parts to run; all but `console` and `soak` unless some are named
    #[arg(value_name = "PART")]
    parts: Vec<Part>,

    /// Take fewer samples
    #[arg(long)]
    quick: bool,

    /// Draw the ratios there, as SVG
    #[arg(long, value_name = "DIR")]
    pub(crate) charts: Option<PathBuf>,

    /// The duration of the part `soak`
    #[arg(long, value_name = "NUMBER", default_value_t = 5.0)]
    minutes: f64,

    /// The number of event streams of the part `listeners`; 5000 unless set
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    streams: Option<u32>,

    /// The part `listeners` opens its event streams over HTTP/2
    #[arg(long)]
    http2: bool,

    /// Cargo passes this to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Requests,
    Audit,
    Authentication,
    Startup,
    GitPacks,
    GitHistory,
    Files,
    Prometheus,
    Listeners,
    Databases,
    Pagination,
    Console,
    NoisyNeighbor,
    PluginCount,
    Operations,
    Registry,
    Upstreams,
    Soak,
}

impl Options {
    /// The parts to run.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let all = Part::value_variants().iter().copied().filter(|part| !matches!(part, Part::Console | Part::Soak));
        if self.parts.is_empty() { all.collect() } else { self.parts.clone() }
    }

    /// Whether to run quickly, with less precision.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick
    }

    /// The duration of the load on each server per turn.
    pub(crate) fn load_duration(&self) -> Duration {
        Duration::from_millis(if self.quick { 150 } else { 600 })
    }

    /// The number of turns of each server, so that a noisy moment of the machine affects all.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }

    /// The number of turns of servers whose difference is small.
    pub(crate) fn alternating_runs(&self) -> usize {
        if self.quick { 3 } else { 10 }
    }

    /// The duration of the soak test.
    pub(crate) fn soak_duration(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }

    /// The number of event streams.
    pub(crate) fn listeners(&self) -> usize {
        self.streams.map_or(if self.quick { 500 } else { 5000 }, |streams| streams as usize)
    }

    /// How event streams are opened.
    pub(crate) fn listener_version(&self) -> Version {
        if self.http2 { Version::Http2 } else { Version::Http1 }
    }

    /// The number of processes started per figure.
    pub(crate) fn starts(&self) -> usize {
        if self.quick { 5 } else { 25 }
    }

    /// The number of reads of each file of a pack, and of each page of a table.
    pub(crate) fn reads(&self) -> usize {
        if self.quick { 50 } else { 300 }
    }
}
