//! The principals and groups of the config that may perform an operation on a resource, each with the rule
//! that decides.
//!
//! Each is judged by [`Policy::decide_request`](crate::access::Policy::decide_request), which also decides
//! requests. A group is judged as a principal that is in this group only. So a rule that names a member, or
//! another of its groups, may still deny a member of an allowed group.

use std::collections::BTreeSet;

use mcp_host_config::{ANONYMOUS, Config, LOCAL, Operation, PrincipalSelector};
use mcp_host_model::resource::Error;
use mcp_host_model::uri::{Router, Uri};

use super::super::Host;
use super::super::resolve::route_error;
use super::{Located, Served, built_in_router};
use crate::access::{Access, Decision, Principal};

/// The maximum number of principals and groups that are judged.
const MAX_JUDGED: usize = 10_000;

/// A principal or a group of principals that is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Party {
    /// The principal with this name.
    Principal(String),
    /// The members of the group with this name.
    Group(String),
    /// All principals that the config does not name.
    Others,
}

impl Party {
    /// Returns its kind: `principal`, `group` or `others`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Principal(_) => "principal",
            Self::Group(_) => "group",
            Self::Others => "others",
        }
    }

    /// Its name; none for others.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Principal(name) | Self::Group(name) => Some(name),
            Self::Others => None,
        }
    }
}

/// The decision for one party.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Judged {
    /// The party.
    pub party: Party,
    /// The decision.
    pub decision: Decision,
    /// The operation that decided: reading, if that is why a subscription is denied.
    pub decided: Operation,
    /// The line of the deciding rule in the config file, if there is one.
    pub line: Option<usize>,
}

/// Who may perform an operation on a resource.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WhoMay {
    /// The URI in normal form.
    pub uri: Uri,
    /// The plugin whose mount owns it.
    pub plugin: String,
    /// Whether a resource is served at this spelling of its URI.
    pub served: Served,
    /// The parties for which a rule allows it.
    pub allowed: Vec<Judged>,
    /// The parties for which a `deny` glob denies it. For a party in neither list, no rule allows it.
    pub denied: Vec<Judged>,
    /// Whether the config names more parties than are judged.
    pub is_cut: bool,
}

impl WhoMay {
    /// Decides from a config alone, without a running host. Native plugins are unknown.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if no mount owns the URI, and [`Error::InvalidRequest`] if it is not a URI.
    pub fn by_config(config: &Config, operation: Operation, uri: &str) -> Result<Self, Error> {
        Self::new(config, &Access::new(config), &built_in_router(config)?, operation, uri, String::clone)
    }

    fn new<T>(
        config: &Config,
        access: &Access,
        router: &Router<T>,
        operation: Operation,
        uri: &str,
        plugin_name: impl FnOnce(&T) -> String,
    ) -> Result<Self, Error> {
        // A URI that leaves a mount is an error for those who see the mount, and another resource for the others.
        let routed = router.route(uri).map_err(|error| route_error(&error, uri))?;
        let located = Located::new(config, routed, plugin_name);
        let judged = located.judged().clone();
        let Located { routed_uri, plugin, served, .. } = located;
        let (mut allowed, mut denied) = (Vec::new(), Vec::new());
        let mut parties = parties(config);
        for party in parties.by_ref().take(MAX_JUDGED) {
            let principal = match &party {
                Party::Principal(name) if name == LOCAL => Principal::LOCAL,
                Party::Principal(name) if name == ANONYMOUS => Principal::ANONYMOUS,
                Party::Principal(name) => Principal::new(name.as_str()),
                Party::Group(name) => Principal::new("").with_groups([name.as_str()]),
                Party::Others => Principal::new(""),
            };
            let (decided, decision) = access.policy(&principal).decide_request(operation, &judged);
            let list = match &decision {
                decision if decision.is_allowed() => &mut allowed,
                Decision::Denied(_) => &mut denied,
                _ => continue,
            };
            let rule = decision.glob().and_then(|glob| config.rules.get(glob.rule));
            list.push(Judged { party, decided, line: rule.and_then(|rule| rule.line.get()), decision });
        }
        let is_cut = parties.next().is_some();
        Ok(Self { uri: routed_uri, plugin, served, allowed, denied, is_cut })
    }
}

