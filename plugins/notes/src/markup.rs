//! The markup of notes, by name.

use folder::last_name;
use mcp_provider::mime;

/// The markup language of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Markup {
    Markdown,
    AsciiDoc,
    ReStructuredText,
}

impl Markup {
    /// Returns the markup of a file; `None` for an attachment.
    pub(crate) fn of(names: &str) -> Option<Self> {
        let name = last_name(names).to_ascii_lowercase();
        // Sphinx publishes its sources with an additional suffix.
        let name = name.strip_suffix(".rst.txt").map_or(name.clone(), |stem| format!("{stem}.rst"));
        match name.rsplit_once('.')?.1 {
            "adoc" | "asciidoc" => Some(Self::AsciiDoc),
            "rst" => Some(Self::ReStructuredText),
            _ => (mime::from_name(&name) == Some("text/markdown")).then_some(Self::Markdown),
        }
    }

    /// Returns the MIME type.
    fn mime_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown",
            Self::AsciiDoc => "text/asciidoc",
            Self::ReStructuredText => "text/x-rst",
        }
    }
}

/// Returns the MIME type of a file, by its name.
pub(crate) fn mime_type(names: &str) -> Option<&'static str> {
    Markup::of(names).map(Markup::mime_type).or_else(|| mime::from_name(names))
}

/// Returns whether a file is text, by its name.
pub(crate) fn is_text(names: &str) -> bool {
    mime_type(names).is_some_and(|mime| mime.starts_with("text/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_known_by_its_name() {
        for (name, markup) in [
            ("a/b.md", Some(Markup::Markdown)),
            ("a.MARKDOWN", Some(Markup::Markdown)),
            ("規程/就業規則.adoc", Some(Markup::AsciiDoc)),
            ("a.rst", Some(Markup::ReStructuredText)),
            ("a.rst.txt", Some(Markup::ReStructuredText)),
            ("a.txt", None),
            ("md", None),
            ("a.png", None),
        ] {
            assert_eq!(Markup::of(name), markup, "{name}");
        }
        assert!(is_text("a.txt") && is_text("a.rst") && !is_text("a.png") && !is_text("a"));
    }
}
