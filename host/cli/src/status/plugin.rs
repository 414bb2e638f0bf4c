//! One plugin, with all that is known of it.

use std::time::Duration;

use mcp_host_server::admin_api::{
    GrantsView, LimitsView, PluginConfig, PluginDetails, PluginLogLine, PluginStatus, RequirementView, SearchView,
};

use super::{duration, hits, of_limit, print_reason, rate, size};
use crate::error::CliError;
use crate::escape;
use crate::output::Output;

/// The number of lines of the log that are printed.
const LOG_LINES: usize = 10;

/// Prints a plugin: a line for each thing, with its name in front.
pub(super) fn print(details: &PluginDetails, output: &mut Output<'_>) -> Result<(), CliError> {
    let PluginDetails { status, config, search, requirements, log } = details;
    let mut lines = of_status(status);
    lines.extend(config.iter().flat_map(of_config));
    lines.extend(of_requirements(requirements));
    lines.extend(search.iter().map(|search| ("search", of_search(search))));
    for (label, text) in lines {
        output.line(&format!("{label:<10} {}", escape::line(&text)))?;
    }
    print_reason(status, output)?;
    if let Some(from) = log.len().checked_sub(LOG_LINES) {
        output.line(&format!("{:<10} the last {LOG_LINES} of {} lines; `--json` has all", "log", log.len()))?;
        return log.iter().skip(from).try_for_each(|line| print_log_line(line, output));
    }
    log.iter().try_for_each(|line| print_log_line(line, output))
}

fn print_log_line(line: &PluginLogLine, output: &mut Output<'_>) -> Result<(), CliError> {
    let PluginLogLine { time, level, text } = line;
    output.line(&format!("{:<10} {time} {level} {}", "log", escape::line(text)))?;
    Ok(())
}

/// What is missing of the grants, or granted and not used.
fn of_requirements(requirements: &[RequirementView]) -> impl Iterator<Item = (&'static str, String)> {
    let odd = requirements.iter().filter(|requirement| ["missing", "unused"].contains(&requirement.status.as_str()));
    odd.map(|RequirementView { capability, status, .. }| ("imports", format!("{capability}: {status}")))
}

fn of_status(status: &PluginStatus) -> Vec<(&'static str, String)> {
    let PluginStatus { name, mount, state, digest, memory, faults, cache, recent, watched, configured: _ } = status;
    let mut lines = vec![("plugin", name.clone()), ("state", state.name().to_owned()), ("mount", mount.clone())];
    lines.extend(digest.iter().map(|digest| ("digest", digest.clone())));
    lines.extend(recent.iter().map(|recent| {
        let quantile = |microseconds: Option<u64>| microseconds.map_or_else(|| "-".to_owned(), duration);
        let (p50, p99) = (quantile(recent.p50_us), quantile(recent.p99_us));
        ("calls", format!("{} a second; median {p50}, 99th percentile {p99}", rate(recent)))
    }));
    lines.extend(memory.iter().map(|memory| ("memory", of_limit(memory))));
    let of_kinds: Vec<_> = faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    lines.push(("faults", if of_kinds.is_empty() { "none".to_owned() } else { of_kinds.join(", ") }));
    let hits = hits(cache).map_or_else(String::new, |hits| format!("{hits} hits, "));
    let (bytes, capacity) = (size(cache.bytes), size(cache.capacity));
    lines.push(("cache", format!("{hits}{} responses, {bytes} of {capacity}", cache.responses)));
    lines.push(("watched", format!("{watched} resources")));
    lines
}

fn of_config(config: &PluginConfig) -> Vec<(&'static str, String)> {
    let PluginConfig { component, required, watch_interval_ms, config_keys, grants, limits, .. } = config;
    let mut lines = vec![
        ("component", component.clone()),
        ("required", if *required { "yes" } else { "no" }.to_owned()),
        ("polled", format!("every {}", millis(*watch_interval_ms))),
        ("limits", of_limits(limits)),
    ];
    lines.extend(of_grants(grants).into_iter().map(|grant| ("grant", grant)));
    if !config_keys.is_empty() {
        lines.push(("config", config_keys.join(", ")));
    }
    lines
}

fn of_limits(limits: &LimitsView) -> String {
    let LimitsView {
        memory,
        cpu_ms,
        deadline_ms,
        concurrency,
        queue,
        queue_timeout_ms,
        rate,
        response_size,
        response_items,
    } = limits;
    [
        format!("memory {}", size(*memory)),
        format!("cpu {}", millis(*cpu_ms)),
        format!("deadline {}", millis(*deadline_ms)),
        format!("concurrency {concurrency}"),
        format!("queue {queue}"),
        format!("queue-timeout {}", millis(*queue_timeout_ms)),
        format!("rate {rate}"),
        format!("response-size {}", size(*response_size)),
        format!("response-items {response_items}"),
    ]
    .join(", ")
}

fn of_grants(grants: &GrantsView) -> Vec<String> {
    let GrantsView { dirs, env, http, keyvalue, sql } = grants;
    let dirs = dirs.iter().map(|dir| {
        let mode = if dir.writable { "read and write" } else { "read-only" };
        format!("directory {} at {}, {mode}", dir.host, dir.guest)
    });
    let named = [("variable", env), ("origin", http), ("bucket", keyvalue), ("database", sql)];
    let named = named.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| format!("{kind} {name}")));
    dirs.chain(named).collect()
}

fn of_search(search: &SearchView) -> String {
    let SearchView { documents, bytes, complete, gaps, .. } = search;
    let state = if *complete { "complete".to_owned() } else { gaps.join("; ") };
    format!("{documents} resources, {} of text; {state}", size(*bytes))
}

fn millis(milliseconds: u64) -> String {
    humantime::format_duration(Duration::from_millis(milliseconds)).to_string()
}
