//! A flame graph for a terminal: a row for each depth of the stack, callers above callees.
//!
//! A function is a block below its caller. The width of the block is the function's part of the processor time. The
//! most costly callee is on the left. Blank room below a block is the function's own time. Callees that are narrower
//! than one column are one block `…` on the right of the others, without their own callees.
//!
//! A block begins with `│`. In color the rest has a background; without color a line fills it.
//!
//! Bounded: [`MAX_ROWS`] rows of [`MAX_COLUMNS`] columns.

use std::fmt::Write as _;
use std::iter::repeat_n;
use std::ops::Range;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use mcp_host_base::escape;
use mcp_host_base::text::{columns as width, fit};

use super::Profile;
use super::call_tree::{CallTree, Node};

/// The maximum number of rows.
const MAX_ROWS: usize = 64;
/// The maximum number of columns, also on a wider terminal.
const MAX_COLUMNS: usize = 300;
/// The first column of a block.
const EDGE: &str = "│";
/// The name of a block of several functions, and the row that stands for all rows beyond the maximum.
const MORE: &str = "…";
/// The colors of functions. A function has the same color in all of its blocks.
const FUNCTIONS: [AnsiColor; 3] = [AnsiColor::Yellow, AnsiColor::BrightYellow, AnsiColor::BrightRed];
/// The color of a block of several functions.
const OTHERS: AnsiColor = AnsiColor::White;

/// A block of a row.
struct Block<'t> {
    /// The processor time of all functions on the left of the block.
    begin: Duration,
    cpu: Duration,
    /// The function with its callees; none for a block of several functions.
    function: Option<(usize, &'t Node)>,
}

impl CallTree<'_> {
    /// Returns a flame graph for a terminal with this many columns: a row for each depth of the stack, and in it a
    /// block for each function, whose width is its part of the processor time. Escaped. Empty without processor time.
    pub fn flame_graph(&self, columns: usize, is_colored: bool) -> String {
        let scale = Scale { total: self.root.cpu, columns: columns.clamp(1, MAX_COLUMNS) };
        let mut drawn = String::new();
        let mut row = blocks_below(Duration::ZERO, &self.root, &scale);
        for _ in 0..MAX_ROWS {
            if row.is_empty() {
                return drawn;
            }
            draw_row(&row, self.profile, &scale, is_colored, &mut drawn);
            let callers = row.iter().filter_map(|block| Some((block.begin, block.function?.1)));
            row = callers.flat_map(|(begin, caller)| blocks_below(begin, caller, &scale)).collect();
        }
        if !row.is_empty() {
            drawn.push_str(MORE);
            drawn.push('\n');
        }
        drawn
    }
}

/// Returns the blocks of the callees of a function whose block has this begin, from left to right.
fn blocks_below<'t>(begin: Duration, caller: &'t Node, scale: &Scale) -> Vec<Block<'t>> {
    let (mut blocks, mut begin, mut others) = (Vec::new(), begin, Duration::ZERO);
    for (function, node) in caller.callees() {
        if scale.is_narrow(node.cpu) {
            // The callees that follow are less costly, and narrow, too.
            others = others.saturating_add(node.cpu);
            continue;
        }
        blocks.push(Block { begin, cpu: node.cpu, function: Some((function, node)) });
        begin = begin.saturating_add(node.cpu);
    }
    let others = Block { begin, cpu: others, function: None };
    if !scale.columns_of(&others).is_empty() {
        blocks.push(others);
    }
    blocks
}

