//! `serve`: the MCP server, over HTTP if the config or the command line has an address, and over stdio if not.
//!
//! The server serves a config, or [paths](paths) from the command line.

mod paths;

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_config::Config;
use mcp_host_config::admin::{Admin, AdminAddress};
use mcp_host_config::http::HttpAddress;
use mcp_host_engine::confinement::Confinement;
use mcp_host_engine::plugin::LoadError;
use mcp_host_server::{self as server, AdminControls, AdminListener, LoginCodes};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::{Host, PluginState, PluginStatus, ReloadTrigger};
use mcp_resource_host::response_cache::CacheCounts;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::paths::PathArgs;
pub(super) use self::paths::PathServer;
use super::browser::{self, Browser};
use super::confinement;
use super::context::Context;
use super::error::CliError;
use super::messages::Messages;
use super::profile::LiveProfiler;
use super::recording::make_passthrough;
use super::service_manager::{Notifier, PassedSocket, ServiceManager};
use super::signals::{self, RepeatedSignal};

/// The maximum wait at the start for loading plugins. After that, requests are served without the plugins that are not
/// ready.
const START_GRACE: Duration = Duration::from_secs(2);
/// The maximum wait at the end for sending spans.
const TELEMETRY_TIMEOUT: Duration = Duration::from_secs(1);
/// The address of the administration listener of `--open` without `[admin]`: any free port.
const FREE_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The config key with the address.
pub(super) const ADDRESS_KEY: &str = "server.http";

const EXAMPLES: &str = "\
SIGINT and SIGTERM start a graceful shutdown: requests in flight are completed first. A second signal terminates the \
server immediately. The server reloads when the config or a component changes, and on SIGHUP: no connection, \
subscription or request in flight is lost. Rules apply immediately; plugins that cannot be used are logged and change \
nothing.

With PATH no config is read and nothing is reloaded. On a terminal the server listens at a free port of this machine, \
and prints the entry for a client, with a token for this run. `--http` names another address; `--stdio` is for a \
client that starts the server.

Examples:
  mcp-host serve .                       the repository or the folder here, without a config
  mcp-host serve --stdio ~/notes a.db    a folder and a database, for a client that starts it
  mcp-host serve                         as the config says
  mcp-host serve --http 127.0.0.1:8080   over HTTP, at http://127.0.0.1:8080/mcp
  mcp-host serve --http 127.0.0.1:0      at a free port, which is printed on standard error
  mcp-host serve --open                  with the console in a browser; on SIGUSR1 it prints another login
  mcp-host serve --stdio                 over stdio whatever the config says, as desktop clients start it";

/// Serve MCP clients, over stdio or HTTP
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    paths: PathArgs,

    /// Serve over standard input and output, even if the config names an HTTP address
    #[arg(long, conflicts_with = "http")]
    stdio: bool,

    /// Serve over HTTP at this address and port; takes precedence over the config
    #[arg(long, value_name = "ADDRESS", value_parser = http_address)]
    http: Option<HttpAddress>,

    /// Open the console in a browser, logged in, and print its address; without `[admin]` it is at a free port of
    /// loopback
    #[arg(long)]
    open: bool,

    /// Do not reload on changes; SIGHUP then terminates the server
    #[arg(long)]
    no_reload: bool,

    /// Opens the console; made before this process is confined
    #[arg(skip)]
    browser: Browser,

    /// The address of the socket that the service manager passed
    #[arg(skip)]
    passed: Option<HttpAddress>,
}

/// The served config.
#[derive(Debug)]
pub(super) struct ServedConfig {
    pub(super) config: Config,
    /// The paths for which the config was made; `None` for a config from a file.
    paths: Option<PathServer>,
}

impl Args {
    /// Connects to the service manager. A socket passed by the manager has the effect of `--http` with its address.
    ///
    /// # Errors
    ///
    /// The manager passed something other than one TCP socket, or cannot be notified.
    pub(super) fn service_manager(&mut self) -> Result<ServiceManager, CliError> {
        let socket = PassedSocket::take().map_err(CliError::PassedSocket)?;
        self.passed = socket.as_ref().map(|socket| HttpAddress::from(socket.address()));
        Ok(ServiceManager { socket, notifier: Notifier::connect().map_err(CliError::NotifySocket)? })
    }

