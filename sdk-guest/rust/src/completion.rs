//! Completion of template variables.

use std::collections::HashSet;

/// A template variable with a value. Neither is percent-encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The variable's name.
    pub name: String,
    /// The value, or a prefix of one.
    pub value: String,
}

impl Argument {
    /// Creates an argument from a variable name and a value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// Completion candidates for an argument. Empty by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Completion {
    /// The candidates, best first, not percent-encoded.
    pub values: Vec<String>,
    /// The total number of candidates, if known.
    pub total: Option<u32>,
    /// Whether there are more candidates than `values` contains.
    pub has_more: bool,
}

impl Completion {
    /// The maximum number of values to return. The host leaves out those that the client may not see, and shows at most
    /// 100 of the others.
    pub const MAX_VALUES: usize = 1000;

    /// Returns the `candidates` that start with `typed`, each once, at most [`MAX_VALUES`](Self::MAX_VALUES) of them,
    /// in input order.
    ///
    /// ```
    /// use mcp_provider::Completion;
    ///
    /// let completion = Completion::matching(["main", "master", "next"], "ma");
    /// assert_eq!(completion.values, ["main", "master"]);
    /// ```
    pub fn matching<S: Into<String> + AsRef<str>>(candidates: impl IntoIterator<Item = S>, typed: &str) -> Self {
        let (mut values, mut seen) = (Vec::new(), HashSet::new());
        for candidate in candidates {
            if candidate.as_ref().starts_with(typed) && !seen.contains(candidate.as_ref()) {
                let value: String = candidate.into();
                if values.len() < Self::MAX_VALUES {
                    values.push(value.clone());
                }
                seen.insert(value);
            }
        }
        let total = seen.len();
        Self { has_more: total > values.len(), total: u32::try_from(total).ok(), values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_with_the_typed_text_completes_it() {
        let completion = Completion::matching(vec!["b".to_owned(), "ab".to_owned(), "a".to_owned()], "a");
        assert_eq!(completion.values, ["ab", "a"]);
        assert_eq!((completion.total, completion.has_more), (Some(2), false));
        let repeated = Completion::matching(["ab", "a", "ab"], "a");
        assert_eq!((repeated.values, repeated.total), (vec!["ab".to_owned(), "a".to_owned()], Some(2)));
    }

    #[test]
    fn more_than_the_host_chooses_from_are_counted_but_not_given() {
        let completion = Completion::matching((0..1000).map(|n| format!("v{n}")), "v");
        assert_eq!((completion.values.len(), completion.total, completion.has_more), (1000, Some(1000), false));
        let completion = Completion::matching((0..2500).map(|n| format!("v{n}")), "v");
        assert_eq!((completion.values.len(), completion.total, completion.has_more), (1000, Some(2500), true));
    }

    #[test]
    fn nothing_that_fits_is_an_empty_answer() {
        assert_eq!(Completion::matching(["a"], "z"), Completion { total: Some(0), ..Completion::default() });
    }
}
