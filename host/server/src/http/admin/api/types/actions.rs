//! Actions: their requests and answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_LOG_SECONDS, Page, api_types};

api_types! {
    /// What a reload changed, or would change.
    struct Reload {
        /// The number of the generation that is served now.
        pub generation: u64,
        /// Whether anything has changed.
        pub changed: bool,
        /// The plugins that were added.
        pub plugins_added: Vec<String>,
        /// The plugins with another config or component.
        pub plugins_changed: Vec<String>,
        /// Of a comparison, by plugin the keys that differ; `component file` if the file has another component.
        pub changed_keys: BTreeMap<String, Vec<String>>,
        /// Of a comparison, by plugin why it fails, as far as that is known without compiling: of one that is added or changed why it cannot
        /// be loaded, so that the reload would fail; of one that stays as it is why it was not loaded, cannot reach its data, or fails its
        /// calls.
        pub plugins_failing: BTreeMap<String, String>,
        /// Of a comparison, whether the reload would fail, as far as that is known.
        pub would_fail: bool,
        /// The plugins that were removed.
        pub plugins_removed: Vec<String>,
        /// The keys whose new values apply only after a restart.
        pub requires_restart: Vec<String>,
        /// The parts of the config that changed beside plugins: `rules`, `principals`, `server`, `http`, `admin` or `audit`.
        pub settings_changed: Vec<String>,
        /// The duration.
        pub elapsed_ms: u64,
    }

    /// The filter of the log.
    struct LogView {
        /// The filter that is used now; null if the program has another log.
        pub filter: Option<String>,
        /// When it goes back; null if it is the one that the server started with.
        #[schemars(extend("format" = "date-time"))]
        pub until: Option<String>,
        /// Who set it.
        pub by: Option<String>,
    }

    /// A decision of the access rules.
    struct Explanation {
        /// Whether the operation is allowed, and the resource is served at that URI.
        pub allowed: bool,
        /// Whether a resource is served at that spelling of its URI: `here`; `only-if-listed` by its upstream; `elsewhere`, at `served_at`,
        /// which the rule is about; or `nowhere`.
        pub served: String,
        /// The URI of the resource, if it is served at another spelling.
        pub served_at: Option<String>,
        /// The principal.
        pub principal: String,
        /// Its groups.
        pub groups: Vec<String>,
        /// The operation.
        pub operation: String,
        /// The operation that the decision is about: reading, if that is why a subscription is denied.
        pub decided: String,
        /// The scopes that an access token needs beside.
        pub scopes: Vec<String>,
        /// The URI in normal form.
        pub uri: String,
        /// The plugin whose mount owns it.
        pub plugin: String,
        /// The provider's name of the resource.
        pub path: String,
        /// The rule that decided; null for a default.
        pub rule: Option<ExplainedRule>,
    }

    /// Who may perform an operation on a resource.
    struct WhoView {
        /// The URI in normal form.
        pub uri: String,
        /// The plugin whose mount owns it.
        pub plugin: String,
        /// The operation.
        pub operation: String,
        /// As in an explanation.
        pub served: String,
        /// The URI of the resource, if it is served at another spelling.
        pub served_at: Option<String>,
        /// Those whom the rules allow it.
        pub allowed: Page<WhoMay>,
        /// Those whom a `deny` glob denies it. Whoever is in neither list is denied it, as no rule allows it.
        pub denied: Page<WhoMay>,
        /// Whether the config names more principals and groups than were judged.
        pub cut: bool,
    }

    /// What the rules decide for a principal or a group.
    struct WhoMay {
        /// `principal`; `group`: whoever is in it, unless a rule about the member denies it; or `others`: all whom the config does not
        /// name.
        pub kind: String,
        /// The name; null for others.
        pub name: Option<String>,
        /// The operation that the decision is about: reading, if that is why a subscription is denied.
        pub decided: String,
        /// The rule that decided; null for the default of `local`.
        pub rule: Option<ExplainedRule>,
    }

    /// The rule that decided.
    struct ExplainedRule {
        /// Its number in the config, from 1.
        pub number: usize,
        /// Its line in the file.
        pub line: Option<usize>,
        /// `allow` or `deny`.
        pub key: String,
        /// The glob that matches.
        pub glob: String,
    }
}

/// A question about the access rules.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// The resource.
    pub uri: String,
    /// The operation.
    #[serde(default = "read")]
    pub operation: String,
    /// The name of the principal.
    #[serde(default = "local")]
    pub principal: String,
    /// The groups that its login says it is in.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// The question who may perform an operation on a resource.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhoRequest {
    /// The resource.
    pub uri: String,
    /// The operation.
    #[serde(default = "read")]
    pub operation: String,
}

/// A change of the filter of the log: either `filter`, or `restore`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogRequest {
    /// The filter, as the option `--log` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The time after which the configured filter is back: 10 minutes unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_LOG_SECONDS))]
    pub seconds: Option<u64>,
    /// Whether the configured filter is used from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restore: bool,
}

/// The body of a request.
pub(crate) trait RequestBody: serde::de::DeserializeOwned {
    /// Its keys, for messages.
    const KEYS: &'static [&'static str];
}

impl RequestBody for ExplainRequest {
    const KEYS: &'static [&'static str] = &["uri", "operation", "principal", "groups"];
}

impl RequestBody for WhoRequest {
    const KEYS: &'static [&'static str] = &["uri", "operation"];
}

impl RequestBody for LogRequest {
    const KEYS: &'static [&'static str] = &["filter", "seconds", "restore"];
}

fn read() -> String {
    "read".to_owned()
}

pub(in super::super) fn local() -> String {
    "local".to_owned()
}
