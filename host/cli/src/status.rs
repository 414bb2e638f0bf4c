//! `status`: the state of a running server, through its administration listener.

mod plugin;

use std::io;
use std::time::Duration;

use anyhow::Context as _;
use bytesize::ByteSize;
use mcp_host_server::AdminClient;
use mcp_host_server::admin_api::{
    AuditFailureView, AuditStatus, CacheStatus, ClusterView, Memory, PluginDetails, PluginState, PluginStatus,
    RecentCalls, ReplicaView, Status,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use super::context::Context;
use super::error::CliError;
use super::output::{Destination, Output};
use super::table::{Cell, Table};
use super::{escape, signals};

/// The interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Moves the cursor of a terminal to its first line, and clears the screen below.
const CLEAR: &str = "\x1b[H\x1b[J";
/// The columns of each plugin, which fit into a terminal of 80.
const HEADER: [&str; 7] = ["PLUGIN", "STATE", "CALLS/S", "P99", "MEMORY", "FAULTS", "WATCHED"];
/// All columns of each plugin.
const WIDE_HEADER: [&str; 10] =
    ["PLUGIN", "MOUNT", "STATE", "CALLS/S", "P50", "P99", "MEMORY", "FAULTS", "CACHE HITS", "WATCHED"];
/// The columns of a terminal on which these do not fit.
const NARROW_WIDE_HEADER: [&str; 9] =
    ["PLUGIN", "MOUNT", "STATE", "CALLS/S", "P99", "MEMORY", "FAULTS", "CACHE HITS", "WATCHED"];

const EXAMPLES: &str = "\
The listener, its token and its certificate are in `[admin]` of the config.

Exit codes: 0 if the server answers, and with `--probe` if it is ready; otherwise 1.

Examples:
  mcp-host status              plugins: state, calls of the last minute, memory, faults, and what clients watch
  mcp-host status --wide       also mounts, the median of calls, limits of memory, and hits of the cache
  mcp-host status notes        one plugin, with its component, limits, grants and log
  mcp-host status --watch      the same every two seconds, until it is interrupted
  mcp-host status --json       for programs: the answer of `/api/v1/status`
  mcp-host status --probe      for a health check: is the server ready?";

/// Show the state of a running server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Show only this plugin, with all details
    #[arg(value_name = "PLUGIN")]
    plugin: Option<String>,

    /// Show all columns
    #[arg(long, conflicts_with_all = ["plugin", "json", "probe"])]
    wide: bool,

    /// Refresh every two seconds, until it is interrupted
    #[arg(long)]
    watch: bool,

    /// Print a JSON object; with `--watch`, one per line
    #[arg(long)]
    json: bool,

    /// Print whether the server is ready, and the reasons if it is not
    #[arg(long, conflicts_with_all = ["watch", "json", "plugin"])]
    probe: bool,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let client = AdminClient::new(&context.admin_config()?)?;
        if self.probe {
            let (is_ready, text) = client.readiness().await?;
            let mut output = context.output();
            output.text(&text)?;
            output.flush()?;
            return if is_ready { Ok(()) } else { Err(CliError::NotReady) };
        }
        if !self.watch {
            return self.print(&client, context).await;
        }
        let interrupted = signals::interrupted().context("cannot listen to signals")?;
        tokio::select! {
            ended = self.watch(&client, context) => ended,
            () = interrupted => Ok(()),
        }
    }

    /// Prints the status at each interval. A server that answers no more, because it restarts, is requested again.
    async fn watch(&self, client: &AdminClient, context: &Context) -> Result<(), CliError> {
        self.print(client, context).await?;
        let mut told = None;
        loop {
            tokio::time::sleep(WATCH_INTERVAL).await;
            match self.print(client, context).await {
                Ok(()) => told = None,
                Err(CliError::Admin(error)) if error.is_unreachable() => {
                    let error = error.to_string();
                    if told.as_ref() != Some(&error) {
                        context.messages.warning(&format!("{error}; trying again"));
                    }
                    told = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn print(&self, client: &AdminClient, context: &Context) -> Result<(), CliError> {
        let mut output = context.output();
        if let Some(plugin) = &self.plugin {
            let name = utf8_percent_encode(plugin, NON_ALPHANUMERIC);
            let details: PluginDetails = client.get(&format!("plugins/{name}")).await?;
            self.show(&details, &mut output, |output| plugin::print(&details, output))
        } else {
            let status: Status = client.get("status").await?;
            self.show(&status, &mut output, |output| print(&status, self.wide, output))
        }
    }

    /// Prints an answer as JSON, or with `print`.
    fn show(
        &self,
        answer: &impl Serialize,
        output: &mut Output<'_>,
        print: impl FnOnce(&mut Output<'_>) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        if self.json {
            output.json(answer)?;
        } else {
            if self.watch && output.destination() == Destination::Terminal {
                output.line(CLEAR)?;
            }
            print(output)?;
        }
        Ok(output.flush()?)
    }
}

fn print(status: &Status, is_wide: bool, output: &mut Output<'_>) -> Result<(), CliError> {
    let Status { version, pid, uptime_seconds, generation, plugins, sessions, watched, log, .. } = status;
    let uptime = humantime::format_duration(Duration::from_secs(*uptime_seconds));
    let readiness = if status.ready { "ready" } else { "not ready" };
    output.line(&format!("{readiness}: mcp-host {}, process {pid}, up {uptime}", escape::line(version)))?;
    for reason in &status.not_ready {
        output.prose(&format!("  {reason}"))?;
    }
    if let Some(failure) = &status.reload_failure {
        output.prose(&format!("the last reload failed at {}: {}", failure.time, failure.reason))?;
    }
    if let Some(file) = &status.config_file {
        output.line(&format!("config    {}, generation {generation}", escape::line(file)))?;
    }
    let [sessions, resources] =
        [(*sessions, "session"), (watched.resources, "watched resource")].map(|(count, noun)| counted(count, noun));
    output.line(&format!("clients   {sessions}, {resources}"))?;
    if let Some(audit) = &status.audit {
        print_audit(audit, output)?;
    }
    for (plugin, reason) in &status.search_failures {
        output.prose(&format!("search    {plugin} is not completely indexed: {reason}"))?;
    }
    if let Some(cluster) = &status.cluster {
        print_cluster(cluster, output)?;
    }
    if let (Some(filter), Some(until), Some(by)) = (&log.filter, &log.until, &log.by) {
        let [filter, until, by] = [filter, until, by].map(|text| escape::line(text));
        output.line(&format!("log       {filter} until {until}, set by {by}"))?;
    }
    if is_wide {
        print_wide(&plugins.items, output)?;
    } else {
        Table::always_with_headings(HEADER).print(plugins.items.iter().map(row).collect(), output)?;
    }
    plugins.items.iter().try_for_each(|plugin| print_reason(plugin, output))?;
    plugins.items.iter().try_for_each(|plugin| print_warnings(plugin, output))?;
    let built_in: Vec<_> = plugins.items.iter().filter(|plugin| is_built_in(plugin)).map(|one| &*one.name).collect();
    if !built_in.is_empty() {
        output.prose(&format!("built in: {}", built_in.join(", ")))?;
    }
    if plugins.items.iter().any(is_untried) {
        output.prose("untried: loaded, and has answered no call yet; `mcp-host check` tries plugins")?;
    }
    if plugins.items.len() < plugins.total {
        output.line(&format!("the first {} of {} plugins", plugins.items.len(), plugins.total))?;
    }
    Ok(())
}

/// Prints that the audit log cannot be written, and its losses; nothing if no line was lost.
fn print_audit(audit: &AuditStatus, output: &mut Output<'_>) -> Result<(), CliError> {
    let AuditStatus { file, failure, refuses, dropped_lines, refused_requests } = audit;
    let lost = counted_u64(*dropped_lines, "line");
    if let Some(AuditFailureView { since, reason }) = failure {
        let file = file.as_deref().unwrap_or("standard error");
        output.prose(&format!("audit     {file} has not been written since {since}: {reason}"))?;
        let then = match refuses {
            true => format!("requests are refused until then: {refused_requests} so far"),
            false => format!("{lost} lost so far; more are when the queue is full"),
        };
        output.prose(&format!("  {then}; free space on its disk"))?;
    } else if *dropped_lines > 0 {
        output.prose(&format!("audit     {lost} lost since the start, when it could not be written"))?;
    }
    Ok(())
}

fn counted_u64(count: u64, noun: &str) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), noun)
}

