//! One entry `[[plugin]]`: a provider, its mount, its config, its grants and its limits.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mcp_host_model::digest::{Digest, DigestError, PREFIX};
use mcp_host_model::uri::{Mount, MountError};

use super::cluster::Polling;
use super::component::Component;
use super::declare::{checked_text, from_text, one_line, table};
use super::diagnostic::{Diagnostic, Suggest};
use super::duration::{BoundedDuration, SECOND};
use super::glob::UriGlob;
use super::grants::{Grants, SqlUrl};
use super::instances::InstanceReuse;
use super::limits::Limits;
use super::reader::{FromNode, FromTable, Node, Schema, Table};
use super::registry::Reference;
use super::search::PluginSearch;
use super::settings::Settings;
use super::upstream::{Upstream, Views};

/// The interval at which a watched plugin is polled for changes.
pub type WatchInterval = BoundedDuration<100, { 2 * SECOND }, { 3600 * SECOND }>;

table! {
    /// A plugin, a provider at a mount: `[[plugin]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Plugin {
        /// The name of the plugin in the log and in messages. Unique within a config.
        #[required]
        pub name: PluginName,
        /// The component. In a config file: an existing file, the name of a provider in `server.plugin-path`, or a
        /// locked component in a registry, `oci://registry.example.com/acme/web:1.4`.
        #[required]
        #[read(Component)]
        pub component: PathBuf,
        /// A prefix of the titles of the plugin's entries and templates in merged listings, so that people can
        /// distinguish two plugins of one provider.
        #[read(Title)]
        pub title: Option<String>,
        /// The required digest of the component's file. Without it any content is accepted.
        pub digest: Option<Digest>,
        /// The URI prefix that the plugin owns. Mounts of a config do not overlap.
        #[required]
        #[read(ComponentMount)]
        pub mount: Mount,
        /// The provider's own config: strings as written, other values as JSON.
        #[read(Settings)]
        pub config: BTreeMap<String, String>,
        /// Whether the server is ready (`/readyz` of `[admin]`) only when the plugin is loaded. `false` unless set.
        pub required: bool,
        /// The access of the plugin to the outside world. None unless set.
        pub grants: Grants,
        /// The resource limits of the plugin.
        pub limits: Limits,
        /// Instance reuse. Each call gets a fresh instance unless set.
        pub instances: Option<InstanceReuse>,
        /// The interval of polls for changes while a client watches, unless the provider returns another interval. 2 s
        /// unless set; 100 ms to 1 h.
        pub watch_interval: WatchInterval,
        /// The replicas of a cluster that poll the plugin: `each`, or one for all (`shared`). Unless set, `each` for a
        /// plugin with directories, key-value buckets that are not shared, or a SQLite database, and otherwise
        /// `shared`.
        pub polling: Option<Polling>,
        /// Whether responses of the plugin with a time to live are cached, within `server.response-cache`. `true`
        /// unless set.
        #[default(true)]
        pub response_cache: bool,
        /// The resources that are indexed for search. None unless set; an empty table selects all defaults.
        pub search: Option<PluginSearch>,
        /// Globs of the URIs of directories that are skills if they have a `SKILL.md`, such as `**/skills/*`. None
        /// unless set.
        pub skills: Vec<UriGlob>,
        /// The existing server (`[[upstream]]`) that serves in place of a component. `component` is empty then.
        #[internal]
        pub upstream: Option<Box<Upstream>>,
    }
}

impl FromTable for Plugin {
    type Keys = Self;

    const TYPE_NAME: &'static str = "a plugin";

    fn example() -> String {
        "{ name = \"notes\", component = \"plugins/notes.wasm\", mount = \"notes:///\" }".to_owned()
    }

    fn check(table: &Table<'_>) {
        if table.has_nested("limits", "program-cpu") {
            let message = "`limits.program-cpu` is a limit of an upstream's program, and a plugin has none";
            let problem = Diagnostic::new(message, "remove it: `limits.cpu` limits each call");
            table.report(problem.at(table.nested_span("limits", "program-cpu")));
        }
    }

    fn from_keys(keys: Self, _: &Table<'_>) -> Option<Self> {
        Some(keys)
    }
}

impl Plugin {
    /// The registry reference of the component, in a config that was read with
    /// [`Environment::keep_references`](super::Environment::keep_references).
    pub fn reference(&self) -> Option<Reference> {
        self.component.to_str()?.parse().ok()
    }

    /// Whether this is an upstream whose responses must not be shared between principals, because each has its own
    /// identity or connection there.
    pub fn has_views(&self) -> bool {
        self.upstream.as_ref().is_some_and(|upstream| {
            upstream.views == Views::Principal || !upstream.identities.is_empty() || upstream.exchange.is_some()
        })
    }

    /// Whether one replica of a cluster polls the provider for all. The default is `false` if the provider has access
    /// to state that may differ between replicas: directories, a SQLite database, a key-value bucket that is not
    /// shared.
    pub fn shares_polls(&self) -> bool {
        let is_local = |url: &SqlUrl| matches!(url, SqlUrl::Sqlite(_));
        let Grants { dirs, env: _, http: _, keyvalue, sql, nested: _ } = &self.grants;
        let sees_local_state = !dirs.is_empty()
            || keyvalue.values().any(|grant| !grant.shared)
            || sql.values().any(|grant| is_local(&grant.url));
        match self.polling {
            Some(polling) => polling == Polling::Shared,
            None => !sees_local_state,
        }
    }

