//! Tables: one item per row.
//!
//! On a terminal tables have headings, and programs get plain rows. A table for people
//! ([`Table::always_with_headings`]) has headings in both cases, as programs can use `--json`. A row is one line,
//! provider text is escaped, and a column never gets narrower from one page of a listing to the next. Only if the
//! terminal is too narrow for a page, its columns are arranged to fit, and a cell takes several lines. Headings are
//! broken at blanks only, and so are short words such as states and numbers, unless the terminal is too narrow even for
//! these. Of the rest, verbatim cells, such as URIs, get at least half of the width.

use std::io;

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Color, ColumnConstraint, ContentArrangement, Width};
use mcp_host_base::text::columns;

use super::escape;
use super::output::{Destination, Output};

/// The maximum length of text for people, in characters.
const MAX_TEXT: usize = 80;
/// The maximum length of verbatim text, in characters: a name in a hostile component may be as long as the file.
const MAX_VERBATIM: usize = 16384;

/// The content of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    text: String,
    is_verbatim: bool,
    severity: Option<Severity>,
}

/// The severity of a cell, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Ok,
    Warning,
    Error,
}

/// The first characters of a text.
fn up_to(mut text: String, max: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(max) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Cell {
    /// Text that is not truncated for people, such as a URI; at most [`MAX_VERBATIM`] characters.
    pub(super) fn verbatim(text: &str) -> Self {
        Self { text: up_to(escape::line(text).into_owned(), MAX_VERBATIM), is_verbatim: true, severity: None }
    }

    /// Text for people, truncated.
    pub(super) fn text(text: &str) -> Self {
        let cell = Self::verbatim(text);
        Self { text: up_to(cell.text, MAX_TEXT), is_verbatim: false, ..cell }
    }

    /// Optional text; `-` for none.
    pub(super) fn optional(text: Option<&str>) -> Self {
        Self::text(text.unwrap_or("-"))
    }

    /// A good state.
    pub(super) fn ok(text: &str) -> Self {
        Self { severity: Some(Severity::Ok), ..Self::text(text) }
    }

    /// A state that deserves attention.
    pub(super) fn warning(text: &str) -> Self {
        Self { severity: Some(Severity::Warning), ..Self::text(text) }
    }

    /// A state that deserves attention, with its remedy: never truncated.
    pub(super) fn whole_warning(text: &str) -> Self {
        Self { severity: Some(Severity::Warning), is_verbatim: false, ..Self::verbatim(text) }
    }

    /// An error state.
    pub(super) fn error(text: &str) -> Self {
        Self { severity: Some(Severity::Error), ..Self::text(text) }
    }

    /// The width of the longest of the words that are not broken; 0 in verbatim text.
    fn word_width(&self) -> u16 {
        if self.is_verbatim { 0 } else { word_width(&self.text, MAX_WHOLE_WORD) }
    }

    fn into_cell(self) -> comfy_table::Cell {
        let cell = comfy_table::Cell::new_owned(self.text);
        match self.severity {
            Some(Severity::Ok) => cell.fg(Color::DarkGreen),
            Some(Severity::Warning) => cell.fg(Color::DarkYellow),
            Some(Severity::Error) => cell.fg(Color::DarkRed),
            None => cell,
        }
    }
}

/// The width of a text on a terminal.
fn text_width(text: &str) -> u16 {
    u16::try_from(columns(text)).unwrap_or(u16::MAX)
}

/// The width of the longest word of a text; longer words than `max` do not count.
fn word_width(text: &str, max: u16) -> u16 {
    text.split(' ').map(text_width).filter(|width| *width <= max).max().unwrap_or_default()
}

/// A table with headings that prints rows in batches.
pub(super) struct Table<const COLUMNS: usize> {
    /// The headings, until they are printed.
    headings: Option<[&'static str; COLUMNS]>,
    /// The headings, also after that; empty in a table without.
    titles: [&'static str; COLUMNS],
    /// Whether the headings are printed to terminals only.
    are_for_terminals: bool,
    /// The width of each column so far, without the gap.
    widths: [u16; COLUMNS],
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// A table with these headings.
    pub(super) fn new(headings: [&'static str; COLUMNS]) -> Self {
        Self { headings: Some(headings), titles: headings, are_for_terminals: true, widths: [0; COLUMNS] }
    }

    /// A table with headings for every destination: its numbers are meaningless without them.
    pub(super) fn always_with_headings(headings: [&'static str; COLUMNS]) -> Self {
        Self { are_for_terminals: false, ..Self::new(headings) }
    }

    /// A table whose first column labels the others.
    pub(super) fn without_headings() -> Self {
        Self { headings: None, titles: [""; COLUMNS], are_for_terminals: true, widths: [0; COLUMNS] }
    }

    /// Prints more rows.
    pub(super) fn print(&mut self, rows: Vec<[Cell; COLUMNS]>, output: &mut Output<'_>) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).force_no_tty();
        if output.is_colored() {
            table.enforce_styling().style_text_only();
        }
        let is_terminal = output.destination() == Destination::Terminal;
        let headings = self.headings.take().filter(|_| is_terminal || !self.are_for_terminals);
        if let Some(headings) = headings {
            let heading = |text: &str| comfy_table::Cell::new(text);
            table.set_header(headings.map(|text| match is_terminal {
                true => heading(text).add_attribute(Attribute::Bold),
                false => heading(text),
            }));
        }
        let is_verbatim: [bool; COLUMNS] =
            std::array::from_fn(|column| rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.is_verbatim)));
        let words = std::array::from_fn(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(Cell::word_width).max().unwrap_or_default()
        });
        for row in rows {
            table.add_row(row.map(Cell::into_cell));
        }
        for (width, now) in self.widths.iter_mut().zip(table.column_max_content_widths()) {
            *width = now.max(*width);
        }
        let mut lower_bounds = self.widths.map(|width| width.saturating_add(COLUMN_GAP));
        if let Some(width) = output.width().filter(|width| self.exceeds(*width)) {
            // The gap behind the last column is not printed.
            let width = width.saturating_add(COLUMN_GAP);
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            lower_bounds = narrow_bounds(lower_bounds, self.whole_words(words, width), is_verbatim, width);
        }
        for (column, bound) in table.column_iter_mut().zip(lower_bounds) {
            column.set_padding((0, COLUMN_GAP));
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(bound)));
        }
        table.lines().try_for_each(|line| output.line(line.trim_end()))
    }

    /// Returns whether these rows, and the headings, fit on the terminal, each on one line. Anything fits a pipe.
    pub(super) fn fits(&self, rows: &[[Cell; COLUMNS]], output: &Output<'_>) -> bool {
        let Some(width) = output.width() else { return true };
        let widths = self.titles.into_iter().enumerate().map(|(column, title)| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| text_width(&cell.text));
            cells.fold(text_width(title), u16::max).saturating_add(COLUMN_GAP)
        });
        widths.fold(0, u16::saturating_add) <= width.saturating_add(COLUMN_GAP)
    }

    /// Returns widths of columns, with the gap, in which neither headings are broken nor words of this width; if the
    /// total exceeds `width`, headings at blanks; then only these; or else 0.
    fn whole_words(&self, words: [u16; COLUMNS], width: u16) -> [u16; COLUMNS] {
        let of_headings = self.titles.map(|title| word_width(title, u16::MAX));
        [(self.titles.map(text_width), words), (of_headings, words), (of_headings, [0; COLUMNS])]
            .into_iter()
            .map(|(headings, words)| {
                let pairs = headings.into_iter().zip(words);
                let mut widths = [0; COLUMNS];
                for (width, (heading, word)) in widths.iter_mut().zip(pairs) {
                    *width = heading.max(word).saturating_add(COLUMN_GAP);
                }
                widths
            })
            .find(|widths| widths.iter().copied().fold(0, u16::saturating_add) <= width)
            .unwrap_or([0; COLUMNS])
    }

    /// Returns whether a terminal of this width is too narrow for the columns, and still wide enough to arrange them.
    fn exceeds(&self, width: u16) -> bool {
        let columns = u16::try_from(COLUMNS).unwrap_or(u16::MAX);
        let widths = self.widths.iter().map(|width| width.saturating_add(COLUMN_GAP)).fold(0, u16::saturating_add);
        widths > width.saturating_add(COLUMN_GAP) && width >= columns.saturating_mul(MIN_COLUMN_WIDTH)
    }
}

