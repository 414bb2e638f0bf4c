//! Conversion of values from and to PostgreSQL's text form, which every type has. [`Parameter`]s are sent in this form,
//! and the server converts them to the inferred types.
//!
//! The host sets the output format of the server (`datestyle` and so on), but a function of the statement may change
//! it. So a text without the expected form is returned unchanged, as [`Scalar::Other`].

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

use super::array;
use crate::sql::bindings::databases::{Scalar, Value};

/// The value of a column of this type.
pub(super) fn value(ty: &Type, text: Option<&str>) -> Value {
    let Some(text) = text else { return Value::Scalar(Scalar::Null) };
    if let Kind::Array(element) = ty.kind() {
        let parsed = array::parse(text, |text| scalar(element, text));
        return parsed.map_or_else(|| Value::Scalar(Scalar::Other(text.to_owned())), Value::SqlArray);
    }
    Value::Scalar(scalar(ty, text))
}

/// The value of this type, which is not an array.
fn scalar(ty: &Type, text: &str) -> Scalar {
    if let Kind::Domain(inner) = ty.kind() {
        return scalar(inner, text);
    }
    let known = match *ty {
        Type::BOOL => match text {
            "t" => Some(Scalar::Boolean(true)),
            "f" => Some(Scalar::Boolean(false)),
            _ => None,
        },
        Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => text.parse().ok().map(Scalar::Integer),
        Type::FLOAT4 | Type::FLOAT8 => text.parse().ok().map(Scalar::Float),
        Type::NUMERIC => Some(Scalar::Decimal(text.to_owned())),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::CHAR | Type::UNKNOWN | Type::XML => {
            Some(Scalar::Text(text.to_owned()))
        }
        Type::BYTEA => bytes(text).map(Scalar::Bytes),
        Type::DATE => is_date(text).then(|| Scalar::Date(text.to_owned())),
        Type::TIME => is_time(text).then(|| Scalar::Time(text.to_owned())),
        Type::TIMETZ => time_with_offset(text).map(Scalar::Time),
        Type::TIMESTAMP => timestamp(text).map(Scalar::Timestamp),
        Type::TIMESTAMPTZ => text.strip_suffix("+00").and_then(timestamp).map(|text| Scalar::Instant(text + "Z")),
        Type::UUID => Some(Scalar::Uuid(text.to_owned())),
        Type::JSON | Type::JSONB => Some(Scalar::Json(text.to_owned())),
        // An extension's type for text that ignores case.
        _ if ty.name() == "citext" => Some(Scalar::Text(text.to_owned())),
        _ => None,
    };
    known.unwrap_or_else(|| Scalar::Other(text.to_owned()))
}

/// Reads `\x0aff`.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.strip_prefix("\\x")?.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)?.wrapping_shl(4) | digit(*low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// Returns whether a text is an ISO 8601 date: `2026-11-22`, not `infinity` or `0044-03-15 BC`.
fn is_date(text: &str) -> bool {
    matches_pattern(text, "dddd-dd-dd")
}

