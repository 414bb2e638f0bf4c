//! Icons of resources.

use crate::resource::Theme;

/// A picture that clients may show beside a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Icon {
    /// Its address: an `https:` or `data:` URI.
    pub src: String,
    /// Its MIME type.
    pub mime_type: Option<String>,
    /// The sizes that it suits, each as `48x48` or `any`; empty means any.
    pub sizes: Vec<String>,
    /// The background that it is drawn for; without one, either.
    pub theme: Option<Theme>,
}

impl Icon {
    /// An icon at an `https:` or `data:` URI.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Adds a size that it suits, as `48x48` or `any`.
    #[must_use]
    pub fn size(mut self, size: impl Into<String>) -> Self {
        self.sizes.push(size.into());
        self
    }

    /// Sets the background that it is drawn for.
    #[must_use]
    pub fn theme(mut self, theme: Theme) -> Self {
        self.theme = Some(theme);
        self
    }
}
