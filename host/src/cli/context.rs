//! What every command has: the config, a host to ask, and both standard streams.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::arguments::GlobalArgs;
use super::color::ColorChoice;
use super::error::CliError;
use super::logging;
use super::messages::Messages;
use super::output::Output;
use super::progress;
use crate::config::Config;
use crate::engine::Progress;
use crate::host::{Host, HostBuilder};

/// How long databases may take to be closed at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// What every command has. Nothing of it is read or started before a command asks for it, but for the log.
pub(super) struct Context {
    config: PathBuf,
    color: ColorChoice,
    pub(super) messages: Messages,
}

impl Context {
    /// As the options say. Logging starts here.
    pub(super) fn new(global: &GlobalArgs) -> Self {
        let messages = Messages::stderr(global.color);
        logging::start(&global.log, global.log_format, &messages);
        Self { config: global.config.clone(), color: global.color, messages }
    }

    /// The config file.
    pub(super) fn config_file(&self) -> &Path {
        &self.config
    }

    /// Reads the config.
    pub(super) fn config(&self) -> Result<Config, CliError> {
        Ok(Config::load(&self.config)?)
    }

    /// Starts a host with the config, for a command that asks it something: all plugins are loaded, or could not be.
    pub(super) async fn start_host(&self) -> Result<Host, CliError> {
        Ok(self.builder(self.config()?).start().await?)
    }

    /// Ends a host in order: what its plugins have open is closed.
    pub(super) async fn close(&self, host: &Host) {
        host.close(CLOSE_TIMEOUT).await;
    }

    /// A host with that config, which is about to be started.
    pub(super) fn builder(&self, config: Config) -> HostBuilder {
        Host::builder(config).progress(self.progress())
    }

    /// Who is told that components are being compiled.
    pub(super) fn progress(&self) -> Progress {
        progress::with_spinners(&self.messages)
    }

    /// Standard output. One at a time: it is locked.
    pub(super) fn output(&self) -> Output<'static> {
        Output::stdout(self.color)
    }
}
