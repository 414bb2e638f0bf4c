//! The imports of a component, compared with the grants of its plugin.
//!
//! The imports are found in the component's type: none of its code runs. They are grouped by capability:
//!
//! | interfaces | granted by | status when imported but not granted |
//! |---|---|---|
//! | `wasi:filesystem` | `grants.dirs` | [`NotGranted`](GrantStatus::NotGranted): standard libraries import it, used or not |
//! | `wasi:cli/environment` | `grants.env` | the same |
//! | `wasi:config` | `config` | the same: a provider has defaults |
//! | `wasi:http/outgoing-handler` | `grants.http` | [`Missing`](GrantStatus::Missing): every request will be refused |
//! | `wasi:keyvalue` | `grants.keyvalue` | [`Missing`](GrantStatus::Missing): no bucket can be opened |
//! | `mcp-host:sql` | `grants.sql` | [`Missing`](GrantStatus::Missing): no database can be queried |
//! | `wasi:sockets` | nothing | [`Unsupported`](GrantStatus::Unsupported): they always refuse |
//! | all other | | [`NotRequired`](GrantStatus::NotRequired): clocks, random numbers, streams, the log |
//!
//! A grant without an import is [`Unused`](GrantStatus::Unused). Values of variables and settings are not read.
//! What the provider declares that it needs ([`Needs`]) changes the status ([`Requirements::apply_needs`]).

use std::collections::BTreeMap;

use mcp_host_config as config;
use mcp_host_config::grants::Mode;

use super::Needs;

/// A group of imports with one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// Files: `wasi:filesystem`.
    Directories,
    /// The web: `wasi:http`.
    Http,
    /// Persistent state: `wasi:keyvalue`.
    Keyvalue,
    /// Databases: `mcp-host:sql`.
    Sql,
    /// Variables: `wasi:cli/environment`.
    Variables,
    /// The plugin's settings: `wasi:config`.
    Config,
    /// Sockets and name resolution: `wasi:sockets`.
    Sockets,
    /// The host's log: `wasi:logging`.
    Log,
    /// Clocks: `wasi:clocks`.
    Clocks,
    /// Random numbers: `wasi:random`.
    Random,
    /// Streams: `wasi:io`, standard input and output, the exit of a program.
    Streams,
    /// Types without functions.
    Types,
}

impl Capability {
    const ALL: [Self; 12] = [
        Self::Directories,
        Self::Http,
        Self::Keyvalue,
        Self::Sql,
        Self::Variables,
        Self::Config,
        Self::Sockets,
        Self::Log,
        Self::Clocks,
        Self::Random,
        Self::Streams,
        Self::Types,
    ];

    /// The capability of an interface.
    fn from_import(import: &str) -> Self {
        let interface = import.split('@').next().unwrap_or(import);
        let (package, name) = interface.split_once('/').unwrap_or((interface, ""));
        match (package, name) {
            ("wasi:filesystem", _) => Self::Directories,
            ("wasi:http", _) => Self::Http,
            ("wasi:keyvalue", _) => Self::Keyvalue,
            ("mcp-host:sql", _) => Self::Sql,
            ("wasi:cli", "environment") => Self::Variables,
            ("wasi:config", _) => Self::Config,
            ("wasi:sockets", _) => Self::Sockets,
            ("wasi:logging", _) => Self::Log,
            ("wasi:clocks", _) => Self::Clocks,
            ("wasi:random", _) => Self::Random,
            ("wasi:io" | "wasi:cli", _) => Self::Streams,
            _ => Self::Types,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directories => "directories",
            Self::Http => "http",
            Self::Keyvalue => "keyvalue",
            Self::Sql => "sql",
            Self::Variables => "variables",
            Self::Config => "config",
            Self::Sockets => "sockets",
            Self::Log => "log",
            Self::Clocks => "clocks",
            Self::Random => "random",
            Self::Streams => "streams",
            Self::Types => "types",
        }
    }

