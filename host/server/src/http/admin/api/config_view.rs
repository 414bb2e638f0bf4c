//! The config, as the API shows it: without possible secrets.

use std::time::Duration;

use mcp_host_base::time::saturating_millis;
use mcp_host_config::audit::AuditDestination;
use mcp_host_config::grants::{Grants, Mode};
use mcp_host_config::limits::Limits;
use mcp_host_config::{Config, Plugin};
use mcp_resource_host::audit::{DECISIONS, OPERATIONS, OUTCOMES};

use super::types::{
    AuditValues, ConfigView, DirView, GrantsView, GroupView, HttpLimitsView, IssuerView, LimitsView, Page,
    PluginConfig, PrepareLimitsView, RuleView, ServerView,
};

/// The config. Possible secrets are left out: values of variables and of the tables `config`, credentials, URLs of
/// databases, digests of tokens.
pub(super) fn config(config: &Config, generation: u64) -> ConfigView {
    let Config { server, http, admin, audit, plugins, principals, issuers, groups, rules, file, .. } = config;
    let mut declared: Vec<_> = plugins.iter().collect();
    declared.sort_by_key(|plugin| plugin.name.as_str());
    ConfigView {
        generation,
        file: file.as_ref().map(|file| file.display().to_string()),
        server: ServerView {
            name: server.name.clone(),
            http: server.http.map(|address| address.to_string()),
            tls: http.tls.is_some(),
            page_size: server.page_size.get(),
            response_cache: server.response_cache.bytes(),
            confine: server.confine,
            drain_delay_ms: saturating_millis(server.drain_delay.duration()),
        },
        admin: admin.as_ref().map(|admin| admin.listen.to_string()),
        audit: audit.as_ref().map(|audit| match &audit.destination {
            AuditDestination::File(file) => file.path.display().to_string(),
            AuditDestination::Stderr => "stderr".to_owned(),
        }),
        audit_values: AuditValues {
            operations: OPERATIONS.map(str::to_owned).to_vec(),
            decisions: DECISIONS.map(str::to_owned).to_vec(),
            outcomes: OUTCOMES.map(str::to_owned).to_vec(),
        },
        plugins: Page::cut(declared.into_iter().map(PluginConfig::from)),
        principals: Page::cut(principals.iter().map(|principal| principal.name.to_string())),
        issuers: Page::cut(
            issuers
                .iter()
                .map(|issuer| IssuerView { name: issuer.name.to_string(), issuer: issuer.issuer.to_string() }),
        ),
        groups: Page::cut(groups.iter().map(|group| GroupView {
            name: group.name.to_string(),
            principals: group.principals.clone(),
            groups: group.groups.clone(),
        })),
        rules: Page::cut(rules.iter().map(|rule| RuleView {
            line: rule.line.get(),
            principals: rule.principals.iter().map(|principal| principal.as_str().to_owned()).collect(),
            groups: rule.groups.clone(),
            operations: rule.operations.iter().map(ToString::to_string).collect(),
            allow: rule.allow.iter().map(ToString::to_string).collect(),
            deny: rule.deny.iter().map(ToString::to_string).collect(),
        })),
    }
}

impl From<&Plugin> for PluginConfig {
    fn from(plugin: &Plugin) -> Self {
        Self {
            name: plugin.name.to_string(),
            title: plugin.title.clone(),
            component: plugin.source(),
            mount: plugin.mount.to_string(),
            required: plugin.required,
            response_cache: plugin.response_cache,
            watch_interval_ms: saturating_millis(plugin.watch_interval.duration()),
            config_keys: plugin.config.keys().cloned().collect(),
            grants: (&plugin.grants).into(),
            limits: (&plugin.limits).into(),
        }
    }
}

impl From<&Grants> for GrantsView {
    fn from(grants: &Grants) -> Self {
        let dirs = grants.dirs.iter().map(|(guest, grant)| DirView {
            host: grant.host.display().to_string(),
            guest: guest.to_string(),
            writable: !matches!(grant.mode, Mode::ReadOnly),
        });
        Self {
            dirs: dirs.collect(),
            env: grants.env.keys().map(ToString::to_string).collect(),
            http: grants.http.iter().map(|grant| grant.origin.to_string()).collect(),
            keyvalue: grants.keyvalue.keys().map(ToString::to_string).collect(),
            sql: grants.sql.keys().map(ToString::to_string).collect(),
        }
    }
}

impl From<&Limits> for LimitsView {
    fn from(limits: &Limits) -> Self {
        let millis = |duration: Duration| saturating_millis(duration);
        let Limits {
            memory,
            cpu,
            deadline,
            concurrency,
            queue,
            queue_timeout,
            rate,
            response_size,
            response_items,
            listing_items,
            log,
            handles,
            files,
            random_bytes,
            http,
            prepare,
            // In the view of each program.
            program_cpu: _,
        } = limits;
        Self {
            memory: memory.bytes(),
            cpu_ms: millis(cpu.duration()),
            deadline_ms: millis(deadline.duration()),
            concurrency: concurrency.get(),
            queue: queue.get(),
            queue_timeout_ms: millis(queue_timeout.duration()),
            rate: rate.to_string(),
            response_size: response_size.bytes(),
            response_items: response_items.get(),
            listing_items: listing_items.get(),
            log: log.to_string(),
            handles: handles.get(),
            files: files.get(),
            random_bytes: random_bytes.bytes(),
            http: HttpLimitsView {
                concurrency: http.concurrency.get(),
                rate: http.rate.to_string(),
                headers: http.headers.bytes(),
                body: http.body.bytes(),
                timeout_ms: millis(http.timeout.duration()),
            },
            prepare: prepare.as_ref().map(|prepare| PrepareLimitsView {
                cpu_ms: millis(prepare.cpu.duration()),
                memory: prepare.memory.bytes(),
            }),
        }
    }
}
