//! The plugin's configuration: its `config` table.

use crate::duration;
use mcp_provider::{Config, Failure, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

const KNOWN: [&str; 9] =
    ["url", "queries", "points", "range", "refresh", "timeout", "max-series", "max-points", "max-body"];

/// The expected form of the server's address, for messages.
const SERVER: &str = "the address of a Prometheus server, such as `http://127.0.0.1:9090`";

/// The maximum number of saved queries.
const MAX_QUERIES: usize = 500;

/// The parsed config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `url`: the address of the server, without a trailing slash.
    pub(crate) url: String,
    /// `queries`: the saved queries, by name.
    pub(crate) queries: BTreeMap<String, SavedQuery>,
    /// `points`: the maximum number of points that a chosen step gives.
    pub(crate) points: u64,
    /// `range`: the default range of a series.
    pub(crate) range: Duration,
    /// `refresh`: the time to live of alerts, rules, targets and instant queries.
    pub(crate) refresh: Duration,
    /// `timeout`: the timeout of all requests of one call.
    pub(crate) timeout: Duration,
    /// `max-series`: the maximum number of series of a result.
    pub(crate) max_series: usize,
    /// `max-points`: the maximum number of points of a result.
    pub(crate) max_points: usize,
    /// `max-body`: the maximum size of a response, in bytes.
    pub(crate) max_body: usize,
}

/// A query that is listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SavedQuery {
    /// The query, in PromQL.
    pub(crate) query: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    /// The range; `None` for an instant query.
    pub(crate) range: Option<Duration>,
    /// The step; `None` to choose one.
    pub(crate) step: Option<Duration>,
}

/// A query as written in the config's table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenQuery {
    query: String,
    title: Option<String>,
    description: Option<String>,
    range: Option<String>,
    step: Option<String>,
}

impl Settings {
    /// Parses the config. Unknown keys are errors.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        config.refuse_unknown(&KNOWN)?;
        let duration = |key: &str, default: Duration| {
            Ok::<_, Failure>(config.parse_with(key, duration::EXPECTED, duration::parse)?.unwrap_or(default))
        };
        let url = config.server("url", SERVER)?.ok_or_else(|| Config::fault("url", SERVER, ""))?;
        Ok(Self {
            url,
            queries: queries(config)?,
            points: config.parse::<u64>("points")?.unwrap_or(200).clamp(1, 11_000),
            range: duration("range", Duration::from_secs(3600))?,
            refresh: duration("refresh", Duration::from_secs(15))?.max(Duration::from_secs(1)),
            timeout: duration("timeout", Duration::from_secs(4))?,
            max_series: config.parse::<usize>("max-series")?.unwrap_or(100).max(1),
            max_points: config.parse::<usize>("max-points")?.unwrap_or(50_000).max(1),
            max_body: config.size("max-body")?.unwrap_or(8 << 20).max(1),
        })
    }
}

/// Parses the saved queries.
fn queries(config: &Config) -> Result<BTreeMap<String, SavedQuery>> {
    let Some(table) = config.json("queries")? else { return Ok(BTreeMap::new()) };
    let Value::Object(table) = table else {
        let expected = "a table of queries, each a PromQL text or a table with `query`";
        return Err(Config::fault("queries", expected, table.to_string()));
    };
    if table.len() > MAX_QUERIES {
        return Err(Config::fault("queries", &format!("at most {MAX_QUERIES} queries"), table.len().to_string()));
    }
    table.into_iter().map(|(name, query)| Ok((checked_name(&name)?, saved(&name, query)?))).collect()
}

/// Returns a name, if it can be a path segment.
fn checked_name(name: &str) -> Result<String> {
    if matches!(name, "" | "." | "..") || name.contains('\0') {
        return Err(Config::fault("queries", "a name that is neither empty nor dots", name));
    }
    Ok(name.to_owned())
}

