//! Queries: range queries and instant queries.
//!
//! A range query is a table with a row for each time and a column for each series. A cell is empty where the series has
//! no sample, because it is stale or did not exist. An instant query is a table with a row for each series and a column
//! for each label. The JSON of both has the form of Prometheus's API.

use crate::api::samples::{Bounds, QueryResult, Sample, Series};
use crate::api::{ADVICE, Answer, Client, Refusal};
use crate::duration;
use crate::route::Times;
use crate::settings::SavedQuery;
use crate::table;
use crate::window::{End, Window, align, api_seconds, choose_step, rfc3339};
use mcp_provider::{Contents, Entry, Failure, Notice, Result};
use serde::Serialize;
use serde_json::json;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

/// A query with its times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) q: &'a str,
    pub(crate) times: Times,
}

/// A rendered result.
pub(crate) struct Rendered {
    pub(crate) contents: Vec<Contents>,
    /// Whether there is no series.
    pub(crate) is_empty: bool,
}

/// The JSON of a range query, serialized without copying its samples.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RangeJson<'a> {
    query: &'a str,
    start: String,
    end: String,
    step: String,
    result_type: &'static str,
    result: &'a [Series],
}

impl<'a> Query<'a> {
    /// Returns a saved query that ends at the current time.
    pub(crate) fn saved(saved: &'a SavedQuery) -> Self {
        Self { q: &saved.query, times: Times { range: saved.range, step: saved.step, end: End::Now } }
    }

    /// Returns the time to live of the result: the step, or `refresh` for an instant query.
    pub(crate) fn freshness(self, client: &Client<'_>, now: SystemTime) -> Result<Duration> {
        Ok(self.window(client, now)?.map_or(client.settings.refresh, Window::step))
    }

    /// Returns the window of a range query; `None` for an instant query.
    fn window(self, client: &Client<'_>, now: SystemTime) -> Result<Option<Window>> {
        let Times { range, step, end } = self.times;
        match range {
            Some(range) => Window::new(range, step, end, client.settings.points, now).map(Some),
            None if step.is_some() => Err(Failure::invalid("expected a `range` beside `step`, such as `range=1h`")),
            None => Ok(None),
        }
    }

    /// Runs the query.
    pub(crate) fn read(self, client: &Client<'_>, entry: Entry, now: SystemTime) -> Result<Rendered> {
        match self.window(client, now)? {
            Some(window) => self.read_range(client, entry, window),
            None => self.read_instant(client, entry, now),
        }
    }

    fn read_range(self, client: &Client<'_>, entry: Entry, window: Window) -> Result<Rendered> {
        let histograms = Cell::new(0);
        let Answer { data, warnings } = self.run_range(client, window, &histograms)?;
        let QueryResult::Matrix(series) = data else {
            return Err(Failure::unavailable(
                "the Prometheus server answered a range query with another type of result",
            ));
        };
        let rows = rows(window, &series)?;
        let header = std::iter::once("time".to_owned()).chain(series.iter().map(|series| series.metric.to_string()));
        let csv = table::csv(
            header.collect::<Vec<_>>().iter().map(String::as_str),
            rows.iter().map(|row| row.iter().map(AsRef::as_ref)),
        )?;
        let (start, end, step) = (rfc3339(window.start), rfc3339(window.end), duration::format(window.step()));
        let entry = described(entry, &warnings, histograms.get())
            .ttl(window.step())
            .meta("prometheus/query", self.q)
            .meta("prometheus/start", start.as_str())
            .meta("prometheus/end", end.as_str())
            .meta("prometheus/step", step.as_str())
            .meta("prometheus/series", series.len());
        let value = RangeJson { query: self.q, start, end, step, result_type: "matrix", result: &series };
        Ok(Rendered { contents: table::contents(entry, csv, &value)?, is_empty: series.is_empty() })
    }

    fn run_range(self, client: &Client<'_>, window: Window, histograms: &Cell<usize>) -> Result<Answer<QueryResult>> {
        let settings = client.settings;
        let range = Duration::from_millis(window.end.saturating_sub(window.start).unsigned_abs());
        let share = settings.max_points.checked_div(settings.max_series).unwrap_or_default().max(1);
        let step = choose_step(range, u64::try_from(share).unwrap_or(u64::MAX));
        // With this step, even the maximum number of series stays within `max-points`.
        let advice = if step > window.step() {
            format!("`step={}` would do", duration::format(step))
        } else {
            ADVICE.to_owned()
        };
        let refusal = Refusal::default();
        let bounds = Bounds {
            max_series: settings.max_series,
            max_points: settings.max_points,
            refusal: &refusal,
            advice: &advice,
            histograms,
        };
        let parameters = [
            ("query", self.q),
            ("start", &api_seconds(window.start)),
            ("end", &api_seconds(window.end)),
            ("step", &api_seconds(window.step)),
            ("timeout", &timeout(client)),
        ];
        client.get("query_range", &parameters, &refusal, bounds)
    }

