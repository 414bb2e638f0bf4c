//! One plugin in full detail.

use std::time::Duration;

use mcp_host_server::admin_api::{
    BucketView, GrantsView, LimitsView, PluginConfig, PluginDetails, PluginLoads, PluginLogLine, PluginStatus,
    PreparationView, ProgramView, ProgramsView, RequirementView, SearchView, UsageView,
};

use super::{duration, hits, is_built_in, is_untried, of_limit, print_reason, rate, size};
use crate::error::CliError;
use crate::escape;
use crate::output::Output;

/// The maximum number of printed log lines.
const LOG_LINES: usize = 10;

/// Prints a plugin: one line for each property, with its name in front.
pub(super) fn print(details: &PluginDetails, output: &mut Output<'_>) -> Result<(), CliError> {
    let PluginDetails { status, loads, config, usage, search, programs, requirements, unmet, warnings, log } = details;
    let mut lines = of_status(status);
    lines.extend(usage.iter().flat_map(of_usage));
    lines.push(("loads", of_loads(loads)));
    lines.extend(programs.iter().flat_map(of_programs));
    lines.extend(config.iter().flat_map(|config| of_config(config, programs.as_ref())));
    lines.extend(of_requirements(requirements));
    lines.extend(search.iter().map(|search| ("search", of_search(search))));
    // A setting that the provider does not accept is a warning, too.
    let unmet = unmet.iter().filter(|unmet| !warnings.contains(unmet));
    lines.extend(unmet.map(|unmet| ("unmet", unmet.clone())));
    lines.extend(warnings.iter().map(|warning| ("warning", warning.clone())));
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
    let PluginLogLine { time, level, text, times } = line;
    let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
    output.line(&format!("{:<10} {time} {level} {}{times}", "log", escape::line(text)))?;
    Ok(())
}

/// Capabilities that are missing in the grants, or granted and not used.
fn of_requirements(requirements: &[RequirementView]) -> impl Iterator<Item = (&'static str, String)> {
    let odd = requirements.iter().filter(|requirement| ["missing", "unused"].contains(&requirement.status.as_str()));
    odd.map(|RequirementView { capability, status, .. }| ("imports", format!("{capability}: {status}")))
}

fn of_status(status: &PluginStatus) -> Vec<(&'static str, String)> {
    let PluginStatus { name, mount, state, digest, memory, faults, cache, recent, watched, preparation, .. } = status;
    let mut lines = vec![("plugin", name.clone()), ("state", state.name().to_owned()), ("mount", mount.clone())];
    if is_built_in(status) {
        lines.push(("built in", "a plugin of the host, which the config does not declare".to_owned()));
    }
    if is_untried(status) {
        lines.push(("untried", "it has answered no call yet; `mcp-host check` tries it".to_owned()));
    }
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
    lines.extend(preparation.iter().map(|preparation| ("prepared", of_preparation(preparation))));
    lines
}

/// The progress of a preparation: `running, 42 %: 2100 of 5000 events; 3.1 s of 60 s CPU time in 12 calls`.
fn of_preparation(preparation: &PreparationView) -> String {
    let PreparationView { state, since: _, percent, message, reason, calls, cpu_ms, cpu_limit_ms } = preparation;
    let percent = percent.map(|percent| format!(", {percent} %")).unwrap_or_default();
    let text = reason.as_ref().or(message.as_ref()).map(|text| format!(": {text}")).unwrap_or_default();
    let Some(limit) = cpu_limit_ms else {
        return format!("{state}{percent}{text}: the config has no `limits.prepare` for it");
    };
    let calls = if *calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
    format!("{state}{percent}{text}; {} of {} CPU time in {calls}", millis(*cpu_ms), millis(*limit))
}

/// The number of successful and failed loads since the start of the server.
fn of_loads(loads: &PluginLoads) -> String {
    let failed = loads.failed.iter().map(|(reason, count)| format!("{count} failed ({reason})"));
    [loads.succeeded.to_string()].into_iter().chain(failed).collect::<Vec<_>>().join(", ")
}

/// A line for the calls, and one for each bucket.
fn of_usage(usage: &UsageView) -> Vec<(&'static str, String)> {
    let UsageView { running, concurrency, waiting, queue, buckets } = usage;
    let mut lines = vec![("running", format!("{running} of {concurrency} calls; {waiting} of {queue} wait"))];
    lines.extend(buckets.iter().map(|bucket| {
        let BucketView { name, bytes, max_bytes, keys, max_keys } = bucket;
        ("bucket", format!("{name}: {} of {}, {keys} of {max_keys} keys", size(*bytes), size(*max_bytes)))
    }));
    lines
}

