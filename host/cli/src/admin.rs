//! `admin`: actions on a running server, through its administration listener.

mod lists;
mod who;

use std::convert::Infallible;
use std::time::Duration;

use clap::ArgGroup;
use mcp_host_config::Operation;
use mcp_host_server::admin_api::{
    ExplainRequest, Explanation, LogRequest, LogView, LoginCode, MAX_LOG_SECONDS, PluginDetails, PluginState, Reload,
    WhoRequest, WhoView,
};
use mcp_host_server::{AdminClient, AuditEvent};
use mcp_resource_host::audit::{DECISIONS, OPERATIONS, OUTCOMES};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use self::lists::ListArgs;
use super::browser::Browser;
use super::context::Context;
use super::error::CliError;
use super::explain::operation;
use super::options::parse_uri;
use super::output::Output;
use super::table::Table;
use super::{escape, logging, status};

const EXAMPLES: &str = "\
The listener, its token and its certificate are in `[admin]` of the config. Each action has a line in the audit log; \
commands that only print have none.

Examples:
  mcp-host admin reload                          read the config and the components again, and say what changed
  mcp-host admin reload --dry-run                say what a reload would change, and what is wrong with the config
  mcp-host admin explain notes:///plan.md        which rule of the running server decides?
  mcp-host admin explain --who notes:///plan.md  who may read it?
  mcp-host admin log debug --for 10m             log more for ten minutes
  mcp-host admin log --restore                   restore the configured filter
  mcp-host admin disable notes                   stop serving a plugin, until it is enabled or the server restarts
  mcp-host admin enable notes
  mcp-host admin reset notes                     close its circuit breaker, and drop its cached responses
  mcp-host admin sessions                        who is connected
  mcp-host admin subscriptions                   what clients watch
  mcp-host admin cache                           the response cache, by plugin
  mcp-host admin open                            an address of the console that logs in once
  mcp-host admin audit --decision deny           lines of the audit log as they are written, until it is interrupted";

/// Administer a running server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,

    /// Print the answer as a JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read the config and the components again; exit code 1 if they cannot be used
    Reload {
        /// Only print what would change, which plugins fail, and the errors of the config; components are not compiled
        #[arg(long)]
        dry_run: bool,
    },
    /// Explain which rule of the running server decides; exit code 1 if the operation is denied, with `--who` to all
    /// principals
    Explain {
        /// The resource
        #[arg(value_name = "URI", value_parser = parse_uri)]
        uri: String,
        /// The operation: list, templates, read, metadata, complete or subscribe
        #[arg(long = "op", value_name = "OPERATION", default_value = "read", value_parser = operation)]
        operation: Operation,
        /// The principal: `local`, `anonymous`, a principal of the config, or `ISSUER/NAME`
        #[arg(long = "as", value_name = "PRINCIPAL", default_value = "local")]
        principal: String,
        /// A group of the principal, as a token would name it; may be repeated
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<String>,
        /// List the principals, groups and others that the rules allow or deny the operation, each with the rule that
        /// decides
        #[arg(long, conflicts_with_all = ["principal", "groups"])]
        who: bool,
    },
    /// Change the log filter of the server for a limited time
    #[command(group(ArgGroup::new("change").required(true).args(["filter", "restore"])))]
    Log {
        /// The filter, in the syntax of `--log`
        #[arg(value_name = "FILTER", value_parser = filter)]
        filter: Option<String>,
        /// The time after which the configured filter is restored: `30s`, `10m`, `2h`; a day at most
        #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = log_time)]
        time: Duration,
        /// Restore the configured filter now
        #[arg(long, conflicts_with = "time")]
        restore: bool,
    },
    /// Print an address of the console that logs in once, within 60 s, and open it in a browser if there is a desktop
    Open,
    /// Print lines of the audit log as they are written: JSON, one object per line
    Audit {
        /// Only lines of this principal
        #[arg(long, value_name = "PRINCIPAL")]
        principal: Option<String>,
        /// Only lines of this plugin
        #[arg(long, value_name = "PLUGIN")]
        plugin: Option<String>,
        /// Only lines of this operation, such as `read` or `authenticate`
        #[arg(long, value_name = "OPERATION", value_parser = OPERATIONS, hide_possible_values = true)]
        operation: Option<String>,
        /// Only lines with this decision of the access rules
        #[arg(long, value_parser = DECISIONS)]
        decision: Option<String>,
        /// Only lines with this outcome; a request that the rules deny has the outcome of a resource that does not
        /// exist
        #[arg(long, value_parser = OUTCOMES)]
        outcome: Option<String>,
    },
    /// Print the sessions
    Sessions(ListArgs),
    /// Print the resources that clients watch
    Subscriptions(ListArgs),
    /// Print the response cache, by plugin
    Cache(ListArgs),
    /// Stop serving a plugin, until it is enabled or the server restarts
    Disable {
        /// The plugin
        plugin: String,
    },
    /// Serve a plugin that was disabled
    Enable {
        /// The plugin
        plugin: String,
    },
    /// Close the circuit breaker of a plugin, and drop its cached responses; load the plugin again if that failed
    /// before
    Reset {
        /// The plugin
        plugin: String,
    },
}

