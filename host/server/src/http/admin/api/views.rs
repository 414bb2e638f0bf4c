//! The state of the host, as the API shows it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use mcp_host_base::time::saturating_millis;
use mcp_host_model::provider::{Program, Programs};
use mcp_host_sandbox::grant_usage::BucketUsage;
use mcp_resource_host::access::Decision;
use mcp_resource_host::audit::AuditState;
use mcp_resource_host::host::{self, Explanation as HostExplanation, Host, ReloadReport};
use mcp_resource_host::metrics::ReloadFailure;
use mcp_resource_host::plugin::PluginUsage;
use mcp_resource_host::watch::{WatchStats, Watched};

use super::super::log_filter::{CurrentFilter, TemporaryFilter};
use super::super::traffic::Traffic;
use super::search::indexed;
use super::types::{
    AuditFailureView, AuditStatus, BucketView, CacheStatus, CacheView, ClusterView, ExplainedRule, Explanation,
    FailedReload, LogView, MAX_PAGE, Memory, Page, PluginCache, PluginConfig, PluginDetails, PluginLoads,
    PluginLogLine, PluginState, PluginStatus, PreparationView, ProgramEndView, ProgramView, ProgramsView, Reload,
    ReplicaView, RequirementView, SearchView, SessionView, UsageView, WatchedCounts, WatchedResource, WhoMay, WhoView,
};

/// The requested part of a list.
#[derive(Clone, Debug)]
pub(super) struct PageRequest {
    /// The items after this one.
    pub(super) after: Option<String>,
    /// The maximum number of items.
    pub(super) limit: usize,
}

/// A time in the format of RFC 3339.
pub(crate) fn time(time: SystemTime) -> String {
    // No clock returns a time outside of the calendar's years.
    let time = Timestamp::try_from(time).unwrap_or_default();
    // As in the log, which has the milliseconds, too.
    let seconds = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Floor);
    time.round(seconds).unwrap_or(time).to_string()
}

/// One page of a list that is sorted by a text key.
fn page<T>(all: impl ExactSizeIterator<Item = T>, request: &PageRequest, key: impl Fn(&T) -> &str) -> Page<T> {
    let total = all.len();
    let is_later = |item: &T| request.after.as_deref().is_none_or(|after| key(item) > after);
    let mut later = all.filter(is_later);
    let items: Vec<_> = later.by_ref().take(request.limit).collect();
    let next = later.next().and_then(|_| items.last().map(|last| key(last).to_owned()));
    Page { items, total, next }
}

pub(super) fn plugins(host: &Host, traffic: &Traffic, request: &PageRequest) -> Page<PluginStatus> {
    let mut recent = traffic.recent(host);
    let plugins = host.plugins().into_iter().map(|plugin| {
        let recent = recent.remove(&plugin.name);
        PluginStatus { recent, ..PluginStatus::from(plugin) }
    });
    page(plugins, request, |plugin| plugin.name.as_str())
}

/// The details of a plugin. None if there is no plugin with this name.
pub(super) async fn plugin(host: &Host, traffic: &Traffic, name: &str) -> Option<PluginDetails> {
    let status = host.plugins().into_iter().find(|plugin| plugin.name == name)?;
    let status = PluginStatus { recent: traffic.recent(host).remove(name), ..status.into() };
    let config = host.config();
    let config = config.plugins.iter().find(|plugin| plugin.name.as_str() == name).map(PluginConfig::from);
    let (succeeded, failed) = host.loads_of(name);
    let failed = failed.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
    let loads = PluginLoads { succeeded, failed };
    let search = indexed(host).into_iter().find(|indexed| indexed.plugin == name);
    let usage = match host.usage(name) {
        Some(usage) => Some(used(usage, host.bucket_usage(name).await)),
        None => None,
    };
    let programs = host.programs(name).map(ProgramsView::from);
    let requirements = host.requirements(name).await;
    let requirements = requirements.iter().map(|requirement| RequirementView {
        capability: requirement.capability.name().to_owned(),
        status: requirement.status.name().to_owned(),
        granted: requirement.granted.clone(),
    });
    let requirements = requirements.collect();
    let log = host.recent_log(name).into_iter().map(|line| PluginLogLine {
        time: time(line.time),
        level: line.level.to_owned(),
        text: line.text,
        times: line.times,
    });
    // A plugin that is not loaded has no log of its own.
    let load_failure = match (&status.state, host.last_load_failure(name)) {
        (PluginState::Failed { reason }, Some(at)) => {
            let text = format!("could not be loaded: {reason}");
            Some(PluginLogLine { time: time(at), level: "error".to_owned(), text, times: 1 })
        }
        _ => None,
    };
    let log = log.chain(load_failure).collect();
    let unmet = host.unmet_needs(name).await;
    let warnings = host.plugin_warnings(name).await;
    Some(PluginDetails { status, loads, config, usage, search, programs, requirements, unmet, warnings, log })
}

