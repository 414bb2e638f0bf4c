//! CPU profiles of providers: stacks sampled at epoch ticks, for Firefox's profiler and as a tree.
//!
//! A computing guest is sampled at function entries and loops, twice per millisecond, and not during a host call. Each sample has
//! the CPU time since the previous one, so a guest that yielded is charged only for its own time.
//!
//! Bounded: [`MAX_SAMPLES`] samples, [`MAX_FUNCTIONS`] functions; further samples are only counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime};

use fxprof_processed_profile::{
    CategoryHandle, Frame, FrameFlags, FrameInfo, Profile as FirefoxProfile, ReferenceTimestamp, SamplingInterval,
    Timestamp,
};
use mcp_host_base::escape;
use mcp_host_engine::diagnostics::Sample;

/// The maximum number of samples: 50 s of one guest.
const MAX_SAMPLES: usize = 100_000;
/// The maximum number of distinct functions.
const MAX_FUNCTIONS: usize = 100_000;
/// The interval between samples.
const INTERVAL: Duration = Duration::from_micros(500);
/// The maximum number of lines of a tree.
const MAX_LINES: usize = 200;
/// The minimum share of the total time for a function in a tree: 1/100.
const MIN_PART: u32 = 100;

/// The samples of some calls.
#[derive(Debug)]
pub struct Profile {
    began: Instant,
    functions: Vec<String>,
    by_name: HashMap<String, usize>,
    samples: Vec<Taken>,
    dropped: usize,
    calls: BTreeSet<(usize, u64)>,
}

#[derive(Debug)]
struct Taken {
    plugin: usize,
    at: Duration,
    cpu: Duration,
    /// The functions by number, outermost first.
    stack: Box<[usize]>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            functions: Vec::new(),
            by_name: HashMap::new(),
            samples: Vec::new(),
            dropped: 0,
            calls: BTreeSet::new(),
        }
    }
}

impl Profile {
    /// Adds a sample.
    pub fn add(&mut self, sample: &Sample<'_>) {
        if self.samples.len() >= MAX_SAMPLES || self.functions.len() >= MAX_FUNCTIONS {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        let plugin = self.number(sample.plugin);
        self.calls.insert((plugin, sample.call));
        let names = sample.stack.frames.iter().rev().map(|frame| frame.function.as_str());
        let stack = std::iter::once(sample.function).chain(names).map(|name| self.number(name)).collect();
        self.samples.push(Taken { plugin, at: self.began.elapsed(), cpu: sample.cpu, stack });
    }

    /// The number of a function name.
    fn number(&mut self, name: &str) -> usize {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let number = self.functions.len();
        self.functions.push(name.to_owned());
        self.by_name.insert(name.to_owned(), number);
        number
    }

    fn name(&self, number: usize) -> &str {
        self.functions.get(number).map_or("", String::as_str)
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// `1240 samples in 3 calls, 620 ms of CPU time`.
    pub fn summary(&self) -> String {
        let (samples, calls) = (self.samples.len(), self.calls.len());
        let dropped = match self.dropped {
            0 => String::new(),
            dropped => format!("; {dropped} more samples were dropped"),
        };
        let calls = if calls == 1 { "one call".to_owned() } else { format!("{calls} calls") };
        format!("{samples} samples in {calls}, {:.1} ms of CPU time{dropped}", milliseconds(self.cpu()))
    }

    /// The processor time of all samples.
    fn cpu(&self) -> Duration {
        self.samples.iter().fold(Duration::ZERO, |sum, sample| sum.saturating_add(sample.cpu))
    }

    /// Writes the profile in the format of Firefox's profiler, with one thread per plugin.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub fn write_firefox(&self, mut into: impl Write) -> io::Result<()> {
        let reference = SystemTime::now().checked_sub(self.began.elapsed()).unwrap_or_else(SystemTime::now);
        let mut profile =
            FirefoxProfile::new("mcp-host", ReferenceTimestamp::from(reference), SamplingInterval::from(INTERVAL));
        let zero = Timestamp::from_nanos_since_reference(0);
        let process = profile.add_process("mcp-host", std::process::id(), zero);
        let mut threads = BTreeMap::new();
        for sample in &self.samples {
            let number = u32::try_from(threads.len()).unwrap_or(u32::MAX);
            let thread = *threads.entry(sample.plugin).or_insert_with(|| {
                let thread = profile.add_thread(process, number, zero, false);
                profile.set_thread_name(thread, self.name(sample.plugin));
                thread
            });
            let frames: Vec<_> = sample
                .stack
                .iter()
                .map(|function| FrameInfo {
                    frame: Frame::Label(profile.intern_string(self.name(*function))),
                    category_pair: CategoryHandle::OTHER.into(),
                    flags: FrameFlags::empty(),
                })
                .collect();
            let stack = profile.intern_stack_frames(thread, frames.into_iter());
            let at = Timestamp::from_nanos_since_reference(u64::try_from(sample.at.as_nanos()).unwrap_or(u64::MAX));
            profile.add_sample(thread, at, stack, sample.cpu.into(), 1);
        }
        serde_json::to_writer(&mut into, &profile).map_err(io::Error::other)?;
        into.flush()
    }

    /// The call tree with CPU times, callers above callees: a flame graph for a terminal, escaped. Functions below one hundredth
    /// of the total are left out.
    pub fn tree(&self) -> String {
        let mut root = Node::default();
        for sample in &self.samples {
            root.add(&sample.stack, sample.cpu);
        }
        let mut shown = String::new();
        let mut lines = 0;
        root.show(self, root.cpu, 0, &mut lines, &mut shown);
        if lines >= MAX_LINES {
            shown.push_str("…\n");
        }
        shown
    }
}

/// A function with its callees.
#[derive(Debug, Default)]
struct Node {
    cpu: Duration,
    called: BTreeMap<usize, Self>,
}

impl Node {
    fn add(&mut self, stack: &[usize], cpu: Duration) {
        let mut node = self;
        node.cpu = node.cpu.saturating_add(cpu);
        for function in stack {
            node = node.called.entry(*function).or_default();
            node.cpu = node.cpu.saturating_add(cpu);
        }
    }

