//! The call tree of a profile: the functions with their processor times, callers above callees.
//!
//! Bounded by the samples: a stack has as many functions as the engine reports. The text has at most [`MAX_LINES`]
//! lines.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use mcp_host_base::escape;

use super::Profile;

/// The maximum number of lines.
const MAX_LINES: usize = 200;
/// The minimum share of the total time for a function in the text: 1/100.
const MIN_PART: u32 = 100;

/// The call tree of a profile.
#[derive(Debug)]
pub struct CallTree<'p> {
    pub(super) profile: &'p Profile,
    pub(super) root: Node,
}

impl<'p> CallTree<'p> {
    /// Adds up the samples of a profile.
    pub(super) fn new(profile: &'p Profile) -> Self {
        let mut root = Node::default();
        for sample in &profile.samples {
            root.add(&sample.stack, sample.cpu);
        }
        Self { profile, root }
    }

    /// Returns a line for each function, with its part of the processor time, its time and its name, indented below its
    /// caller. Escaped. Functions below one hundredth of the total are left out.
    pub fn text(&self) -> String {
        let mut shown = String::new();
        let mut lines = 0;
        self.write(&self.root, 0, &mut lines, &mut shown);
        if lines >= MAX_LINES {
            shown.push_str("…\n");
        }
        shown
    }

    fn write(&self, node: &Node, depth: usize, lines: &mut usize, shown: &mut String) {
        let total = self.root.cpu;
        for (function, node) in node.callees() {
            if *lines >= MAX_LINES || node.cpu.saturating_mul(MIN_PART) < total {
                return;
            }
            *lines = lines.saturating_add(1);
            let part = 100.0 * node.cpu.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE);
            let (name, indent) = (escape::line(self.profile.name(function)), depth.saturating_mul(2));
            let milliseconds = super::milliseconds(node.cpu);
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "{part:5.1}% {milliseconds:9.1} ms  {:indent$}{name}", "");
            self.write(node, depth.saturating_add(1), lines, shown);
        }
    }
}

/// A function with its callees.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) cpu: Duration,
    called: BTreeMap<usize, Self>,
}

impl Node {
    /// Adds a sample: a stack, outermost function first, and its processor time.
    fn add(&mut self, stack: &[usize], cpu: Duration) {
        let mut node = self;
        node.cpu = node.cpu.saturating_add(cpu);
        for function in stack {
            node = node.called.entry(*function).or_default();
            node.cpu = node.cpu.saturating_add(cpu);
        }
    }

    /// Returns the callees by the number of their function, the most costly first.
    pub(super) fn callees(&self) -> Vec<(usize, &Self)> {
        let mut called: Vec<_> = self.called.iter().map(|(function, node)| (*function, node)).collect();
        called.sort_by_key(|(_, node)| Reverse(node.cpu));
        called
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::tests::profile;

    #[test]
    fn a_tree_has_callers_above_those_that_they_call_and_the_most_costly_first() {
        let samples: [(u64, &[&str]); 3] = [(6, &["read", "parse"]), (3, &["read", "sort"]), (1, &["read", "parse"])];
        let expected = ["100.0%      10.0 ms  read", " 70.0%       7.0 ms    parse", " 30.0%       3.0 ms    sort", ""];
        assert_eq!(profile(&samples).call_tree().text(), expected.join("\n"));
    }

    #[test]
    fn a_long_tree_is_cut() {
        let names: Vec<_> = (0..300).map(|number| format!("f{number}")).collect();
        let stack: Vec<_> = names.iter().map(String::as_str).collect();
        let text = profile(&[(1, &stack[..])]).call_tree().text();
        assert_eq!((text.lines().count(), text.lines().last()), (201, Some("…")));
    }

    #[test]
    fn without_samples_nothing_is_shown() {
        let profile = profile(&[]);
        let tree = profile.call_tree();
        assert_eq!(tree.flame_graph(80, true) + &tree.text(), "");
    }
}
