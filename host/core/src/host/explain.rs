//! Explanations of access decisions, for admins. Clients never get one: to them, a denied resource does not exist.

mod who;

use mcp_host_config::issuer::Scope;
use mcp_host_config::{Config, Operation, Upstream};
use mcp_host_engine::plugin::NativePlugin;
use mcp_host_model::resource::Error;
use mcp_host_model::uri::{Mount, Path, Routed, Router, Uri};

use super::Host;
use super::resolve::{route_error, route_for};
use super::search::BuiltIns;
use super::status::PluginState;
use crate::access::{Access, Decision, Principal};

pub use self::who::{Judged, Party, WhoMay};

/// The decision on one operation of one principal on one URI, and the reason for it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The URI in normal form. Globs are matched against it without its query.
    pub uri: Uri,
    /// The plugin whose mount owns the URI.
    pub plugin: String,
    /// The provider's name of the resource.
    pub path: Path,
    /// The groups of the principal: the groups it was created with, and the groups of the config.
    pub groups: Vec<String>,
    /// The scopes that an access token of the principal needs in addition; empty if no issuer has such principals.
    pub scopes: Vec<Scope>,
    /// The decision of the rules.
    pub decision: Decision,
    /// The operation that decided: reading, if that is why a subscription is denied.
    pub decided: Operation,
    /// The line of the deciding rule in the config file, if there is one.
    pub line: Option<usize>,
    /// Where the resource is served, given this spelling of its URI.
    pub served: Served,
    /// The state of the plugin; none without a running host.
    pub state: Option<PluginState>,
}

/// Whether a resource is served at this spelling of its URI. An upstream's resource is served at one spelling, the
/// canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// It is served.
    Here,
    /// It is served only if the upstream lists it: servers may interpret an unlisted URI as another resource.
    OnlyIfListed,
    /// It is served at this URI instead, and the requested one is not found. The decision is about this URI.
    At(Uri),
    /// No resource is served: the URI is outside of the prefix that the mount replaces.
    Nowhere,
}

impl Served {
    /// Returns the name: `here`, `only-if-listed`, `elsewhere` or `nowhere`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::OnlyIfListed => "only-if-listed",
            Self::At(_) => "elsewhere",
            Self::Nowhere => "nowhere",
        }
    }

    /// The URI of the resource, if it is served at another spelling.
    pub fn at(&self) -> Option<&Uri> {
        match self {
            Self::At(uri) => Some(uri),
            _ => None,
        }
    }
}

/// The decision on the resources below a mount `NAME+`, which is a prefix of URIs but not a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountDecision {
    /// All of them are allowed.
    All,
    /// It depends on the resource.
    Some,
    /// None is allowed.
    None,
}

impl Explanation {
    /// Returns whether the rules and the served spelling permit the operation.
    pub fn is_allowed(&self) -> bool {
        self.decision.is_allowed() && matches!(self.served, Served::Here | Served::OnlyIfListed)
    }

    /// Returns the plugin whose mount `NAME+` a text names, and the decision below it; none if the text names no such
    /// mount.
    pub fn of_mount(
        config: &Config,
        principal: &Principal,
        operation: Operation,
        text: &str,
    ) -> Option<(String, MountDecision)> {
        let plugin = config.plugins.iter().find(|plugin| plugin.mount.is_prefix() && plugin.mount.as_str() == text)?;
        let policy = Access::new(config).policy(principal);
        let decision = if policy.allows_all_below(operation, &plugin.mount) {
            MountDecision::All
        } else if policy.may_allow_below(operation, &plugin.mount) {
            MountDecision::Some
        } else {
            MountDecision::None
        };
        Some((plugin.name.to_string(), decision))
    }

    /// Explains the decision from a config alone, without a running host. Native plugins are unknown.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if no mount owns the URI, and [`Error::InvalidRequest`] if it is not a URI.
    pub fn by_config(config: &Config, principal: &Principal, operation: Operation, uri: &str) -> Result<Self, Error> {
        Self::new(config, &Access::new(config), &built_in_router(config)?, principal, operation, uri, String::clone)
    }

    fn new<T>(
        config: &Config,
        access: &Access,
        router: &Router<T>,
        principal: &Principal,
        operation: Operation,
        uri: &str,
        plugin_name: impl FnOnce(&T) -> String,
    ) -> Result<Self, Error> {
        let policy = access.policy(principal);
        let routed = route_for(router, &policy, operation, uri).map_err(|error| route_error(&error, uri))?;
        let located = Located::new(config, routed, plugin_name);
        let (decided, decision) = policy.decide_request(operation, located.judged());
        let Located { routed_uri: uri, path, plugin, served } = located;
        let rule = decision.glob().and_then(|glob| config.rules.get(glob.rule));
        Ok(Self {
            plugin,
            served,
            groups: access.groups(principal).map(str::to_owned).collect(),
            scopes: required_scopes(config, principal, operation, &uri),
            decided,
            line: rule.and_then(|rule| rule.line.get()),
            state: None,
            uri,
            path,
            decision,
        })
    }
}

