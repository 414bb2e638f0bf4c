//! A provider's description of itself.

/// A provider's description of itself. Static: it depends on no grants and not on the state of the data.
///
/// ```
/// use mcp_provider::Info;
///
/// let info = Info::new("git", "1.0.0").title("Git repositories").watches(true);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The programmatic name, such as `git`.
    pub name: String,
    /// The provider's version.
    pub version: String,
    /// The human-readable name.
    pub title: Option<String>,
    /// A description of the data and of the path structure, for people and models that will use it.
    pub description: Option<String>,
    /// Whether [`Provider::changes`](crate::Provider::changes) is implemented. If not, the host never calls it.
    pub watches: bool,
}

impl Info {
    /// Creates an info from the programmatic name and the version, which is usually `env!("CARGO_PKG_VERSION")`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), title: None, description: None, watches: false }
    }

    /// Sets the human-readable name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description of the data and of the path structure.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets whether `changes` is implemented.
    pub fn watches(mut self, watches: bool) -> Self {
        self.watches = watches;
        self
    }
}
