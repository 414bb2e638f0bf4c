//! The routes: the mapping from paths to resources.
//!
//! | path | resource |
//! |---|---|
//! | `alerts`, `rules`, `targets` | the state of the server |
//! | `saved/{name}` | a saved query |
//! | `metric/{name}` | a metric: its type, its help, its labels |
//! | `label/{name}` | the values of a label |
//! | `series/{metric}{?match,range,step,end}` | the series of a metric |
//! | `query{?q,range,step,end}` | any query |

use crate::duration;
use crate::matchers::{self, Matcher};
use crate::window::End;
use mcp_provider::{Captures, Failure, PathTemplate, Result, path};
use std::time::Duration;

pub(crate) const METRIC: &str = "metric/{name}";
pub(crate) const LABEL: &str = "label/{name}";
pub(crate) const SERIES: &str = "series/{metric}{?match,range,step,end}";
pub(crate) const QUERY: &str = "query{?q,range,step,end}";

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// Alerts that are pending or firing.
    Alerts,
    /// Recording and alerting rules.
    Rules,
    /// The targets that are scraped.
    Targets,
    /// A saved query, by its name.
    Saved(String),
    /// A metric, by its name.
    Metric(String),
    /// A label, by its name.
    Label(String),
    /// The series of a metric.
    Series { metric: String, matchers: Vec<Matcher>, times: Times },
    /// A query in PromQL.
    Query { q: String, times: Times },
}

/// The times of a query, as in the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// The range; `None` for an instant query.
    pub(crate) range: Option<Duration>,
    pub(crate) step: Option<Duration>,
    pub(crate) end: End,
}

impl Route {
    /// Parses a path, whether or not the resource exists.
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let (before, _) = path::split_query(path);
        let name = |rest: &str| path::decode_segment(rest);
        match before.split_once('/') {
            None if path == "alerts" => Ok(Self::Alerts),
            None if path == "rules" => Ok(Self::Rules),
            None if path == "targets" => Ok(Self::Targets),
            None if before == "query" => {
                let captures = captures(QUERY, path)?;
                let q = captures.get("q").filter(|q| !q.trim().is_empty());
                let q = q.ok_or_else(|| {
                    Failure::invalid("expected a query in PromQL in `q`, such as `{mount}query?q=up`")
                })?;
                Ok(Self::Query { q: q.to_owned(), times: Times::parse(&captures)? })
            }
            Some(("series", _)) => {
                let captures = captures(SERIES, path)?;
                let metric = captures.get("metric").ok_or(Failure::NotFound)?.to_owned();
                let matchers = matchers::parse(captures.get("match").unwrap_or_default())?;
                Ok(Self::Series { metric, matchers, times: Times::parse(&captures)? })
            }
            Some((_, "")) => Err(Failure::NotFound),
            Some(("saved", rest)) if path == before => Ok(Self::Saved(name(rest)?)),
            Some(("metric", rest)) if path == before => Ok(Self::Metric(name(rest)?)),
            Some(("label", rest)) if path == before => Ok(Self::Label(name(rest)?)),
            _ => Err(Failure::NotFound),
        }
    }
}

impl Times {
    fn parse(captures: &Captures) -> Result<Self> {
        let value = |key: &str| captures.get(key).filter(|value| !value.is_empty());
        let duration = |key: &str| {
            let found =
                |text: &str| Failure::invalid(format!("expected {} for `{key}`, found `{text}`", duration::EXPECTED));
            value(key).map(|text| duration::parse(text).ok_or_else(|| found(text))).transpose()
        };
        let (range, step) = (duration("range")?, duration("step")?);
        let end = value("end").map_or(Ok(End::Now), |text| {
            End::parse(text).ok_or_else(|| {
                Failure::invalid(format!(
                    "expected a time for `end`, such as `now`, `-1h`, `1700000000` or `2026-01-02T03:04:05Z`, found `{text}`"
                ))
            })
        })?;
        Ok(Self { range, step, end })
    }
}

fn captures(template: &str, path: &str) -> Result<Captures> {
    let parsed = PathTemplate::parse(template).map_err(|error| Failure::internal(error.to_string()))?;
    parsed
        .matches(path)
        .ok_or_else(|| Failure::invalid(format!("expected a URI of the template `{{mount}}{template}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_of_the_templates_or_a_fixed_name() {
        assert_eq!(Route::parse("alerts"), Ok(Route::Alerts));
        assert_eq!(Route::parse("saved/a%20b"), Ok(Route::Saved("a b".to_owned())));
        assert_eq!(Route::parse("metric/node:cpu"), Ok(Route::Metric("node:cpu".to_owned())));
        let times =
            Times { range: Some(Duration::from_secs(3600)), step: None, end: End::Ago(Duration::from_secs(60)) };
        let query = Route::Query { q: "sum(up) > 1".to_owned(), times };
        assert_eq!(Route::parse("query?q=sum(up)%20%3E%201&range=1h&end=-1m"), Ok(query));
        let Ok(Route::Series { metric, matchers, times }) = Route::parse("series/up?match=job%3D%22a%22&step=5s")
        else {
            panic!("expected series")
        };
        assert_eq!((metric.as_str(), matchers.len(), times.step), ("up", 1, Some(Duration::from_secs(5))));
    }

    #[test]
    fn an_unknown_path_is_not_found_and_a_malformed_one_says_what_is_expected() {
        for path in ["", "x", "alerts/x", "alerts?x", "saved", "saved/", "metric/", "metric/a?b=c", "metrics/a"] {
            assert_eq!(Route::parse(path), Err(Failure::NotFound), "{path}");
        }
        for path in [
            "query",
            "query?q=",
            "query?x=1",
            "query?q=up&range=soon",
            "query?q=up&end=x",
            "series/up?match=x",
            "metric/a/b",
        ] {
            assert!(matches!(Route::parse(path), Err(Failure::InvalidRequest(_))), "{path}");
        }
    }
}
