//! The metadata of a result: the file `{id}.meta.json`, which publishes it.
//!
//! All fields are optional, and unknown ones are ignored. An invalid field is dropped with a fault that is shown with
//! the result. If `expires` or `files` is invalid, the result is not published, because it could be shown when it
//! should not.

use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The maximum size of the file.
pub(crate) const MAX_BYTES: usize = 64 * 1024;
/// The maximum length of a text in bytes. A description may be four times as long.
const MAX_TEXT: usize = 500;
/// The maximum number of results that one result supersedes.
const MAX_SUPERSEDED: usize = 1000;
/// The maximum size of `inputs` as JSON.
const MAX_INPUTS: usize = 4096;

/// Parsed metadata.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Metadata {
    /// `title`: the name for people.
    pub(crate) title: Option<String>,
    /// `description`: one sentence.
    pub(crate) description: Option<String>,
    /// `key`: the subject of the result. Newer results on the same subject have the same key.
    pub(crate) key: Option<String>,
    /// `inputs`: a digest of the analysed data, or several.
    pub(crate) inputs: Option<Value>,
    /// `model`: the model that created the result.
    pub(crate) model: Option<String>,
    /// `confidence`: from 0 to 1.
    pub(crate) confidence: Option<f64>,
    /// `created`: the creation time.
    pub(crate) created: Option<SystemTime>,
    /// `expires`: the time from which the result no longer exists.
    pub(crate) expires: Option<SystemTime>,
    /// `supersedes`: ids of the results that it replaces.
    pub(crate) supersedes: Vec<String>,
    /// `files`: the size of each file of the result, by extension.
    pub(crate) files: Option<BTreeMap<String, u64>>,
    /// The dropped fields, with the reasons.
    pub(crate) faults: Vec<String>,
}

impl Metadata {
    /// Parses the file.
    ///
    /// # Errors
    ///
    /// The reason why the result is not published.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_BYTES {
            return Err(format!("expected metadata of at most {MAX_BYTES} bytes, found more"));
        }
        let value: Value = serde_json::from_slice(bytes).map_err(|error| format!("expected JSON: {error}"))?;
        let Value::Object(mut fields) = value else { return Err("expected a JSON object".to_owned()) };
        let mut faults = Vec::new();
        Ok(Self {
            expires: fields.remove("expires").and_then(non_null).map(|value| time("expires", &value)).transpose()?,
            files: fields.remove("files").and_then(non_null).map(|value| sizes(&value)).transpose()?,
            title: text(&mut fields, "title", MAX_TEXT, &mut faults),
            description: text(&mut fields, "description", MAX_TEXT.saturating_mul(4), &mut faults),
            key: text(&mut fields, "key", MAX_TEXT, &mut faults),
            model: text(&mut fields, "model", MAX_TEXT, &mut faults),
            inputs: optional(&mut fields, "inputs", inputs, &mut faults),
            confidence: optional(&mut fields, "confidence", confidence, &mut faults),
            created: optional(&mut fields, "created", |value| time("created", &value), &mut faults),
            supersedes: optional(&mut fields, "supersedes", ids, &mut faults).unwrap_or_default(),
            faults,
        })
    }

    /// Returns whether the result is found by a key: its own, or the digest of its inputs.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.keys().any(|own| own == key)
    }

    /// Returns the keys by which the result is found.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.key.as_deref().into_iter().chain(self.inputs.as_ref().and_then(Value::as_str))
    }
}

/// Returns a field converted, or drops it with a fault.
fn optional<T>(
    fields: &mut Map<String, Value>,
    name: &str,
    convert: impl FnOnce(Value) -> Result<T, String>,
    faults: &mut Vec<String>,
) -> Option<T> {
    let value = fields.remove(name).and_then(non_null)?;
    convert(value).inspect_err(|fault| faults.push(fault.clone())).ok()
}

/// A null counts as an absent field.
fn non_null(value: Value) -> Option<Value> {
    Some(value).filter(|value| !value.is_null())
}

fn text(fields: &mut Map<String, Value>, name: &str, most: usize, faults: &mut Vec<String>) -> Option<String> {
    let convert = |value| match value {
        Value::String(text) if !text.is_empty() && text.len() <= most => Ok(text),
        _ => Err(format!("`{name}`: expected a text of 1 to {most} bytes")),
    };
    optional(fields, name, convert, faults)
}

