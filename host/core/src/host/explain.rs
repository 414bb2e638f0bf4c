//! Explanations of access decisions, for admins. Clients never get one: what they may not do does not exist for them.

use mcp_host_config::issuer::Scope;
use mcp_host_config::{Config, Operation};
use mcp_host_engine::plugin::NativePlugin;
use mcp_host_model::resource::Error;
use mcp_host_model::uri::{Path, Router, Uri};

use super::Host;
use super::builder::BuiltIns;
use super::resolve::route_error;
use super::status::PluginState;
use crate::access::{Access, Decision, Principal};

/// The decision on one operation of one principal on one URI, and what it is based on.
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The URI in normal form, which is what globs are matched against, without its query.
    pub uri: Uri,
    /// The plugin whose mount owns the URI.
    pub plugin: String,
    /// The provider's name of the resource.
    pub path: Path,
    /// The groups of the principal: those that it was given, and those of the config.
    pub groups: Vec<String>,
    /// The scopes that an access token of the principal needs for the operation beside; empty if no issuer has such principals.
    pub scopes: Vec<Scope>,
    /// The decision of the rules.
    pub decision: Decision,
    /// The operation that the decision is about: reading, if that is why a subscription is denied.
    pub decided: Operation,
    /// The line of the rule that decided in the config file, if there is one.
    pub line: Option<usize>,
    /// The state of the plugin; none without a running host.
    pub state: Option<PluginState>,
}

impl Explanation {
    /// Explains the decision by a config alone, without a running host. Native plugins are unknown.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if no mount owns the URI, and [`Error::InvalidRequest`] if it is not a URI.
    pub fn by_config(config: &Config, principal: &Principal, operation: Operation, uri: &str) -> Result<Self, Error> {
        let plugins = config.plugins.iter().map(|plugin| (plugin.mount.clone(), plugin.name.as_str().to_owned()));
        let built_in = built_in_plugins(config).map(|plugin| (plugin.mount, plugin.name.as_str().to_owned()));
        // The mounts of a valid config do not overlap.
        let router = Router::new(plugins.chain(built_in))
            .map_err(|error| Error::InvalidRequest { message: error.to_string() })?;
        Self::new(config, &Access::new(config), &router, principal, operation, uri, String::clone)
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
        let routed = router.route(uri).map_err(|error| route_error(&error, uri))?;
        let (decided, decision) = access.policy(principal).decide_request(operation, &routed.uri);
        let rule = decision.glob().and_then(|glob| config.rules.get(glob.rule));
        Ok(Self {
            plugin: plugin_name(routed.target),
            groups: access.groups(principal).map(str::to_owned).collect(),
            scopes: required_scopes(config, principal, operation, &routed.uri),
            decided,
            line: rule.and_then(|rule| rule.line.get()),
            state: None,
            uri: routed.uri,
            path: routed.path,
            decision,
        })
    }
}

/// The plugins of the built-in providers that a config mounts.
fn built_in_plugins(config: &Config) -> impl Iterator<Item = NativePlugin> {
    let is_mounted =
        |plugin: &NativePlugin| plugin.built_in.as_ref().is_some_and(|built_in| built_in.is_mounted(config, &[]));
    BuiltIns::new(None).plugins().into_iter().filter(is_mounted)
}

/// Returns the scopes that the issuer of a principal requires for an operation on a resource. The first part of the name is that of the
/// issuer.
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
}
