//! Types that parse any JSON value within bounds.
//!
//! serde's own types allocate in proportion to the input: a `String` holds the whole text, and an error about a wrong
//! type repeats the text, escaped. These types check the length of the raw value first, which costs nothing because the
//! value is a slice of the message, and decode the value only if it can be accepted. A byte of text takes at most six
//! bytes of JSON (`\u0001`), so raw JSON of more than six times the maximum is known to be too long.
//!
//! | type | parses | a longer or larger value |
//! |---|---|---|
//! | [`BoundedString`] | a string | is an error |
//! | [`TruncatedString`] | a string | is truncated |
//! | [`object`] | an object, into any struct of bounded members | is bounded by its members |
//! | [`Object`], [`ObjectMap`] | whether it is an object, an object of objects | nothing is retained |

use std::fmt;

use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The maximum length of a text that an error repeats, in bytes.
const MAX_QUOTED_TEXT: usize = 64;
/// The maximum number of bytes of JSON for one byte of text.
const MAX_ESCAPE: usize = 6;
/// The replacement of a text that is too long to decode.
const ELLIPSIS: &str = "…";

/// A string of at most `MAX` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundedString<const MAX: usize>(pub(crate) String);

/// A string, truncated to about `MAX` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TruncatedString<const MAX: usize>(pub(crate) String);

/// Any object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object;

/// An object whose members are objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectMap;

/// A type with bounded values and errors for any input.
pub(crate) trait Bounded: DeserializeOwned {}

impl<const MAX: usize> Bounded for BoundedString<MAX> {}
impl<const MAX: usize> Bounded for TruncatedString<MAX> {}

/// Returns a value that is present, including `null`. For use with `default` and `deserialize_with`, because an
/// `Option` treats `null` as absent.
pub(crate) fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

/// Parses a raw value. The error has no line and column, which have no meaning inside a message.
pub(crate) fn required<T: Bounded>(raw: &RawValue) -> Result<T, String> {
    serde_json::from_str(raw.get()).map_err(|error| without_position(&error))
}

/// Parses the member with this name into a struct. A value other than an object is an error: serde's structs would
/// accept an array, and name themselves in the error.
pub(crate) fn object<'a, T: Deserialize<'a>>(name: &str, raw: &'a RawValue) -> Result<T, String> {
    check_object(name, raw)?;
    serde_json::from_str(raw.get()).map_err(|error| format!("`{name}`: {}", without_position(&error)))
}

/// Checks that the member with this name is an object.
pub(crate) fn check_object(name: &str, raw: &RawValue) -> Result<(), String> {
    match is_object(raw) {
        true => Ok(()),
        false => Err(format!("`{name}`: {}", no_object(raw))),
    }
}

/// Describes a value of an unexpected type, in the words of JSON. A long value is not repeated.
pub(crate) fn found(raw: &RawValue) -> String {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "an array".to_owned(),
        Some(b'"') if text.len() > MAX_QUOTED_TEXT => "a long string".to_owned(),
        Some(b'"') => format!("the string {text}"),
        _ => truncate(text, MAX_QUOTED_TEXT),
    }
}

fn no_object(raw: &RawValue) -> String {
    format!("expected an object, found {}", found(raw))
}

/// Returns the beginning of a text.
pub(crate) fn truncate(text: &str, max: usize) -> String {
    match text.split_at_checked(text.floor_char_boundary(max)) {
        Some((beginning, rest)) if !rest.is_empty() => format!("{beginning}{ELLIPSIS}"),
        _ => text.to_owned(),
    }
}

/// Returns the text of an error without its position.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).map(str::to_owned).unwrap_or(text)
}

fn is_string(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Decodes a raw string. None if it is longer than the limit in bytes. Any other type is an error.
fn decode_bounded<E: Error>(raw: &RawValue, max: usize) -> Result<Option<String>, E> {
    if !is_string(raw) {
        return Err(E::custom(format_args!("expected a string, found {}", found(raw))));
    }
    if raw.get().len() > max.saturating_mul(MAX_ESCAPE).saturating_add(2) {
        return Ok(None);
    }
    serde_json::from_str(raw.get()).map(Some).map_err(|error| E::custom(without_position(&error)))
}

impl<'de, const MAX: usize> Deserialize<'de> for BoundedString<MAX> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(value)?;
        match decode_bounded(raw, MAX)? {
            Some(text) if text.len() <= MAX => Ok(Self(text)),
            _ => Err(D::Error::custom(format_args!("expected a string of at most {MAX} bytes, found a longer one"))),
        }
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for TruncatedString<MAX> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(value)?;
        let text = decode_bounded(raw, MAX)?;
        Ok(Self(text.map_or_else(|| ELLIPSIS.to_owned(), |text| truncate(&text, MAX))))
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(value)?;
        // A raw value is well-formed JSON.
        if is_object(raw) { Ok(Self) } else { Err(D::Error::custom(no_object(raw))) }
    }
}

impl<'de> Deserialize<'de> for ObjectMap {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = ObjectMap;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ObjectMap, A::Error> {
                while members.next_entry::<IgnoredAny, Object>()?.is_some() {}
                Ok(ObjectMap)
            }
        }

        let raw = <&RawValue>::deserialize(value)?;
        if !is_object(raw) {
            return Err(D::Error::custom(no_object(raw)));
        }
        let read = serde_json::Deserializer::from_str(raw.get()).deserialize_map(Members);
        read.map_err(|error| D::Error::custom(without_position(&error)))
    }
}

/// Returns whether a value is present and not `null`, which stands for an absent one.
pub(super) fn is_given(raw: &&RawValue) -> bool {
    raw.get() != "null"
}
