//! The error of a value outside of its bounds.

use super::error::{Suggest, quote};

/// A value outside of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not between {min} and {max}", quote(.found))]
pub struct OutOfRange {
    /// The value, as it would be written.
    pub found: String,
    /// The minimum.
    pub min: String,
    /// The maximum.
    pub max: String,
}

impl Suggest for OutOfRange {
    fn suggestion(&self, key: &str) -> String {
        format!("set `{key}` to a value from {} to {}", self.min, self.max)
    }
}