/// Returns the minimum widths of columns whose total exceeds `width`: at least `minimums`, whose total does not. Of the
/// rest verbatim columns get the width that the others leave, and at least half of all.
fn narrow_bounds<const COLUMNS: usize>(
    widths: [u16; COLUMNS],
    minimums: [u16; COLUMNS],
    is_verbatim: [bool; COLUMNS],
    width: u16,
) -> [u16; COLUMNS] {
    let total = |widths: [u16; COLUMNS], of_verbatim: bool| {
        let counted = widths.into_iter().zip(is_verbatim).filter(|(_, is_verbatim)| *is_verbatim == of_verbatim);
        counted.map(|(width, _)| width).fold(0, u16::saturating_add)
    };
    let share = width.saturating_sub(total(widths, false)).max(width.div_euclid(2));
    let share = share.min(width.saturating_sub(total(minimums, false)));
    let mut left = share.saturating_sub(total(minimums, true));
    let mut bounds = minimums;
    let columns = widths.into_iter().zip(&mut bounds).zip(is_verbatim);
    let mut columns: Vec<_> =
        columns.filter(|(_, is_verbatim)| *is_verbatim).map(|((width, bound), _)| (width, bound)).collect();
    // A narrow column leaves the rest of its share to wider ones.
    columns.sort_unstable_by_key(|(width, _)| *width);
    let mut count = u16::try_from(columns.len()).unwrap_or(u16::MAX);
    for (width, bound) in columns {
        let more = left.checked_div(count).unwrap_or_default().min(width.saturating_sub(*bound));
        *bound = bound.saturating_add(more);
        left = left.saturating_sub(more);
        count = count.saturating_sub(1);
    }
    bounds
}

