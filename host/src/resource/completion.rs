//! Completion of template variables.

/// A template variable and its value, neither of them percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The variable's name.
    pub name: String,
    /// The value, or the prefix to be completed.
    pub value: String,
}

/// Values that complete an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The values, best match first, at most [`Completion::MAX_VALUES`].
    pub values: Vec<String>,
    /// The total number of values, if known.
    pub total: Option<u32>,
    /// Whether there are more values.
    pub has_more: bool,
}

impl Completion {
    /// The maximum number of values in one response (MCP 2025-06-18, "Completion": "Maximum 100 items per response").
    pub const MAX_VALUES: usize = 100;
}
