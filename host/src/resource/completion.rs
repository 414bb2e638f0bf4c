//! Completing the variables of a template.

/// A variable of a template and a value for it, neither of them percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The variable's name.
    pub name: String,
    /// Its value, or the beginning of one that is to be completed.
    pub value: String,
}

/// Values that complete an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The best first, at most [`Completion::MAX_VALUES`].
    pub values: Vec<String>,
    /// How many there are in all, where that is known.
    pub total: Option<u32>,
    /// Whether there are more than `values` has.
    pub has_more: bool,
}

impl Completion {
    /// As many values as one answer may have (MCP 2025-06-18, "Completion": "Maximum 100 items per response").
    pub const MAX_VALUES: usize = 100;
}
