//! What to measure, and for how long.

use std::time::Duration;

const USAGE: &str = "usage: cargo bench -p mcp-host-tests -- [--quick] [requests] [startup] [git-packs] [pagination] [noisy-neighbor] [plugin-count]";

/// What to measure, and for how long.
pub(crate) struct Options {
    /// All unless some are named.
    pub(crate) parts: Vec<Part>,
    quick: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Requests,
    Startup,
    GitPacks,
    Pagination,
    NoisyNeighbor,
    PluginCount,
}

impl Options {
    /// Reads the command line. Wrong usage ends the process.
    pub(crate) fn parse() -> Self {
        let mut options = Self { parts: Vec::new(), quick: false };
        for argument in std::env::args().skip(1) {
            match argument.as_str() {
                // Cargo says so to every benchmark.
                "--bench" => {}
                "--quick" => options.quick = true,
                "requests" => options.parts.push(Part::Requests),
                "startup" => options.parts.push(Part::Startup),
                "git-packs" => options.parts.push(Part::GitPacks),
                "pagination" => options.parts.push(Part::Pagination),
                "noisy-neighbor" => options.parts.push(Part::NoisyNeighbor),
                "plugin-count" => options.parts.push(Part::PluginCount),
                other => {
                    eprintln!("unknown argument `{other}`\n{USAGE}");
                    std::process::exit(2);
                }
            }
        }
        if options.parts.is_empty() {
            options.parts = vec![
                Part::Requests,
                Part::Startup,
                Part::GitPacks,
                Part::Pagination,
                Part::NoisyNeighbor,
                Part::PluginCount,
            ];
        }
        options
    }

    /// Whether a first look is enough.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick
    }

    /// For how long each server is under load at a time.
    pub(crate) fn load_duration(&self) -> Duration {
        Duration::from_millis(if self.quick { 150 } else { 600 })
    }

    /// How often the two servers take turns, so that a noisy moment of the machine hits both.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }

    /// How many processes are started for one figure.
    pub(crate) fn starts(&self) -> usize {
        if self.quick { 5 } else { 25 }
    }

    /// How often each file of a pack is read.
    pub(crate) fn reads(&self) -> usize {
        if self.quick { 50 } else { 300 }
    }
}