/// Prints the cluster: one line, and one for each replica that needs attention.
fn print_cluster(cluster: &ClusterView, output: &mut Output<'_>) -> Result<(), CliError> {
    let ClusterView { name, hears, live, rate_divisor, replicas, .. } = cluster;
    let here = replicas.items.iter().find(|replica| replica.this).map_or(0, |replica| replica.leases);
    let [name, live, here] = [escape::line(name).to_string(), counted_u32(*live), counted(here, "lease")];
    if *hears {
        output.line(&format!("cluster   {name}: {live} alive, {here} held here"))?;
    } else {
        output.line(&format!("cluster   {name}: NATS is not heard"))?;
        output.prose(&format!(
            "  this replica polls for itself, and divides rates by {rate_divisor}, as before; which others are alive is not known"
        ))?;
    }
    for replica in &replicas.items {
        let ReplicaView { id, machine, pid, silent_ms, .. } = replica;
        let which = format!("  replica {} on {}, process {pid}", escape::line(id), escape::line(machine));
        if !replica.alive {
            let silent = humantime::format_duration(Duration::from_secs(silent_ms / 1000));
            output.prose(&format!("{which} has been silent for {silent}"))?;
        } else if replica.differs || replica.cursor_key_differs {
            let what = match (replica.differs, replica.cursor_key_differs) {
                (true, true) => "another config and another `server.cursor-key`",
                (true, false) => "another config",
                _ => "another `server.cursor-key`: cursors of one are not valid at the other",
            };
            output.prose(&format!("{which} has {what}"))?;
        }
    }
    Ok(())
}