    fn read_instant(self, client: &Client<'_>, entry: Entry, now: SystemTime) -> Result<Rendered> {
        let histograms = Cell::new(0);
        let time = match self.times.end {
            End::Now => align(now, client.settings.refresh),
            end => end.millis(now),
        };
        let Answer { data, warnings } = self.run_instant(client, time, &histograms)?;
        let (kind, series, result) = match data {
            QueryResult::Vector(series) => {
                let result =
                    series.iter().map(|series| json!({ "metric": series.metric, "value": series.values.first() }));
                let result = result.collect::<serde_json::Value>();
                ("vector", series, result)
            }
            QueryResult::Scalar(sample) => {
                let result = json!(sample);
                ("scalar", vec![Series { metric: Default::default(), values: vec![sample] }], result)
            }
            other => return Err(no_instant(&other)),
        };
        let entry = described(entry, &warnings, histograms.get())
            .ttl(client.settings.refresh)
            .meta("prometheus/query", self.q)
            .meta("prometheus/end", rfc3339(time))
            .meta("prometheus/series", series.len());
        let value = json!({ "query": self.q, "end": rfc3339(time), "resultType": kind, "result": result });
        Ok(Rendered { contents: table::contents(entry, instant_csv(&series)?, &value)?, is_empty: series.is_empty() })
    }

    /// Runs an instant query.
    fn run_instant(self, client: &Client<'_>, time: i64, histograms: &Cell<usize>) -> Result<Answer<QueryResult>> {
        let settings = client.settings;
        let refusal = Refusal::default();
        let bounds = Bounds {
            max_series: settings.max_series,
            max_points: settings.max_points,
            refusal: &refusal,
            advice: "expected an instant vector; a function such as `rate(…)` makes one of a range vector",
            histograms,
        };
        let parameters = [("query", self.q), ("time", &api_seconds(time)), ("timeout", &timeout(client))];
        client.get("query", &parameters, &refusal, bounds)
    }

    /// Returns the values at a time, sorted by labels.
    pub(crate) fn values_at(self, client: &Client<'_>, time: i64) -> Result<BTreeSet<(String, String)>> {
        match self.run_instant(client, time, &Cell::new(0))?.data {
            QueryResult::Vector(series) => Ok(series
                .into_iter()
                .filter_map(|series| Some((series.metric.to_string(), series.values.into_iter().next()?.value)))
                .collect()),
            QueryResult::Scalar(sample) => Ok([(String::new(), sample.value)].into()),
            other => Err(no_instant(&other)),
        }
    }
}

/// Returns the failure for the result of an instant query that is neither a vector nor a scalar.
fn no_instant(result: &QueryResult) -> Failure {
    let found = if *result == QueryResult::Text { "a string" } else { "a range vector" };
    Failure::invalid(format!(
        "expected a query for an instant vector or a scalar, found {found}; for a time series, add `range=1h` to a query \
         without `[…]`, or use a function such as `rate(…)`"
    ))
}

/// Returns the rows of a range query. There is no row for a time without samples.
fn rows(window: Window, series: &[Series]) -> Result<Vec<Vec<Cow<'_, str>>>> {
    let mut rows: BTreeMap<usize, Vec<Cow<'_, str>>> = BTreeMap::new();
    let new_row = |time: i64| {
        let empty = std::iter::repeat_n(Cow::Borrowed(""), series.len());
        std::iter::once(Cow::from(rfc3339(time))).chain(empty).collect()
    };
    for (column, one) in (1_usize..).zip(series) {
        for Sample { time, value } in &one.values {
            let index = window.index(*time).ok_or_else(|| {
                Failure::unavailable(format!(
                    "the Prometheus server returned a sample at {}, which is none of the times that were asked for",
                    rfc3339(*time)
                ))
            })?;
            let row = rows.entry(index).or_insert_with(|| new_row(*time));
            if let Some(cell) = row.get_mut(column) {
                *cell = value.as_str().into();
            }
        }
    }
    Ok(rows.into_values().collect())
}

/// Writes a vector: a column for each label, and the value.
fn instant_csv(series: &[Series]) -> Result<String> {
    let labels: BTreeSet<&str> = series.iter().flat_map(|series| series.metric.0.keys().map(String::as_str)).collect();
    let rows = series.iter().map(|series| {
        let cells = labels.iter().map(|label| series.metric.0.get(*label).map_or("", String::as_str));
        cells.chain([series.values.first().map_or("", |sample| sample.value.as_str())]).collect::<Vec<_>>()
    });
    table::csv(labels.iter().copied().chain(["value"]).collect::<Vec<_>>(), rows)
}

fn described(entry: Entry, warnings: &[String], histograms: usize) -> Entry {
    let entry = warnings.iter().fold(entry, |entry, warning| entry.notice(Notice::incomplete(warning.as_str())));
    let entry = if warnings.is_empty() { entry } else { entry.meta("prometheus/warnings", warnings) };
    if histograms == 0 {
        return entry;
    }
    let notice = Notice::incomplete(format!("{histograms} native histograms, which have no value, were left out"));
    entry.meta("prometheus/native-histograms-omitted", histograms).notice(notice)
}

/// Returns the parameter `timeout`, after which Prometheus cancels the query.
fn timeout(client: &Client<'_>) -> String {
    format!("{}ms", client.time_left().as_millis().max(1))
}
