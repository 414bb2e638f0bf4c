//! TOML.

use super::{Fault, line_at};
use serde_json::{Map, Number, Value};

/// Parses TOML. The parser limits the depth of nesting to 80.
pub(super) fn parse(text: &str) -> Result<Value, Fault> {
    match toml::from_str::<toml::Table>(text) {
        Ok(table) => Ok(object(table)),
        // `message` contains no text of the file; the error's `Display` does.
        Err(error) => {
            let line = line_at(text.as_bytes(), error.span().map_or(0, |span| span.start));
            Err(format!("line {line}: {}", error.message()))
        }
    }
}

fn object(table: toml::Table) -> Value {
    Value::Object(table.into_iter().map(|(key, value)| (key, json(value))).collect::<Map<_, _>>())
}

fn json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        toml::Value::Boolean(value) => value.into(),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(values) => values.into_iter().map(json).collect(),
        toml::Value::Table(table) => object(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dates_are_strings_and_numbers_that_json_lacks_are_null() {
        let text = "date = 2025-01-12\ntime = 2025-01-12T15:00:58Z\nnan = nan\nmost = 9223372036854775807\nhalf = 0.5";
        let expected = json!({
            "date": "2025-01-12", "time": "2025-01-12T15:00:58Z", "nan": null, "most": i64::MAX, "half": 0.5,
        });
        assert_eq!(parse(text), Ok(expected));
    }
}
