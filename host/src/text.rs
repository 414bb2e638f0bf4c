//! Truncated texts for messages and for what the host stores.

use std::fmt;

/// Bytes of a text that [`Excerpt`] shows.
const EXCERPT_LEN: usize = 80;

/// The beginning of an untrusted text for a message: at most 80 bytes of it, escaped, and an ellipsis if there is more.
pub(crate) struct Excerpt<'a>(pub(crate) &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = prefix(self.0, EXCERPT_LEN);
        write!(f, "{}", shown.escape_debug())?;
        if shown.len() < self.0.len() { f.write_str("…") } else { Ok(()) }
    }
}

/// Truncates a text to so many bytes and an ellipsis. The memory of the rest is freed.
pub(crate) fn truncate(text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes { text } else { [prefix(&text, max_bytes), "…"].concat() }
}

/// Returns at most so many bytes of a text, in whole characters.
pub(crate) fn prefix(text: &str, max_bytes: usize) -> &str {
    text.split_at_checked(text.floor_char_boundary(max_bytes)).map_or(text, |(shown, _)| shown)
}

/// Returns at most so many bytes of the end of a text, in whole characters.
pub(crate) fn suffix(text: &str, max_bytes: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(max_bytes));
    text.split_at_checked(start).map_or(text, |(_, shown)| shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_and_escaped() {
        assert_eq!(Excerpt("a\nb").to_string(), "a\\nb");
        assert_eq!(Excerpt(&"ä".repeat(1000)).to_string(), "ä".repeat(EXCERPT_LEN / 2) + "…");
        assert!(Excerpt(&"\u{1}".repeat(1_000_000)).to_string().len() < EXCERPT_LEN * 8);
    }

    #[test]
    fn what_is_cut_off_is_freed() {
        assert_eq!(truncate("short".into(), 5), "short");
        let kept = truncate("x".repeat(1_000_000), 5);
        assert_eq!(kept, "xxxxx…");
        assert!(kept.capacity() < 100, "{}", kept.capacity());
    }
}
