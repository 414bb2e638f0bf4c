//! The context of every command: the config, a host, and both standard streams.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::ColorChoice;
use mcp_host_config::diagnostics::Diagnostic;
use mcp_host_config::{Config, ConfigError, Environment, find_component};
use mcp_host_engine::Compiler;
use mcp_host_model::uri::Router;
use mcp_resource_host::host::{Host, HostBuilder};
use mcp_resource_host::telemetry::Telemetry;
use parking_lot::Mutex;

use super::diagnostics::CallRecorder;
use super::error::CliError;
use super::journal::Journal;
use super::logging::{self, LogSettings, ReloadableFilter};
use super::messages::Messages;
use super::options::GlobalArgs;
use super::output::Output;
use super::programs::Programs;
use super::recording::{RecordingFile, recorder};

/// The longest time for a graceful shutdown of the host: requests in flight, and closing databases.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The context of every command. Everything but the log is read or started on first use.
pub(super) struct Context {
    config: PathBuf,
    color: ColorChoice,
    pub(super) messages: Messages,
    log_filter: Arc<ReloadableFilter>,
    telemetry: Option<Arc<Telemetry>>,
    /// The recorder of providers' calls; `None` for `serve`.
    calls: Option<Arc<CallRecorder>>,
    /// The recording of calls, if one is made.
    pub(super) recording: OnceLock<Arc<RecordingFile>>,
    /// The only resource whose plugin is recorded, if it is not all of them.
    recorded_uri: OnceLock<String>,
    /// The config, if it was read before the confinement of this process.
    loaded: Mutex<Option<Result<Config, ConfigError>>>,
    programs: Programs,
}

impl Context {
    /// The context for these options. Starts the log, and the export of traces if a served config has a collector.
    pub(super) fn new(
        global: &GlobalArgs,
        log: LogSettings,
        journal: Option<Journal>,
        served: Option<&Config>,
        loaded: Option<Result<Config, ConfigError>>,
        programs: Programs,
        calls: Option<CallRecorder>,
    ) -> Self {
        let messages = Messages::stderr(global.color);
        if let Some(journal) = journal {
            messages.writer().use_journal(journal);
        }
        let collector = served.and_then(|config| Some((config.telemetry.as_ref()?, &config.server.name)));
        let started = collector.map(|(telemetry, name)| Telemetry::start(telemetry, name)).transpose();
        let telemetry = started.unwrap_or_else(|error| {
            messages.warning(&format!("no traces are exported (`telemetry.otlp`): {error}"));
            None
        });
        let log_filter = Arc::new(logging::start(log, &messages, telemetry.as_ref(), calls.is_some()));
        let telemetry = telemetry.map(Arc::new);
        let (config, loaded) = (global.config.clone(), Mutex::new(loaded));
        let calls = calls.map(Arc::new);
        Self {
            config,
            color: global.color,
            messages,
            log_filter,
            telemetry,
            calls,
            recording: OnceLock::new(),
            recorded_uri: OnceLock::new(),
            loaded,
            programs,
        }
    }

    /// The exporter of traces, if there is a collector.
    pub(super) fn telemetry(&self) -> Option<Arc<Telemetry>> {
        self.telemetry.clone()
    }

    /// The recorder of providers' calls; `None` for `serve`.
    pub(super) fn calls(&self) -> Option<&Arc<CallRecorder>> {
        self.calls.as_ref()
    }

    /// The filter of the log.
    pub(super) fn log_filter(&self) -> Arc<ReloadableFilter> {
        self.log_filter.clone()
    }

    /// The config file.
    pub(super) fn config_file(&self) -> &Path {
        &self.config
    }

    /// Reads the config.
    pub(super) fn config(&self) -> Result<Config, CliError> {
        let loaded = self.loaded.lock().take();
        Ok(loaded.unwrap_or_else(|| Config::load(&self.config))?)
    }

    /// Reads the config for a command that starts neither a server nor a plugin. Files and variables that only those
    /// need, such as secrets, may be missing.
    pub(super) fn config_without_secrets(&self) -> Result<Config, CliError> {
        let error = match Config::load(&self.config) {
            Ok(config) => return Ok(config),
            Err(error) => error,
        };
        let Some(config) = error.config_without_secrets() else { return Err(error.into()) };
        let problems = error.diagnostics().iter().map(Diagnostic::message).collect::<Vec<_>>().join("; ");
        self.messages
            .note(&format!("the config cannot be served as it is, which this command does not need: {problems}"));
        Ok(config.clone())
    }