fn used(usage: PluginUsage, buckets: Vec<BucketUsage>) -> UsageView {
    let PluginUsage { running, waiting, concurrency, queue, .. } = usage;
    let buckets = buckets.into_iter().map(|BucketUsage { name, keys, bytes, max_keys, max_bytes }| BucketView {
        name,
        bytes,
        max_bytes,
        keys,
        max_keys,
    });
    UsageView { running, concurrency, waiting, queue, buckets: buckets.collect() }
}

pub(super) fn sessions(host: &Host, request: &PageRequest) -> Result<Page<SessionView>, String> {
    let after = match &request.after {
        None => 0,
        Some(after) => after.parse().map_err(|_| format!("`after` is not the number of a session: {after}"))?,
    };
    let mut found = host.sessions(after, request.limit.saturating_add(1));
    let has_more = found.len() > request.limit;
    found.truncate(request.limit);
    let next = found.last().filter(|_| has_more).map(|(number, _)| number.to_string());
    let items = found.into_iter().map(|(number, session)| SessionView {
        number,
        principal: session.principal,
        session: session.hash.map(|hash| hash.to_string()),
        revision: session.revision.to_owned(),
        opened: time(session.opened),
    });
    Ok(Page { items: items.collect(), total: host.session_count(), next })
}

pub(super) fn watched_counts(host: &Host) -> WatchedCounts {
    let WatchStats { subscribers, resources, plugins, .. } = host.watch_stats();
    let (updates, listing_updates) = host.updates_taken();
    WatchedCounts { subscribers, resources, plugins, updates, listing_updates }
}

pub(super) fn watched_resources(host: &Host, request: &PageRequest) -> Page<WatchedResource> {
    let mut found = host.watched_resources(request.after.as_deref(), request.limit.saturating_add(1));
    let has_more = found.len() > request.limit;
    found.truncate(request.limit);
    let next = found.last().filter(|_| has_more).map(|watched| watched.uri.to_string());
    let items = found.into_iter().map(|Watched { uri, subscribers, unheard, views, principals, .. }| WatchedResource {
        uri: uri.as_str().to_owned(),
        subscribers,
        unheard,
        views,
        principals,
    });
    Page { items: items.collect(), total: host.watch_stats().resources, next }
}

pub(super) fn cache(host: &Host, request: &PageRequest) -> CacheView {
    let plugins: Vec<_> = host
        .plugins()
        .into_iter()
        .map(|plugin| PluginCache { cache: CacheStatus::from(&plugin), plugin: plugin.name })
        .collect();
    CacheView {
        capacity: host.config().server.response_cache.bytes(),
        bytes: plugins.iter().map(|plugin| plugin.cache.bytes).fold(0, u64::saturating_add),
        plugins: page(plugins.into_iter(), request, |plugin| plugin.plugin.as_str()),
    }
}

/// The cluster that the host is a replica of. None without a cluster.
pub(super) fn cluster(host: &Host, request: &PageRequest) -> Option<ClusterView> {
    let host::ClusterView { name, hears, live, divisor, differing, differing_cursor_keys, replicas, stats, .. } =
        host.cluster()?;
    let replicas = replicas.into_iter().map(|replica| {
        let host::ReplicaView { replica, is_me, silent, is_alive, has_other_config, has_other_cursor_key, about } =
            replica;
        let host::About { config, version, machine, process, leases, named_leases, .. } = about;
        ReplicaView {
            id: replica.to_string(),
            this: is_me,
            alive: is_alive,
            silent_ms: saturating_millis(silent),
            version,
            machine,
            pid: process,
            config,
            differs: has_other_config,
            cursor_key_differs: has_other_cursor_key,
            leases,
            leased_plugins: named_leases,
        }
    });
    let replicas = page(replicas, request, |replica| replica.id.as_str());
    Some(ClusterView {
        name,
        hears,
        live: live.get(),
        rate_divisor: divisor.get(),
        differing,
        differing_cursor_keys,
        cache_drops: stats.dropped_all,
        replicas,
    })
}

