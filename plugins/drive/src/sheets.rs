//! Spreadsheets as CSV, one text per sheet, from the workbook (Office Open XML) that Drive exports.
//!
//! Drive's CSV export contains only the first sheet. A cell is converted to its value without its format: numbers
//! unformatted, dates and times in ISO 8601, results of formulas, errors such as `#REF!`. Cells are read one by one, so
//! a workbook with a few distant cells does not become a large table in memory.

use calamine::{Cell, Data, DataRef, ExcelDateTime, Reader, SheetType, Xlsx};
use std::io::Cursor;

/// The maximum number of sheets: the limit of Google Sheets.
const MAX_SHEETS: usize = 200;

/// A sheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sheet {
    pub(crate) name: String,
    /// CSV (RFC 4180, with line feeds). A row has as many fields as the first row with values, or more if it has
    /// further values. A row without values is an empty line.
    pub(crate) csv: String,
    /// Whether rows are missing because of the size limit.
    pub(crate) is_cut: bool,
}

/// Returns the sheets of a workbook, at most `max` bytes in total.
pub(crate) fn sheets(workbook: Vec<u8>, max: usize) -> Result<Vec<Sheet>, String> {
    let fault = |error: &dyn std::fmt::Display| format!("the export is not a readable workbook: {error}");
    let mut workbook = Xlsx::new(Cursor::new(workbook)).map_err(|error| fault(&error))?;
    let tables = workbook.sheets_metadata().iter().filter(|sheet| sheet.typ == SheetType::WorkSheet);
    let names: Vec<String> = tables.take(MAX_SHEETS).map(|sheet| sheet.name.clone()).collect();
    let mut left = max;
    names
        .into_iter()
        .map(|name| {
            let mut cells = workbook.worksheet_cells_reader(&name).map_err(|error| fault(&error))?;
            let mut table = Table { max: left, ..Table::default() };
            while let Some(cell) = cells.next_cell().map_err(|error| fault(&error))? {
                table.add(&cell);
                if table.is_cut {
                    break;
                }
            }
            if !table.is_cut && !table.row.is_empty() {
                table.end_row();
            }
            left = left.saturating_sub(table.csv.len());
            Ok(Sheet { name, csv: table.csv, is_cut: table.is_cut })
        })
        .collect()
}

/// The state of a sheet's conversion.
#[derive(Default)]
struct Table {
    csv: String,
    max: usize,
    /// The number of finished rows.
    rows: u32,
    /// The cells of the current row.
    row: Vec<String>,
    /// The bytes of the current row.
    size: usize,
    /// The number of fields of the first row with values.
    width: usize,
    /// Whether a row did not fit.
    is_cut: bool,
}

impl Table {
    /// Adds a cell. Cells are sorted by row.
    fn add(&mut self, cell: &Cell<DataRef<'_>>) {
        let (row, column) = cell.get_position();
        let text = text(cell.get_value());
        if text.is_empty() {
            return;
        }
        while self.rows < row && !self.is_cut {
            self.end_row();
        }
        let column = usize::try_from(column).unwrap_or(usize::MAX);
        // A comma for each missing cell before this one.
        let added = column.saturating_sub(self.row.len()).saturating_add(text.len());
        self.size = self.size.saturating_add(added);
        self.is_cut |= self.csv.len().saturating_add(self.size) > self.max;
        if self.is_cut {
            return;
        }
        self.row.resize(self.row.len().max(column.saturating_add(1)), String::new());
        if let Some(place) = self.row.get_mut(column) {
            *place = text;
        }
    }

    /// Writes the current row, if it fits.
    fn end_row(&mut self) {
        let mut line = Vec::new();
        if self.row.is_empty() {
            line.push(b'\n');
        } else {
            if self.width == 0 {
                self.width = self.row.len();
            }
            self.row.resize(self.row.len().max(self.width), String::new());
            let mut writer = csv::Writer::from_writer(&mut line);
            self.is_cut |= writer.write_record(&self.row).is_err() || writer.flush().is_err();
        }
        self.is_cut |= self.csv.len().saturating_add(line.len()) > self.max;
        if !self.is_cut {
            self.csv.push_str(&String::from_utf8_lossy(&line));
        }
        self.row.clear();
        self.size = 0;
        self.rows = self.rows.saturating_add(1);
    }
}

/// Returns the value of a cell.
fn text(value: &DataRef<'_>) -> String {
    match value {
        DataRef::DateTime(time) => time_text(*time),
        DataRef::Bool(value) => if *value { "TRUE" } else { "FALSE" }.to_owned(),
        other => Data::from(other.clone()).to_string(),
    }
}

/// Formats a date, a time or both in ISO 8601, and a duration as `26:30:00`.
fn time_text(time: ExcelDateTime) -> String {
    if time.is_duration() {
        let seconds = (time.as_f64() * 86_400.0).round();
        let (hours, rest) = ((seconds / 3600.0).trunc(), seconds.abs() % 3600.0);
        return format!("{hours:.0}:{:02.0}:{:02.0}", (rest / 60.0).trunc(), rest % 60.0);
    }
    let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
    let clock = format!("{hour:02}:{minute:02}:{second:02}");
    let is_midnight = (hour, minute, second) == (0, 0, 0);
    match time.as_f64() {
        days if (0.0..1.0).contains(&days) => clock,
        _ if is_midnight => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("{year:04}-{month:02}-{day:02}T{clock}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calamine::ExcelDateTimeType;

    #[test]
    fn dates_and_times_are_written_as_in_iso_8601() {
        for (serial, kind, expected) in [
            (46_082.0, ExcelDateTimeType::DateTime, "2026-03-01"),
            (46_082.395_833_333_336, ExcelDateTimeType::DateTime, "2026-03-01T09:30:00"),
            (0.5, ExcelDateTimeType::DateTime, "12:00:00"),
            (1.104_166_666_666_666_7, ExcelDateTimeType::TimeDelta, "26:30:00"),
        ] {
            assert_eq!(time_text(ExcelDateTime::new(serial, kind, false)), expected);
        }
    }

    #[test]
    fn cells_that_are_far_apart_take_no_more_than_the_maximum() {
        for position in [(1_000_000, 0), (0, 16_383), (1_048_575, 16_383)] {
            let mut table = Table { max: 1000, ..Table::default() };
            table.add(&Cell::new((0, 0), DataRef::Int(1)));
            table.add(&Cell::new(position, DataRef::SharedString("far")));
            table.end_row();
            assert!(table.is_cut && table.csv.len() <= 1000, "{position:?}");
        }
    }

    #[test]
    fn rows_have_the_fields_of_the_first_one_and_none_is_left_out() {
        let mut table = Table { max: 1000, ..Table::default() };
        for (position, value) in [
            ((0, 1), DataRef::SharedString("a,\"b\"")),
            ((2, 0), DataRef::Float(0.5)),
            ((2, 2), DataRef::Bool(true)),
            ((2, 3), DataRef::Empty),
            ((3, 0), DataRef::Int(7)),
        ] {
            table.add(&Cell::new(position, value));
        }
        table.end_row();
        assert_eq!((table.csv.as_str(), table.is_cut), (",\"a,\"\"b\"\"\"\n\n0.5,,TRUE\n7,\n", false));
    }
}