fn filter(text: &str) -> Result<String, String> {
    logging::filter(text).map(|_| text.to_owned())
}

fn log_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok();
    let is_allowed = |time: &Duration| (1..=MAX_LOG_SECONDS).contains(&time.as_secs());
    time.filter(is_allowed).ok_or_else(|| "write a time from 1s to 1d, such as `10m`".to_owned())
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let client = AdminClient::new(&context.admin_config()?)?;
        let mut output = context.output();
        let has_failed = match self.action {
            Action::Reload { dry_run } => {
                let path = if dry_run { "reload?dry-run" } else { "reload" };
                let reload: Reload = client.post(path, None::<&()>).await?;
                if self.json {
                    output.json(&reload)?
                } else {
                    print_reload(&reload, dry_run, &mut output)?
                }
                reload.would_fail
            }
            Action::Explain { uri, operation, who: true, .. } => {
                let request = WhoRequest { uri, operation: operation.name().to_owned() };
                let found: WhoView = client.post("explain/who", Some(&request)).await?;
                if self.json {
                    output.json(&found)?
                } else {
                    who::print(&found, &mut output)?
                }
                found.allowed.total == 0
            }
            Action::Explain { uri, operation, principal, groups, who: false } => {
                let request = ExplainRequest { uri, operation: operation.name().to_owned(), principal, groups };
                let explanation: Explanation = client.post("explain", Some(&request)).await?;
                if self.json {
                    output.json(&explanation)?
                } else {
                    print_explanation(&explanation, &mut output)?
                }
                !explanation.allowed
            }
            Action::Log { filter, time, restore } => {
                let seconds = filter.is_some().then_some(time.as_secs());
                let request = LogRequest { filter, seconds, restore };
                let log: LogView = client.post("log", Some(&request)).await?;
                if self.json {
                    output.json(&log)?
                } else {
                    print_log(&log, &mut output)?
                }
                false
            }
            Action::Open => {
                let mut browser = if self.json { Browser::default() } else { Browser::prepare() };
                let login: LoginCode = client.post("login-code", None::<&()>).await?;
                if self.json {
                    output.json(&login)?
                } else {
                    output.line(&escape::line(&login.url))?;
                    context.messages.note(&format!("it logs in once, within {} s", login.seconds));
                }
                browser.open(&login.url);
                false
            }
            Action::Audit { principal, plugin, operation, decision, outcome } => {
                let members = [
                    ("principal", principal),
                    ("plugin", plugin),
                    ("operation", operation),
                    ("decision", decision),
                    ("outcome", outcome),
                ];
                let members: Vec<_> =
                    members.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
                match follow_audit(&client, &members, context, &mut output).await? {}
            }
            Action::Sessions(list) => lists::sessions(&client, &list, self.json, context, &mut output).await?,
            Action::Subscriptions(list) => {
                lists::subscriptions(&client, &list, self.json, context, &mut output).await?
            }
            Action::Cache(list) => lists::cache(&client, &list, self.json, &mut output).await?,
            Action::Disable { plugin } => act(&client, &plugin, "disable", self.json, &mut output).await?,
            Action::Enable { plugin } => act(&client, &plugin, "enable", self.json, &mut output).await?,
            Action::Reset { plugin } => act(&client, &plugin, "reset", self.json, &mut output).await?,
        };
        output.flush()?;
        if has_failed { Err(CliError::NegativeAnswer) } else { Ok(()) }
    }
}

/// Prints lines of the audit log until the server ends the stream.
async fn follow_audit(
    client: &AdminClient,
    members: &[(&str, &str)],
    context: &Context,
    output: &mut Output<'_>,
) -> Result<Infallible, CliError> {
    client
        .follow_audit(members, |event| {
            match event {
                AuditEvent::Begun => context
                    .messages
                    .note("following the audit log; the file `audit.file` of the config has the lines of before"),
                AuditEvent::Line(line) => output.line(line)?,
                AuditEvent::Missed(lines) => output.line(&format!("{{\"missed_lines\":{lines}}}"))?,
            }
            Ok(output.flush()?)
        })
        .await
}

/// Performs an action on a plugin, and prints the plugin's state. Returns whether the plugin failed to load.
async fn act(
    client: &AdminClient,
    plugin: &str,
    action: &str,
    json: bool,
    output: &mut Output<'_>,
) -> Result<bool, CliError> {
    let name = utf8_percent_encode(plugin, NON_ALPHANUMERIC);
    let details: PluginDetails = client.post(&format!("plugins/{name}/{action}"), None::<&()>).await?;
    if json {
        output.json(&details)?;
    } else {
        let row = [super::table::Cell::text(&details.status.name), status::state(&details.status.state)];
        Table::new(["PLUGIN", "STATE"]).print(vec![row], output)?;
        status::print_reason(&details.status, output)?;
    }
    Ok(matches!(details.status.state, PluginState::Failed { .. }))
}