    /// Whether the command line has paths to serve, so that no config is read.
    pub(super) fn has_paths(&self) -> bool {
        self.paths.are_given()
    }

    /// Reads the config, or makes one for the paths of the command line, and applies the options of the command line.
    pub(super) fn load_config(&self, file: &Path) -> Result<ServedConfig, CliError> {
        if !self.has_paths() {
            return Ok(ServedConfig { config: self.apply_overrides(Config::load(file)?), paths: None });
        }
        let (config, served) = self.paths.config()?;
        let mut config = self.apply_overrides(config);
        let paths = Some(PathServer::new(&mut config, served)?);
        Ok(ServedConfig { config, paths })
    }

    /// Prepares the operations that the confinement of this process will prevent.
    pub(super) fn prepare(&mut self) {
        if self.open {
            self.browser = Browser::prepare();
        }
    }

    /// Serves the config, in a confined process.
    pub(super) async fn run(
        mut self,
        config: Result<ServedConfig, CliError>,
        confinement: Confinement,
        manager: ServiceManager,
        context: &Context,
    ) -> Result<(), CliError> {
        context.messages.writer().become_lossy();
        // The signal handler comes first: a SIGHUP right after the start must not terminate the server.
        let (is_reloaded, is_stdio) = (!self.no_reload && !self.has_paths(), self.stdio);
        let handled = |is_handled: bool, signal: fn() -> std::io::Result<RepeatedSignal>| {
            is_handled.then(signal).transpose().context("cannot listen to signals")
        };
        let hangup = handled(is_reloaded, RepeatedSignal::hangup)?;
        let code_requests = handled(self.open, RepeatedSignal::user_defined)?;
        let ServedConfig { config, paths } = config?;
        config.check_exposure()?;
        if let Some(paths) = &paths {
            paths.log();
        }
        confinement::log(&confinement, &config);
        let draining = signals::shutdown(&context.messages, "termination signal received", || ())
            .context("cannot listen to signals")?;
        let shutdown = CancellationToken::new();
        // Bound before compilation: an address in use is reported immediately.
        let listener = match (config.server.http, manager.socket) {
            (Some(_), Some(socket)) => Some(socket.into_listener().map_err(CliError::PassedSocket)?),
            (Some(address), None) => Some(listen(address, self.address_setting()).await?),
            (None, _) => None,
        };
        if let Some(address) = self.passed.filter(|_| listener.is_some()) {
            tracing::info!(target: log_target::SERVER, %address, "the service manager passed a socket, which is used instead of `server.http`");
        }
        if listener.is_some() {
            warn_of_few_descriptors(&config);
        }
        let admin = match &config.admin {
            Some(admin) => listen_admin(&admin.listen, listener.is_none()).await?,
            None => None,
        };
        let host = Arc::new(context.builder(config).start_loading()?);
        let drain = delay_drain(draining.clone(), shutdown.clone(), host.clone(), manager.notifier.clone());
        let drain_delay = AbortOnDropHandle::new(task::spawn(drain));
        let trigger = ReloadTrigger::default();
        let login_codes = LoginCodes::default();
        let controls = AdminControls::new().log(context.log_filter()).login_codes(login_codes.clone());
        let controls = controls.passthrough(make_passthrough()).profiler(Arc::new(LiveProfiler));
        let controls = match context.telemetry() {
            Some(telemetry) => controls.metrics(telemetry.counts()),
            None => controls,
        };
        let has_file = !self.has_paths();
        let controls = if has_file { controls.compare(trigger.clone()) } else { controls };
        let controls = if hangup.is_some() { controls.reload(trigger.clone()) } else { controls };
        let console = admin.as_ref().and_then(|listener| listener.console_url(&host.config()));
        let code_printer = code_requests.zip(console.clone()).map(|(requests, console)| {
            let printing = print_login_codes(requests, console, login_codes.clone(), context.messages.clone());
            AbortOnDropHandle::new(task::spawn(printing))
        });
        let admin = admin.map(|listener| {
            context.messages.administration(&listener.url(&host.config()));
            if self.open {
                self.browser.open_console(console.as_deref(), &login_codes, context);
            }
            AbortOnDropHandle::new(task::spawn(administer(host.clone(), listener, draining, controls)))
        });
        let load_logger = AbortOnDropHandle::new(task::spawn(log_when_loaded(host.clone())));
        let warning_logger = AbortOnDropHandle::new(task::spawn(log_plugin_warnings(host.clone())));
        // Plugins that load quickly are ready for the first request.
        let startup = tokio::time::timeout(START_GRACE, host.wait_until_loaded());
        if shutdown.run_until_cancelled(startup).await.is_none() {
            return Ok(());
        }
        let watcher = has_file.then(|| {
            let watcher = host.watch_config(context.config_file()).map(move |config| self.apply_overrides(config));
            let watcher = watcher.validate(move |config| confinement::check(&confinement, config));
            watcher.with_trigger(trigger.clone())
        });
        let stop_loading = AbortOnDropHandle::new(task::spawn(stop_loading_on(shutdown.clone(), host.clone())));
        let log = context.log_filter();
        let reloading = watcher.map(|watcher| match hangup {
            Some(hangup) => {
                let watcher = watcher.apply(move |config| log.configure(&config.log));
                let on_hangup = reload_on_hangup(hangup, trigger, host.clone(), manager.notifier.clone());
                AbortOnDropHandle::new(task::spawn(async { tokio::join!(watcher.run(), on_hangup) }))
            }
            // Without reloads, the file is still compared with the served config.
            None => AbortOnDropHandle::new(task::spawn(async { ((), watcher.run_without_reloads().await) })),
        });
        if let Some(listener) = listener {
            let scheme = if host.config().http.tls.is_some() { "https" } else { "http" };
            let address = listener.local_addr().context("the listener has no address")?;
            match &paths {
                Some(paths) => paths.print_listening(&context.messages, &host.config().server.name, scheme, address),
                None => context.messages.listening(scheme, address),
            }
            let _watchdog = manager.notifier.ready(&format!("generation {}", host.generation()));
            server::serve_http(host.clone(), listener, shutdown).await?;
        } else {
            if std::io::stdin().is_terminal() {
                let http = match &paths {
                    Some(_) => "leave out `--stdio`",
                    None => {
                        "use `--http 127.0.0.1:8080`, or write `http = \"127.0.0.1:8080\"` under `[server]` in the config"
                    }
                };
                context.messages.note(&format!(
                    "this speaks MCP over standard input and output, and is for a client to start; to serve over HTTP, {http}"
                ));
            } else if paths.is_some() && !is_stdio {
                // Without this note, a script would see the process end without serving anything.
                context.messages.note(
                    "standard input is no terminal, so this speaks MCP over it, as for a client that starts it; to serve over HTTP, use \
                     `--http 127.0.0.1:8080`",
                );
            }
            server::serve_stdio(host.clone(), Principal::LOCAL, shutdown).await?;
        }
        drop((reloading, load_logger, warning_logger, stop_loading, drain_delay, code_printer));
        log_cached_responses(&host);
        context.shutdown(&host).await;
        tracing::info!(target: log_target::SERVER, "stopped");
        if let Some(telemetry) = context.telemetry() {
            // The result is ignored: a join fails only after a panic.
            let _ = task::spawn_blocking(move || telemetry.shutdown(TELEMETRY_TIMEOUT)).await;
        }
        if let Some(admin) = admin {
            admin.abort();
            // Waits until the aborted task has removed the file of its socket.
            let _ = admin.await;
        }
        Ok(())
    }

