//! The process that starts the programs of upstreams: this process cannot start programs after its confinement.

use mcp_host_config::Config;
use mcp_resource_host::HostBuilder;
#[cfg(target_os = "linux")]
use mcp_resource_host::programs::{LauncherProgram, SandboxLauncher};

use super::error::CliError;

/// The launcher of the programs of upstreams; empty if the config has none, or on other systems than Linux.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    #[cfg(target_os = "linux")]
    launcher: Option<SandboxLauncher>,
}

impl Programs {
    /// Starts the launcher if the config has programs. Must be called before this process is confined.
    ///
    /// # Errors
    ///
    /// The launcher does not start, or a grant of a program cannot be provided.
    #[cfg_attr(not(target_os = "linux"), allow(clippy::unnecessary_wraps, unused_variables, reason = "there is none"))]
    pub(super) fn start(config: &Config) -> Result<Self, CliError> {
        Ok(Self {
            #[cfg(target_os = "linux")]
            launcher: SandboxLauncher::start(config, &LauncherProgram::CurrentExe)?,
        })
    }

    /// Makes a host start programs through the launcher.
    pub(super) fn of_host(&self, builder: HostBuilder) -> HostBuilder {
        #[cfg(target_os = "linux")]
        if let Some(launcher) = &self.launcher {
            return builder.launcher(launcher.clone());
        }
        builder
    }
}