    /// The key of a `[[plugin]]` that grants it, if it can be granted.
    pub fn key(self) -> Option<&'static str> {
        match self {
            Self::Directories => Some("grants.dirs"),
            Self::Http => Some("grants.http"),
            Self::Keyvalue => Some("grants.keyvalue"),
            Self::Sql => Some("grants.sql"),
            Self::Variables => Some("grants.env"),
            Self::Config => Some("config"),
            Self::Sockets | Self::Log | Self::Clocks | Self::Random | Self::Streams | Self::Types => None,
        }
    }

    /// Returns the interface without which a grant has no use.
    fn required_import(self) -> &'static str {
        match self {
            Self::Directories => "wasi:filesystem",
            Self::Http => "wasi:http/outgoing-handler",
            Self::Keyvalue => "wasi:keyvalue",
            Self::Sql => "mcp-host:sql",
            Self::Variables => "wasi:cli/environment",
            Self::Config => "wasi:config",
            Self::Sockets => "wasi:sockets",
            Self::Log => "wasi:logging",
            Self::Clocks => "wasi:clocks",
            Self::Random => "wasi:random",
            Self::Streams => "wasi:io",
            Self::Types => "",
        }
    }

    /// Returns the plugin's grants of it, each as a short text without secrets.
    fn granted(self, plugin: &config::Plugin) -> Vec<String> {
        let grants = &plugin.grants;
        match self {
            Self::Directories => {
                let dirs = grants.dirs.iter().map(|(guest, grant)| match grant.mode {
                    Mode::ReadOnly => format!("{guest} (ro)"),
                    Mode::ReadWrite { .. } => format!("{guest} (rw)"),
                });
                dirs.collect()
            }
            Self::Http => grants.http.iter().map(|grant| grant.origin.to_string()).collect(),
            Self::Keyvalue => grants.keyvalue.keys().map(ToString::to_string).collect(),
            Self::Sql => grants.sql.keys().map(ToString::to_string).collect(),
            Self::Variables => grants.env.keys().map(ToString::to_string).collect(),
            Self::Config => plugin.config.keys().cloned().collect(),
            Self::Sockets | Self::Log | Self::Clocks | Self::Random | Self::Streams | Self::Types => Vec::new(),
        }
    }

    fn status(self, is_used: bool, is_granted: bool) -> GrantStatus {
        match (self, is_used, is_granted) {
            (Self::Sockets, ..) => GrantStatus::Unsupported,
            (capability, ..) if capability.key().is_none() => GrantStatus::NotRequired,
            (_, true, true) => GrantStatus::Granted,
            (_, false, true) => GrantStatus::Unused,
            (capability, true, false) if capability.missing().is_some() => GrantStatus::Missing,
            (_, _, false) => GrantStatus::NotGranted,
        }
    }

    /// Returns the effect of importing it without a grant; none if providers work without: standard libraries import
    /// it, used or not.
    fn missing(self) -> Option<&'static str> {
        match self {
            Self::Http => Some("every request will be refused"),
            Self::Keyvalue => Some("no bucket can be opened"),
            Self::Sql => Some("no database can be queried"),
            Self::Directories | Self::Variables | Self::Config => None,
            Self::Sockets | Self::Log | Self::Clocks | Self::Random | Self::Streams | Self::Types => None,
        }
    }
}

/// The relation between imports and grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GrantStatus {
    /// It needs no grant.
    NotRequired,
    /// It is imported and granted.
    Granted,
    /// It is imported and not granted. This is often intended: standard libraries import everything that they can use.
    NotGranted,
    /// It is imported and not granted, and has no use without a grant, or the provider declares that it needs it.
    Missing,
    /// It is granted and not imported: the grant can be removed.
    Unused,
    /// It is imported and always refuses.
    Unsupported,
}

impl GrantStatus {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotRequired => "not required",
            Self::Granted => "granted",
            Self::NotGranted => "not granted",
            Self::Missing => "missing",
            Self::Unused => "unused",
            Self::Unsupported => "unsupported",
        }
    }
}

/// The imports of one capability, and the grants for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The capability.
    pub capability: Capability,
    /// The imported interfaces, sorted.
    pub imports: Vec<String>,
    /// The grants: directories as the provider sees them, origins, buckets, databases, names of variables, keys of
    /// settings.
    pub granted: Vec<String>,
    /// Names of buckets that were opened at run time without a grant. Known only after a check.
    pub denied: Vec<String>,
    /// The relation between imports and grants.
    pub status: GrantStatus,
}