fn inputs(value: Value) -> Result<Value, String> {
    let is_empty = value.as_str() == Some("");
    if !is_empty && value.to_string().len() <= MAX_INPUTS {
        Ok(value)
    } else {
        Err(format!("`inputs`: expected JSON of at most {MAX_INPUTS} bytes, and no empty text"))
    }
}

fn confidence(value: Value) -> Result<f64, String> {
    let number = value.as_f64().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!("`confidence`: expected a number from 0 to 1, found {value}"))
}

fn time(name: &str, value: &Value) -> Result<SystemTime, String> {
    let time = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let expected = || format!("`{name}`: expected a time such as \"2025-01-12T15:00:58Z\"");
    time.map(SystemTime::from).ok_or_else(expected)
}

fn ids(value: Value) -> Result<Vec<String>, String> {
    let ids = match value {
        Value::String(id) => Some(vec![id]),
        Value::Array(ids) if ids.len() <= MAX_SUPERSEDED => {
            ids.into_iter().map(|id| id.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    };
    ids.ok_or_else(|| format!("`supersedes`: expected the id of a result, or a list of at most {MAX_SUPERSEDED} ids"))
}

fn sizes(value: &Value) -> Result<BTreeMap<String, u64>, String> {
    let sizes = value.as_object().and_then(|sizes| {
        sizes.iter().map(|(extension, size)| Some((extension.clone(), size.as_u64()?))).collect::<Option<_>>()
    });
    sizes.ok_or_else(|| "`files`: expected sizes in bytes by extension, such as {\"md\": 1234}".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::time::Duration;

    fn parse(value: Value) -> Result<Metadata, String> {
        Metadata::parse(value.to_string().as_bytes())
    }

    #[test]
    fn every_field_is_optional_and_unknown_ones_are_ignored() {
        assert_eq!(parse(json!({ "other": [1], "title": null })), Ok(Metadata::default()));
        let metadata = parse(json!({
            "title": "Sales", "key": "sales", "inputs": "sha256:00", "model": "m", "confidence": 0.9,
            "created": "2025-01-12T15:00:58Z", "expires": "2025-01-13T00:00:58+09:00", "supersedes": "a",
            "files": { "md": 3 },
        }));
        let metadata = metadata.unwrap();
        assert_eq!(metadata.faults, Vec::<String>::new());
        assert_eq!(metadata.created, SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(1_736_694_058)));
        assert_eq!(metadata.expires, metadata.created);
        assert_eq!((metadata.supersedes.as_slice(), metadata.confidence), (&["a".to_owned()][..], Some(0.9)));
        assert!(metadata.has_key("sales") && metadata.has_key("sha256:00") && !metadata.has_key("a"));
    }

    #[test]
    fn an_invalid_field_is_dropped_with_its_fault() {
        for (field, value) in [
            ("title", json!(1)),
            ("title", json!("x".repeat(501))),
            ("confidence", json!(7)),
            ("confidence", json!("high")),
            ("created", json!("yesterday")),
            ("supersedes", json!({})),
            ("supersedes", json!([1])),
            ("inputs", json!("x".repeat(5000))),
        ] {
            let metadata = parse(json!({ field: value })).unwrap();
            assert_eq!(metadata.faults.len(), 1);
            assert!(metadata.faults[0].starts_with(&format!("`{field}`: expected ")), "{:?}", metadata.faults);
            assert_eq!(Metadata { faults: Vec::new(), ..metadata }, Metadata::default());
        }
    }

    #[test]
    fn what_decides_whether_a_result_is_shown_must_be_valid() {
        for value in
            [json!({ "expires": "soon" }), json!({ "files": ["md"] }), json!({ "files": { "md": -1 } }), json!([])]
        {
            assert!(parse(value.clone()).is_err(), "{value}");
        }
        for bytes in [&b""[..], b"{\"title\": \"x", b"\xff", &[b' '; MAX_BYTES + 1]] {
            assert!(Metadata::parse(bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[\\[\\]{}:,\"a-z0-9.-]{0,60}") {
            let _ = Metadata::parse(text.as_bytes());
        }
    }
}