    /// Returns the config for a client of the administration listener of a running server. Only `[admin]` needs to be
    /// valid: the server may run with an earlier version of the file.
    pub(super) fn admin_config(&self) -> Result<Config, CliError> {
        let error = match Config::load(&self.config) {
            Ok(config) => return Ok(config),
            Err(error) => error,
        };
        let Some(admin) = error.admin() else { return Err(error.into()) };
        self.messages.note(&restart_failure(&error));
        Ok(Config { admin: Some(admin.clone()), ..Config::default() })
    }

    /// Starts a host with the config, and waits until each plugin is loaded or has failed. The host has no audit log:
    /// that belongs to the server, which may be running. It does not join the cluster either: as a replica it would
    /// take a share of the rates, and might poll for the others. It prepares no data, as the command ends earlier.
    pub(super) async fn start_host(&self) -> Result<Host, CliError> {
        let config = Config { audit: None, ..self.config()? };
        Ok(self.builder(config).outside_cluster().without_preparations().start().await?)
    }

    /// Shuts a host down gracefully.
    pub(super) async fn shutdown(&self, host: &Host) {
        host.shutdown(SHUTDOWN_TIMEOUT).await;
    }

    /// A builder of a host with this config, which reports progress on the terminal.
    pub(super) fn builder(&self, config: Config) -> HostBuilder {
        let only = self.recorded_uri.get().and_then(|uri| plugin_of(&config, uri));
        let mut builder = self.programs.of_host(Host::builder(config));
        if let Some(calls) = &self.calls {
            builder = builder.observe_calls(calls.clone());
        }
        if let Some(recording) = self.recording.get() {
            builder = builder.record_calls(recorder(recording.clone(), only));
        }
        builder.command().compiler(Compiler::CurrentExe).progress(self.messages.compilation_progress())
    }

    /// Restricts a recording to the plugin that serves this resource, in hosts that are built from now on. A resource
    /// of the host itself, such as a search, restricts nothing.
    pub(super) fn record_only(&self, uri: &str) {
        // A command reads one resource.
        let _ = self.recorded_uri.set(uri.to_owned());
    }

    /// Returns the file of a component. The command line has its path or, as in a config, the name of a provider: names
    /// are looked up in the plugin path of the config, if the command reads one.
    pub(super) fn component(written: &Path, config: Option<&Config>) -> Result<PathBuf, CliError> {
        let environment = Environment::from_process();
        let configured = config.and_then(|config| config.server.plugin_path.as_deref());
        Ok(find_component(written, configured.unwrap_or(environment.plugin_path()))?)
    }

    /// Locks standard output.
    pub(super) fn output(&self) -> Output<'static> {
        Output::stdout(self.color)
    }
}

/// The note of a client of a running server about a config with which a server does not start.
fn restart_failure(error: &ConfigError) -> String {
    // A missing directory or variable is judged by the user and the environment of this command.
    let unless = match error.config_without_secrets() {
        Some(_) => ", unless it has other permissions or variables than this command",
        None => "",
    };
    let first = error.diagnostics().first();
    let message = first.map(Diagnostic::message).unwrap_or_default();
    let line = first.and_then(Diagnostic::position).map(|at| format!(":{}", at.line)).unwrap_or_default();
    format!(
        "a restart of the server would fail{unless}: {message} ({}{line}); `mcp-host check` shows all errors of the config, of which \
         this command needs `[admin]` only",
        error.file().display()
    )
}

/// Returns the name of the plugin of the config that serves a URI.
fn plugin_of(config: &Config, uri: &str) -> Option<String> {
    let mounts = config.plugins.iter().map(|plugin| (plugin.mount.clone(), plugin.name.to_string()));
    let router = Router::new(mounts).ok()?;
    router.route(uri).ok().map(|routed| routed.target.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> String {
        restart_failure(&Config::parse_in(text, Path::new("mcp-host.toml"), &Environment::empty()).unwrap_err())
    }

    #[test]
    fn a_config_that_a_restart_could_not_use_is_told_with_its_first_error() {
        let unknown = failure("[server]\nnonsense = 1\n");
        assert!(unknown.starts_with("a restart of the server would fail: "), "{unknown}");
        assert!(unknown.contains("(mcp-host.toml:2); `mcp-host check` shows all errors"), "{unknown}");
        let missing = failure("[[plugin]]\nname = \"a\"\ncomponent = \"/nonexistent/a.wasm\"\nmount = \"a:///\"\n");
        assert!(missing.contains("would fail, unless it has other permissions or variables"), "{missing}");
        assert!(missing.contains("/nonexistent/a.wasm") && missing.contains("(mcp-host.toml:3)"), "{missing}");
    }
}
