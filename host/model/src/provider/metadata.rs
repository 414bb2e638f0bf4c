//! The metadata that an entry and a template have in common.

use crate::resource::Theme;

/// Defines the setters of this metadata, each named like its field.
macro_rules! metadata_setters {
    () => {
        /// Sets the name for people.
        #[must_use]
        pub fn title(mut self, title: impl Into<String>) -> Self {
            self.title = Some(title.into());
            self
        }

        /// Sets the description.
        #[must_use]
        pub fn description(mut self, description: impl Into<String>) -> Self {
            self.description = Some(description.into());
            self
        }

        /// Sets the MIME type.
        #[must_use]
        pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
            self.mime_type = Some(mime_type.into());
            self
        }

        /// Sets the audience.
        #[must_use]
        pub fn audience(mut self, roles: impl IntoIterator<Item = Role>) -> Self {
            self.audience = roles.into_iter().collect();
            self
        }

        /// Sets the priority, from 0.0 (entirely optional) to 1.0 (effectively required). The host drops any other
        /// value.
        #[must_use]
        pub fn priority(mut self, priority: f64) -> Self {
            self.priority = Some(priority);
            self
        }

        /// Sets the time of the last change. A time after the year 9999 is dropped.
        #[must_use]
        pub fn last_modified(mut self, time: SystemTime) -> Self {
            self.last_modified = jiff::Timestamp::try_from(time).ok().map(|time| time.to_string());
            self
        }

        /// Adds an icon with a lower preference than the previous ones.
        #[must_use]
        pub fn icon(mut self, icon: Icon) -> Self {
            self.icons.push(icon);
            self
        }

        /// Sets the metadata for programs. Names should have a prefix of the provider, such as `example.com/branch`;
        /// names that begin with `mcp-host/` are reserved and dropped.
        #[must_use]
        pub fn meta(mut self, meta: Map<String, Value>) -> Self {
            self.meta = Some(Value::Object(meta).to_string());
            self
        }
    };
}

pub(super) use metadata_setters;

/// A picture that clients may show beside a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Icon {
    /// Its address: an `https:` or `data:` URI.
    pub src: String,
    /// Its MIME type.
    pub mime_type: Option<String>,
    /// The sizes for which it is suitable, each as `48x48` or `any`; empty means any.
    pub sizes: Vec<String>,
    /// The background for which it is drawn; none for any.
    pub theme: Option<Theme>,
}

impl Icon {
    /// Creates an icon from an `https:` or `data:` URI.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Adds a size for which it is suitable, as `48x48` or `any`.
    #[must_use]
    pub fn size(mut self, size: impl Into<String>) -> Self {
        self.sizes.push(size.into());
        self
    }

    /// Sets the background for which it is drawn.
    #[must_use]
    pub fn theme(mut self, theme: Theme) -> Self {
        self.theme = Some(theme);
        self
    }
}