fn counted_u32(replicas: u32) -> String {
    counted(usize::try_from(replicas).unwrap_or(usize::MAX), "replica")
}

/// A number with its noun: `1 session`, `2 sessions`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Prints all columns. On a terminal on which they do not fit, first the limits of memory are left out, then the
/// medians.
fn print_wide(plugins: &[PluginStatus], output: &mut Output<'_>) -> io::Result<()> {
    let rows = |memory: fn(&Memory) -> String| plugins.iter().map(|one| wide_row(one, memory)).collect::<Vec<_>>();
    let mut table = Table::always_with_headings(WIDE_HEADER);
    for rows in [rows(of_limit), rows(in_percent)] {
        if table.fits(&rows, output) {
            return table.print(rows, output);
        }
    }
    let without_median = |[name, mount, state, rate, _, p99, memory, faults, hits, watched]: [Cell; 10]| {
        [name, mount, state, rate, p99, memory, faults, hits, watched]
    };
    let rows = rows(in_percent).into_iter().map(without_median).collect();
    Table::always_with_headings(NARROW_WIDE_HEADER).print(rows, output)
}

fn row(plugin: &PluginStatus) -> [Cell; 7] {
    let memory = plugin.memory.as_ref().map(in_percent);
    [
        Cell::text(&plugin.name),
        state_or_untried(plugin),
        Cell::optional(plugin.recent.as_ref().map(rate).as_deref()),
        duration_cell(plugin, |recent| recent.p99_us),
        Cell::optional(memory.as_deref()),
        faults(plugin),
        Cell::text(&plugin.watched.to_string()),
    ]
}

