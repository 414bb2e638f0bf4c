//! Whom a resource is for, and how it may be shown.

/// Whom a resource is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A person, in a user interface.
    User,
    /// A model.
    Assistant,
}

/// The background that an icon is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Theme {
    /// A light background.
    Light,
    /// A dark background.
    Dark,
}

/// A picture that clients may show beside a resource.
///
/// ```
/// use mcp_provider::{Icon, Theme};
///
/// let icon = Icon::new("https://example.com/note.svg").mime_type("image/svg+xml").size("any").theme(Theme::Dark);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Icon {
    /// Where it is: an `https:` or `data:` URI.
    pub src: String,
    /// Its MIME type, where `src` does not tell.
    pub mime_type: Option<String>,
    /// The sizes it suits, each as `48x48` or `any`; empty means any.
    pub sizes: Vec<String>,
    /// The background it is drawn for; without one, either.
    pub theme: Option<Theme>,
}

impl Icon {
    /// An icon at an `https:` or `data:` URI.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }

    /// Its MIME type.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// One more size that it suits, as `48x48` or `any`.
    pub fn size(mut self, size: impl Into<String>) -> Self {
        self.sizes.push(size.into());
        self
    }

    /// The background it is drawn for.
    pub fn theme(mut self, theme: Theme) -> Self {
        self.theme = Some(theme);
        self
    }
}