/// A URI below a mount.
struct Located {
    /// In normal form.
    routed_uri: Uri,
    path: Path,
    plugin: String,
    served: Served,
}

impl Located {
    fn new<T>(config: &Config, routed: Routed<'_, T>, plugin_name: impl FnOnce(&T) -> String) -> Self {
        let plugin = plugin_name(routed.target);
        let upstream = config.plugins.iter().find(|one| one.name.as_str() == plugin);
        let upstream = upstream.and_then(|plugin| plugin.upstream.as_deref());
        let served = upstream.map_or(Served::Here, |upstream| served(upstream, routed.mount, &routed.path));
        Self { plugin, served, routed_uri: routed.uri, path: routed.path }
    }

    /// Returns the URI that the rules are applied to.
    fn judged(&self) -> &Uri {
        self.served.at().unwrap_or(&self.routed_uri)
    }
}

/// The routes of a config alone, from mounts to the names of plugins.
fn built_in_router(config: &Config) -> Result<Router<String>, Error> {
    let plugins = config.plugins.iter().map(|plugin| (plugin.mount.clone(), plugin.name.as_str().to_owned()));
    let built_in = built_in_plugins(config).map(|plugin| (plugin.mount, plugin.name.as_str().to_owned()));
    // The mounts of a valid config do not overlap.
    Router::new(plugins.chain(built_in)).map_err(|error| Error::InvalidRequest { message: error.to_string() })
}

/// Returns whether an upstream serves a path.
fn served(upstream: &Upstream, mount: &Mount, path: &Path) -> Served {
    let canonical = upstream.canonical_path(mount, path.as_str());
    match canonical.and_then(|canonical| mount.compose(&canonical).ok()) {
        None => Served::Nowhere,
        Some(canonical) if canonical.path != *path => Served::At(canonical.uri),
        Some(_) if !upstream.is_requestable(path.as_str()) => Served::OnlyIfListed,
        Some(_) => Served::Here,
    }
}

/// The plugins of the built-in providers that a config mounts.
fn built_in_plugins(config: &Config) -> impl Iterator<Item = NativePlugin> {
    let is_mounted =
        |plugin: &NativePlugin| plugin.built_in.as_ref().is_some_and(|built_in| built_in.is_mounted(config, &[]));
    BuiltIns::new(None, None).plugins().into_iter().filter(is_mounted)
}

/// Returns the scopes that the issuer of a principal requires for an operation on a resource. The first part of the
/// principal's name is the issuer's name.
fn required_scopes(config: &Config, principal: &Principal, operation: Operation, uri: &Uri) -> Vec<Scope> {
    let issuer = principal
        .name()
        .split_once('/')
        .and_then(|(prefix, _)| config.issuers.iter().find(|issuer| issuer.name.as_str() == prefix));
    let mut operations = vec![operation];
    let built_in = built_in_plugins(config).find(|plugin| uri.as_str().starts_with(plugin.mount.as_str()));
    operations.extend(
        built_in.and_then(|plugin| plugin.built_in).map_or(&[][..], |built_in| built_in.performed_operations()),
    );
    let required = issuer.map(|issuer| issuer.required_scopes(&operations)).unwrap_or_default();
    required.into_iter().cloned().collect()
}