pub(super) fn search(host: &Host, request: &PageRequest) -> Page<SearchView> {
    page(indexed(host).into_iter(), request, |indexed| indexed.plugin.as_str())
}

/// The warnings about the served config, at most one page: those about each plugin, with its name in front, then those
/// about the config as a whole.
pub(super) async fn config_warnings(host: &Host) -> Page<String> {
    let mut items = Vec::new();
    let mut total: usize = 0;
    for plugin in host.plugins() {
        let warnings = host.plugin_warnings(&plugin.name).await;
        total = total.saturating_add(warnings.len());
        let room = MAX_PAGE.saturating_sub(items.len());
        items.extend(warnings.iter().take(room).map(|warning| format!("{}: {warning}", plugin.name)));
    }
    let room = MAX_PAGE.saturating_sub(items.len());
    let (of_config, others) = host.config_warnings(room).await;
    total = total.saturating_add(of_config.len()).saturating_add(others);
    items.extend(of_config.iter().map(ToString::to_string));
    Page { items, total, next: None }
}

pub(super) fn log(filter: Option<&TemporaryFilter>) -> LogView {
    let Some(CurrentFilter { filter, temporary }) = filter.map(TemporaryFilter::current) else {
        return LogView { filter: None, until: None, by: None };
    };
    let (until, by) = temporary.map(|(until, by)| (time(until), by)).unzip();
    LogView { filter: Some(filter), until, by }
}

pub(super) fn audit(state: AuditState) -> AuditStatus {
    let failure = state.failure.map(|failure| AuditFailureView { since: time(failure.since), reason: failure.reason });
    AuditStatus {
        file: state.file.map(|file| file.display().to_string()),
        failure,
        refuses: state.refuses,
        dropped_lines: state.dropped_lines,
        refused_requests: state.refused_requests,
    }
}

pub(super) fn reload_failure(failure: ReloadFailure) -> FailedReload {
    FailedReload { time: time(failure.at), reason: failure.reason }
}

pub(super) fn reload(host: &Host, report: ReloadReport) -> Reload {
    Reload {
        generation: report.generation,
        served_ms: saturating_millis(host.config_served_for()),
        changed: !report.is_unchanged(),
        settings_changed: report.changed_settings().map(str::to_owned).collect(),
        would_fail: report.would_fail(),
        plugins_failing: report.failing,
        changed_keys: report
            .changed_keys
            .into_iter()
            .map(|(plugin, keys)| (plugin, keys.into_iter().map(str::to_owned).collect()))
            .collect(),
        plugins_added: report.added,
        plugins_changed: report.changed,
        plugins_removed: report.removed,
        requires_restart: report.requires_restart.into_iter().map(str::to_owned).collect(),
        elapsed_ms: saturating_millis(report.elapsed),
    }
}

fn explained_rule(decision: &Decision, line: Option<usize>) -> Option<ExplainedRule> {
    decision.glob().map(|glob| ExplainedRule {
        number: glob.rule.saturating_add(1),
        line,
        key: if decision.is_allowed() { "allow" } else { "deny" }.to_owned(),
        glob: glob.glob.to_string(),
    })
}

pub(super) fn who_may(found: host::WhoMay, operation: &str) -> WhoView {
    let page = |judged: Vec<host::Judged>| {
        Page::cut(judged.into_iter().map(|judged| WhoMay {
            kind: judged.party.kind().to_owned(),
            name: judged.party.name().map(str::to_owned),
            decided: judged.decided.to_string(),
            rule: explained_rule(&judged.decision, judged.line),
        }))
    };
    WhoView {
        uri: found.uri.as_str().to_owned(),
        plugin: found.plugin,
        operation: operation.to_owned(),
        served: found.served.name().to_owned(),
        served_at: found.served.at().map(|uri| uri.as_str().to_owned()),
        allowed: page(found.allowed),
        denied: page(found.denied),
        cut: found.is_cut,
    }
}

