//! The process that starts the programs of upstreams, which cannot be started once this process is confined.

use mcp_host_config::Config;
use mcp_resource_host::HostBuilder;
#[cfg(target_os = "linux")]
use mcp_resource_host::programs::{LauncherProgram, SandboxLauncher};

use super::error::CliError;

/// What starts the programs of upstreams; nothing if the config has none, or on another system than Linux.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    #[cfg(target_os = "linux")]
    launcher: Option<SandboxLauncher>,
}

impl Programs {
    /// Starts it if the config has programs. Must be called before this process is confined.
    ///
    /// # Errors
    ///
    /// It does not start, or a program cannot be given what it is granted.
    #[cfg_attr(not(target_os = "linux"), allow(clippy::unnecessary_wraps, unused_variables, reason = "there is none"))]
    pub(super) fn start(config: &Config) -> Result<Self, CliError> {
        Ok(Self {
            #[cfg(target_os = "linux")]
            launcher: SandboxLauncher::start(config, &LauncherProgram::CurrentExe)?,
        })
    }

    /// Has a host start programs by it.
    pub(super) fn of_host(&self, builder: HostBuilder) -> HostBuilder {
        #[cfg(target_os = "linux")]
        if let Some(launcher) = &self.launcher {
            return builder.launcher(launcher.clone());
        }
        builder
    }
}
