//! JSON of bounded size: data from the engine is untrusted input, and data for it must be readable by other
//! replicas.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes that are not the expected JSON.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The input is too long.
    #[error("{length} bytes; at most {max} are allowed")]
    TooLong {
        /// The length in bytes.
        length: usize,
        /// The maximum.
        max: usize,
    },
    /// The input is not JSON, or not JSON of this type.
    #[error("other JSON than expected: {0}")]
    Invalid(#[from] serde_json::Error),
}

/// Decodes a value of at most `max` bytes.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], max: usize) -> Result<T, JsonError> {
    check(bytes, max)?;
    Ok(serde_json::from_slice(bytes)?)
}

/// Encodes a value in at most `max` bytes.
pub(crate) fn encode(value: &impl Serialize, max: usize) -> Result<Vec<u8>, JsonError> {
    let bytes = serde_json::to_vec(value)?;
    check(&bytes, max)?;
    Ok(bytes)
}

fn check(bytes: &[u8], max: usize) -> Result<(), JsonError> {
    let length = bytes.len();
    if length > max { Err(JsonError::TooLong { length, max }) } else { Ok(()) }
}
