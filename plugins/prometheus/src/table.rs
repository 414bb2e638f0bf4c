//! Tables as CSV, and resources as two contents: CSV and JSON.

use mcp_provider::{Contents, Entry, Failure, Result};
use serde::Serialize;

pub(crate) const CSV: &str = "text/csv";
const JSON: &str = "application/json";

/// Writes a table of rows as CSV (RFC 4180, with line feeds).
pub(crate) fn csv<R, C>(header: impl IntoIterator<Item = C>, rows: impl IntoIterator<Item = R>) -> Result<String>
where
    R: IntoIterator<Item = C>,
    C: AsRef<[u8]>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fault = |error: csv::Error| Failure::internal(error.to_string());
    writer.write_record(header).map_err(fault)?;
    for row in rows {
        writer.write_record(row).map_err(fault)?;
    }
    let bytes = writer.into_inner().map_err(|error| Failure::internal(error.to_string()))?;
    Ok(String::from_utf8(bytes)?)
}

/// Returns the two contents of a resource: the CSV table and the JSON value.
pub(crate) fn contents(entry: Entry, table: String, value: &impl Serialize) -> Result<Vec<Contents>> {
    let json = serde_json::to_string(value).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(vec![Contents::text(entry.clone().mime_type(CSV), table), Contents::text(entry.mime_type(JSON), json)])
}