/// A line for each program, and one for the last exit of any program.
fn of_programs(programs: &ProgramsView) -> Vec<(&'static str, String)> {
    let mut lines: Vec<_> = programs.programs.iter().map(|program| ("program", of_program(program))).collect();
    if let Some(end) = &programs.last_end {
        let ends: Vec<_> = programs.ends.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        lines.push(("ended", format!("{} at {}; ends by reason: {}", end.text, end.time, ends.join(", "))));
    }
    lines
}

fn of_program(program: &ProgramView) -> String {
    let ProgramView { process, state, started, restarts, memory, cpu_ms, processes, .. } = program;
    let of = |limit: Option<String>| limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    let mut parts = vec![match process {
        Some(process) => format!("{state}, process {process}"),
        None => state.clone(),
    }];
    parts.push(format!("started {started}"));
    parts.push(format!("{restarts} restart{}", if *restarts == 1 { "" } else { "s" }));
    parts.extend(memory.map(|memory| format!("memory {}{}", size(memory), of(program.memory_limit.map(size)))));
    parts.extend(cpu_ms.map(|cpu| format!("cpu {}{}", millis(cpu), of(program.cpu_limit_ms.map(millis)))));
    let limit = program.processes_limit.map(|limit| limit.to_string());
    parts.extend(processes.map(|count| format!("processes and threads {count}{}", of(limit))));
    parts.join(", ")
}

fn of_config(config: &PluginConfig, programs: Option<&ProgramsView>) -> Vec<(&'static str, String)> {
    let PluginConfig { component, required, watch_interval_ms, config_keys, grants, limits, .. } = config;
    // A component is a file: in its place an upstream has a URL or a program.
    let is_url = ["http://", "https://"].into_iter().any(|scheme| component.starts_with(scheme));
    let limits = if is_url || programs.is_some() { of_upstream_limits(limits, programs) } else { of_limits(limits) };
    let mut lines = vec![
        ("component", component.clone()),
        ("required", if *required { "yes" } else { "no" }.to_owned()),
        ("polled", format!("every {}", millis(*watch_interval_ms))),
        ("limits", limits.join(", ")),
    ];
    lines.extend(of_grants(grants).into_iter().map(|grant| ("grant", grant)));
    if !config_keys.is_empty() {
        lines.push(("config", config_keys.join(", ")));
    }
    lines
}

fn of_limits(limits: &LimitsView) -> Vec<String> {
    let LimitsView { handles, files, random_bytes, http, prepare, .. } = limits;
    let mut texts = of_common_limits(limits);
    texts.extend([
        format!("handles {handles}"),
        format!("files {files}"),
        format!("random-bytes {}", size(*random_bytes)),
        format!("http.concurrency {}", http.concurrency),
        format!("http.rate {}", http.rate),
        format!("http.headers {}", size(http.headers)),
        format!("http.body {}", size(http.body)),
        format!("http.timeout {}", millis(http.timeout_ms)),
    ]);
    texts.extend(prepare.iter().flat_map(|prepare| {
        [format!("prepare.cpu {}", millis(prepare.cpu_ms)), format!("prepare.memory {}", size(prepare.memory))]
    }));
    texts
}

/// The limits of an upstream, which is no instance of a component.
fn of_upstream_limits(limits: &LimitsView, programs: Option<&ProgramsView>) -> Vec<String> {
    let cpu = programs.iter().flat_map(|programs| &programs.programs).find_map(|program| program.cpu_limit_ms);
    let mut texts = of_common_limits(limits);
    texts.extend(cpu.map(|cpu| format!("program-cpu {}", millis(cpu))));
    texts
}

/// The limits that components and upstreams have.
fn of_common_limits(limits: &LimitsView) -> Vec<String> {
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
        listing_items,
        log,
        ..
    } = limits;
    vec![
        format!("memory {}", size(*memory)),
        format!("cpu {}", millis(*cpu_ms)),
        format!("deadline {}", millis(*deadline_ms)),
        format!("concurrency {concurrency}"),
        format!("queue {queue}"),
        format!("queue-timeout {}", millis(*queue_timeout_ms)),
        format!("rate {rate}"),
        format!("response-size {}", size(*response_size)),
        format!("response-items {response_items}"),
        format!("listing-items {listing_items}"),
        format!("log {log}"),
    ]
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
    let SearchView { documents, bytes, complete, gaps, role, .. } = search;
    let state = if *complete { "complete".to_owned() } else { gaps.join("; ") };
    let role = match role.as_str() {
        "unshared" => String::new(),
        role => format!("; shared with replicas: {role}"),
    };
    format!("{documents} resources, {} of text; {state}{role}", size(*bytes))
}

fn millis(milliseconds: u64) -> String {
    humantime::format_duration(Duration::from_millis(milliseconds)).to_string()
}
