//! The minimum of a limit that a provider declares, by its key below `limits`: `"prepare.cpu": { "min": "5m" }`.

use std::collections::BTreeMap;

use mcp_host_config::limits::{LimitAmount, LimitKey, Limits, PrepareLimits};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The limits that a provider asks for.
pub type NeededLimits = BTreeMap<LimitKey, NeededLimit>;

/// The least that a provider works with.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NeededLimit {
    /// The quantity, as the config writes it.
    #[serde(serialize_with = "super::to_text")]
    pub min: LimitAmount,
    /// The purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl NeededLimit {
    /// Returns whether a plugin has it without a line in the config.
    pub fn is_default(&self, key: LimitKey) -> bool {
        key.of(&Limits::default()).is_some_and(|default| default >= self.min)
    }
}

/// Returns the limits of preparations to write for a provider: the defaults, or the provider's minimum if it is higher.
pub(crate) fn prepare_limits(asked: &NeededLimits) -> [String; 2] {
    let defaults = Limits { prepare: Some(PrepareLimits::default()), ..Limits::default() };
    [LimitKey::PrepareCpu, LimitKey::PrepareMemory].map(|key| {
        let asked = asked.get(&key).map(|need| need.min.clone());
        asked.max(key.of(&defaults)).map(|amount| amount.to_string()).unwrap_or_default()
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    min: String,
    #[serde(default)]
    why: Option<String>,
}

pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<NeededLimits, D::Error> {
    let written = BTreeMap::<String, Written>::deserialize(deserializer)?;
    let limits = written.into_iter().map(|(key, Written { min, why })| -> Result<_, D::Error> {
        let key = key.parse::<LimitKey>().map_err(|unknown| D::Error::custom(format!("`limits` has an {unknown}")))?;
        let min = key.parse(&min).map_err(|reason| D::Error::custom(format!("`limits` has `{key}`: {reason}")))?;
        Ok((key, NeededLimit { min, why }))
    });
    limits.collect()
}

pub(super) fn serialize<S: Serializer>(limits: &NeededLimits, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(limits.iter().map(|(key, need)| (key.name(), need)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugin::Needs;

    fn limits(value: &serde_json::Value) -> NeededLimits {
        Needs::parse(json!({ "limits": value }).to_string().as_bytes()).unwrap().limits
    }

    #[test]
    fn what_the_defaults_have_needs_no_line() {
        let asked = json!({ "memory": { "min": "64MiB" }, "cpu": { "min": "1001ms" }, "prepare.cpu": { "min": "1s" } });
        let needs_line: Vec<_> =
            limits(&asked).iter().filter(|(key, need)| !need.is_default(**key)).map(|(key, _)| key.name()).collect();
        assert_eq!(needs_line, ["cpu", "prepare.cpu"], "without `limits.prepare` nothing is prepared");
    }

    #[test]
    fn limits_of_preparations_are_at_least_the_defaults() {
        assert_eq!(prepare_limits(&limits(&json!({}))), ["1m", "64MiB"]);
        let asked = json!({ "prepare.cpu": { "min": "5m" }, "prepare.memory": { "min": "8MiB" } });
        assert_eq!(prepare_limits(&limits(&asked)), ["5m", "64MiB"]);
    }
}
