//! One entry `[[plugin]]`: a provider, its mount, its config, its grants and its limits.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::duration::{BoundedDuration, SECOND};
use super::error::{Suggest, quote};
use super::grants::Grants;
use super::instances::InstanceReuse;
use super::limits::Limits;
use super::paths::ExistingFile;
use super::reader::{FromNode, FromTable, Node, Schema, Table, documented};
use super::search::PluginSearch;
use super::server::one_line;
use super::settings::Settings;
use crate::digest::Digest;
use crate::uri::{Mount, MountError};

/// The interval at which a watched plugin is polled for changes.
pub type WatchInterval = BoundedDuration<100, { 2 * SECOND }, { 3600 * SECOND }>;

documented! {
    /// A plugin, a provider at a mount: `[[plugin]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Plugin {
        /// Its name in the log and in messages. Unique within a config.
        pub name: PluginName,
        /// The component's file. A config file must name an existing one.
        pub component: PathBuf,
        /// A prefix of the titles of its entries and templates in merged listings, which distinguishes two plugins of one
        /// provider for people.
        pub title: Option<String>,
        /// The required digest of the component's file. Without it: any content.
        pub digest: Option<Digest>,
        /// The URI prefix that it owns. No two mounts of a config overlap.
        pub mount: Mount,
        /// The provider's own config: strings as written, other values as JSON.
        pub config: BTreeMap<String, String>,
        /// Its access to the outside world. Nothing unless set.
        pub grants: Grants,
        /// Its resource limits.
        pub limits: Limits,
        /// Instance reuse. Each call gets a fresh instance unless set.
        pub instances: Option<InstanceReuse>,
        /// The interval at which it is polled for changes while a client watches it, unless it hints otherwise. 2 s
        /// unless set; 100 ms to 1 h.
        pub watch_interval: WatchInterval,
        /// Whether its responses with a time to live are cached, within `server.response-cache`. `true` unless set.
        pub response_cache: bool,
        /// What is indexed for search. Nothing unless set; an empty table selects all defaults.
        pub search: Option<PluginSearch>,
    }
}

impl Plugin {
    /// A plugin without config and grants, with the default limits and a fresh instance per call.
    pub fn new(name: PluginName, component: impl Into<PathBuf>, mount: Mount) -> Self {
        Self {
            name,
            component: component.into(),
            title: None,
            digest: None,
            mount,
            config: BTreeMap::new(),
            grants: Grants::default(),
            limits: Limits::default(),
            instances: None,
            watch_interval: WatchInterval::default(),
            response_cache: true,
            search: None,
        }
    }
}

/// A title: one line that is not empty.
struct Title(String);

impl FromNode for Title {
    const TYPE_NAME: &'static str = "a string";

    fn example() -> String {
        "\"Team notes\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"\S")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        one_line::<Self>(node, "a title").map(Self)
    }
}

impl FromTable for Plugin {
    const TYPE_NAME: &'static str = "a plugin";

    fn example() -> String {
        "{ name = \"notes\", component = \"plugins/notes.wasm\", mount = \"notes:///\" }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let name = table.required("name");
        let component = table.required::<ExistingFile>("component");
        let title = table.optional("title").map(|Title(title)| title);
        let digest = table.optional("digest");
        let mount = table.required("mount");
        let config = table.optional("config").map(|Settings(settings)| settings).unwrap_or_default();
        let grants = table.or_default("grants");
        let limits = table.or_default("limits");
        let instances = table.optional("instances");
        let watch_interval = table.or_default("watch-interval");
        let response_cache = table.optional("response-cache").unwrap_or(true);
        table.requires_feature("search", "search", cfg!(feature = "search"));
        let search = table.optional("search");
        // A problem of the component has been reported; the rest is still compared with other plugins.
        let component = component.map(|ExistingFile(path)| path).unwrap_or_default();
        let plugin = Self::new(name?, component, mount?);
        Some(Self {
            title,
            digest,
            config,
            grants,
            limits,
            instances,
            watch_interval,
            response_cache,
            search,
            ..plugin
        })
    }
}

/// The name of a plugin: at most 64 of `a-z`, `0-9`, `-`, `_` and `.`, beginning with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginName(String);

impl PluginName {
    const MAX_LEN: usize = 64;

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is not a plugin name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a plugin name", quote(.0))]
pub struct PluginNameError(String);

impl Suggest for PluginNameError {
    fn suggestion(&self, key: &str) -> String {
        let plain: String = self.0.to_lowercase().chars().map(|c| if is_name_character(c) { c } else { '-' }).collect();
        let plain: PluginName = match plain.trim_start_matches(['-', '_', '.']).parse() {
            Ok(name) => name,
            Err(_) => PluginName("linux".into()),
        };
        format!(
            "write at most {} of a-z, 0-9, `-`, `_` and `.`, beginning with a letter or digit: `{key} = \"{plain}\"`",
            PluginName::MAX_LEN
        )
    }
}

fn is_name_character(c: char) -> bool {
    matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.')
}

impl FromStr for PluginName {
    type Err = PluginNameError;

    fn from_str(text: &str) -> Result<Self, PluginNameError> {
        let begins_well = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if begins_well && text.len() <= Self::MAX_LEN && text.chars().all(is_name_character) {
            Ok(Self(text.to_owned()))
        } else {
            Err(PluginNameError(text.to_owned()))
        }
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromNode for PluginName {
    const TYPE_NAME: &'static str = "a plugin name";

    fn example() -> String {
        "\"linux\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern("^[a-z0-9][a-z0-9._-]{0,63}$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.parse()
    }
}

impl FromNode for Mount {
    const TYPE_NAME: &'static str = "a mount";

    fn example() -> String {
        "\"git://linux/\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^[a-zA-Z][a-zA-Z0-9+.-]*://([^?#]*/)?$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.parse()
    }
}

impl Suggest for MountError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::NoAuthority { suggestion, .. }
            | Self::Query { suggestion, .. }
            | Self::DotSegment { suggestion, .. }
            | Self::EmptySegment { suggestion, .. }
            | Self::NoSlash { suggestion, .. } => format!("write `{key} = \"{suggestion}\"`"),
            Self::TooLong { .. } => format!("write a shorter one, such as `{key} = {}`", Mount::example()),
            Self::Uri { .. } => format!("write a scheme, a host and a slash, such as `{key} = {}`", Mount::example()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_name_is_short_and_plain() {
        for text in ["linux", "0", "a-b_c.d", &"a".repeat(64)] {
            assert_eq!(text.parse::<PluginName>().unwrap().as_str(), text);
        }
        for text in ["", "Linux", "-a", ".a", "a b", "ノート", "a/b", &"a".repeat(65)] {
            assert!(text.parse::<PluginName>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_that_is_nearly_right_is_put_right() {
        let advice = |text: &str| text.parse::<PluginName>().unwrap_err().suggestion("name");
        assert!(advice("My Notes").ends_with("`name = \"my-notes\"`"));
        assert!(advice("").ends_with("`name = \"linux\"`"));
    }
}
