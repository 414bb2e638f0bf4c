//! Command-line options: the parts to run, and their duration.

use std::time::Duration;

const USAGE: &str = "usage: cargo bench --workspace --bench server -- [--quick] [requests] [audit] [authentication] [startup] [git-packs] [git-history] [files] [prometheus] [listeners] [databases] [pagination] [noisy-neighbor] [plugin-count] [operations] [registry] [upstreams] [soak --minutes N]";

/// Command-line options: the parts to run, and their duration.
pub(crate) struct Options {
    /// The parts to run; all unless some are named.
    pub(crate) parts: Vec<Part>,
    quick: bool,
    /// The duration of the soak test, in minutes.
    minutes: f64,
}

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Requests,
    Audit,
    Startup,
    Authentication,
    GitPacks,
    GitHistory,
    Files,
    Prometheus,
    Listeners,
    Databases,
    Pagination,
    NoisyNeighbor,
    PluginCount,
    Operations,
    Registry,
    Upstreams,
    /// Not run unless it is named.
    Soak,
}

impl Options {
    /// Parses the command line. Wrong usage exits the process.
    pub(crate) fn parse() -> Self {
        let mut options = Self { parts: Vec::new(), quick: false, minutes: 5.0 };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo passes this to every benchmark.
                "--bench" => {}
                "--quick" => options.quick = true,
                "requests" => options.parts.push(Part::Requests),
                "audit" => options.parts.push(Part::Audit),
                "authentication" => options.parts.push(Part::Authentication),
                "startup" => options.parts.push(Part::Startup),
                "git-packs" => options.parts.push(Part::GitPacks),
                "git-history" => options.parts.push(Part::GitHistory),
                "files" => options.parts.push(Part::Files),
                "prometheus" => options.parts.push(Part::Prometheus),
                "listeners" => options.parts.push(Part::Listeners),
                "databases" => options.parts.push(Part::Databases),
                "pagination" => options.parts.push(Part::Pagination),
                "noisy-neighbor" => options.parts.push(Part::NoisyNeighbor),
                "plugin-count" => options.parts.push(Part::PluginCount),
                "operations" => options.parts.push(Part::Operations),
                "registry" => options.parts.push(Part::Registry),
                "upstreams" => options.parts.push(Part::Upstreams),
                "soak" => options.parts.push(Part::Soak),
                "--minutes" => {
                    let minutes = arguments.next().and_then(|minutes| minutes.parse().ok());
                    options.minutes = minutes.unwrap_or_else(|| {
                        eprintln!("expected a number behind `--minutes`\n{USAGE}");
                        std::process::exit(2);
                    });
                }
                other => {
                    eprintln!("unknown argument `{other}`\n{USAGE}");
                    std::process::exit(2);
                }
            }
        }
        if options.parts.is_empty() {
            options.parts = vec![
                Part::Requests,
                Part::Audit,
                Part::Authentication,
                Part::Startup,
                Part::GitPacks,
                Part::GitHistory,
                Part::Files,
                Part::Prometheus,
                Part::Listeners,
                Part::Databases,
                Part::Pagination,
                Part::NoisyNeighbor,
                Part::PluginCount,
                Part::Operations,
                Part::Registry,
                Part::Upstreams,
            ];
        }
        options
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

    /// The number of processes started per figure.
    pub(crate) fn starts(&self) -> usize {
        if self.quick { 5 } else { 25 }
    }

    /// The number of reads of each file of a pack, and of each page of a table.
    pub(crate) fn reads(&self) -> usize {
        if self.quick { 50 } else { 300 }
    }
}
