//! Actions: their requests, and what they answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_LOG_SECONDS, api_types};

api_types! {
    /// What a reload changed.
    struct Reload {
        /// The number of the generation that is served now.
        pub generation: u64,
        /// Whether anything has changed.
        pub changed: bool,
        /// The plugins that were added.
        pub plugins_added: Vec<String>,
        /// The plugins with another config or component.
        pub plugins_changed: Vec<String>,
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
        /// Whether the operation is allowed.
        pub allowed: bool,
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

impl RequestBody for LogRequest {
    const KEYS: &'static [&'static str] = &["filter", "seconds", "restore"];
}

fn read() -> String {
    "read".to_owned()
}

pub(in super::super) fn local() -> String {
    "local".to_owned()
}