    fn show(&self, profile: &Profile, total: Duration, depth: usize, lines: &mut usize, shown: &mut String) {
        let mut called: Vec<_> = self.called.iter().collect();
        called.sort_by_key(|(_, node)| std::cmp::Reverse(node.cpu));
        for (function, node) in called {
            if *lines >= MAX_LINES || node.cpu.saturating_mul(MIN_PART) < total {
                return;
            }
            *lines = lines.saturating_add(1);
            let part = 100.0 * node.cpu.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE);
            let (name, indent) = (escape::line(profile.name(*function)), depth.saturating_mul(2));
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "{part:5.1}% {:9.1} ms  {:indent$}{name}", milliseconds(node.cpu), "");
            node.show(profile, total, depth.saturating_add(1), lines, shown);
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let mut profile = Profile::default();
        for (cpu, stack) in [(6, ["read", "parse"]), (3, ["read", "sort"]), (1, ["read", "parse"])] {
            let plugin = profile.number("notes");
            let stack = stack.map(|name| profile.number(name)).into();
            profile.samples.push(Taken { plugin, at: Duration::ZERO, cpu: Duration::from_millis(cpu), stack });
        }
        profile
    }

    #[test]
    fn a_tree_has_callers_above_those_that_they_call_and_the_most_costly_first() {
        let expected = ["100.0%      10.0 ms  read", " 70.0%       7.0 ms    parse", " 30.0%       3.0 ms    sort", ""];
        assert_eq!(profile().tree(), expected.join("\n"));
    }

    #[test]
    fn the_format_of_firefox_has_the_functions_and_a_thread_for_each_plugin() {
        let mut written = Vec::new();
        profile().write_firefox(&mut written).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(json["threads"][0]["name"], "notes", "{json}");
        assert_eq!(json["threads"][0]["samples"]["length"], 3);
        let text = String::from_utf8(written).unwrap();
        assert!(text.contains("\"parse\"") && text.contains("\"sort\""), "{text}");
    }
}
