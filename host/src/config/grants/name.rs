//! The grammar of names that providers ask for their grants by: buckets, databases.

/// The maximum length of a name.
pub(super) const MAX_LEN: usize = 64;
/// The grammar, as a regular expression.
pub(super) const PATTERN: &str = "^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$";

/// Returns whether a text is such a name: 1 to 64 of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, beginning with a letter or
/// digit.
pub(super) fn is_valid(text: &str) -> bool {
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    begins_well && is_plain && text.len() <= MAX_LEN
}
