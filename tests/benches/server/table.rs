//! Tables in Markdown, as `docs/performance.md` has them.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

/// Prints a heading and a table under it.
pub(crate) fn print(heading: &str, header: &[impl AsRef<str>], rows: Vec<Vec<String>>) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header.iter().map(AsRef::as_ref));
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("\n{heading}\n\n{table}");
}

/// Formats a time in milliseconds.
pub(crate) fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    if millis < 10.0 { format!("{millis:.2}") } else { format!("{millis:.1}") }
}

/// Formats a time in microseconds.
pub(crate) fn micros(time: Duration) -> String {
    format!("{:.0}", time.as_secs_f64() * 1e6)
}

/// Formats a ratio.
pub(crate) fn ratio(one: f64, other: f64) -> String {
    format!("{:.2}", one / other)
}

/// Formats a size in MiB.
#[allow(clippy::cast_precision_loss, reason = "a size for people")]
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// Formats a size in KiB.
pub(crate) fn kibibytes(bytes: u64) -> String {
    (bytes >> 10).to_string()
}