fn draw_row(row: &[Block<'_>], profile: &Profile, scale: &Scale, is_colored: bool, drawn: &mut String) {
    let mut end = 0_usize;
    for block in row {
        let columns = scale.columns_of(block);
        drawn.extend(repeat_n(' ', columns.start.saturating_sub(end)));
        end = columns.end;
        let (name, color) = match block.function {
            Some((function, _)) => (escape::line(profile.name(function)), color_of(function)),
            None => (MORE.into(), OTHERS),
        };
        let (style, filling) = if is_colored { (AnsiColor::Black.on(color), ' ') } else { (Style::new(), '─') };
        let text = block_text(&name, columns.len(), filling);
        // Writing to a string cannot fail.
        let _ = write!(drawn, "{style}{text}{style:#}");
    }
    drawn.push('\n');
}

/// Returns the text of a block of this width: the edge, the name, and the filling.
fn block_text(name: &str, columns: usize, filling: char) -> String {
    let room = columns.saturating_sub(width(EDGE));
    let name = fit(name, room);
    let left = room.saturating_sub(width(&name));
    let mut text = format!("{EDGE}{name}");
    if left > 1 {
        text.push(' ');
    }
    let filled = if left > 1 { left.saturating_sub(1) } else { left };
    text.extend(repeat_n(filling, filled));
    text
}

fn color_of(function: usize) -> AnsiColor {
    let color = function.checked_rem(FUNCTIONS.len()).and_then(|number| FUNCTIONS.get(number));
    color.copied().unwrap_or(OTHERS)
}

/// The scale of a graph: the time and the width of its first row.
struct Scale {
    total: Duration,
    columns: usize,
}

impl Scale {
    /// Returns whether a function with this processor time is narrower than one column.
    fn is_narrow(&self, cpu: Duration) -> bool {
        self.total.is_zero() || self.scaled(cpu) < self.total.as_nanos()
    }

    /// Returns the columns of a block. No other block of the row has them.
    fn columns_of(&self, block: &Block<'_>) -> Range<usize> {
        let column = |time| {
            let column = self.scaled(time).checked_div(self.total.as_nanos()).unwrap_or_default();
            usize::try_from(column).unwrap_or(self.columns).min(self.columns)
        };
        column(block.begin)..column(block.begin.saturating_add(block.cpu))
    }

    /// Returns a time in nanoseconds, multiplied by the number of columns.
    fn scaled(&self, time: Duration) -> u128 {
        time.as_nanos().saturating_mul(self.columns as u128)
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::tests::profile;

    use super::*;

    fn rows(samples: &[(u64, &[&str])], columns: usize) -> Vec<String> {
        let graph = profile(samples).call_tree().flame_graph(columns, false);
        graph.lines().map(str::to_owned).collect()
    }

    /// The text without escape sequences for colors.
    fn plain(colored: &str) -> String {
        let mut parts = colored.split("\u{1b}[");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + part.split_once('m').unwrap().1)
    }

    #[test]
    fn a_block_is_as_wide_as_its_part_of_the_time_and_stands_below_its_caller() {
        let samples: [(u64, &[&str]); 6] = [
            (6, &["read", "parse", "utf8"]),
            (5, &["read", "parse"]),
            (4, &["read", "sort"]),
            (2, &["read"]),
            (1, &["read", "parse"]),
            (2, &["stat", "hash"]),
        ];
        // Two columns for each of 20 milliseconds.
        let expected = [
            ["│read ", &"─".repeat(30), "│st…"].concat(),
            ["│parse ", &"─".repeat(17), "│sort ──", "    ", "│ha…"].concat(),
            "│utf8 ──────".to_owned(),
        ];
        assert_eq!(rows(&samples, 40), expected);
    }

    #[test]
    fn functions_without_a_column_of_their_own_are_one_block() {
        let names = ["a", "b", "c", "d", "e"].map(|name| ["read", name, "below"]);
        let mut samples: Vec<(u64, &[&str])> = names.iter().map(|stack| (4, &stack[..])).collect();
        samples.push((80, &["read", "main"]));
        // Ten milliseconds for each column: the others have 20.
        assert_eq!(rows(&samples, 10), ["│read ────", "│main ──│…"]);
        // Two columns for each of them.
        assert_eq!(rows(&samples, 50)[1].matches('│').count(), 6);
    }

    #[test]
    fn a_graph_is_as_wide_as_the_terminal_and_escaped() {
        let samples: [(u64, &[&str]); 3] =
            [(7, &["read", "日本語の関数"]), (5, &["read", "\u{1b}[2J"]), (1, &["stat"])];
        let profile = profile(&samples);
        for columns in [0, 1, 2, 3, 5, 13, 40, 100, MAX_COLUMNS, 10_000] {
            let graph = profile.call_tree().flame_graph(columns, false);
            let columns = columns.clamp(1, MAX_COLUMNS);
            let widths: Vec<_> = graph.lines().map(width).collect();
            assert!(widths.first() == Some(&columns) && widths.iter().all(|width| *width <= columns), "{graph}");
            assert!(!graph.contains('\u{1b}'), "{graph}");
        }
        assert_eq!(rows(&samples, 26)[1], "│日本語の関数─│\\u{1b}[2J");
    }

    #[test]
    fn in_color_a_block_has_a_background_in_place_of_a_line() {
        let samples: [(u64, &[&str]); 2] = [(3, &["read", "parse"]), (1, &["stat"])];
        let colored = profile(&samples).call_tree().flame_graph(40, true);
        assert!(colored.starts_with("\u{1b}[30m\u{1b}["), "{colored:?}");
        assert_eq!(colored.matches("\u{1b}[0m").count(), 3, "{colored:?}");
        let expected = [format!("│read {:24}│stat {:4}", "", ""), format!("│parse {:23}", "")];
        assert_eq!(plain(&colored).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_deep_stack_is_cut() {
        let names: Vec<_> = (0..100).map(|number| format!("f{number}")).collect();
        let stack: Vec<_> = names.iter().map(String::as_str).collect();
        let rows = rows(&[(1, &stack[..])], 20);
        assert_eq!((rows.len(), rows.last().map(String::as_str)), (MAX_ROWS + 1, Some(MORE)));
        assert!(rows[63].starts_with("│f63 "), "{rows:?}");
    }
}