impl Host {
    /// Explains the decision of the current rules on one operation of one principal on one URI.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if no mount owns the URI, and [`Error::InvalidRequest`] if it is not a URI.
    pub fn explain(&self, principal: &Principal, operation: Operation, uri: &str) -> Result<Explanation, Error> {
        let now = self.generation.load_full();
        let name = |index: &usize| now.slots.get(*index).map_or_else(String::new, |slot| slot.name.clone());
        let explanation = Explanation::new(&now.config, &now.access, &now.router, principal, operation, uri, name)?;
        let state = self.plugins().into_iter().find(|plugin| plugin.name == explanation.plugin);
        Ok(Explanation { state: state.map(|plugin| plugin.state), ..explanation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::Plugin;

    #[test]
    fn the_plugin_the_path_and_the_line_of_the_rule_are_named() {
        let file = std::path::Path::new("mcp-host.toml");
        let rules =
            "\n[[rule]]\nprincipals = ['*']\nallow = ['a:///**']\n\n[[rule]]\nprincipals = ['*']\ndeny = ['**/.env']\n";
        let plugin = |name: &str, mount: &str| Plugin::new(name.parse().unwrap(), "x.wasm", mount.parse().unwrap());
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.wasm"), "").unwrap();
        let text = format!("[[plugin]]\nname = 'a'\ncomponent = 'x.wasm'\nmount = 'a:///'\n{rules}");
        let config = Config::parse(&text, &dir.path().join(file)).unwrap();
        let explain = |uri| Explanation::by_config(&config, &Principal::ANONYMOUS, Operation::Read, uri);
        let allowed = explain("A:///b/%66?q").unwrap();
        assert_eq!(
            (allowed.uri.as_str(), allowed.plugin.as_str(), allowed.path.as_str()),
            ("a:///b/f?q", "a", "b/f?q")
        );
        assert_eq!((allowed.decision.is_allowed(), allowed.line), (true, Some(6)));
        let denied = explain("a:///d/.env").unwrap();
        assert_eq!((denied.decision.is_allowed(), denied.line), (false, Some(10)));
        assert!(matches!(explain("b:///"), Err(Error::NotFound { .. })));
        assert!(matches!(explain("no uri"), Err(Error::InvalidRequest { .. })));
        let built = Config::new().plugin(plugin("a", "a:///")).unwrap();
        let default = Explanation::by_config(&built, &Principal::LOCAL, Operation::Read, "a:///x").unwrap();
        assert_eq!((default.decision, default.line), (Decision::AllowedByDefault, None));
    }

    #[test]
    fn a_uri_that_leaves_a_mount_is_explained_as_it_is_served_to_the_principal() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.wasm"), "").unwrap();
        let plugin =
            |name: &str| format!("[[plugin]]\nname = '{name}'\ncomponent = 'x.wasm'\nmount = 'files://h/{name}/'\n");
        let rules = "[[rule]]\nprincipals = ['*']\nallow = ['files://h/b/**']\n\
                     [[rule]]\nprincipals = ['local']\nallow = ['files://h/a/**']\n";
        let text = format!("{}{}{rules}", plugin("a"), plugin("b"));
        let config = Config::parse(&text, &dir.path().join("mcp-host.toml")).unwrap();
        let explain = |principal| Explanation::by_config(&config, &principal, Operation::Read, "files://h/a/../b/c");
        let served = explain(Principal::ANONYMOUS).unwrap();
        assert_eq!((served.uri.as_str(), served.plugin.as_str()), ("files://h/b/c", "b"));
        assert!(served.is_allowed());
        // Its error names the mount, which this principal may see.
        assert!(matches!(explain(Principal::LOCAL), Err(Error::InvalidRequest { .. })));
    }

    #[test]
    fn a_spelling_that_is_not_served_is_told_with_the_one_that_is() {
        let text = "[[upstream]]\nname = 'up'\nurl = 'https://mcp.example.com/mcp'\nmount = 'up+'\n\
                    [[upstream]]\nname = 'nas'\nurl = 'https://mcp.example.com/nas'\nmount = 'files://nas/'\nprefix = 'file:///srv/'\n\
                    [[rule]]\nprincipals = ['*']\nallow = ['up+**', 'files://nas/**']\ndeny = ['up+file:///secret/**', 'files://nas/secret/**']\n";
        let config = Config::parse(text, std::path::Path::new("/etc/mcp-host.toml")).unwrap();
        let explain = |uri| Explanation::by_config(&config, &Principal::ANONYMOUS, Operation::Read, uri).unwrap();
        for (uri, served_as) in [
            ("up+file:/secret/x", "up+file:///secret/x"),
            ("up+file:///pub/..%2Fsecret/x", "up+file:///secret/x"),
            ("files://nas/pub/..%2Fsecret/x", "files://nas/secret/x"),
        ] {
            let explained = explain(uri);
            assert!(matches!(&explained.served, Served::At(at) if at.as_str() == served_as), "{uri}: {explained:?}");
            assert!(!explained.decision.is_allowed() && !explained.is_allowed(), "{uri}");
        }
        let explained = explain("up+file:/pub/x");
        assert!(explained.decision.is_allowed() && !explained.is_allowed(), "the other spelling is allowed");
        let listed = Served::OnlyIfListed;
        for (uri, served) in
            [("up+file:///pub/x", Served::Here), ("up+file:///pub/x?q", listed), ("files://nas/a", Served::Here)]
        {
            let explained = explain(uri);
            assert_eq!((explained.is_allowed(), explained.served), (true, served), "{uri}");
        }
        let outside = explain("files://nas/..%2F..%2Fetc/passwd");
        assert_eq!((outside.is_allowed(), outside.served), (false, Served::Nowhere));
    }

    #[test]
    fn below_a_mount_in_front_of_uris_the_rules_decide_on_all_or_some_or_none() {
        let text = "[[upstream]]\nname = 'up'\nurl = 'https://mcp.example.com/mcp'\nmount = 'up+'\n\
                    [[rule]]\nprincipals = ['anonymous']\nallow = ['up+x:///**']\n[[rule]]\nprincipals = ['local']\nallow = ['up+**']\n";
        let config = Config::parse(text, std::path::Path::new("/etc/mcp-host.toml")).unwrap();
        let of_mount = |principal, text| Explanation::of_mount(&config, &principal, Operation::Read, text);
        let up = |decision| Some(("up".to_owned(), decision));
        assert_eq!(of_mount(Principal::LOCAL, "up+"), up(MountDecision::All));
        assert_eq!(of_mount(Principal::ANONYMOUS, "up+"), up(MountDecision::Some));
        assert_eq!(of_mount(Principal::new("ada"), "up+"), up(MountDecision::None));
        assert_eq!(of_mount(Principal::LOCAL, "other+"), None);
    }
}