fn wide_row(plugin: &PluginStatus, memory: fn(&Memory) -> String) -> [Cell; 10] {
    [
        Cell::text(&plugin.name),
        Cell::verbatim(&plugin.mount),
        state_or_untried(plugin),
        Cell::optional(plugin.recent.as_ref().map(rate).as_deref()),
        duration_cell(plugin, |recent| recent.p50_us),
        duration_cell(plugin, |recent| recent.p99_us),
        Cell::optional(plugin.memory.as_ref().map(memory).as_deref()),
        faults(plugin),
        Cell::optional(hits(&plugin.cache).as_deref()),
        Cell::text(&plugin.watched.to_string()),
    ]
}

fn duration_cell(plugin: &PluginStatus, of: fn(&RecentCalls) -> Option<u64>) -> Cell {
    Cell::optional(plugin.recent.as_ref().and_then(of).map(duration).as_deref())
}

fn faults(plugin: &PluginStatus) -> Cell {
    match plugin.faults.values().copied().fold(0, u64::saturating_add) {
        0 => Cell::text("0"),
        faults => Cell::warning(&faults.to_string()),
    }
}

fn percent(memory: &Memory) -> u64 {
    memory.used.saturating_mul(100).checked_div(memory.limit).unwrap_or_default()
}

fn in_percent(memory: &Memory) -> String {
    format!("{} %", percent(memory))
}

fn of_limit(memory: &Memory) -> String {
    format!("{} % of {}", percent(memory), size(memory.limit))
}

/// A size for people.
pub(super) fn size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

/// The calls per second.
#[expect(clippy::cast_precision_loss, reason = "it is shown with one digit after the point")]
fn rate(recent: &RecentCalls) -> String {
    // A few calls within milliseconds of the start are no high rate.
    format!("{:.1}", recent.calls as f64 * 1000.0 / recent.window_ms.max(1000) as f64)
}

/// A duration with two or three digits.
fn duration(microseconds: u64) -> String {
    match Duration::from_micros(microseconds).as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds if seconds >= 0.01 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds >= 0.001 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.0} µs", seconds * 1e6),
    }
}

/// The hit ratio; `None` without lookups.
pub(super) fn hits(cache: &CacheStatus) -> Option<String> {
    let lookups = cache.hits.saturating_add(cache.misses);
    let percent = cache.hits.saturating_mul(100).checked_div(lookups)?;
    Some(format!("{percent} %"))
}

/// Prints that there are warnings about a plugin.
fn print_warnings(plugin: &PluginStatus, output: &mut Output<'_>) -> Result<(), CliError> {
    if plugin.warnings == 0 {
        return Ok(());
    }
    let (name, warnings) = (&plugin.name, counted(plugin.warnings, "warning"));
    Ok(output.prose(&format!("{name}: {warnings} about its grants and settings: see `mcp-host status {name}`"))?)
}

/// Whether a plugin is one of the host, for search and context: no config has such a name.
pub(super) fn is_built_in(plugin: &PluginStatus) -> bool {
    !plugin.configured && plugin.name.starts_with("mcp-host.")
}

/// Whether it is not known if a plugin of the config that is ready works.
pub(super) fn is_untried(plugin: &PluginStatus) -> bool {
    plugin.configured && !plugin.answered && matches!(plugin.state, PluginState::Ready {})
}

/// The state of a plugin, or that it is ready and untried.
fn state_or_untried(plugin: &PluginStatus) -> Cell {
    if is_untried(plugin) { Cell::warning("untried") } else { state(&plugin.state) }
}

/// The state of a plugin.
pub(super) fn state(state: &PluginState) -> Cell {
    match state {
        PluginState::Ready {} => Cell::ok("ready"),
        PluginState::Failing { .. } => Cell::error("failing"),
        PluginState::Loading {} => Cell::warning("loading"),
        PluginState::Failed { .. } => Cell::error("failed"),
        PluginState::Unreachable { .. } => Cell::error("unreachable"),
        PluginState::Suspended { .. } => Cell::error("suspended"),
        PluginState::Disabled { .. } => Cell::warning("disabled"),
    }
}

/// The number of failed calls among the last ones.
fn failing(failed: usize, calls: usize) -> String {
    match calls {
        0 => "failing, and not called for ten minutes;".to_owned(),
        calls => format!("{failed} of its last {calls} calls failed; failing"),
    }
}

