//! Query parameters. They are sent in text form, and the server converts them to the inferred
//! types.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

use super::array::{self, scalar_text};
use crate::sql::bindings::databases::Value;

/// The value of a parameter.
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
