//! Why the engine cannot be started, or a component cannot be loaded.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_host_base::private_file::PrivateError;
use mcp_host_model::digest::Digest;

use super::compiler::CompileError;
use super::imports::UnsatisfiedImports;

/// Why the engine cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// wasmtime rejects its settings, or the system refuses it memory.
    #[error("cannot start the WebAssembly engine: {0}")]
    Wasmtime(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system refuses to start threads.
    #[error("cannot start the threads of the WebAssembly engine: {0}")]
    Threads(#[source] io::Error),
}

impl EngineError {
    pub(super) fn wasmtime(error: wasmtime::Error) -> Self {
        Self::Wasmtime(error.into())
    }
}

/// Why a component cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComponentError {
    /// The component file cannot be read.
    #[error("cannot read the component {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file is not a component.
    #[error("{} is not a WebAssembly component: {found}", file.display())]
    NotAComponent {
        /// The file.
        file: PathBuf,
        /// The kind of the file, and the remedy.
        found: String,
    },
    /// The file, its imports or its exports exceed the bounds of a component.
    #[error("{} is too large for a component: it has {what}", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// What exceeds its bound, and the bound.
        what: String,
    },
    /// No instance of the component fits into the memory of the plugin.
    #[error(
        "{} is too large for `limits.memory` ({}): each instance takes {content}; increase `limits.memory`, or ask its author \
         to declare less",
        file.display(), bytesize::ByteSize(*limit)
    )]
    Memory {
        /// The file.
        file: PathBuf,
        /// The parts of an instance, with their sizes.
        content: String,
        /// `limits.memory` in bytes.
        limit: u64,
    },
    /// The file differs from the one that the plugin is pinned to. Nothing was compiled.
    #[error("{}", digest_mismatch(.file, .expected, .found))]
    DigestMismatch {
        /// The file.
        file: PathBuf,
        /// The pinned digest.
        expected: Digest,
        /// The digest of the file.
        found: Digest,
    },
    /// The component does not compile.
    #[error("cannot compile {}: {source}", file.display())]
    Compile {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: CompileError,
    },
    /// The component imports something that this host does not have.
    #[error(
        "{} imports what this host does not have: {missing}; a provider may import WASI 0.2 and what the `wit/` of this \
         release names",
        file.display()
    )]
    Import {
        /// The file.
        file: PathBuf,
        /// What is missing.
        missing: UnsatisfiedImports,
    },
    /// The component is not a provider.
    #[error("{} is a component but no provider: {reason}; build it against the `wit/` of this release", file.display())]
    NotAProvider {
        /// The file.
        file: PathBuf,
        /// What it exports instead of the contract, or how its contract differs.
        reason: String,
    },
    /// The cache of compiled components cannot be used.
    #[error("cannot use {} for compiled components (`server.cache`): {source}", dir.display())]
    Cache {
        /// The directory.
        dir: PathBuf,
        /// The cause, and the remedy.
        source: Arc<PrivateError>,
    },
    /// The key that authenticates compiled components cannot be read or created.
    #[error("cannot keep the key for compiled components in {} (`server.state`): {source}", file.display())]
    CacheKey {
        /// The file.
        file: PathBuf,
        /// The cause, and the remedy.
        source: PrivateError,
    },
}

/// Returns the remedy for a changed file. A file in the store of components from registries has its digest as
/// its name.
fn digest_mismatch(file: &Path, expected: &Digest, found: &Digest) -> String {
    let is_stored = file.file_name().is_some_and(|name| *name == *expected.digits());
    let file = file.display();
    if is_stored {
        return format!(
            "{file} is not the component that the lock names: expected {expected}, found {found}; it was changed in the store: run \
             `mcp-host store fetch`, which replaces it, and find out who has written there"
        );
    }
    format!(
        "{file} is not the component that `digest` pins: expected {expected}, found {found}; put the pinned file back, or, if you \
         trust what is there now, write `digest = \"{found}\"`"
    )
}

impl ComponentError {
    /// Returns whether a retry without a change may succeed: a disk does not respond or is full, or the
    /// compiler cannot be started.
    pub fn is_transient(&self) -> bool {
        use std::io::ErrorKind;
        match self {
            Self::Cache { .. } => true,
            Self::Compile { source, .. } => !source.is_permanent(),
            Self::Read { source, .. } => !matches!(
                source.kind(),
                ErrorKind::NotFound
                    | ErrorKind::PermissionDenied
                    | ErrorKind::InvalidInput
                    | ErrorKind::IsADirectory
                    | ErrorKind::NotADirectory
            ),
            Self::NotAComponent { .. }
            | Self::TooLarge { .. }
            | Self::Memory { .. }
            | Self::DigestMismatch { .. }
            | Self::CacheKey { .. }
            | Self::Import { .. }
            | Self::NotAProvider { .. } => false,
        }
    }
}
