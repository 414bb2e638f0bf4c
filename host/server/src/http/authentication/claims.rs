//! The claims of a verified access token: its principal, groups, scopes and expiry.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_host_base::escape::is_unsafe;
use mcp_host_base::log_target;
use mcp_host_config::issuer::{Issuer, Scope};
use mcp_resource_host::access::Principal;
use serde_json::{Map, Value};

use super::token_error::{TokenError, excerpt};

/// The maximum length of the name of a principal without its issuer, in bytes.
const MAX_NAME_LEN: usize = 190;
/// The prefix of groups that are made from scopes.
const SCOPE_GROUP: &str = "scope:";

/// The claims of a token, or of an introspection answer.
pub(super) type Claims = Map<String, Value>;

/// A verified access token.
#[derive(Debug)]
pub(super) struct AccessToken {
    /// Its principal: `ISSUER/NAME`, with the groups that the config names.
    pub(super) principal: Principal,
    /// Its issuer in the config.
    pub(super) issuer: Arc<Issuer>,
    /// The scopes of the token, including implied ones, as far as the config requires them.
    scopes: BTreeSet<Box<str>>,
    /// The expiry, with the tolerated clock skew. None if the issuer does not declare it.
    expires: Option<SystemTime>,
}

impl AccessToken {
    /// Reads the claims of a token of this issuer. Only groups in `known_groups`, which the config names, are kept:
    /// others have no effect.
    pub(super) fn from_claims(
        claims: &Claims,
        issuer: &Arc<Issuer>,
        known_groups: &HashSet<String>,
    ) -> Result<Self, TokenError> {
        let name = issuer.principal_claim.find(claims).and_then(Value::as_str).filter(|name| is_name(name));
        let name = name.ok_or_else(|| TokenError::NoPrincipal(issuer.principal_claim.to_string()))?;
        let mut scopes: BTreeSet<Box<str>> = scopes(claims).map(Into::into).collect();
        include_scopes(&mut scopes, issuer);
        let prefix = issuer.name.as_str();
        let of_scopes = scopes.iter().map(|scope| format!("{prefix}/{SCOPE_GROUP}{scope}"));
        // A group claim cannot pose as a scope.
        let of_claims = issuer.group_claims.iter().flat_map(|claim| texts(claim.find(claims)));
        let of_claims =
            of_claims.filter(|group| !group.starts_with(SCOPE_GROUP)).map(|group| format!("{prefix}/{group}"));
        let groups: Vec<_> = of_scopes.chain(of_claims).filter(|group| known_groups.contains(group)).collect();
        let is_required = |scope: &str| {
            let required = issuer.operation_scopes.values().chain([&issuer.scopes]).flatten();
            required.map(Scope::as_str).any(|required| required == scope)
        };
        scopes.retain(|scope| is_required(scope));
        Ok(Self {
            principal: Principal::new(format!("{prefix}/{name}")).with_groups(groups),
            issuer: issuer.clone(),
            scopes,
            expires: expiry(claims, issuer.clock_skew.duration())?,
        })
    }

    /// Logs the claims of a token, including the groups and scopes that the config does not name, so an admin sees why
    /// a rule does not apply.
    pub(super) fn log(&self, claims: &Claims) {
        if !tracing::enabled!(target: log_target::SERVER, tracing::Level::DEBUG) {
            return;
        }
        let prefix = self.issuer.name.as_str();
        let of_claims = self.issuer.group_claims.iter().flat_map(|claim| texts(claim.find(claims)));
        let groups = list(of_claims.map(|group| format!("{prefix}/{}", excerpt(group))));
        let used_groups = list(self.principal.groups().map(excerpt));
        let scopes = list(scopes(claims).map(excerpt));
        let principal = self.principal.name();
        let expires_in = self.expires_in().map(|time| time.as_secs());
        tracing::debug!(target: log_target::SERVER, principal, groups, used_groups, scopes, expires_in, "an access token is accepted");
    }