/// Parses a query: a PromQL text, or a table.
fn saved(name: &str, written: Value) -> Result<SavedQuery> {
    let table: WrittenQuery = match written {
        Value::String(query) => return Ok(SavedQuery { query, ..SavedQuery::default() }),
        Value::Object(_) => serde_json::from_value(written)
            .map_err(|error| Failure::internal(format!("config key `queries.{name}`: {error}")))?,
        other => {
            let expected = "a PromQL text or a table with `query`";
            return Err(Config::fault(&format!("queries.{name}"), expected, other.to_string()));
        }
    };
    let key = |key: &str| format!("queries.{name}.{key}");
    let duration = |name: &str, text: Option<String>| {
        text.map(|text| duration::parse(&text).ok_or_else(|| Config::fault(&key(name), duration::EXPECTED, text)))
            .transpose()
    };
    let (range, step) = (duration("range", table.range)?, duration("step", table.step)?);
    if step.is_some() && range.is_none() {
        return Err(Config::fault(&key("step"), "a `range` beside it", "none"));
    }
    if range.zip(step).is_some_and(|(range, step)| step > range) {
        let found = duration::format(step.unwrap_or_default());
        return Err(Config::fault(&key("step"), "a step of at most the range", found));
    }
    Ok(SavedQuery { query: table.query, title: table.title, description: table.description, range, step })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings> {
        let url = Some(("url", "http://127.0.0.1:9090/")).filter(|_| !pairs.iter().any(|(key, _)| *key == "url"));
        Settings::parse(&Config::from_pairs(pairs.iter().copied().chain(url)))
    }

    #[test]
    fn an_address_is_enough() {
        let settings = parse(&[]).unwrap();
        assert_eq!((settings.url.as_str(), settings.points), ("http://127.0.0.1:9090", 200));
        assert_eq!(settings.range, Duration::from_secs(3600));
        assert!(settings.queries.is_empty());
    }

    #[test]
    fn a_saved_query_is_its_text_or_a_table() {
        let queries = r#"{"up":"up","errors":{"query":"sum(e)","title":"Errors","range":"6h","step":"1m"}}"#;
        let settings = parse(&[("queries", queries)]).unwrap();
        assert_eq!(settings.queries["up"], SavedQuery { query: "up".to_owned(), ..SavedQuery::default() });
        let errors = &settings.queries["errors"];
        assert_eq!(
            (errors.title.as_deref(), errors.range, errors.step),
            (Some("Errors"), Some(Duration::from_secs(21_600)), Some(Duration::from_secs(60)))
        );
    }

    #[test]
    fn a_mistake_in_one_query_names_that_query_and_what_is_wrong_with_it() {
        for (query, expected) in [
            (r#"{"query":"up","rnage":"1h"}"#, "unknown field `rnage`, expected one of `query`, `title`"),
            (r#"{"title":"Up"}"#, "missing field `query`"),
            ("5", "expected a PromQL text or a table with `query`, found \"5\""),
        ] {
            let fault = parse(&[("queries", &format!(r#"{{"up":"up","errors":{query}}}"#))]).unwrap_err().to_string();
            assert!(fault.starts_with(&format!("internal: config key `queries.errors`: {expected}")), "{fault}");
        }
    }

    #[test]
    fn an_unknown_or_malformed_key_is_a_fault_that_names_it() {
        for (key, value) in [
            ("urll", "http://h"),
            ("url", ""),
            ("url", "ftp://h"),
            ("url", "http://"),
            ("url", "http://me:secret@h/"),
            ("url", "http://h/?a"),
            ("points", "many"),
            ("range", "long"),
            ("refresh", "1x"),
            ("max-body", "much"),
            ("queries", "[]"),
            ("queries", r#"{"":"up"}"#),
            ("queries", r#"{"a":{"query":"up","rang":"1h"}}"#),
            ("queries", r#"{"a":{"query":"up","range":"soon"}}"#),
            ("queries", r#"{"a":{"query":"up","step":"1m"}}"#),
            ("queries", r#"{"a":{"query":"up","range":"1m","step":"1h"}}"#),
        ] {
            let fault = parse(&[(key, value)]).unwrap_err().to_string();
            assert!(fault.starts_with(&format!("internal: config key `{key}")), "{fault}");
        }
    }
}
