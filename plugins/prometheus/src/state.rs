//! The state of the server: alerts, rules, targets.

use crate::api::{Client, Labels, MAX_ITEMS, Refusal};
use crate::{redact, table};
use mcp_provider::json::bounded_list;
use mcp_provider::{Contents, Entry, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::marker::PhantomData;

/// A part of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Alerts,
    Rules,
    Targets,
}

impl State {
    pub(crate) const ALL: [Self; 3] = [Self::Alerts, Self::Rules, Self::Targets];

    /// Returns the path.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Alerts => "alerts",
            Self::Rules => "rules",
            Self::Targets => "targets",
        }
    }

    /// Returns the entry for a listing.
    pub(crate) fn entry(self) -> Entry {
        let (title, description) = match self {
            Self::Alerts => ("Alerts", "The alerts that are pending or firing."),
            Self::Rules => ("Rules", "The recording and alerting rules, with their queries and their health."),
            Self::Targets => ("Targets", "The targets that are scraped, with their labels and their health."),
        };
        Entry::new(self.path(), self.path()).title(title).description(description).mime_type(table::CSV).subscribable()
    }

    /// Reads the state.
    pub(crate) fn read(self, client: &Client<'_>) -> Result<Vec<Contents>> {
        let entry = self.entry().ttl(client.settings.refresh);
        match self {
            Self::Alerts => {
                let alerts = get::<Alerts>(client, "alerts", &[])?;
                let rows = alerts.alerts.iter().map(|alert| {
                    [
                        alert.name(),
                        &alert.state,
                        &alert.active_at,
                        &alert.value,
                        &alert.labels.to_string(),
                        &alert.summary(),
                    ]
                    .map(str::to_owned)
                });
                let header = ["alert", "state", "activeAt", "value", "labels", "summary"];
                table::contents(entry, table::csv(header.map(str::to_owned), rows)?, &alerts)
            }
            Self::Rules => {
                let groups = get::<Groups>(client, "rules", &[])?;
                let rows = groups.rules().map(|(group, rule)| {
                    [&group.name, &rule.name, &rule.kind, &rule.query, &rule.health, &rule.state, &rule.last_error]
                        .map(String::to_owned)
                });
                let header = ["group", "name", "type", "query", "health", "state", "lastError"];
                table::contents(entry, table::csv(header.map(str::to_owned), rows)?, &groups)
            }
            Self::Targets => {
                let targets = get::<Targets>(client, "targets", &[("state", "active")])?;
                let rows = targets.active_targets.iter().map(|target| {
                    [
                        &target.scrape_pool,
                        &target.labels.to_string(),
                        &target.health,
                        &target.last_scrape,
                        &target.last_error,
                    ]
                    .map(String::to_owned)
                });
                let header = ["scrapePool", "labels", "health", "lastScrape", "lastError"];
                table::contents(entry, table::csv(header.map(str::to_owned), rows)?, &targets)
            }
        }
    }

    /// Returns the state whose changes are reported to subscribers, without the times and values that differ in each
    /// scrape.
    pub(crate) fn summary(self, client: &Client<'_>) -> Result<BTreeSet<(String, String)>> {
        Ok(match self {
            Self::Alerts => {
                let alerts = get::<Alerts>(client, "alerts", &[])?.alerts.into_iter();
                alerts.map(|alert| (alert.labels.to_string(), alert.state)).collect()
            }
            Self::Rules => {
                let groups = get::<Groups>(client, "rules", &[])?;
                let rules = groups.rules().map(|(group, rule)| {
                    let id = format!("{}/{}/{}{}", group.name, rule.name, rule.query, rule.labels);
                    (id, format!("{}/{}/{}", rule.health, rule.state, rule.last_error))
                });
                rules.collect()
            }
            Self::Targets => {
                let targets = get::<Targets>(client, "targets", &[("state", "active")])?.active_targets.into_iter();
                targets.map(|target| (format!("{}{}", target.scrape_pool, target.labels), target.health)).collect()
            }
        })
    }
}

fn get<T: DeserializeOwned>(client: &Client<'_>, endpoint: &str, parameters: &[(&str, &str)]) -> Result<T> {
    Ok(client.get(endpoint, parameters, &Refusal::default(), PhantomData::<T>)?.data)
}

#[derive(Debug, Deserialize, Serialize)]
struct Alerts {
    #[serde(deserialize_with = "bounded_list::<MAX_ITEMS, _, _>")]
    alerts: Vec<Alert>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Alert {
    labels: Labels,
    #[serde(default)]
    annotations: Labels,
    state: String,
    #[serde(default)]
    active_at: String,
    value: String,
}

impl Alert {
    fn name(&self) -> &str {
        self.labels.0.get("alertname").map_or("", String::as_str)
    }

    fn summary(&self) -> String {
        let annotation = ["summary", "description"].iter().find_map(|name| self.annotations.0.get(*name));
        annotation.cloned().unwrap_or_default()
    }
}

#[derive(Debug, Deserialize, Serialize)]
struct Groups {
    #[serde(deserialize_with = "bounded_list::<MAX_ITEMS, _, _>")]
    groups: Vec<Group>,
}

impl Groups {
    fn rules(&self) -> impl Iterator<Item = (&Group, &Rule)> {
        self.groups.iter().flat_map(|group| group.rules.iter().map(move |rule| (group, rule)))
    }
}

#[derive(Debug, Deserialize, Serialize)]
struct Group {
    name: String,
    #[serde(default)]
    interval: f64,
    #[serde(deserialize_with = "bounded_list::<MAX_ITEMS, _, _>")]
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    name: String,
    query: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    annotations: Labels,
    health: String,
    /// Only for alerting rules.
    #[serde(default)]
    state: String,
    #[serde(default, deserialize_with = "redact::error")]
    last_error: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Targets {
    #[serde(deserialize_with = "bounded_list::<MAX_ITEMS, _, _>")]
    active_targets: Vec<Target>,
}

/// A target, without its address and its labels before relabeling, and with only the cause of its last error, because
/// these may contain secrets.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    labels: Labels,
    scrape_pool: String,
    health: String,
    #[serde(default)]
    last_scrape: String,
    #[serde(default, deserialize_with = "redact::scrape_error")]
    last_error: String,
}
