//! Why a plugin cannot be loaded.

use std::path::PathBuf;

use super::compiler::CompileError;
use super::fault::Fault;

/// The engine cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The operating system or the WebAssembly engine refuses.
    #[error("cannot start the WebAssembly engine: {0}")]
    Start(String),
}

/// Why a plugin cannot be loaded. The others are served without it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The component file cannot be read.
    #[error("cannot read the component {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The file is something else.
    #[error("{} is not a WebAssembly component: {found}", file.display())]
    NotAComponent {
        /// The file.
        file: PathBuf,
        /// What it is, and what to do.
        found: String,
    },
    /// The component does not compile.
    #[error("cannot compile {}: {source}", file.display())]
    Compile {
        /// The file.
        file: PathBuf,
        /// Why.
        source: CompileError,
    },
    /// The component imports something that this host does not have.
    #[error("{} imports what this host does not have: {missing}", file.display())]
    Import {
        /// The file.
        file: PathBuf,
        /// The first import that is missing, or differs.
        missing: String,
    },
    /// The component is not a provider.
    #[error(
        "{} is a component but no provider: it does not export `mcp-host:provider/resource-provider@0.1.0` \
         as this host knows it ({reason}); build it against the `wit/` of this release",
        file.display()
    )]
    NotAProvider {
        /// The file.
        file: PathBuf,
        /// What is missing, or differs.
        reason: String,
    },
    /// The provider loads, but does not even describe itself.
    #[error("the provider cannot describe itself: it {0}")]
    Describe(Fault),
    /// The cache of compiled components cannot be used.
    #[error("cannot use {} for compiled components: {reason}", dir.display())]
    Cache {
        /// The directory.
        dir: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
}
