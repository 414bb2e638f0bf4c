//! Why a host does not start.

use mcp_host_config::{MissingFeature, PluginName};
use mcp_host_engine::plugin;

use super::generation::NativePluginConflict;
use crate::audit::AuditError;
use crate::catalog::KeyError;

/// Why a host does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The engine does not start, or the cache of compiled components cannot be used.
    #[error(transparent)]
    Runtime(#[from] plugin::RuntimeError),
    /// The key for cursors cannot be read or created.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Two plugins conflict.
    #[error(transparent)]
    Conflict(#[from] NativePluginConflict),
    /// The config requires a cargo feature that this build lacks.
    #[error(transparent)]
    Feature(#[from] MissingFeature),
    /// The cluster of the config cannot be used.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Cluster(#[from] mcp_host_cluster::engine::nats::NatsError),
    /// A native provider panicked in `describe`.
    #[error("the native provider of plugin `{plugin}` panicked in `describe`: {message}")]
    Describe {
        /// The name of the plugin.
        plugin: PluginName,
        /// The message of the panic, escaped.
        message: String,
    },
    /// There is no home directory, and no other directory was configured.
    #[error(
        "there is no home directory to keep the {0} in; name a directory in `server.{0}`, or have systemd make one: {name}Directory=mcp-host",
        name = if *.0 == "cache" { "Cache" } else { "State" }
    )]
    NoDirectory(&'static str),
}