impl Requirement {
    /// Returns a warning about a missing or unused grant.
    pub fn warning(&self) -> Option<String> {
        let (key, interface) = (self.capability.key()?, self.capability.required_import());
        if !self.denied.is_empty() && !self.granted.is_empty() {
            let (denied, granted) = (self.denied.join("`, `"), self.granted.join("`, `"));
            return Some(format!("it opens `{denied}`, which `{key}` does not name; granted: `{granted}`"));
        }
        match self.status {
            GrantStatus::Missing => {
                let consequence = self.capability.missing()?;
                Some(format!("it imports `{interface}`, which is of no use without `{key}`: {consequence}"))
            }
            GrantStatus::Unused => Some(format!("`{key}` is granted but unused: it does not import `{interface}`")),
            GrantStatus::NotRequired | GrantStatus::Granted | GrantStatus::NotGranted | GrantStatus::Unsupported => {
                None
            }
        }
    }
}

/// The imports of a component and the grants of its plugin, ordered by [`Capability`]. Capabilities without imports
/// and grants are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements(Vec<Requirement>);

impl Requirements {
    /// Compares the imports of a component with the grants of a plugin.
    pub fn new<'a>(imports: impl Iterator<Item = &'a str>, plugin: &config::Plugin) -> Self {
        let mut by_capability: BTreeMap<Capability, Vec<String>> = BTreeMap::new();
        for import in imports {
            by_capability.entry(Capability::from_import(import)).or_default().push(import.to_owned());
        }
        let needs = Capability::ALL.into_iter().filter_map(|capability| {
            let mut imports = by_capability.remove(&capability).unwrap_or_default();
            imports.sort_unstable();
            let granted = capability.granted(plugin);
            if imports.is_empty() && granted.is_empty() {
                return None;
            }
            let is_used = imports.iter().any(|import| import.starts_with(capability.required_import()));
            let status = capability.status(is_used, !granted.is_empty());
            Some(Requirement { capability, imports, granted, denied: Vec::new(), status })
        });
        Self(needs.collect())
    }

    /// Records the names of buckets that a provider opened without a grant.
    pub fn record_denied_buckets(&mut self, denied: Vec<String>) {
        if denied.is_empty() {
            return;
        }
        if let Some(keyvalue) = self.0.iter_mut().find(|need| need.capability == Capability::Keyvalue) {
            keyvalue.status = GrantStatus::Missing;
            keyvalue.denied = denied;
        }
    }

    /// Applies the declared needs of the provider. A capability that it asks for and of which nothing is granted is
    /// missing. Buckets are not if all of them are optional and the provider has opened none without a grant.
    pub fn apply_needs(&mut self, needs: &Needs) {
        let has_optional_buckets = !needs.keyvalue.is_empty() && needs.keyvalue.iter().all(|need| need.optional);
        for requirement in &mut self.0 {
            let is_optional =
                requirement.capability == Capability::Keyvalue && has_optional_buckets && requirement.denied.is_empty();
            match requirement.status {
                GrantStatus::Missing if is_optional => requirement.status = GrantStatus::NotGranted,
                GrantStatus::NotGranted if !is_optional && needs.asks_for(requirement.capability) => {
                    requirement.status = GrantStatus::Missing;
                }
                _ => {}
            }
        }
    }

    /// The requirements, one per capability.
    pub fn iter(&self) -> impl Iterator<Item = &Requirement> {
        self.0.iter()
    }

    /// The warnings about missing and unused grants.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.iter().filter_map(Requirement::warning)
    }
}

