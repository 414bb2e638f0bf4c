//! What a provider says of itself.

/// What a provider says of itself, with no grants at all: what it is, not what state its data are in.
///
/// ```
/// use mcp_provider::Info;
///
/// let info = Info::new("git", "1.0.0").title("Git repositories").watches(true);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// A short name for programs, such as `git`.
    pub name: String,
    /// The provider's own version.
    pub version: String,
    /// Its name as people read it.
    pub title: Option<String>,
    /// What it serves and how its paths are built, for people and models that are about to use it.
    pub description: Option<String>,
    /// Whether [`Provider::changes`](crate::Provider::changes) tells anything. If not, the host never asks.
    pub watches: bool,
}

impl Info {
    /// A provider by its short name and its version, which is usually `env!("CARGO_PKG_VERSION")`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), title: None, description: None, watches: false }
    }

    /// Its name as people read it.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What it serves and how its paths are built.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Whether it can tell what changed.
    pub fn watches(mut self, watches: bool) -> Self {
        self.watches = watches;
        self
    }
}
