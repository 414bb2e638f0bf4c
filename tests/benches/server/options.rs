//! What to measure, and for how long.

use std::time::Duration;

const USAGE: &str =
    "usage: cargo bench -p mcp-host-tests -- [--quick] [requests] [start] [packs] [pages] [neighbours] [many]";

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
    Start,
    Packs,
    Pages,
    Neighbours,
    Many,
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
                "start" => options.parts.push(Part::Start),
                "packs" => options.parts.push(Part::Packs),
                "pages" => options.parts.push(Part::Pages),
                "neighbours" => options.parts.push(Part::Neighbours),
                "many" => options.parts.push(Part::Many),
                other => {
                    eprintln!("unknown argument `{other}`\n{USAGE}");
                    std::process::exit(2);
                }
            }
        }
        if options.parts.is_empty() {
            options.parts = vec![Part::Requests, Part::Start, Part::Packs, Part::Pages, Part::Neighbours, Part::Many];
        }
        options
    }

    /// Whether a first look is enough.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick
    }

    /// For how long each server is under load at a time.
    pub(crate) fn span(&self) -> Duration {
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
