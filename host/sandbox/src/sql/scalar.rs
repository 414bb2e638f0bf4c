//! Scalars by what they consist of: nine of the cases of the interface are texts.

use super::bindings::databases::Scalar;

/// The content of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ScalarContent<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Bytes(&'a [u8]),
    Text(&'a str),
}

impl<'a> From<&'a Scalar> for ScalarContent<'a> {
    fn from(scalar: &'a Scalar) -> Self {
        match scalar {
            Scalar::Null => Self::Null,
            Scalar::Boolean(value) => Self::Boolean(*value),
            Scalar::Integer(value) => Self::Integer(*value),
            Scalar::Float(value) => Self::Float(*value),
            Scalar::Bytes(bytes) => Self::Bytes(bytes),
            Scalar::Decimal(text)
            | Scalar::Text(text)
            | Scalar::Date(text)
            | Scalar::Time(text)
            | Scalar::Timestamp(text)
            | Scalar::Instant(text)
            | Scalar::Uuid(text)
            | Scalar::Json(text)
            | Scalar::Other(text) => Self::Text(text),
        }
    }
}
