//! What a number, a size or a time says that is too small or too large.

use super::error::{Advice, quote};

/// A value that is smaller or larger than the config allows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not between {least} and {most}", quote(.found))]
pub struct OutOfRange {
    /// The value, as the file would have it.
    pub found: String,
    /// The least that is allowed.
    pub least: String,
    /// The most that is allowed.
    pub most: String,
}

impl Advice for OutOfRange {
    fn advice(&self, key: &str) -> String {
        format!("give `{key}` a value from {} to {}", self.least, self.most)
    }
}