    /// Applies the options of the command line to a config.
    fn apply_overrides(&self, mut config: Config) -> Config {
        config.server.http = self.listen_address(config.server.http);
        if self.open {
            config.admin.get_or_insert_with(|| Admin::new(AdminAddress::Tcp(FREE_PORT.into())));
        }
        config
    }

    /// The option or config key with the address.
    fn address_setting(&self) -> &'static str {
        if self.http.is_some() { "--http" } else { ADDRESS_KEY }
    }

    /// The HTTP address, if any.
    fn listen_address(&self, configured: Option<HttpAddress>) -> Option<HttpAddress> {
        if self.stdio { None } else { self.passed.or(self.http).or(configured) }
    }
}

/// Requests a reload for each `SIGHUP`.
async fn reload_on_hangup(mut hangup: RepeatedSignal, trigger: ReloadTrigger, host: Arc<Host>, manager: Notifier) {
    let mut reloading = None;
    loop {
        hangup.next().await;
        log_cached_responses(&host);
        tracing::info!(target: log_target::CONFIG, "SIGHUP: reloading");
        let (trigger, manager) = (trigger.clone(), manager.clone());
        // A further signal restarts this task.
        reloading.replace(AbortOnDropHandle::new(task::spawn(async move {
            manager.reloading();
            match trigger.reload_and_wait().await {
                Some(Ok(report)) => manager.reloaded(&format!("generation {}", report.generation)),
                Some(Err(reason)) => manager.reloaded(&format!("the reload failed: {reason}")),
                None => {}
            }
        })));
    }
}

