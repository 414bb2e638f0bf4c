//! Renders results as Markdown, JSON or CSV.

use crate::settings::Format;
use mcp_provider::sql::{Rows, Value};
use serde_json::json;
use std::fmt::Write;

/// The maximum length of a value in a Markdown table, in characters.
pub(crate) const MAX_CELL: usize = 2000;

/// Renders a result.
pub(crate) fn render(rows: &Rows, format: Format) -> String {
    match format {
        Format::Markdown => markdown(rows),
        Format::Json => to_json(rows),
        Format::Csv => csv(rows),
    }
}

fn markdown(rows: &Rows) -> String {
    let mut text = String::new();
    row(&mut text, rows.columns.iter().map(|column| column.name.clone()));
    row(&mut text, rows.columns.iter().map(|_| "---".to_owned()));
    for values in &rows.rows {
        row(&mut text, values.iter().map(cell));
    }
    if rows.rows.is_empty() {
        text.push_str("\nNo rows.\n");
    }
    text
}

fn row(text: &mut String, cells: impl Iterator<Item = String>) {
    text.push('|');
    for cell in cells {
        let cell = cell.replace('\\', "\\\\").replace('|', "\\|").replace(['\r', '\n'], " ");
        let _ = write!(text, " {cell} |");
    }
    text.push('\n');
}

fn cell(value: &Value) -> String {
    let text = plain(value).unwrap_or_default();
    match cell_end(&text) {
        Some(end) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Returns where a value is cut in a Markdown table, if it is.
fn cell_end(text: &str) -> Option<usize> {
    text.char_indices().nth(MAX_CELL).map(|(end, _)| end)
}

/// Returns whether a result has values that are cut in a Markdown table.
pub(crate) fn has_cut_cells(rows: &Rows) -> bool {
    let is_cut = |value| plain(value).is_some_and(|text| cell_end(&text).is_some());
    rows.rows.iter().flatten().any(is_cut)
}

fn to_json(rows: &Rows) -> String {
    let columns = rows.columns.iter().map(|column| json!({ "name": column.name, "type": column.type_name }));
    let values = rows.rows.iter().map(|row| row.iter().map(json_value).collect::<serde_json::Value>());
    let result = json!({
        "columns": columns.collect::<Vec<_>>(),
        "rows": values.collect::<Vec<_>>(),
        "hasMore": rows.has_more,
    });
    result.to_string()
}

fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Boolean(value) => (*value).into(),
        Value::Integer(value) => (*value).into(),
        // JSON has no infinite numbers and no NaN.
        Value::Float(value) => {
            serde_json::Number::from_f64(*value).map_or_else(|| value.to_string().into(), Into::into)
        }
        Value::Json(text) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
        Value::Array { dimensions, elements } => json_array(dimensions, elements),
        value => plain(value).into(),
    }
}

fn json_array(dimensions: &[u32], elements: &[Value]) -> serde_json::Value {
    let [length, inner @ ..] = dimensions else { return json!([]) };
    if inner.is_empty() {
        return elements.iter().map(json_value).collect();
    }
    let length = usize::try_from(*length).unwrap_or(usize::MAX).max(1);
    let size = elements.len().checked_div(length).unwrap_or_default().max(1);
    elements.chunks(size).map(|part| json_array(inner, part)).collect()
}

fn csv(rows: &Rows) -> String {
    let mut text = String::new();
    record(&mut text, rows.columns.iter().map(|column| Some(column.name.clone())));
    for values in &rows.rows {
        record(&mut text, values.iter().map(plain));
    }
    text
}

/// Writes a CSV record. NULL is an empty field, an empty text is `""`.
fn record(text: &mut String, fields: impl Iterator<Item = Option<String>>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            text.push(',');
        }
        let Some(field) = field else { continue };
        if field.is_empty() || field.contains(['"', ',', '\r', '\n']) {
            let _ = write!(text, "\"{}\"", field.replace('"', "\"\""));
        } else {
            text.push_str(&field);
        }
    }
    text.push_str("\r\n");
}

/// Returns the text of a value; `None` for NULL.
fn plain(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Boolean(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Bytes(bytes) => format!("\\x{}", hex(bytes)),
        Value::Array { .. } => json_value(value).to_string(),
        value => value.as_text().unwrap_or_default().to_owned(),
    })
}

/// Encodes bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::rows;

    fn example() -> Rows {
        let values = vec![
            vec![Value::from(1), Value::from("a|b\n\"c\""), Value::Null],
            vec![Value::from(-2), Value::from(""), Value::Bytes(vec![0, 255])],
        ];
        rows(&["id", "name", "data"], values)
    }

    #[test]
    fn a_table_of_markdown_has_one_line_for_each_row() {
        assert_eq!(
            render(&example(), Format::Markdown),
            "| id | name | data |\n| --- | --- | --- |\n| 1 | a\\|b \"c\" |  |\n| -2 |  | \\\\x00ff |\n"
        );
        assert!(render(&rows(&["a"], Vec::new()), Format::Markdown).ends_with("\nNo rows.\n"));
    }

    #[test]
    fn csv_tells_null_from_an_empty_text() {
        let expected = "id,name,data\r\n1,\"a|b\n\"\"c\"\"\",\r\n-2,\"\",\\x00ff\r\n";
        assert_eq!(render(&example(), Format::Csv), expected);
    }

    #[test]
    fn json_has_values_of_its_own_types() {
        let values = vec![
            Value::Decimal("1.50".to_owned()),
            Value::from(f64::INFINITY),
            Value::Json("{\"a\":[1]}".to_owned()),
            Value::Array {
                dimensions: vec![2, 2],
                elements: vec![Value::from(1), Value::Null, Value::from(3), Value::from(4)],
            },
            Value::Array { dimensions: Vec::new(), elements: Vec::new() },
        ];
        let text = render(&rows(&["a", "b", "c", "d", "e"], vec![values]), Format::Json);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["rows"], json!([["1.50", "inf", { "a": [1] }, [[1, null], [3, 4]], []]]));
        assert_eq!(json["hasMore"], false);
    }
}
