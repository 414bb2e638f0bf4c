//! What a number, a size or a time says that is too small or too large.

use super::error::{Suggest, quote};

/// A value that is smaller or larger than the config allows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not between {min} and {max}", quote(.found))]
pub struct OutOfRange {
    /// The value, as the file would have it.
    pub found: String,
    /// The least that is allowed.
    pub min: String,
    /// The most that is allowed.
    pub max: String,
}

impl Suggest for OutOfRange {
    fn suggestion(&self, key: &str) -> String {
        format!("give `{key}` a value from {} to {}", self.min, self.max)
    }
}
