//! A guest's texts where the host shows or keeps them: cut before anything is made of them.

use std::fmt;

/// Bytes of a guest's text that a message shows.
const SHOWN: usize = 80;

/// The beginning of a guest's text for a message: escaped, and of at most [`SHOWN`] bytes before that.
pub(super) struct Excerpt<'a>(pub(super) &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = beginning(self.0, SHOWN);
        write!(f, "{}", shown.escape_debug())?;
        if shown.len() < self.0.len() { f.write_str("…") } else { Ok(()) }
    }
}

/// The text, or so many bytes of its beginning and an ellipsis. What is cut off is freed.
pub(super) fn cut(text: String, most: usize) -> String {
    if text.len() <= most { text } else { [beginning(&text, most), "…"].concat() }
}

fn beginning(text: &str, most: usize) -> &str {
    text.split_at_checked(text.floor_char_boundary(most)).map_or(text, |(shown, _)| shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_and_escaped() {
        assert_eq!(Excerpt("a\nb").to_string(), "a\\nb");
        assert_eq!(Excerpt(&"ä".repeat(1000)).to_string(), "ä".repeat(SHOWN / 2) + "…");
        assert!(Excerpt(&"\u{1}".repeat(1_000_000)).to_string().len() < SHOWN * 8);
    }

    #[test]
    fn what_is_cut_off_is_freed() {
        assert_eq!(cut("short".into(), 5), "short");
        let kept = cut("x".repeat(1_000_000), 5);
        assert_eq!(kept, "xxxxx…");
        assert!(kept.capacity() < 100, "{}", kept.capacity());
    }
}
