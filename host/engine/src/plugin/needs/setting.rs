//! A key of the config that a provider reads.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The maximum length of a key in bytes.
const MAX_KEY_LEN: usize = 128;
/// The maximum depth of lists and tables in a default.
const MAX_DEPTH: usize = 8;

/// A key of the config that a provider reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NeededSetting {
    /// The type of its value.
    #[serde(rename = "type")]
    pub kind: SettingType,
    /// The value that the provider uses without it, if there is one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether the provider requires it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// Whether it is the address of a server that the provider sends requests to, or a list of addresses: a
    /// URL, or a host with a path.
    #[serde(default, skip_serializing_if = "is_false")]
    pub address: bool,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The type of a setting, by its name in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingType {
    /// A text.
    String,
    /// A whole number of 64 bits.
    Integer,
    /// A number.
    Float,
    /// `true` or `false`.
    Boolean,
    /// A list.
    Array,
    /// A table.
    Table,
}

impl SettingType {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Table => "table",
        }
    }

    /// Returns whether a value has this type.
    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Integer => value.is_i64(),
            Self::Float => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Table => value.is_object(),
        }
    }

    /// Returns whether a value of a config has this type. A provider gets each value as text: strings
    /// unchanged, others as JSON.
    pub(super) fn accepts_text(self, text: &str) -> bool {
        self == Self::String || serde_json::from_str(text).is_ok_and(|value| self.accepts(&value))
    }
}

impl NeededSetting {
    /// Returns why it or its key is invalid, if it is.
    pub(super) fn check(&self, key: &str) -> Result<(), String> {
        if key.is_empty() || key.len() > MAX_KEY_LEN || key.contains(char::is_control) {
            return Err(format!("a key has 1 to {MAX_KEY_LEN} bytes without control characters"));
        }
        match &self.default {
            _ if self.address && !matches!(self.kind, SettingType::String | SettingType::Array) => {
                Err("an address is of the type `string`, or `array`".to_owned())
            }
            Some(_) if self.required => Err("it is required, and has a default".to_owned()),
            Some(value) if !self.kind.accepts(value) => {
                Err(format!("its default is not of the type `{}`", self.kind.name()))
            }
            Some(value) if !is_toml(value, MAX_DEPTH) => {
                Err(format!("its default has `null`, or more than {MAX_DEPTH} levels of lists and tables"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether a value can be written as TOML, with at most `levels` levels of lists and tables.
fn is_toml(value: &Value, levels: usize) -> bool {
    let inner = |values: Vec<&Value>| {
        levels.checked_sub(1).is_some_and(|levels| values.into_iter().all(|value| is_toml(value, levels)))
    };
    match value {
        Value::Null => false,
        Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => number.is_i64() || number.is_f64(),
        Value::Array(values) => inner(values.iter().collect()),
        Value::Object(members) => inner(members.values().collect()),
    }
}

pub(super) fn is_false(value: &bool) -> bool {
    !value
}

/// Distinguishes `null`, which is not a valid default, from an absent default.
fn present<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn setting(kind: SettingType, default: Value) -> NeededSetting {
        NeededSetting { kind, default: Some(default), required: false, address: false, why: None }
    }

    #[test]
    fn a_default_is_of_the_type_and_can_be_written_as_toml() {
        for (kind, default) in [
            (SettingType::String, json!("a")),
            (SettingType::Integer, json!(-5)),
            (SettingType::Float, json!(1)),
            (SettingType::Float, json!(1.5)),
            (SettingType::Boolean, json!(true)),
            (SettingType::Array, json!(["a", ["b"]])),
            (SettingType::Table, json!({ "a": { "b": 1 } })),
        ] {
            assert_eq!(setting(kind, default.clone()).check("key"), Ok(()), "{default}");
        }
        let deep = (0..9).fold(json!(1), |inner, _| json!([inner]));
        for (kind, default) in [
            (SettingType::String, json!(1)),
            (SettingType::String, Value::Null),
            (SettingType::Integer, json!(1.5)),
            (SettingType::Integer, json!(u64::MAX)),
            (SettingType::Array, json!([null])),
            (SettingType::Array, json!([u64::MAX])),
            (SettingType::Array, deep),
        ] {
            assert!(setting(kind, default.clone()).check("key").is_err(), "{default}");
        }
        assert!(setting(SettingType::String, json!("")).check("").is_err());
        assert!(NeededSetting { required: true, ..setting(SettingType::String, json!("")) }.check("key").is_err());
        for (kind, default, is_valid) in
            [(SettingType::Array, json!([]), true), (SettingType::Integer, json!(1), false)]
        {
            let checked = NeededSetting { address: true, ..setting(kind, default) }.check("key");
            assert_eq!(checked.is_ok(), is_valid, "{checked:?}");
        }
        assert!(setting(SettingType::String, json!("")).check("a\nb").is_err());
    }

    #[test]
    fn a_text_of_a_config_is_judged_by_the_type() {
        for (kind, text, is_accepted) in [
            (SettingType::String, "5", true),
            (SettingType::Integer, "5", true),
            (SettingType::Integer, "five", false),
            (SettingType::Boolean, "true", true),
            (SettingType::Boolean, "yes", false),
            (SettingType::Array, "[\"a\"]", true),
            (SettingType::Array, "a", false),
            (SettingType::Table, "{}", true),
        ] {
            assert_eq!(kind.accepts_text(text), is_accepted, "{kind:?} {text}");
        }
    }
}
