//! The provider's own config: the `config` table of a `[[plugin]]`, as text.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};
use toml::de::{DeInteger, DeValue};

use super::reader::{FromNode, Node, Schema};

/// The prefix of the keys that the host answers itself.
const RESERVED: &str = "mcp-host/";

/// A `config` table: strings and dates as written, every other value as JSON text.
pub(super) struct Settings(pub(super) BTreeMap<String, String>);

impl FromNode for Settings {
    const TYPE_NAME: &'static str = "a table";

    fn example() -> String {
        "{ rev = \"main\" }".into()
    }

    fn schema() -> Schema {
        Schema::any_table()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let settings = node.entries::<Self>()?.into_iter().filter_map(|entry| {
            if entry.key.starts_with(RESERVED) {
                let message = format!("`{}` is a key of the host", entry.key);
                entry.report_error(message, "remove it: providers ask the host for keys that begin with `mcp-host/`");
            }
            let value = json(entry.value);
            if value.is_none() {
                let message = format!("`{}` has a number that JSON cannot hold", entry.key);
                entry.report_error(message, "put the number in quotes: providers get numbers as text anyway");
            }
            Some((entry.key.to_owned(), text(value?)))
        });
        Some(Self(settings.collect()))
    }
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Returns the value as JSON; `None` if a number is not finite or has more than 64 bits. Nested as deep as the TOML
/// parser allows.
fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Datetime(date) => Value::String(date.to_string()),
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Integer(integer) => Value::Number(to_i64(integer)?.into()),
        DeValue::Float(float) => Value::Number(Number::from_f64(float.as_str().parse().ok()?)?),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| json(item.get_ref())).collect::<Option<_>>()?),
        DeValue::Table(entries) => {
            let pairs = entries.iter().map(|(key, value)| Some((key.get_ref().to_string(), json(value.get_ref())?)));
            Value::Object(pairs.collect::<Option<Map<_, _>>>()?)
        }
    })
}

fn to_i64(integer: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}