fn print_reload(reload: &Reload, is_dry_run: bool, output: &mut Output<'_>) -> Result<(), CliError> {
    let took = humantime::format_duration(Duration::from_millis(reload.elapsed_ms));
    let generation = reload.generation;
    let is_same = !reload.changed && reload.requires_restart.is_empty();
    output.line(&match (is_dry_run, reload.changed) {
        (true, _) if reload.would_fail => format!("a reload would fail; generation {generation} is served"),
        (true, _) if is_same => format!("a reload would change nothing; generation {generation} is served"),
        (true, _) => format!("a reload would change this; generation {generation} is served"),
        (false, true) => format!("reloaded; generation {generation}, in {took}"),
        // The server may have loaded a changed file by itself before.
        (false, false) => {
            let ago = ago(Duration::from_millis(reload.served_ms));
            format!("nothing to reload: the config was loaded {ago}, as generation {generation}")
        }
    })?;
    for (what, names) in [
        ("added", &reload.plugins_added),
        ("changed", &reload.plugins_changed),
        ("removed", &reload.plugins_removed),
        ("settings changed", &reload.settings_changed),
        ("after a restart", &reload.requires_restart),
    ] {
        if !names.is_empty() {
            output.line(&format!("{what}: {}", escape::line(&names.join(", "))))?;
        }
    }
    let is_new = |plugin: &String| reload.plugins_added.contains(plugin) || reload.plugins_changed.contains(plugin);
    for (plugin, reason) in &reload.plugins_failing {
        let then = if is_new(plugin) { "cannot be loaded" } else { "fails, and would stay so" };
        output.prose(&format!("{plugin} {then}: {reason}"))?;
    }
    for (plugin, keys) in &reload.changed_keys {
        output.line(&format!("  {}: {}", escape::line(plugin), escape::line(&keys.join(", "))))?;
    }
    Ok(())
}

/// A time span until now, in whole seconds: `1m 4s ago`.
fn ago(span: Duration) -> String {
    match span.as_secs() {
        0 => "less than 1s ago".to_owned(),
        seconds => format!("{} ago", humantime::format_duration(Duration::from_secs(seconds))),
    }
}

fn print_log(log: &LogView, output: &mut Output<'_>) -> Result<(), CliError> {
    let filter = log.filter.as_deref().unwrap_or("-");
    let until = log.until.as_ref().map(|until| format!(" until {until}")).unwrap_or_default();
    Ok(output.line(&escape::line(&format!("log {filter}{until}")))?)
}

fn print_explanation(found: &Explanation, output: &mut Output<'_>) -> Result<(), CliError> {
    let verdict = if found.allowed { "allowed" } else { "denied" };
    let reason = match &found.rule {
        Some(rule) => {
            let line = rule.line.map(|line| format!(", line {line} of the config")).unwrap_or_default();
            format!("`{}` of rule {} has `{}`{line}", rule.key, rule.number, rule.glob)
        }
        None if found.allowed => "no rule denies it, and no rule allows `local` something by name".to_owned(),
        None => "no rule allows it".to_owned(),
    };
    match (&found.served_at, found.served.as_str()) {
        (Some(uri), _) => output.line(&escape::line(&format!("this spelling is not found; the resource is {uri}")))?,
        (None, "nowhere") => output.line("it is not found: nothing outside of the prefix of the upstream is served")?,
        (None, "only-if-listed") => output.line("it is found only if the upstream lists it")?,
        _ => {}
    }
    output.line(&escape::line(&format!("{verdict}: {reason}")))?;
    for (label, value) in [
        ("principal", &found.principal),
        ("groups", &found.groups.join(", ")),
        ("operation", &found.operation),
        ("scopes", &found.scopes.join(", ")),
        ("URI", &found.uri),
        ("plugin", &found.plugin),
        ("path", &found.path),
    ] {
        if !value.is_empty() {
            output.line(&format!("{label:9}  {}", escape::line(value)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_that_changes_nothing_says_since_when_the_config_is_served() {
        assert_eq!(ago(Duration::from_millis(999)), "less than 1s ago");
        assert_eq!(ago(Duration::from_millis(64_500)), "1m 4s ago");
    }

    #[test]
    fn a_time_of_the_log_is_a_second_to_a_day() {
        assert_eq!(log_time("10m"), Ok(Duration::from_secs(600)));
        for wrong in ["0s", "25h", "500ms", "10", "soon"] {
            assert!(log_time(wrong).is_err(), "{wrong}");
        }
    }
}
