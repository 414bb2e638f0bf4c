//! `dev`: the loop of a provider's author. Builds on save, reloads, and shows what changed.
//!
//! | module | subject |
//! |---|---|
//! | `project`, `kind` | the directory, its config, the build command |
//! | `snapshot`, `sources` | which files are the sources, and which have changed |
//! | `builds` | the state of builds: the cause of a build, and the result of the last one |
//! | `build`, `build_output` | a run of the build command, and its output |
//! | `debugging` | the server for a debugger of the provider |
//! | `compilations`, `preparations` | whether the host is compiling a new component; the progress of the provider's preparation |
//! | `listing`, `listing_diff` | the listing, and how a reload changed it |
//! | `read`, `checks` | the actions of the keys `r` and `t` |
//! | `terminal`, `line_editor`, `status` | keys, the prompt, and the status line |
//! | `session` | the loop |
//!
//! `dev` runs the server of `serve` with its config watcher (hot reload): when a build has replaced the component, the
//! watcher reloads it. Only the watcher loads components. So a failed build changes nothing, and clients stay
//! connected.
//!
//! Output is a scrolling log with one status line below it, and not a full-screen interface: old compiler messages stay
//! in the terminal's scrollback, and without a terminal the same lines are plain output. All output, including the
//! output of builds, goes through the queue of standard error.
//!
//! The kernel does not confine this process, unlike other commands: the needs of a build are unknown, and the author
//! runs it deliberately. Components run in the usual sandbox, and are compiled in a confined process.
//!
//! The server listens on loopback only. If the config has neither rules nor authentication, `anonymous` may do
//! everything: clients on this machine connect without credentials, as over stdio.

mod build;
mod build_output;
mod builds;
mod checks;
mod compilations;
mod debugging;
mod kind;
mod line_editor;
mod listing;
mod listing_diff;
mod preparations;
mod project;
mod read;
mod session;
mod snapshot;
mod sources;
mod status;
mod terminal;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::styling::AnsiColor;
use mcp_host_base::task;
use mcp_host_config::{ANONYMOUS, BuildCommand, Config, PrincipalSelector, Rule};
use mcp_host_engine::{Engine, EngineOptions};
use mcp_host_server as server;

use self::compilations::Compilations;
use self::debugging::DebugServer;
use self::project::Project;
use self::session::Session;
use self::terminal::Terminal;
use super::context::Context;
use super::error::CliError;
use super::logging::{LogSettings, LogTimes};
use super::observation::ObservationArgs;
use super::programs::Programs;
use super::serve;
use super::signals::{self, RepeatedSignal};

const EXAMPLES: &str = "\
The directory has a `mcp-host.toml` with the plugin. The build command is `build` of its `[dev]`, else the usual one \
for this kind of project: `cargo build`, `npm run build`, `make`. A failed build changes nothing: the last component \
is served.

Keys: r read a resource, t test the provider, l list, b build now, ? help, q quit. Without a terminal there are no keys.

Examples:
  mcp-host dev                           the project here
  mcp-host dev ~/src/notes               another one
  mcp-host dev --build 'make release'    built by another command than its config says
  mcp-host dev --debug 1234              for LLDB, or an editor that uses it";

/// The color of success.
const GOOD: AnsiColor = AnsiColor::Green;
/// The color of a failure.
const BAD: AnsiColor = AnsiColor::Red;
/// The color of an activity.
const NEUTRAL: AnsiColor = AnsiColor::Cyan;

/// Build a provider whenever its sources change, serve it, and show what changed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The directory of the project; `--config` is relative to it
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Build with this shell command, instead of the command of the config
    #[arg(long, value_name = "COMMAND")]
    build: Option<BuildCommand>,

    /// Serve debuggers of the provider at this port of loopback; 0 is any free port
    #[arg(long, value_name = "PORT", conflicts_with = "record")]
    debug: Option<u16>,

    /// Serve only optimized code, which runs as fast as in `serve`; it is compiled more slowly
    #[arg(long)]
    optimize: bool,

    #[command(flatten)]
    observation: ObservationArgs,
}

/// The default log filter: all log lines of guests, and warnings and errors.
const DEFAULT_LOG: &str = "warn,mcp_host::guest=trace";

