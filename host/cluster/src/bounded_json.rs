//! JSON of bounded size: what comes from the engine is input, and what is sent to it must be readable by others.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes are not the JSON that was expected.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// There are too many.
    #[error("{length} bytes; at most {max} are allowed")]
    TooLong {
        /// Their number.
        length: usize,
        /// The maximum.
        max: usize,
    },
    /// They are no JSON, or that of something else.
    #[error("other JSON than expected: {0}")]
    Invalid(#[from] serde_json::Error),
}

/// Reads a value of at most that many bytes.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], max: usize) -> Result<T, JsonError> {
    check(bytes, max)?;
    Ok(serde_json::from_slice(bytes)?)
}

/// Writes a value, in at most that many bytes.
pub(crate) fn encode(value: &impl Serialize, max: usize) -> Result<Vec<u8>, JsonError> {
    let bytes = serde_json::to_vec(value)?;
    check(&bytes, max)?;
    Ok(bytes)
}

fn check(bytes: &[u8], max: usize) -> Result<(), JsonError> {
    let length = bytes.len();
    if length > max { Err(JsonError::TooLong { length, max }) } else { Ok(()) }
}
