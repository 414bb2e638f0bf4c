//! The description of a provider in `check` and `inspect`.

use serde::Serialize;

use mcp_host_model::provider::ProviderInfo;

/// The description of a provider, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Provider<'a> {
    name: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    watches: bool,
}

impl<'a> From<&'a ProviderInfo> for Provider<'a> {
    fn from(info: &'a ProviderInfo) -> Self {
        Self {
            name: &info.name,
            version: &info.version,
            title: info.title.as_deref(),
            description: info.description.as_deref(),
            watches: info.watches,
        }
    }
}

/// The name and version, for people.
pub(super) fn name_and_version(info: &ProviderInfo) -> String {
    format!("{} {}", info.name, info.version)
}