/// Returns whether a text is a time of day, with or without fractions of a second.
fn is_time(text: &str) -> bool {
    let (time, fraction) = text.split_once('.').unwrap_or((text, "0"));
    matches_pattern(time, "dd:dd:dd") && !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

fn matches_pattern(text: &str, pattern: &str) -> bool {
    let fits = |(byte, expected): (u8, u8)| if expected == b'd' { byte.is_ascii_digit() } else { byte == expected };
    text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
}

/// Reads `2026-11-22 12:34:56`.
fn timestamp(text: &str) -> Option<String> {
    let (date, time) = text.split_once(' ')?;
    (is_date(date) && is_time(time)).then(|| format!("{date}T{time}"))
}

/// Reads `12:34:56+02`, whose offset may have minutes.
fn time_with_offset(text: &str) -> Option<String> {
    let (time, offset) = text.split_at_checked(text.find(['+', '-'])?)?;
    let minutes = if offset.len() == 3 { ":00" } else { "" };
    is_time(time).then(|| format!("{time}{offset}{minutes}"))
}

/// The value of a parameter of a query.
#[derive(Debug)]
pub(super) struct Parameter(pub(super) Value);

impl ToSql for Parameter {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let text = match &self.0 {
            Value::Scalar(scalar) => array::scalar_text(scalar),
            Value::SqlArray(array) => Some(array::render(array)?),
        };
        Ok(match text {
            None => IsNull::Yes,
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                IsNull::No
            }
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ty: &Type, text: &str) -> String {
        match value(ty, Some(text)) {
            Value::Scalar(scalar) => format!("{scalar:?}"),
            Value::SqlArray(array) => format!("{:?} {:?}", array.dimensions, array.elements),
        }
    }

    #[test]
    fn values_have_the_types_of_their_columns() {
        for (ty, text, expected) in [
            (Type::BOOL, "t", "Scalar::Boolean(true)"),
            (Type::INT8, "-9223372036854775808", "Scalar::Integer(-9223372036854775808)"),
            (Type::OID, "4294967295", "Scalar::Integer(4294967295)"),
            (Type::FLOAT8, "1e-300", "Scalar::Float(1e-300)"),
            (Type::FLOAT8, "-Infinity", "Scalar::Float(-inf)"),
            (Type::FLOAT4, "NaN", "Scalar::Float(NaN)"),
            (Type::NUMERIC, "12345678901234567890.10", "Scalar::Decimal(\"12345678901234567890.10\")"),
            (Type::BYTEA, "\\x00fF", "Scalar::Bytes([0, 255])"),
            (Type::DATE, "2026-11-22", "Scalar::Date(\"2026-11-22\")"),
            (Type::DATE, "0044-03-15 BC", "Scalar::Other(\"0044-03-15 BC\")"),
            (Type::DATE, "infinity", "Scalar::Other(\"infinity\")"),
            (Type::TIME, "12:34:56.789", "Scalar::Time(\"12:34:56.789\")"),
            (Type::TIMETZ, "12:34:56+02", "Scalar::Time(\"12:34:56+02:00\")"),
            (Type::TIMETZ, "12:34:56-03:30", "Scalar::Time(\"12:34:56-03:30\")"),
            (Type::TIMESTAMP, "2026-11-22 12:34:56", "Scalar::Timestamp(\"2026-11-22T12:34:56\")"),
            (Type::TIMESTAMPTZ, "2026-11-22 12:34:56.5+00", "Scalar::Instant(\"2026-11-22T12:34:56.5Z\")"),
            (Type::TIMESTAMPTZ, "2026-11-22 12:34:56+09", "Scalar::Other(\"2026-11-22 12:34:56+09\")"),
            (Type::TIMESTAMPTZ, "10000-01-01 00:00:00+00", "Scalar::Other(\"10000-01-01 00:00:00+00\")"),
            (Type::JSONB, "{\"a\": 1}", "Scalar::Json(\"{\\\"a\\\": 1}\")"),
            (Type::INTERVAL, "P1D", "Scalar::Other(\"P1D\")"),
            (Type::INT4_ARRAY, "{1,NULL,3}", "[3] [Scalar::Integer(1), Scalar::Null, Scalar::Integer(3)]"),
            (Type::INT4_ARRAY, "{}", "[] []"),
        ] {
            assert_eq!(read(&ty, text), expected, "{ty} {text}");
        }
        assert!(matches!(value(&Type::TEXT, None), Value::Scalar(Scalar::Null)));
    }

    #[test]
    fn a_text_of_another_form_is_told_as_it_is() {
        for (ty, text) in [
            (Type::BOOL, "yes"),
            (Type::INT4, "1.5"),
            (Type::BYTEA, "\\x0"),
            (Type::BYTEA, "abc"),
            (Type::TIME, "12:34"),
            (Type::TIMETZ, "12:34:56"),
            (Type::INT4_ARRAY, "{1"),
        ] {
            assert_eq!(read(&ty, text), format!("Scalar::Other({text:?})"));
        }
    }
}