/// Changes the log: local times, and the default filter unless one is chosen. The author wants to see the log of
/// guests; the command itself reports other events.
pub(super) fn adjust_log(log: &mut LogSettings) {
    log.times = LogTimes::Short;
    if let Some(filter) = DEFAULT_LOG.parse().ok().filter(|_| !log.is_filter_chosen) {
        log.filter = filter;
    }
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        context.messages.writer().become_lossy();
        let project = Project::open(&self.dir, context.config_file(), self.build)?;
        let settings = project.read()?;
        let terminal = Terminal::enter().context("cannot read keys from the terminal")?;
        let restore = terminal.as_ref().map(Terminal::restore);
        let restore = move || restore.iter().for_each(terminal::Restore::now);
        let shutdown =
            signals::shutdown(&context.messages, "shutting down", restore).context("cannot listen to signals")?;
        let hangup = RepeatedSignal::hangup().context("cannot listen to signals")?;
        let listener = serve::listen(listen_address(&settings.config).into(), serve::ADDRESS_KEY).await?;
        let address = listener.local_addr().context("the listener has no address")?;
        let debug_server = match self.debug {
            Some(port) => Some(DebugServer::bind(port).await?),
            None => None,
        };
        let config = serve_locally(settings.servable());
        let scheme = if config.http.tls.is_some() { "https" } else { "http" };
        context.messages.listening(scheme, address);
        context.observe(&self.observation)?;
        if let Some(calls) = context.calls() {
            calls.print_to(&context.messages);
        }
        let compilations = Compilations::new();
        let programs = Programs::start(&config)?;
        let builder = programs
            .of_host(context.builder(config))
            // Only a server is a replica of a cluster.
            .outside_cluster()
            .incremental_compilation()
            .progress(compilations.progress(&context.messages));
        let builder = match &debug_server {
            Some(server) => builder.engine(server.engine()?),
            // What is measured or replayed is the code that `serve` runs.
            None if self.optimize || self.observation.is_requested() => builder,
            None => {
                let options = EngineOptions::new().baseline_compiler();
                builder.engine(Engine::new(options).context("cannot start the engine")?)
            }
        };
        let host = Arc::new(builder.start_loading()?);
        let _debugging = debug_server.map(|server| server.start(host.clone(), &context.messages, shutdown.clone()));
        let server = task::spawn(server::serve_http(host.clone(), listener, shutdown.clone()));
        let url = format!("{scheme}://{address}/mcp");
        let session = Session::start(context, project, settings, host.clone(), compilations, url).await;
        let ended = session.run(terminal, &shutdown, hangup, server).await;
        context.messages.writer().set_status(None);
        shutdown.cancel();
        context.shutdown(&host).await;
        ended
    }
}

/// The address in the config, if it is on loopback; any free port if not.
fn listen_address(config: &Config) -> SocketAddr {
    let configured = config.server.http.filter(|address| address.is_loopback());
    configured.map_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), |address| address.socket_addr())
}

/// Returns whether this config allows clients over HTTP nothing, and offers them no authentication.
fn is_closed(config: &Config) -> bool {
    config.rules.is_empty()
        && config.principals.is_empty()
        && config.issuers.is_empty()
        && config.http.client_ca.is_empty()
}

/// The config for `dev`: without rules, all clients on this machine may do everything.
fn serve_locally(mut config: Config) -> Config {
    // Without plugins the rule would cause a warning.
    if is_closed(&config)
        && !config.plugins.is_empty()
        && let Ok(everything) = "**".parse()
    {
        let mut rule = Rule::new([PrincipalSelector::Named(ANONYMOUS.to_owned())]);
        rule.allow.push(everything);
        config.rules.push(rule);
    }
    // The listener exists already. Without an address, a config without plugins causes no warning about clients that
    // see nothing.
    config.server.http = None;
    config
}

/// A duration to three digits, for people: `85 ms`, `1.3 s`, `2 m 5 s`.
fn format_elapsed(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds {
        0 => format!("{} ms", elapsed.as_millis()),
        1..10 => format!("{:.1} s", elapsed.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        _ => format!("{} m {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::Plugin;

    fn config(text: &str) -> Config {
        let mut config = Config::new();
        config.server.http = (!text.is_empty()).then(|| text.parse().unwrap());
        config
    }

    #[test]
    fn it_listens_on_loopback_whatever_the_config_says() {
        assert_eq!(listen_address(&config("127.0.0.2:8080")), "127.0.0.2:8080".parse().unwrap());
        for other in ["", "0.0.0.0:8080", "192.168.1.2:80"] {
            assert_eq!(listen_address(&config(other)), "127.0.0.1:0".parse().unwrap());
        }
    }

    #[test]
    fn who_may_connect_is_open_only_where_the_config_does_not_say() {
        let plugin = Plugin::new("a".parse().unwrap(), "a.wasm", "a:///".parse().unwrap());
        let served = serve_locally(config("").plugin(plugin).unwrap());
        assert_eq!((served.rules.len(), served.rules[0].principals[0].as_str()), (1, ANONYMOUS));
        let with_rule = Config::new().rule(Rule::new([PrincipalSelector::Any]));
        assert_eq!(serve_locally(with_rule.clone()).rules, with_rule.rules);
    }

    #[test]
    fn durations_are_short() {
        for (milliseconds, text) in
            [(0, "0 ms"), (999, "999 ms"), (1250, "1.2 s"), (59_900, "59 s"), (125_000, "2 m 5 s")]
        {
            assert_eq!(format_elapsed(Duration::from_millis(milliseconds)), text);
        }
    }
}