/// Prints another address of the console for each `SIGUSR1`: for an administrator without a token.
async fn print_login_codes(mut requests: RepeatedSignal, console: String, codes: LoginCodes, messages: Messages) {
    loop {
        requests.next().await;
        browser::print_address(&console, &codes, &messages);
    }
}

/// Warns if there may be more connections than this process may have file descriptors: the kernel refuses further ones.
fn warn_of_few_descriptors(config: &Config) {
    let Ok(limit) = rlimit::Resource::NOFILE.get_soft() else { return };
    let connections = config.http.limits.connections.get();
    if usize::try_from(limit).is_ok_and(|limit| limit < connections) {
        tracing::warn!(
            target: log_target::SERVER,
            connections,
            limit,
            "`http.limits.connections` is above the limit of file descriptors of this process: raise the hard limit (`LimitNOFILE=` of a \
             service, `ulimit -Hn`), or lower `http.limits.connections`"
        );
    }
}

/// Logs the hits and misses of each plugin's response cache, unless there were no lookups.
fn log_cached_responses(host: &Host) {
    for PluginStatus { name, cached_responses: CacheCounts { hits, misses, .. }, .. } in host.plugins() {
        if hits > 0 || misses > 0 {
            tracing::info!(target: log_target::PLUGIN, plugin = name, hits, misses, "lookups in the response cache since the plugin was loaded");
        }
    }
}

/// Starts the shutdown `server.drain-delay` after the signal. Until then `/readyz` answers 503 (readiness), and clients
/// are still served.
async fn delay_drain(
    signal: CancellationToken,
    shutdown: CancellationToken,
    host: Arc<Host>,
    service_manager: Notifier,
) {
    signal.cancelled().await;
    service_manager.stopping();
    let delay = host.config().server.drain_delay.duration();
    if !delay.is_zero() {
        tracing::info!(target: log_target::SERVER, "`server.drain-delay`: serving for another {delay:?}, not ready");
        tokio::time::sleep(delay).await;
    }
    tracing::info!(target: log_target::SERVER, "graceful shutdown: draining requests in flight");
    shutdown.cancel();
}

/// Serves administrators. A failure is logged, and does not affect clients.
async fn administer(host: Arc<Host>, listener: AdminListener, draining: CancellationToken, controls: AdminControls) {
    let Err(error) = server::serve_admin(host, listener, draining, controls).await;
    tracing::error!(target: log_target::SERVER, %error, "the administration listener failed");
}

/// Stops loading at the shutdown: requests that wait for a plugin to load are not drained.
async fn stop_loading_on(shutdown: CancellationToken, host: Arc<Host>) {
    shutdown.cancelled().await;
    host.stop_loading();
}

/// Logs the warnings about plugins, as they are loaded.
async fn log_plugin_warnings(host: Arc<Host>) {
    host.log_plugin_warnings().await;
}