    /// Returns whether the token has all of these scopes.
    pub(super) fn has_scopes<'s>(&self, mut required: impl Iterator<Item = &'s str>) -> bool {
        required.all(|scope| self.scopes.contains(scope))
    }

    /// Returns the time until the token expires: none if the issuer does not declare it, and zero if the token has
    /// expired.
    pub(super) fn expires_in(&self) -> Option<Duration> {
        self.expires.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default())
    }
}

/// Adds implied scopes, to any depth.
fn include_scopes(scopes: &mut BTreeSet<Box<str>>, issuer: &Issuer) {
    let mut unseen: Vec<_> = scopes.iter().cloned().collect();
    while let Some(scope) = unseen.pop() {
        let included =
            issuer.scope_includes.iter().filter(|(wide, _)| wide.as_str() == &*scope).flat_map(|(_, narrow)| narrow);
        for narrow in included {
            if scopes.insert(narrow.as_str().into()) {
                unseen.push(narrow.as_str().into());
            }
        }
    }
}

/// Returns the expiry of a token, with the tolerated clock skew. None without the claim `exp`.
fn expiry(claims: &Claims, clock_skew: Duration) -> Result<Option<SystemTime>, TokenError> {
    let Some(since_epoch) = numeric_date(claims, "exp")? else { return Ok(None) };
    let expires = UNIX_EPOCH.checked_add(since_epoch).and_then(|time| time.checked_add(clock_skew));
    expires.map(Some).ok_or_else(|| TokenError::Claim("exp".to_owned()))
}

/// Returns the time of a claim since 1970, in seconds with or without a fraction (RFC 7519, section 2).
pub(super) fn numeric_date(claims: &Claims, claim: &str) -> Result<Option<Duration>, TokenError> {
    let Some(value) = claims.get(claim) else { return Ok(None) };
    let time = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.map(Some).ok_or_else(|| TokenError::Claim(claim.to_owned()))
}

/// Returns whether a text can be the name of a principal: visible characters, and spaces between them. Other characters
/// would let two different names look the same in a log.
pub(super) fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_LEN).contains(&text.len()) && text.trim() == text && !text.chars().any(is_unsafe)
}

/// A list of texts, or one text.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let (one, list) = match value {
        Some(Value::String(text)) => (Some(text.as_str()), None),
        Some(Value::Array(items)) => (None, Some(items)),
        _ => (None, None),
    };
    one.into_iter().chain(list.into_iter().flatten().filter_map(Value::as_str))
}

/// The scopes of a token: the claim `scope`, or `scp` of some issuers.
fn scopes(claims: &Claims) -> impl Iterator<Item = &str> {
    ["scope", "scp"].into_iter().flat_map(|claim| words(claims.get(claim)))
}

