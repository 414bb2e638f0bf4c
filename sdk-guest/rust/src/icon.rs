//! Audience roles and icons.

/// The intended audience of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A person, in a user interface.
    User,
    /// A model.
    Assistant,
}

/// The background that an icon is designed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Theme {
    /// A light background.
    Light,
    /// A dark background.
    Dark,
}

/// An icon that clients may show beside a resource.
///
/// ```
/// use mcp_provider::{Icon, Theme};
///
/// let icon = Icon::new("https://example.com/note.svg").mime_type("image/svg+xml").size("any").theme(Theme::Dark);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Icon {
    /// The location: an `https:` or `data:` URI.
    pub src: String,
    /// The MIME type, if `src` does not determine it.
    pub mime_type: Option<String>,
    /// The suitable sizes, each as `48x48` or `any`; empty means any.
    pub sizes: Vec<String>,
    /// The background it is designed for; `None` means any.
    pub theme: Option<Theme>,
}

impl Icon {
    /// Creates an icon from an `https:` or `data:` URI.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }

    /// Sets the MIME type.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Adds a suitable size, as `48x48` or `any`.
    pub fn size(mut self, size: impl Into<String>) -> Self {
        self.sizes.push(size.into());
        self
    }

    /// Sets the background it is designed for.
    pub fn theme(mut self, theme: Theme) -> Self {
        self.theme = Some(theme);
        self
    }
}