/// Returns the parties that the config names, and the party of all others.
fn parties(config: &Config) -> impl Iterator<Item = Party> {
    let selected = config.rules.iter().flat_map(|rule| &rule.principals).filter_map(|selector| match selector {
        PrincipalSelector::Named(name) => Some(name.as_str()),
        PrincipalSelector::Any => None,
    });
    let with_tokens = config.principals.iter().map(|principal| principal.name.as_str());
    let members = config.groups.iter().flat_map(|group| group.principals.iter().map(String::as_str));
    let built_in = [LOCAL, ANONYMOUS];
    let principals: BTreeSet<_> = selected.chain(with_tokens).chain(members).collect();
    let principals: Vec<_> =
        principals.into_iter().filter(|name| !built_in.contains(name)).map(str::to_owned).collect();
    let of_rules = config.rules.iter().flat_map(|rule| rule.groups.iter().map(String::as_str));
    let declared = config
        .groups
        .iter()
        .flat_map(|group| std::iter::once(group.name.as_str()).chain(group.groups.iter().map(String::as_str)));
    let groups: BTreeSet<_> = of_rules.chain(declared).map(str::to_owned).collect();
    let built_in = built_in.map(|name| Party::Principal(name.to_owned()));
    let named = principals.into_iter().map(Party::Principal).chain(groups.into_iter().map(Party::Group));
    built_in.into_iter().chain([Party::Others]).chain(named)
}

impl Host {
    /// Returns who may perform an operation on a URI by the current rules.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if no mount owns the URI, and [`Error::InvalidRequest`] if it is not a URI.
    pub fn who_may(&self, operation: Operation, uri: &str) -> Result<WhoMay, Error> {
        let now = self.generation.load_full();
        let name = |index: &usize| now.slots.get(*index).map_or_else(String::new, |slot| slot.name.clone());
        WhoMay::new(&now.config, &now.access, &now.router, operation, uri, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "\
[[upstream]]
name = 'notes'
url = 'https://mcp.example.com/mcp'
mount = 'notes:///'
prefix = 'file:///'

[[principal]]
name = 'dev'
token-sha256 = '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'

[[principal]]
name = 'agent'
token-sha256 = 'fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9'

[[group]]
name = 'staff'
principals = ['corp/ada']

[[rule]]
principals = ['dev']
allow = ['**']

[[rule]]
groups = ['staff']
allow = ['notes:///**']

[[rule]]
principals = ['agent']
allow = ['notes:///**']
deny = ['notes:///private/**']
";

    fn who(uri: &str) -> (Vec<String>, Vec<String>) {
        let config = Config::parse(CONFIG, std::path::Path::new("/etc/mcp-host.toml")).unwrap();
        let found = WhoMay::by_config(&config, Operation::Read, uri).unwrap();
        let shown = |judged: Vec<Judged>| {
            judged
                .into_iter()
                .map(|Judged { party, line, .. }| {
                    let name = party.name().unwrap_or("*");
                    format!("{} {name}:{}", party.kind(), line.unwrap_or_default())
                })
                .collect()
        };
        (shown(found.allowed), shown(found.denied))
    }

    #[test]
    fn everyone_whom_a_rule_names_is_listed_with_the_line_of_the_rule_that_decides() {
        let (allowed, denied) = who("notes:///a.md");
        // `corp/ada` is in `staff`.
        let expected =
            ["principal local:0", "principal agent:27", "principal corp/ada:23", "principal dev:19", "group staff:23"];
        assert_eq!((allowed, denied.len()), (expected.map(str::to_owned).to_vec(), 0));
        let (allowed, denied) = who("notes:///private/a.md");
        assert!(!allowed.contains(&"principal agent:27".to_owned()), "{allowed:?}");
        assert_eq!(denied, ["principal agent:27"]);
    }

    #[test]
    fn what_no_mount_owns_is_read_by_nobody() {
        let config = Config::parse(CONFIG, std::path::Path::new("/etc/mcp-host.toml")).unwrap();
        assert!(matches!(WhoMay::by_config(&config, Operation::Read, "web:///x"), Err(Error::NotFound { .. })));
    }
}
