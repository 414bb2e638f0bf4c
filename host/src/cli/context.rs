//! What every command has: the config, a host to ask, and both standard streams.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::arguments::Common;
use super::colour::When;
use super::failure::Failure;
use super::logging;
use super::messages::Messages;
use super::output::Output;
use super::progress;
use crate::config::Config;
use crate::host::{Builder, Host};
use crate::plugin::Progress;

/// How long databases may take to be closed at the end.
const MAX_CLOSE: Duration = Duration::from_secs(2);

/// What every command has. Nothing of it is read or started before a command asks for it, but for the log.
pub(super) struct Context {
    config: PathBuf,
    colour: When,
    pub(super) messages: Messages,
}

impl Context {
    /// As the options say. Logging starts here.
    pub(super) fn new(common: &Common) -> Self {
        let messages = Messages::stderr(common.color);
        logging::start(&common.log, common.log_format, &messages);
        Self { config: common.config.clone(), colour: common.color, messages }
    }

    /// The config file.
    pub(super) fn config_file(&self) -> &Path {
        &self.config
    }

    /// Reads the config.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        Ok(Config::load(&self.config)?)
    }

    /// Starts a host with the config, for a command that asks it something: all plugins are loaded, or could not be.
    pub(super) async fn host(&self) -> Result<Host, Failure> {
        Ok(self.builder(self.config()?).start().await?)
    }

    /// Ends a host in order: what its plugins have open is closed.
    pub(super) async fn close(&self, host: &Host) {
        host.close(MAX_CLOSE).await;
    }

    /// A host with that config, which is about to be started.
    pub(super) fn builder(&self, config: Config) -> Builder {
        Host::builder(config).progress(self.progress())
    }

    /// Who is told that components are being compiled.
    pub(super) fn progress(&self) -> Progress {
        progress::shown_by(&self.messages)
    }

    /// Standard output. One at a time: it is locked.
    pub(super) fn output(&self) -> Output<'static> {
        Output::stdout(self.colour)
    }
}
