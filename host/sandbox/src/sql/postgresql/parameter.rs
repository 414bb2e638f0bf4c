//! Parameters: sent in their text form, which the server converts to the type that it inferred.

use std::error::Error;
use std::fmt::Write as _;

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

use super::array;
use crate::sql::bindings::ScalarContent;
use crate::sql::bindings::databases::{Scalar, Value};

/// A value of a parameter.
#[derive(Debug)]
pub(super) struct Parameter(pub(super) Value);

impl ToSql for Parameter {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let text = match &self.0 {
            Value::Scalar(scalar) => scalar_text(scalar),
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

/// The text form of a value; none of NULL.
pub(super) fn scalar_text(scalar: &Scalar) -> Option<String> {
    Some(match scalar.into() {
        ScalarContent::Null => return None,
        ScalarContent::Boolean(value) => value.to_string(),
        ScalarContent::Integer(value) => value.to_string(),
        ScalarContent::Float(value) if value.is_infinite() => {
            if value.is_sign_positive() { "Infinity" } else { "-Infinity" }.to_owned()
        }
        ScalarContent::Float(value) => value.to_string(),
        ScalarContent::Bytes(bytes) => {
            let mut text = String::with_capacity(bytes.len().saturating_mul(2).saturating_add(2));
            text.push_str("\\x");
            for byte in bytes {
                // Writing to a string cannot fail.
                let _ = write!(text, "{byte:02x}");
            }
            text
        }
        ScalarContent::Text(text) => text.to_owned(),
    })
}
