//! Actions: their requests and responses.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::MAX_LOG_SECONDS;
use super::{Page, api_types};

api_types! {
    /// The changes of a reload, or of a dry run.
    struct Reload {
        /// The number of the generation that is served now.
        pub generation: u64,
        /// For how long its config has been served: since the start, or the last successful reload that changed something.
        pub served_ms: u64,
        /// Whether anything has changed.
        pub changed: bool,
        /// The plugins that were added.
        pub plugins_added: Vec<String>,
        /// The plugins with another config or component.
        pub plugins_changed: Vec<String>,
        /// For a dry run: the keys that differ, by plugin; `component file` if the file contains another component.
        pub changed_keys: BTreeMap<String, Vec<String>>,
        /// For a dry run: the failing plugins with the reason, as far as this is known without compiling. An added or changed plugin that
        /// cannot be loaded would make the reload fail. An unchanged plugin was not loaded, cannot reach its data, or fails its calls.
        pub plugins_failing: BTreeMap<String, String>,
        /// For a dry run: whether the reload would fail, as far as this is known.
        pub would_fail: bool,
        /// The plugins that were removed.
        pub plugins_removed: Vec<String>,
        /// The keys whose new values apply only after a restart.
        pub requires_restart: Vec<String>,
        /// The parts of the config that changed, besides plugins: `rules`, `principals`, `server`, `http`, `admin` or `audit`.
        pub settings_changed: Vec<String>,
        /// The duration of the reload.
        pub elapsed_ms: u64,
    }

    /// The filter of the log.
    struct LogView {
        /// The current filter; null if the program has another log.
        pub filter: Option<String>,
        /// When the configured filter is restored; null without a temporary filter.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        pub until: Option<String>,
        /// The administrator who set the filter.
        pub by: Option<String>,
    }

    /// A login to the console.
    struct LoginCode {
        /// The address of the console for a browser on the machine of the server, with a code that logs in once.
        pub url: String,
        /// The time for which the code is valid, in seconds.
        pub seconds: u64,
    }

    /// A decision of the access rules.
    struct Explanation {
        /// Whether the operation is allowed and the resource is served at this URI.
        pub allowed: bool,
        /// Whether a resource is served at this spelling of its URI: `here`; `only-if-listed`, if its upstream lists it; `elsewhere`, at
        /// `served_at`, which the rule then concerns; or `nowhere`.
        pub served: String,
        /// The URI at which the resource is served, if it is another spelling.
        pub served_at: Option<String>,
        /// The principal.
        pub principal: String,
        /// The groups of the principal.
        pub groups: Vec<String>,
        /// The operation.
        pub operation: String,
        /// The operation that decided: reading, if that is why a subscription is denied.
        pub decided: String,
        /// The scopes that an access token needs in addition.
        pub scopes: Vec<String>,
        /// The URI in normal form.
        pub uri: String,
        /// The plugin whose mount owns the URI.
        pub plugin: String,
        /// The provider's name of the resource.
        pub path: String,
        /// The rule that decided; null for a default.
        pub rule: Option<ExplainedRule>,
    }

    /// The principals and groups that may perform an operation on a resource.
    struct WhoView {
        /// The URI in normal form.
        pub uri: String,
        /// The plugin whose mount owns the URI.
        pub plugin: String,
        /// The operation.
        pub operation: String,
        /// Whether a resource is served at this spelling of its URI, as in an explanation.
        pub served: String,
        /// The URI at which the resource is served, if it is another spelling.
        pub served_at: Option<String>,
        /// The principals and groups for which a rule allows the operation.
        pub allowed: Page<WhoMay>,
        /// The principals and groups for which a `deny` glob denies the operation. For those in neither list, no rule allows it.
        pub denied: Page<WhoMay>,
        /// Whether the config has more principals and groups than were evaluated.
        pub cut: bool,
    }

    /// The decision of the rules for a principal or a group.
    struct WhoMay {
        /// `principal`; `group`: its members, unless a rule denies the operation for a member; or `others`: all principals that the config
        /// does not name.
        pub kind: String,
        /// The name of the principal or the group; null for `others`.
        pub name: Option<String>,
        /// The operation that decided: reading, if that is why a subscription is denied.
        pub decided: String,
        /// The rule that decided; null for the default of `local`.
        pub rule: Option<ExplainedRule>,
    }

    /// The rule that decided.
    struct ExplainedRule {
        /// The number of the rule in the config, from 1.
        pub number: usize,
        /// The line of the rule in the file.
        pub line: Option<usize>,
        /// `allow` or `deny`.
        pub key: String,
        /// The matching glob.
        pub glob: String,
    }
}

/// Requests a decision of the access rules.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// The URI of the resource.
    pub uri: String,
    /// The operation.
    #[serde(default = "read")]
    pub operation: String,
    /// The name of the principal.
    #[serde(default = "local")]
    pub principal: String,
    /// The groups of the principal according to its login.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// Requests the principals and groups that may perform an operation on a resource.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WhoRequest {
    /// The URI of the resource.
    pub uri: String,
    /// The operation.
    #[serde(default = "read")]
    pub operation: String,
}

/// A change of the log filter: either `filter` or `restore`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LogRequest {
    /// The filter, in the format of the option `--log`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The time after which the configured filter applies again: 10 minutes by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = MAX_LOG_SECONDS)))]
    pub seconds: Option<u64>,
    /// Whether to restore the configured filter immediately.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restore: bool,
}

/// The body of a request.
pub(crate) trait RequestBody: serde::de::DeserializeOwned {
    /// The keys of the body, for messages.
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
