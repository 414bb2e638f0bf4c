//! Completion of template variables.

/// A template variable and its value, neither of them percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The variable's name.
    pub name: String,
    /// The value, or the prefix to be completed.
    pub value: String,
}

impl Argument {
    /// A variable and its value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
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

    /// Returns those of `candidates` that begin with `typed`, at most [`MAX_VALUES`](Self::MAX_VALUES) of them, in their order.
    ///
    /// ```
    /// use mcp_host_model::resource::Completion;
    ///
    /// let completion = Completion::matching(["main", "master", "next"], "ma");
    /// assert_eq!((completion.values.len(), completion.total), (2, Some(2)));
    /// ```
    pub fn matching<S: Into<String> + AsRef<str>>(candidates: impl IntoIterator<Item = S>, typed: &str) -> Self {
        let mut matching = candidates.into_iter().filter(|candidate| candidate.as_ref().starts_with(typed));
        let values: Vec<String> = matching.by_ref().take(Self::MAX_VALUES).map(Into::into).collect();
        let total = values.len().saturating_add(matching.count());
        Self { has_more: total > values.len(), total: u32::try_from(total).ok(), values }
    }
}