/// If a plugin is not served, or its calls fail, prints the reason.
pub(super) fn print_reason(plugin: &PluginStatus, output: &mut Output<'_>) -> Result<(), CliError> {
    let reason = match &plugin.state {
        PluginState::Ready {} | PluginState::Loading {} => return Ok(()),
        PluginState::Failing { cause, since, reason, .. } if cause == "grant" => {
            format!("failing since {since}: {reason}")
        }
        PluginState::Failing { since, failed, calls, reason, .. } => {
            format!("{} since {since}, last: {reason}", failing(*failed, *calls))
        }
        PluginState::Failed { reason } => format!("could not be loaded: {reason}"),
        PluginState::Unreachable { since, reason } => format!("not reachable since {since}: {reason}"),
        PluginState::Suspended { retry_in_ms } => {
            let after = humantime::format_duration(Duration::from_secs(retry_in_ms.div_ceil(1000)));
            format!("its circuit breaker is open; it is probed in {after}")
        }
        PluginState::Disabled { since, by } => format!("disabled since {since} by {by}"),
    };
    Ok(output.prose(&format!("{}: {reason}", plugin.name))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_shown_per_second_and_durations_with_a_unit() {
        let recent = |calls| RecentCalls { window_ms: 60_000, calls, p50_us: None, p99_us: None };
        assert_eq!([rate(&recent(0)), rate(&recent(90)), rate(&recent(60_000))], ["0.0", "1.5", "1000.0"]);
        let at_the_start = RecentCalls { window_ms: 5, ..recent(2) };
        assert_eq!(rate(&at_the_start), "2.0");
        let shown = [0, 250, 1250, 12_500, 999_000, 1_250_000].map(duration);
        assert_eq!(shown, ["0 µs", "250 µs", "1.2 ms", "12 ms", "999 ms", "1.2 s"]);
    }

    #[test]
    fn on_a_narrow_terminal_limits_of_memory_are_left_out_and_then_medians() {
        let recent = RecentCalls { window_ms: 60_000, calls: 90, p50_us: Some(250), p99_us: Some(1250) };
        let plugin = PluginStatus {
            name: "notes".to_owned(),
            mount: "notes:///".to_owned(),
            state: PluginState::Ready {},
            answered: true,
            configured: true,
            digest: None,
            memory: Some(Memory { used: 8 << 20, limit: 64 << 20 }),
            faults: std::collections::BTreeMap::new(),
            cache: CacheStatus { hits: 2, misses: 1, responses: 0, bytes: 0, capacity: 0 },
            recent: Some(recent),
            warnings: 0,
            watched: 0,
            preparation: None,
        };
        let printed = |width| {
            let mut written = Vec::new();
            let mut output = Output::to(&mut written, Destination::Terminal).with_width(width);
            print_wide(std::slice::from_ref(&plugin), &mut output).unwrap();
            drop(output);
            String::from_utf8(written).unwrap()
        };
        for (width, shown) in [
            (None, (true, true)),
            (Some(96), (true, true)),
            (Some(95), (false, true)),
            (Some(86), (false, true)),
            (Some(85), (false, false)),
        ] {
            let printed = printed(width);
            assert_eq!((printed.contains("12 % of 64.0 MiB"), printed.contains("P50")), shown, "{width:?}\n{printed}");
        }
        assert_eq!(
            printed(Some(80)),
            "PLUGIN  MOUNT      STATE  CALLS/S  P99     MEMORY  FAULTS  CACHE HITS  WATCHED\n\
             notes   notes:///  ready  1.5      1.2 ms  12 %    0       66 %        0\n"
        );
    }

    #[test]
    fn hits_are_a_part_of_lookups() {
        let cache = |hits, misses| CacheStatus { hits, misses, responses: 0, bytes: 0, capacity: 0 };
        let shown = [cache(0, 0), cache(2, 1), cache(0, 5)].map(|cache| hits(&cache));
        assert_eq!(shown.each_ref().map(Option::as_deref), [None, Some("66 %"), Some("0 %")]);
    }
}
