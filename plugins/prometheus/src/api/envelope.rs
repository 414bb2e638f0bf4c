//! The envelope of every answer: `{"status":"success","data":…}`, or an error.

use super::Answer;
use crate::redact::without_addresses;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// The maximum number of warnings.
const MAX_WARNINGS: usize = 8;

/// The maximum length of a server's text in messages and metadata, in characters.
const MAX_TEXT: usize = 300;

/// A parsed answer.
pub(super) enum Envelope<T> {
    Success(Answer<T>),
    Error {
        /// `bad_data`, `timeout`, `execution`, …
        kind: String,
        text: String,
    },
}

/// Parses an envelope; the inner seed parses its data.
pub(super) struct EnvelopeSeed<S>(pub(super) S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for EnvelopeSeed<S> {
    type Value = Envelope<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for EnvelopeSeed<S> {
    type Value = Envelope<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `status`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut seed, mut data) = (Some(self.0), None);
        let (mut status, mut kind, mut text) = (String::new(), String::new(), String::new());
        let mut warnings: Vec<String> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "status" => status = map.next_value()?,
                "errorType" => kind = shorten(&map.next_value::<String>()?),
                "error" => text = shorten(&map.next_value::<String>()?),
                "warnings" => {
                    warnings =
                        map.next_value::<Vec<String>>()?.iter().take(MAX_WARNINGS).map(|text| shorten(text)).collect();
                }
                "data" => {
                    let seed = seed.take().ok_or_else(|| Error::duplicate_field("data"))?;
                    data = Some(map.next_value_seed(seed)?);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        match (status.as_str(), data) {
            ("success", Some(data)) => Ok(Envelope::Success(Answer { data, warnings })),
            ("success", None) => Err(Error::missing_field("data")),
            ("error", _) => Ok(Envelope::Error { kind, text }),
            _ => Err(Error::custom("expected `status` to be `success` or `error`")),
        }
    }
}

/// Returns the beginning of a text, on one line and without addresses.
fn shorten(text: &str) -> String {
    let text = &without_addresses(text);
    let mut short: String = text.chars().take(MAX_TEXT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
