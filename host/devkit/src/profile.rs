//! CPU profiles of providers: stacks sampled at epoch ticks, for Firefox's profiler, as a flame graph and as a tree.
//!
//! | module | subject |
//! |---|---|
//! | `call_tree` | the samples, added up by callers and callees |
//! | `flame_graph` | the call tree as blocks, for a terminal |
//!
//! A computing guest is sampled at function entries and loops, twice per millisecond, and not during a host call. Each
//! sample has the CPU time since the previous one, so a guest that yielded is charged only for its own time.
//!
//! Bounded: [`MAX_SAMPLES`] samples, [`MAX_FUNCTIONS`] functions; further samples are only counted.

mod call_tree;
mod flame_graph;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime};

use fxprof_processed_profile::{
    CategoryHandle, Frame, FrameFlags, FrameInfo, Profile as FirefoxProfile, ReferenceTimestamp, SamplingInterval,
    Timestamp,
};
use mcp_host_engine::diagnostics::Sample;

pub use self::call_tree::CallTree;

/// The maximum number of samples: 50 s of one guest.
const MAX_SAMPLES: usize = 100_000;
/// The maximum number of distinct functions.
const MAX_FUNCTIONS: usize = 100_000;
/// The interval between samples.
const INTERVAL: Duration = Duration::from_micros(500);

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

    /// Returns the call tree.
    pub fn call_tree(&self) -> CallTree<'_> {
        CallTree::new(self)
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile of a plugin with these samples: CPU time in milliseconds, and the stack, outermost function first.
    pub(super) fn profile(samples: &[(u64, &[&str])]) -> Profile {
        let mut profile = Profile::default();
        for (cpu, stack) in samples {
            let plugin = profile.number("notes");
            let stack = stack.iter().map(|name| profile.number(name)).collect();
            profile.samples.push(Taken { plugin, at: Duration::ZERO, cpu: Duration::from_millis(*cpu), stack });
        }
        profile
    }

    #[test]
    fn the_format_of_firefox_has_the_functions_and_a_thread_for_each_plugin() {
        let samples: [(u64, &[&str]); 3] = [(6, &["read", "parse"]), (3, &["read", "sort"]), (1, &["read", "parse"])];
        let mut written = Vec::new();
        profile(&samples).write_firefox(&mut written).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(json["threads"][0]["name"], "notes", "{json}");
        assert_eq!(json["threads"][0]["samples"]["length"], 3);
        let text = String::from_utf8(written).unwrap();
        assert!(text.contains("\"parse\"") && text.contains("\"sort\""), "{text}");
    }
}