/// The first names of a list, for the log.
fn list(mut names: impl Iterator<Item = String>) -> String {
    /// The maximum number of names.
    const MAX_NAMES: usize = 30;
    let shown: Vec<_> = names.by_ref().take(MAX_NAMES).collect();
    let more = names.count();
    let shown = shown.join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// The words of a text (RFC 6749, section 3.3), or the words in a list of texts, as some issuers have it.
fn words(value: Option<&Value>) -> impl Iterator<Item = &str> {
    texts(value).flat_map(|text| text.split(' ')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mcp_host_config::issuer::ClaimName;
    use mcp_host_config::issuer::Jwks;

    fn issuer(change: impl FnOnce(&mut Issuer)) -> Arc<Issuer> {
        let url: mcp_host_config::EndpointUrl = "https://login.example.com".parse().unwrap();
        let mut issuer = Issuer::new("corp".parse().unwrap(), url.clone(), Jwks::Url(url));
        change(&mut issuer);
        Arc::new(issuer)
    }

    fn read(claims: &Value, issuer: &Arc<Issuer>, known: &[&str]) -> Result<AccessToken, TokenError> {
        let known = known.iter().map(|group| (*group).to_owned()).collect();
        AccessToken::from_claims(claims.as_object().unwrap(), issuer, &known)
    }

    #[test]
    fn a_principal_is_named_by_its_issuer_and_has_the_groups_that_the_config_names() {
        let claims = json!({ "sub": "ada", "groups": ["engineering", "chess", 7], "scope": "mcp:read a b" });
        let issuer = issuer(|issuer| issuer.scopes = ["a", "mcp:read"].map(|scope| scope.parse().unwrap()).into());
        let token = read(&claims, &issuer, &["corp/engineering", "corp/scope:mcp:read", "other/chess"]).unwrap();
        assert_eq!(token.principal.name(), "corp/ada");
        assert_eq!(token.principal.groups().collect::<Vec<_>>(), ["corp/engineering", "corp/scope:mcp:read"]);
        assert!(token.has_scopes(["a", "mcp:read"].into_iter()) && !token.has_scopes(["c"].into_iter()));
        assert_eq!(token.expires_in(), None);
    }

    #[test]
    fn a_group_does_not_pose_as_a_scope() {
        let claims = json!({ "sub": "ada", "groups": ["scope:admin"] });
        let token = read(&claims, &issuer(|_| {}), &["corp/scope:admin"]).unwrap();
        assert_eq!(token.principal.groups().count(), 0);
    }

    #[test]
    fn claims_are_found_by_name_or_by_pointer() {
        let nested = issuer(|issuer| {
            issuer.principal_claim = ClaimName::new("https://example.com/name");
            issuer.group_claims = vec![ClaimName::new("/realm_access/roles"), ClaimName::new("/team~1a")];
        });
        let claims = json!({ "https://example.com/name": "ada", "realm_access": { "roles": ["x"] }, "team/a": "y" });
        let token = read(&claims, &nested, &["corp/x", "corp/y"]).unwrap();
        assert_eq!(token.principal.name(), "corp/ada");
        assert_eq!(token.principal.groups().collect::<Vec<_>>(), ["corp/x", "corp/y"]);
    }

    #[test]
    fn names_are_visible_text_of_bounded_length() {
        for sub in
            [json!(""), json!(7), json!("a\nb"), json!("a\u{200b}"), json!(" a"), json!("a".repeat(191)), json!(null)]
        {
            assert!(
                matches!(read(&json!({ "sub": sub }), &issuer(|_| {}), &[]), Err(TokenError::NoPrincipal(_))),
                "{sub}"
            );
        }
        for sub in ["local", "../x", "a/b", "Ada Lovelace", "日本"] {
            let token = read(&json!({ "sub": sub }), &issuer(|_| {}), &[]).unwrap();
            assert_eq!(token.principal.name(), format!("corp/{sub}"));
            assert!(!token.principal.is_built_in());
        }
    }

    #[test]
    fn a_time_is_a_number_of_seconds() {
        for exp in [json!("1795350000"), json!(null), json!(false), json!([1]), json!(-1), json!(1e300)] {
            let claims = json!({ "sub": "ada", "exp": exp });
            assert!(matches!(read(&claims, &issuer(|_| {}), &[]), Err(TokenError::Claim(_))), "{exp}");
        }
        assert_eq!(
            read(&json!({ "sub": "ada", "exp": 1.5 }), &issuer(|_| {}), &[]).unwrap().expires_in(),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn a_scope_includes_others_to_any_depth() {
        let scopes = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>();
        let issuer = issuer(|issuer| {
            issuer.scope_includes.insert("all".parse().unwrap(), scopes(&["read", "more"]));
            issuer.scopes = scopes(&["all", "read", "more", "subscribe"]);
            issuer.scope_includes.insert("more".parse().unwrap(), scopes(&["subscribe", "all"]));
        });
        let token = read(&json!({ "sub": "ada", "scp": ["all"] }), &issuer, &[]).unwrap();
        assert!(token.has_scopes(["all", "read", "more", "subscribe"].into_iter()));
    }
}
