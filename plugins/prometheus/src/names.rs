//! Names and values: metrics and labels.
//!
//! Lists of names are read only as far as needed, so a server with a million names costs as much as one with a hundred.

use crate::api::{Answer, Client, FirstItems, Labels, MAX_ITEMS, Refusal, bounded_map, encode};
use crate::matchers::selector;
use crate::table;
use crate::window::{api_seconds, millis};
use mcp_provider::json::bounded_list;
use mcp_provider::{Contents, Entry, Failure, Notice, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::time::SystemTime;

/// The maximum number of values of a label, and of the series from which a metric's labels are collected.
pub(crate) const MAX_NAMES: usize = 1000;

/// The number of example values per label of a metric.
const EXAMPLES: usize = 5;

/// The suffixes of the series of histograms and summaries. Their metadata are stored under the name without the suffix.
const SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// The beginning of a list.
#[derive(Debug)]
pub(crate) struct Beginning<T> {
    pub(crate) items: Vec<T>,
    pub(crate) has_more: bool,
}

/// Requests the beginning of a list.
pub(crate) fn list<T>(
    client: &Client<'_>,
    endpoint: &str,
    parameters: &[(&str, &str)],
    most: usize,
) -> Result<Beginning<T>>
where
    T: DeserializeOwned,
{
    let first = FirstItems::new(most);
    match client.get(endpoint, parameters, &Refusal::default(), &first) {
        Err(failure) if !first.has_more() => Err(failure),
        _ => Ok(Beginning { has_more: first.has_more(), items: first.into_items() }),
    }
}

/// Marks an entry whose content is only the beginning of Prometheus's list.
fn more(entry: Entry) -> Entry {
    entry
        .meta("prometheus/more", true)
        .notice(Notice::incomplete("Prometheus has more than the answer, which is its beginning"))
}

/// Reads the values of a label.
pub(crate) fn read_label(client: &Client<'_>, path: &str, label: &str) -> Result<Vec<Contents>> {
    let values = label_names(client, label, None, MAX_NAMES)?;
    if values.items.is_empty() {
        return Err(Failure::NotFound);
    }
    let mut entry = Entry::new(path, label).title(format!("Values of the label {label}")).ttl(client.settings.refresh);
    if values.has_more {
        entry = more(entry);
    }
    let rows = values.items.iter().map(|value| [value.as_str()]);
    table::contents(entry, table::csv(["value"], rows)?, &json!({ "label": label, "values": values.items }))
}

/// Returns values of a label, of all series or of the series that a selector matches.
pub(crate) fn label_names(
    client: &Client<'_>,
    label: &str,
    selector: Option<&str>,
    most: usize,
) -> Result<Beginning<String>> {
    // A server that decodes `%2F` before routing would resolve these segments to another endpoint.
    if label.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(Failure::invalid("expected the name of a label without `.` and `..` between slashes"));
    }
    let endpoint = format!("label/{}/values", encode(label));
    // Servers since 2.55 apply the limit.
    let limit = most.saturating_add(1).to_string();
    let mut parameters = vec![("limit", limit.as_str())];
    parameters.extend(selector.map(|selector| ("match[]", selector)));
    list(client, &endpoint, &parameters, most)
}

/// Returns whether a metric has any series.
pub(crate) fn metric_exists(client: &Client<'_>, name: &str) -> Result<bool> {
    Ok(!label_names(client, "__name__", Some(&selector(name, &[])), 1)?.items.is_empty())
}

/// The answer of `metadata`: for each metric, the metadata that its targets report.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct MetadataByName(#[serde(deserialize_with = "bounded_map")] BTreeMap<String, MetadataOfTargets>);

#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct MetadataOfTargets(#[serde(deserialize_with = "bounded_list::<MAX_ITEMS, _, _>")] Vec<Metadata>);

/// Metadata of a metric.
#[derive(Debug, Default, Clone, Deserialize)]
struct Metadata {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    help: String,
    #[serde(default)]
    unit: String,
}

/// A label of a metric.
#[derive(Debug, Serialize)]
struct LabelOfMetric<'a> {
    name: &'a str,
    /// The number of its values.
    values: usize,
    examples: Vec<&'a str>,
}

/// Reads the metadata and the labels of a metric.
pub(crate) fn read_metric(client: &Client<'_>, path: &str, name: &str, now: SystemTime) -> Result<Vec<Contents>> {
    let selector = selector(name, &[]);
    let start = api_seconds(millis(now.checked_sub(client.settings.range).unwrap_or(now)));
    let limit = MAX_NAMES.saturating_add(1).to_string();
    let series = |more: &[(&str, &str)]| {
        let parameters = [&[("match[]", selector.as_str()), ("limit", limit.as_str())], more].concat();
        list::<Labels>(client, "series", &parameters, MAX_NAMES)
    };
    let mut found = series(&[("start", &start)])?;
    if found.items.is_empty() {
        // The default range contains no series. Earlier ranges may.
        found = series(&[])?;
    }
    if found.items.is_empty() {
        return Err(Failure::NotFound);
    }
    let metadata = metadata(client, name)?;
    let labels: Vec<LabelOfMetric<'_>> = label_values(&found.items)
        .into_iter()
        .map(|(name, values)| LabelOfMetric {
            name,
            values: values.len(),
            examples: values.into_iter().take(EXAMPLES).collect(),
        })
        .collect();
    let rows = labels.iter().map(|label| [label.name.to_owned(), label.values.to_string(), label.examples.join(" ")]);
    let csv = table::csv(["label", "values", "examples"].map(str::to_owned), rows)?;
    let mut entry = Entry::new(path, name).title(name).ttl(client.settings.refresh);
    if !metadata.help.is_empty() {
        entry = entry.description(metadata.help.as_str());
    }
    for (key, value) in [("prometheus/type", &metadata.kind), ("prometheus/unit", &metadata.unit)] {
        if !value.is_empty() {
            entry = entry.meta(key, value.as_str());
        }
    }
    entry = entry.meta("prometheus/series", found.items.len());
    if found.has_more {
        entry = more(entry);
    }
    let value = json!({
        "metric": name, "type": metadata.kind, "help": metadata.help, "unit": metadata.unit,
        "series": found.items.len(), "more": found.has_more, "labels": labels,
    });
    table::contents(entry, csv, &value)
}

/// Returns the metadata of a metric; empty if there are none, as for results of rules.
fn metadata(client: &Client<'_>, name: &str) -> Result<Metadata> {
    let family = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix));
    for name in [Some(name), family].into_iter().flatten() {
        let seed = PhantomData::<MetadataByName>;
        let Answer { mut data, .. } = client.get("metadata", &[("metric", name)], &Refusal::default(), seed)?;
        if let Some(metadata) = data.0.remove(name).and_then(|all| all.0.into_iter().next()) {
            return Ok(metadata);
        }
    }
    Ok(Metadata::default())
}

/// Returns the labels of series, each with its values.
fn label_values(series: &[Labels]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (label, value) in series.iter().flat_map(|series| &series.0).filter(|(label, _)| *label != "__name__") {
        labels.entry(label).or_default().insert(value);
    }
    labels
}