/// Logs that all plugins are loaded or have failed.
async fn log_when_loaded(host: Arc<Host>) {
    if tokio::time::timeout(START_GRACE, host.wait_until_loaded()).await.is_err() {
        let loading = host.plugins().into_iter().filter(|plugin| matches!(plugin.state, PluginState::Loading));
        let loading = loading.map(|plugin| plugin.name).collect::<Vec<_>>().join(",");
        tracing::info!(target: log_target::SERVER, loading, "serving the plugins loaded so far; the others follow as they are loaded");
        host.wait_until_loaded().await;
    }
    // The host's own plugins, such as search, are excluded.
    let config = host.config();
    let mut plugins = host.plugins();
    plugins.retain(|plugin| config.plugins.iter().any(|declared| declared.name.as_str() == plugin.name));
    let LoadCounts { loaded, failed, stopped } = LoadCounts::of(plugins.iter().map(|plugin| &plugin.state));
    match stopped {
        0 => tracing::info!(target: log_target::SERVER, loaded, failed, "finished loading plugins"),
        _ => {
            tracing::info!(target: log_target::SERVER, loaded, failed, stopped, "graceful shutdown: stopped loading plugins");
        }
    }
}

/// The results of loading the plugins.
#[derive(Debug, Default, PartialEq, Eq)]
struct LoadCounts {
    loaded: usize,
    failed: usize,
    /// Plugins that were still loading at the shutdown, which is not a failure.
    stopped: usize,
}

impl LoadCounts {
    fn of<'s>(states: impl Iterator<Item = &'s PluginState>) -> Self {
        states.fold(Self::default(), |mut counts, state| {
            let count = match state {
                PluginState::LoadFailed(error) if matches!(**error, LoadError::Cancelled) => &mut counts.stopped,
                PluginState::LoadFailed(_) => &mut counts.failed,
                _ => &mut counts.loaded,
            };
            *count = count.saturating_add(1);
            counts
        })
    }
}

/// Binds an address from this option or config key.
pub(super) async fn listen(address: HttpAddress, setting: &'static str) -> Result<TcpListener, CliError> {
    let address = address.socket_addr();
    TcpListener::bind(address).await.map_err(|source| CliError::Listen { address, setting, source })
}

/// Binds the address of `[admin]`. Over stdio each client starts its own process, and only the first one can bind the
/// address.
async fn listen_admin(address: &AdminAddress, is_stdio: bool) -> Result<Option<AdminListener>, CliError> {
    match AdminListener::bind(address).await {
        Err(error) if is_stdio && error.kind() == std::io::ErrorKind::AddrInUse => {
            tracing::warn!(target: log_target::SERVER, %address, "another process listens at `admin.listen`: this one has no administration listener");
            Ok(None)
        }
        Err(source) => Err(CliError::AdminListen { address: address.clone(), source }),
        Ok(listener) => Ok(Some(listener)),
    }
}

fn http_address(text: &str) -> Result<HttpAddress, String> {
    text.parse().map_err(|error| format!("{error}; write one such as `127.0.0.1:8080`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> HttpAddress {
        http_address(text).unwrap()
    }

    #[test]
    fn a_passed_socket_wins_over_the_command_line_this_over_the_config_and_stdio_over_all() {
        let configured = Some(address("127.0.0.1:1"));
        let asked = Some(address("127.0.0.1:2"));
        let args = |stdio, http, passed| Args {
            paths: PathArgs::default(),
            stdio,
            http,
            open: false,
            no_reload: false,
            browser: Browser::default(),
            passed,
        };
        assert_eq!(args(false, None, None).listen_address(None), None);
        assert_eq!(args(false, None, None).listen_address(configured), configured);
        assert_eq!(args(false, asked, None).listen_address(configured), asked);
        assert_eq!(args(true, None, None).listen_address(configured), None);
        let passed = Some(address("127.0.0.1:3"));
        assert_eq!(args(false, asked, passed).listen_address(configured), passed);
        assert_eq!(args(true, None, passed).listen_address(configured), None);
    }

    #[test]
    fn a_plugin_whose_loading_a_shutdown_stopped_has_not_failed() {
        let failed = |error| PluginState::LoadFailed(Arc::new(error));
        let states = [failed(LoadError::Cancelled), failed(LoadError::Database("refused".to_owned()))];
        assert_eq!(LoadCounts::of(states.iter()), LoadCounts { loaded: 0, failed: 1, stopped: 1 });
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        let error = http_address("8080").unwrap_err();
        assert!(error.contains("`8080` is not") && error.contains("`127.0.0.1:8080`"), "{error}");
    }
}