impl Needs {
    /// Returns whether a grant of this kind is needed. For the config: whether a setting is required.
    pub fn asks_for(&self, capability: Capability) -> bool {
        match capability {
            Capability::Directories => !self.dirs.is_empty(),
            Capability::Http => !self.http.is_empty(),
            Capability::Keyvalue => !self.keyvalue.is_empty(),
            Capability::Sql => !self.sql.is_empty(),
            Capability::Variables => !self.env.is_empty(),
            Capability::Config => self.config.values().any(|setting| setting.required),
            Capability::Sockets
            | Capability::Log
            | Capability::Clocks
            | Capability::Random
            | Capability::Streams
            | Capability::Types => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::Secret;
    use mcp_host_config::grants::{DirGrant, DirQuota, HttpGrant, KeyvalueGrant, SqlGrant, SqlUrl};

    fn plugin() -> config::Plugin {
        config::Plugin::new("web".parse().unwrap(), "web.wasm", "web://".parse().unwrap())
    }

    fn plugin_with_grants() -> config::Plugin {
        let mut plugin = plugin();
        plugin.config.insert("seeds".to_owned(), "[]".to_owned());
        let grants = &mut plugin.grants;
        grants.dirs.insert(
            "/cache".parse().unwrap(),
            DirGrant { host: "/srv".into(), mode: Mode::ReadWrite { quota: DirQuota::default() } },
        );
        grants.http.add(HttpGrant::new("https://docs.rs".parse().unwrap())).unwrap();
        grants.keyvalue.insert("pages".parse().unwrap(), KeyvalueGrant::default());
        let database = SqlUrl::Sqlite("/srv/shop.db".into());
        grants.sql.insert("shop".parse().unwrap(), SqlGrant::new(database));
        grants.env.insert("TOKEN".parse().unwrap(), Secret::new("hunter2".to_owned()));
        plugin
    }

    /// One interface for each capability that can be granted.
    const IMPORTS: [&str; 8] = [
        "wasi:filesystem/types@0.2.6",
        "wasi:filesystem/preopens@0.2.6",
        "wasi:http/types@0.2.6",
        "wasi:http/outgoing-handler@0.2.6",
        "wasi:keyvalue/store@0.2.0-draft2",
        "mcp-host:sql/databases@0.1.0",
        "wasi:cli/environment@0.2.6",
        "wasi:config/store@0.2.0-rc.1",
    ];

    fn statuses<'a>(
        imports: impl IntoIterator<Item = &'a str>,
        plugin: &config::Plugin,
    ) -> Vec<(&'static str, GrantStatus)> {
        let needs = Requirements::new(imports.into_iter(), plugin);
        needs.iter().map(|need| (need.capability.name(), need.status)).collect()
    }

    #[test]
    fn what_is_imported_and_granted_is_in_order() {
        let needs = Requirements::new(IMPORTS.into_iter(), &plugin_with_grants());
        assert!(needs.iter().all(|need| need.status == GrantStatus::Granted), "{needs:?}");
        assert_eq!(needs.warnings().count(), 0);
        let granted: Vec<_> = needs.iter().flat_map(|need| need.granted.clone()).collect();
        assert_eq!(granted, ["/cache (rw)", "https://docs.rs", "pages", "shop", "TOKEN", "seeds"]);
        assert!(!format!("{needs:?}").contains("hunter2"));
    }

    #[test]
    fn what_every_standard_library_imports_is_nothing_to_warn_of() {
        let expected = [
            ("directories", GrantStatus::NotGranted),
            ("http", GrantStatus::Missing),
            ("keyvalue", GrantStatus::Missing),
            ("sql", GrantStatus::Missing),
            ("variables", GrantStatus::NotGranted),
            ("config", GrantStatus::NotGranted),
        ];
        assert_eq!(statuses(IMPORTS, &plugin()), expected);
        let warnings: Vec<_> = Requirements::new(IMPORTS.into_iter(), &plugin()).warnings().collect();
        assert_eq!(
            warnings,
            [
                "it imports `wasi:http/outgoing-handler`, which is of no use without `grants.http`: every request will be \
                 refused",
                "it imports `wasi:keyvalue`, which is of no use without `grants.keyvalue`: no bucket can be opened",
                "it imports `mcp-host:sql`, which is of no use without `grants.sql`: no database can be queried"
            ]
        );
    }

    #[test]
    fn what_is_granted_and_not_imported_is_granted_for_nothing() {
        let standings = statuses([], &plugin_with_grants());
        assert_eq!(standings.len(), 6);
        assert!(standings.iter().all(|(_, standing)| *standing == GrantStatus::Unused), "{standings:?}");
        let warnings: Vec<_> = Requirements::new([].into_iter(), &plugin_with_grants()).warnings().collect();
        assert_eq!(warnings[0], "`grants.dirs` is granted but unused: it does not import `wasi:filesystem`");
    }

    #[test]
    fn a_bucket_that_is_opened_and_granted_by_another_name_is_missing() {
        let mut needs = Requirements::new(["wasi:keyvalue/store@0.2.0-draft2"].into_iter(), &plugin_with_grants());
        needs.record_denied_buckets(vec!["pagse".to_owned()]);
        let keyvalue = needs.iter().find(|need| need.capability == Capability::Keyvalue).unwrap();
        assert_eq!(keyvalue.status, GrantStatus::Missing);
        let warning = "it opens `pagse`, which `grants.keyvalue` does not name; granted: `pages`";
        assert_eq!(keyvalue.warning().as_deref(), Some(warning));
    }

    #[test]
    fn a_bucket_that_the_provider_does_without_is_no_missing_grant() {
        for (optional, denied, expected) in [
            (true, vec![], GrantStatus::NotGranted),
            (false, vec![], GrantStatus::Missing),
            (true, vec!["pages".to_owned()], GrantStatus::Missing),
        ] {
            let asked = format!(r#"{{ "keyvalue": [{{ "bucket": "pages", "optional": {optional} }}] }}"#);
            let mut requirements = Requirements::new(["wasi:keyvalue/store@0.2.0-draft2"].into_iter(), &plugin());
            requirements.record_denied_buckets(denied);
            requirements.apply_needs(&Needs::parse(asked.as_bytes()).unwrap());
            let keyvalue = requirements.iter().find(|need| need.capability == Capability::Keyvalue).unwrap();
            assert_eq!(keyvalue.status, expected);
            assert_eq!(keyvalue.warning().is_some(), expected == GrantStatus::Missing);
        }
    }

    #[test]
    fn what_the_provider_asks_for_and_is_not_granted_is_missing_and_the_note_about_it_is_no_second_warning() {
        let asked =
            r#"{ "dirs": [{ "guest": "/results" }], "config": { "rev": { "type": "string", "required": true } } }"#;
        let needs = Needs::parse(asked.as_bytes()).unwrap();
        let imports = ["wasi:filesystem/types@0.2.6", "wasi:cli/environment@0.2.6", "wasi:config/store@0.2.0-rc.1"];
        let applied = |plugin: &config::Plugin| {
            let mut requirements = Requirements::new(imports.into_iter(), plugin);
            requirements.apply_needs(&needs);
            requirements
        };
        let requirements = applied(&plugin());
        let statuses: Vec<_> = requirements.iter().map(|need| (need.capability.name(), need.status)).collect();
        let expected = [
            ("directories", GrantStatus::Missing),
            ("variables", GrantStatus::NotGranted),
            ("config", GrantStatus::Missing),
        ];
        assert_eq!(statuses, expected);
        assert_eq!(requirements.warnings().count(), 0);
        let granted = applied(&plugin_with_grants());
        let is_granted =
            |what| granted.iter().any(|need| need.capability == what && need.status == GrantStatus::Granted);
        assert!(is_granted(Capability::Directories) && is_granted(Capability::Config), "{granted:?}");
    }

    #[test]
    fn types_of_requests_alone_send_none() {
        let types = ["wasi:http/types@0.2.6"];
        assert_eq!(statuses(types, &plugin()), [("http", GrantStatus::NotGranted)]);
        assert!(statuses(types, &plugin_with_grants()).contains(&("http", GrantStatus::Unused)));
    }

    #[test]
    fn clocks_and_the_like_need_no_grant_and_sockets_have_none() {
        let imports = ["wasi:clocks/wall-clock@0.2.6", "wasi:cli/stderr@0.2.6", "wasi:sockets/tcp@0.2.6", "acme:a/b"];
        let expected = [
            ("sockets", GrantStatus::Unsupported),
            ("clocks", GrantStatus::NotRequired),
            ("streams", GrantStatus::NotRequired),
            ("types", GrantStatus::NotRequired),
        ];
        assert_eq!(statuses(imports, &plugin()), expected);
    }
}