pub(super) fn explanation(found: HostExplanation, principal: &str, operation: &str) -> Explanation {
    let rule = explained_rule(&found.decision, found.line);
    Explanation {
        allowed: found.is_allowed(),
        served: found.served.name().to_owned(),
        served_at: found.served.at().map(|uri| uri.as_str().to_owned()),
        principal: principal.to_owned(),
        groups: found.groups,
        operation: operation.to_owned(),
        decided: found.decided.to_string(),
        scopes: found.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        uri: found.uri.as_str().to_owned(),
        plugin: found.plugin,
        path: found.path.as_str().to_owned(),
        rule,
    }
}

impl From<host::PluginStatus> for PluginStatus {
    fn from(status: host::PluginStatus) -> Self {
        let faults: BTreeMap<_, _> =
            status.faults.iter().map(|(kind, count)| (kind.name().to_owned(), *count)).collect();
        Self {
            cache: CacheStatus::from(&status),
            state: (&status.state).into(),
            mount: status.mount.to_string(),
            answered: status.has_answered,
            configured: status.is_configured,
            digest: status.digest.map(|digest| digest.to_string()),
            memory: status.memory.map(|(used, limit)| Memory { used, limit }),
            faults,
            recent: None,
            warnings: status.warnings,
            watched: status.watched,
            preparation: status.preparation.map(|preparation| PreparationView {
                state: preparation.state.name().to_owned(),
                since: time(preparation.since),
                percent: preparation.percent,
                reason: preparation.state.reason().map(str::to_owned),
                message: preparation.message,
                calls: preparation.calls,
                cpu_ms: saturating_millis(preparation.cpu),
                cpu_limit_ms: preparation.cpu_limit.map(saturating_millis),
            }),
            name: status.name,
        }
    }
}

impl From<&host::PluginState> for PluginState {
    fn from(state: &host::PluginState) -> Self {
        match state {
            host::PluginState::Ready => Self::Ready {},
            host::PluginState::Failing(failing) => Self::Failing {
                cause: failing.cause.name().to_owned(),
                since: time(failing.since),
                failed: failing.failed,
                calls: failing.calls,
                reason: failing.reason.clone(),
            },
            host::PluginState::LoadFailed(error) => Self::Failed { reason: error.to_string() },
            host::PluginState::Unreachable(outage) => {
                Self::Unreachable { since: time(outage.since), reason: outage.reason.clone() }
            }
            host::PluginState::Suspended(left) => Self::Suspended { retry_in_ms: saturating_millis(*left) },
            host::PluginState::Disabled(disabled) => {
                Self::Disabled { since: time(disabled.since), by: disabled.by.clone() }
            }
            _ => Self::Loading {},
        }
    }
}

impl From<Programs> for ProgramsView {
    fn from(all: Programs) -> Self {
        Self {
            programs: all.programs.iter().map(ProgramView::from).collect(),
            starts: all.starts,
            ends: all.ends.into_iter().map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
            last_end: all.last_end.map(|end| ProgramEndView {
                time: time(end.at),
                reason: end.reason.name().to_owned(),
                text: end.text,
            }),
        }
    }
}

impl From<&Program> for ProgramView {
    fn from(program: &Program) -> Self {
        let Program { process, is_running, started, restarts, usage, limits, .. } = program;
        Self {
            process: *process,
            state: if *is_running { "running" } else { "ended" }.to_owned(),
            started: time(*started),
            restarts: *restarts,
            memory: usage.map(|usage| usage.memory),
            memory_limit: limits.memory,
            cpu_ms: usage.map(|usage| saturating_millis(usage.cpu)),
            cpu_limit_ms: limits.cpu.map(saturating_millis),
            processes: usage.map(|usage| usage.tasks),
            processes_limit: limits.tasks,
        }
    }
}

impl From<&host::PluginStatus> for CacheStatus {
    fn from(status: &host::PluginStatus) -> Self {
        Self {
            hits: status.cached_responses.hits,
            misses: status.cached_responses.misses,
            responses: status.cache_usage.responses,
            bytes: status.cache_usage.bytes,
            capacity: status.cache_usage.capacity,
        }
    }
}
