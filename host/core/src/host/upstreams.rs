//! Servers of `[[upstream]]`: connecting to them, and starting their programs.

use std::fmt;
use std::sync::Arc;

use mcp_host_config::grants::OAuth;
use mcp_host_config::{Plugin, UpstreamCommand};
use mcp_host_engine::plugin::{PluginRuntime, UpstreamError};
use mcp_host_model::provider::async_trait;
use mcp_host_sandbox::guest_log::GuestLog;
use mcp_host_sandbox::http::TlsRoots;
use mcp_host_sandbox::http::oauth::HostAccessTokens;
use mcp_host_upstream::process::{Launcher, ProgramLog, Unconfined};
use mcp_host_upstream::{AccessTokens, ConnectError, HeaderValue, TokenClient};

use super::HostBuilder;

/// The launcher of upstreams' programs.
pub(super) struct Programs(Arc<dyn Launcher>);

impl Default for Programs {
    fn default() -> Self {
        Self(Arc::new(Unconfined))
    }
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl HostBuilder {
    /// Sets the launcher of upstreams' programs. Default: [`Unconfined`], which only starts programs with `sandbox =
    /// "none"`. On Linux, `SandboxLauncher` of the same module starts them in a sandbox.
    #[must_use]
    pub fn launcher(mut self, launcher: impl Launcher) -> Self {
        self.programs = Programs(Arc::new(launcher));
        self
    }
}

impl Programs {
    /// Returns the grants that a program cannot use on this machine.
    pub(super) fn unusable_grants(&self, plugin: &Plugin, command: &UpstreamCommand) -> Vec<String> {
        self.0.unusable_grants(plugin, command)
    }

    /// Returns the sandbox features of a program that this machine lacks.
    pub(super) fn lacks(&self, command: &UpstreamCommand) -> Vec<String> {
        self.0.lacks(command)
    }

    /// Makes the runtime connect to upstreams.
    pub(super) fn connect_upstreams(self, runtime: &mut PluginRuntime) {
        let Self(launcher) = self;
        let roots = Arc::<TlsRoots>::default();
        let tokens: Arc<TokenClient> =
            Arc::new(move |oauth: &OAuth| Arc::new(UpstreamTokens(HostAccessTokens::new(oauth, roots.clone()))));
        runtime.set_upstreams(Arc::new(move |plugin, log| {
            let (plugin, launcher, tokens) = (plugin.clone(), launcher.clone(), tokens.clone());
            Box::pin(async move {
                let log = Arc::new(UpstreamLog(log));
                let connected = mcp_host_upstream::connect_with(&plugin, launcher, log, Some(&tokens)).await;
                connected.map_err(|ConnectError { reason, last_errors, .. }| UpstreamError { reason, last_errors })
            })
        }));
    }
}

/// Writes the standard error of a program to the log of its plugin.
struct UpstreamLog(Arc<GuestLog>);

impl ProgramLog for UpstreamLog {
    fn line(&self, line: &str) {
        self.0.program_line(line);
    }
}

/// Access tokens from the client of `grants.http`.
#[derive(Debug)]
struct UpstreamTokens(HostAccessTokens);

#[async_trait]
impl AccessTokens for UpstreamTokens {
    async fn authorization(&self) -> Result<HeaderValue, String> {
        self.0.authorization().await
    }

    async fn reject(&self, rejected: &HeaderValue) -> bool {
        self.0.reject(rejected).await
    }
}
