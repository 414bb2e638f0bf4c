//! The table at the end: the time of each backend, and its ratio to the first.

use std::fmt;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

/// The samples, in the order in which their requests were first timed.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

struct Row {
    name: String,
    backends: Vec<(&'static str, Vec<f64>)>,
}

impl Row {
    /// The median of a way's samples, in microseconds a call.
    fn median(&self, way: &str) -> Option<f64> {
        let (_, samples) = self.backends.iter().find(|(name, _)| *name == way)?;
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

impl Report {
    /// Records a sample: the total time of `calls` calls.
    pub(crate) fn record(&mut self, row: &str, way: &'static str, took: Duration, calls: u64) {
        if self.rows.last().is_none_or(|last| last.name != row) {
            self.rows.push(Row { name: row.to_owned(), backends: Vec::new() });
        }
        let Some(row) = self.rows.last_mut() else { return };
        if row.backends.last().is_none_or(|(last, _)| *last != way) {
            row.backends.push((way, Vec::new()));
        }
        #[allow(clippy::cast_precision_loss, reason = "nobody counts that many calls")]
        let sample = took.as_secs_f64() * 1e6 / calls as f64;
        row.backends.last_mut().into_iter().for_each(|(_, samples)| samples.push(sample));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "µs a call",
            "native",
            "native on a thread",
            "native provider",
            "fresh",
            "reused",
            "fresh ÷ native",
            "fresh ÷ native provider",
            "reused ÷ native",
            "reused ÷ fresh",
            "fresh − native",
            "reused − native",
        ]);
        for row in &self.rows {
            let [native, thread, provider, fresh, reused] =
                ["native", "native on a thread", "native provider", "fresh", "reused"].map(|way| row.median(way));
            let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"));
            let ratio = |of: Option<f64>, to: Option<f64>| {
                of.zip(to).map_or_else(|| "–".to_owned(), |(of, to)| format!("{:.2}", of / to))
            };
            let more = |of: Option<f64>| shown(of.zip(native).map(|(of, native)| of - native));
            table.add_row([
                row.name.clone(),
                shown(native),
                shown(thread),
                shown(provider),
                shown(fresh),
                shown(reused),
                ratio(fresh, native),
                ratio(fresh, provider),
                ratio(reused, native),
                ratio(reused, fresh),
                more(fresh),
                more(reused),
            ]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(
            f,
            "\nThe median of the samples; with several callers, the time in which one of all calls is answered.\n"
        )?;
        writeln!(f, "{table}")
    }
}
