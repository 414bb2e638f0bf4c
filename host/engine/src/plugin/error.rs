//! Why a plugin cannot be loaded.

use super::fault::Fault;
use crate::ComponentError;

/// Why a plugin cannot be loaded. The others are served without it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The component cannot be loaded.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// The component loads, but the provider does not even describe itself.
    #[error("the provider cannot describe itself: {0}")]
    Describe(#[source] Fault),
    /// The host refuses the role of a granted database.
    #[error("{0}")]
    Database(String),
    /// The host was shut down before the plugin was loaded.
    #[error("the host was shut down before it was loaded")]
    Cancelled,
}

impl LoadError {
    /// Whether a retry makes sense though nothing changed: the provider does not describe itself, which may be because the
    /// machine is busy, or the [component error](ComponentError::is_transient) is transient.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Component(error) => error.is_transient(),
            Self::Describe(_) | Self::Database(_) => true,
            Self::Cancelled => false,
        }
    }
}
