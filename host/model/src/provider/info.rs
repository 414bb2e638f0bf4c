//! The description of a provider.

/// A provider's description of itself: what it is, not the state of its data. For each loaded plugin the host stores names cut at
/// 1 KiB each and the description cut at 64 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderInfo {
    /// A short name for programs, such as `git`.
    pub name: String,
    /// The provider's own version.
    pub version: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it serves and how its paths are built, for people and models that are about to use it.
    pub description: Option<String>,
    /// Whether [`Provider::changes`](super::Provider::changes) is implemented. If not, the host never calls it and nothing can be
    /// subscribed to.
    pub watches: bool,
}

impl ProviderInfo {
    /// A provider by its short name and its version, usually `env!("CARGO_PKG_VERSION")`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }

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

    /// Sets whether it can tell what changed.
    #[must_use]
    pub fn watches(mut self, watches: bool) -> Self {
        self.watches = watches;
        self
    }
}