    /// The keys with different values in both plugins.
    pub fn changed_keys(&self, other: &Self) -> Vec<&'static str> {
        let Self {
            name,
            component,
            title,
            digest,
            mount,
            config,
            required,
            grants,
            limits,
            instances,
            watch_interval,
            polling,
            response_cache,
            search,
            skills,
            upstream,
        } = self;
        let keys = [
            ("name", *name != other.name),
            ("component", *component != other.component),
            ("title", *title != other.title),
            ("digest", *digest != other.digest),
            ("mount", *mount != other.mount),
            ("config", *config != other.config),
            ("required", *required != other.required),
            ("grants", *grants != other.grants),
            ("limits", *limits != other.limits),
            ("instances", *instances != other.instances),
            ("watch-interval", *watch_interval != other.watch_interval),
            ("polling", *polling != other.polling),
            ("response-cache", *response_cache != other.response_cache),
            ("search", *search != other.search),
            ("skills", *skills != other.skills),
            ("upstream", *upstream != other.upstream),
        ];
        keys.into_iter().filter_map(|(key, has_changed)| has_changed.then_some(key)).collect()
    }

    /// The origin of the plugin, for people: the file of its component, or the URL or the program of its upstream
    /// server.
    pub fn source(&self) -> String {
        match &self.upstream {
            Some(upstream) => upstream.source.to_string(),
            None => self.component.display().to_string(),
        }
    }

    /// A plugin without config and grants, with the default limits and a fresh instance per call.
    pub fn new(name: PluginName, component: impl Into<PathBuf>, mount: Mount) -> Self {
        Self::with_defaults(name, component.into(), mount)
    }
}

one_line! {
    /// A title.
    pub(super) struct Title, "\"Team notes\"";
}

checked_text! {
    /// The name of a plugin: at most 64 of `a-z`, `0-9`, `-`, `_` and `.`, beginning with a letter or digit.
    pub struct PluginName, PluginNameError as "a plugin name", such as "\"linux\"",
    schema Schema::pattern("^[a-z0-9][a-z0-9._-]{0,63}$"),
    valid if |text| {
        let begins_well = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        begins_well && text.len() <= PluginName::MAX_LEN && text.chars().all(is_name_character)
    },
    otherwise |written, key| {
        let plain = written.to_lowercase();
        let plain: String = plain.chars().map(|c| if is_name_character(c) { c } else { '-' }).collect();
        let plain = plain.trim_start_matches(['-', '_', '.']).parse().unwrap_or_else(|_| PluginName("linux".into()));
        format!(
            "write at most {} of a-z, 0-9, `-`, `_` and `.`, beginning with a letter or digit: `{key} = \"{plain}\"`",
            PluginName::MAX_LEN
        )
    }
}

impl PluginName {
    const MAX_LEN: usize = 64;
}

fn is_name_character(c: char) -> bool {
    matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.')
}

from_text!(
    Mount,
    "a mount",
    "\"git://linux/\"",
    Schema::pattern(r"^([a-zA-Z][a-zA-Z0-9+.-]*://([^?#]*/)?|[a-zA-Z][a-zA-Z0-9.-]*[+])$")
);

/// The mount of a component. A prefix mount (`NAME+`) is rejected: the paths of a component are not URIs.
struct ComponentMount(Mount);

impl FromNode for ComponentMount {
    const TYPE_NAME: &'static str = <Mount as FromNode>::TYPE_NAME;

    fn example() -> String {
        Mount::example()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^[a-zA-Z][a-zA-Z0-9+.-]*://([^?#]*/)?$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let mount = Mount::from_node(node)?;
        if mount.is_prefix() {
            let help =
                format!("write a scheme, a host and a slash, such as {}", node.assignment_hint(&Mount::example()));
            node.report_error(
                format!("`{mount}` is in front of the URIs of an `[[upstream]]`, and a provider has paths"),
                help,
            );
            return None;
        }
        Some(Self(mount))
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
            Self::Prefix { .. } => {
                format!("write such a prefix, or a scheme, a host and a slash: `{key} = {}`", Mount::example())
            }
            Self::Uri { .. } => format!("write a scheme, a host and a slash, such as `{key} = {}`", Mount::example()),
        }
    }
}

from_text!(Digest, "a digest", format!("\"{PREFIX}…\""), Schema::pattern(&format!("^{PREFIX}[0-9a-fA-F]{{64}}$")));

impl Suggest for DigestError {
    fn suggestion(&self, key: &str) -> String {
        let copy = "copy the digest that `mcp-host inspect FILE.wasm` prints";
        match self {
            Self::NoPrefix(text) if format!("{PREFIX}{text}").parse::<Digest>().is_ok() => {
                format!("write `{key} = \"{PREFIX}{text}\"`")
            }
            _ => format!("{copy}: `{key} = \"{PREFIX}…\"`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::{DirGrant, KeyvalueGrant, Mode};

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
    fn polls_are_shared_unless_a_provider_sees_what_is_local() {
        let mut plugin = Plugin::new("notes".parse().unwrap(), "notes.wasm", "notes:///".parse().unwrap());
        assert!(plugin.shares_polls());
        plugin.grants.dirs.insert("/notes".parse().unwrap(), DirGrant { host: "/notes".into(), mode: Mode::ReadOnly });
        assert!(!plugin.shares_polls());
        plugin.polling = Some(Polling::Shared);
        assert!(plugin.shares_polls());
        plugin.polling = None;
        plugin.grants.dirs.clear();
        for (shared, shares_polls) in [(true, true), (false, false)] {
            let bucket = KeyvalueGrant { shared, ..KeyvalueGrant::default() };
            plugin.grants.keyvalue.insert("visits".parse().unwrap(), bucket);
            assert_eq!(plugin.shares_polls(), shares_polls);
        }
    }
}
