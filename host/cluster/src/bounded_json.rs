//! JSON of bounded size: data from the engine is untrusted input, and data for it must be readable by other
//! replicas.
//!
//! A task that decodes messages yields between them, by their bytes ([`DecodeBudget`]). Tokio makes it yield after 128
//! received messages, however long they are: with messages of 512 KiB, it would decode 64 MiB in one piece, and no
//! other task of the thread would run.

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

/// The number of decoded bytes after which a task yields. One message may be longer.
const DECODED_BYTES_PER_TURN: usize = 64 * 1024;

/// The bytes that a task has decoded since it yielded.
#[derive(Debug, Default)]
pub(crate) struct DecodeBudget {
    decoded: usize,
}

impl DecodeBudget {
    /// Counts a decoded message of this length, and yields to other tasks if the budget is used up.
    pub(crate) async fn spend(&mut self, length: usize) {
        self.decoded = self.decoded.saturating_add(length);
        if self.decoded >= DECODED_BYTES_PER_TURN {
            self.decoded = 0;
            tokio::task::yield_now().await;
        }
    }
}
