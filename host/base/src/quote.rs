//! Quotation of foreign text in error messages.

/// The number of characters of a value that a message repeats.
const MAX_QUOTED_CHARS: usize = 60;

/// Returns text for a message: in backticks, on one line, and truncated.
pub fn quote(text: &str) -> String {
    format!("`{}`", truncated(text))
}

/// Returns text for a message: on one line, and truncated.
pub fn truncated(text: &str) -> String {
    let mut short: String = text.lines().next().unwrap_or_default().chars().take(MAX_QUOTED_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