/// The gap between columns.
const COLUMN_GAP: u16 = 2;
/// The width up to which a word for people, such as a state or a name, is not broken.
const MAX_WHOLE_WORD: u16 = 14;
/// The width per column, with its gap, below which a table is not arranged.
const MIN_COLUMN_WIDTH: u16 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(uri: &str, name: &str) -> [Cell; 2] {
        [Cell::verbatim(uri), Cell::text(name)]
    }

    fn printed(destination: Destination, pages: Vec<Vec<[Cell; 2]>>) -> String {
        let mut written = Vec::new();
        let mut output = Output::to(&mut written, destination);
        let mut table = Table::new(["URI", "NAME"]);
        for page in pages {
            table.print(page, &mut output).unwrap();
        }
        drop(output);
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn columns_are_aligned() {
        let rows = vec![row("notes:///a", "A"), row("notes:///bcd", "B")];
        assert_eq!(printed(Destination::Pipe, vec![rows]), "notes:///a    A\nnotes:///bcd  B\n");
    }

    #[test]
    fn a_warning_that_says_what_to_do_is_never_truncated() {
        let reason = "a reason, ".repeat(20) + "and what to do";
        let rows = vec![[Cell::verbatim("files"), Cell::whole_warning(&reason)]];
        assert_eq!(printed(Destination::Pipe, vec![rows]), format!("files  {reason}\n"));
    }

    #[test]
    fn columns_are_aligned_in_scripts_with_wide_characters() {
        let rows = vec![row("日本", "A"), row("notes", "B")];
        assert_eq!(printed(Destination::Pipe, vec![rows]), "日本   A\nnotes  B\n");
    }

    #[test]
    fn headings_are_for_terminals_and_stand_there_once() {
        let pages = vec![vec![row("a", "A")], vec![row("b", "B")]];
        assert_eq!(printed(Destination::Terminal, pages.clone()), "URI  NAME\na    A\nb    B\n");
        assert_eq!(printed(Destination::Pipe, pages), "a  A\nb  B\n");
    }

    #[test]
    fn tables_for_people_have_headings_wherever_they_are_printed() {
        let mut written = Vec::new();
        let mut output = Output::to(&mut written, Destination::Pipe);
        Table::always_with_headings(["URI", "NAME"]).print(vec![row("a", "A")], &mut output).unwrap();
        drop(output);
        assert_eq!(String::from_utf8(written).unwrap(), "URI  NAME\na    A\n");
    }

    #[test]
    fn a_column_never_gets_narrower_from_page_to_page() {
        let pages = vec![vec![row("notes:///a", "A")], vec![row("b", "B")]];
        assert_eq!(printed(Destination::Pipe, pages), "notes:///a  A\nb           B\n");
    }

    #[test]
    fn a_row_is_one_line_whatever_a_provider_says() {
        let printed = printed(Destination::Terminal, vec![vec![row("a", "x\ny\u{1b}[2J\t")]]);
        assert_eq!(printed, "URI  NAME\na    x\\ny\\u{1b}[2J\\t\n");
    }

    #[test]
    fn a_table_that_is_too_wide_is_arranged_for_the_terminal() {
        let long = row("notes:///a/very/long/path", "A title of several words");
        let printed = |width: Option<u16>| {
            let mut written = Vec::new();
            let mut output = Output::to(&mut written, Destination::Terminal).with_width(width);
            Table::new(["URI", "NAME"]).print(vec![long.clone(), row("b", "B")], &mut output).unwrap();
            drop(output);
            String::from_utf8(written).unwrap()
        };
        let on_one_line = "notes:///a/very/long/path  A title of several words";
        for width in [Some(51), Some(15), None] {
            assert_eq!(printed(width), format!("{:27}NAME\n{on_one_line}\n{:27}B\n", "URI", "b"), "{width:?}");
        }
        for width in 20..=50 {
            let printed = printed(Some(width));
            assert!(printed.lines().all(|line| line.chars().count() <= usize::from(width)), "{width}\n{printed}");
            let of_uri: String = printed.lines().skip(1).map(|line| line.split("  ").next().unwrap()).collect();
            assert_eq!(of_uri, "notes:///a/very/long/pathb", "{printed}");
        }
    }

    #[test]
    fn on_a_narrow_terminal_what_is_shown_verbatim_has_what_others_leave_and_at_least_half() {
        assert_eq!(narrow_bounds([27, 37, 13, 7], [0; 4], [true, true, false, false], 82), [27, 35, 0, 0]);
        assert_eq!(narrow_bounds([60, 20, 40], [0; 3], [true, false, false], 80), [40, 0, 0]);
        assert_eq!(narrow_bounds([90, 90], [0; 2], [false, false], 80), [0, 0]);
        assert_eq!(narrow_bounds([60, 20, 40], [5, 18, 30], [true, false, false], 80), [32, 18, 30]);
    }

    #[test]
    fn on_a_narrow_terminal_headings_and_short_words_are_broken_at_blanks_only() {
        let [state, time, none, count] = ["suspended now", "1.2 s", "-", "12"].map(Cell::text);
        let row = [state, Cell::verbatim("git://a/very/long/mount/of/a/plugin/"), time, none.clone(), none, count];
        for width in 48..100 {
            let mut written = Vec::new();
            let mut output = Output::to(&mut written, Destination::Terminal).with_width(Some(width));
            let mut table = Table::always_with_headings(["STATE", "MOUNT", "WITHOUT STREAM", "P50", "P99", "FAULTS"]);
            table.print(vec![row.clone()], &mut output).unwrap();
            drop(output);
            let printed = String::from_utf8(written).unwrap();
            assert!(printed.lines().all(|line| line.chars().count() <= usize::from(width)), "{width}\n{printed}");
            for word in ["STATE", "MOUNT", "WITHOUT", "STREAM", "P50", "P99", "FAULTS", "suspended", "1.2", "12"] {
                assert!(printed.split_whitespace().any(|printed| printed == word), "{word} at {width}\n{printed}");
            }
        }
    }

    #[test]
    fn text_for_people_is_cut_and_a_uri_is_not() {
        let long = "x".repeat(9000);
        assert_eq!(Cell::text(&long).text.chars().count(), MAX_TEXT + 1);
        let printed = printed(Destination::Pipe, vec![vec![row(&long, "A")]]);
        assert_eq!(printed, format!("{long}  A\n"));
    }
}
