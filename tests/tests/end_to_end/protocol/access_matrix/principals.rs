//! The kinds of principals and rules.

use mcp_host_tests::{ConfigFile, HttpServer, Revision, Rule, initialize_params, request};
use reqwest::StatusCode;
use serde_json::json;

const CI: &str = "mcp_matrix-ci";
const OPS: &str = "mcp_matrix-ops";
/// The token of a principal that may use everything.
pub(super) const WITNESS: &str = "mcp_matrix-all";

/// A kind of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No rule.
    None,
    /// Everything is allowed.
    Allow,
    /// Everything is allowed, and the secret notes are denied.
    DenyOverAllow,
    /// Everything is allowed, but only for the listings of resources and templates.
    ListingsOnly,
}

/// A kind of principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrincipalKind {
    Local,
    Anonymous,
    /// With a token, named by rules.
    Token,
    /// With a token, in a group that rules name.
    GroupMember,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Allow, Self::DenyOverAllow, Self::ListingsOnly];

    /// Returns whether the rules allow an operation on the secret notes, or on everything else.
    pub(super) fn allows(self, principal: PrincipalKind, operation: &str, is_secret: bool) -> bool {
        match self {
            Self::None => principal == PrincipalKind::Local,
            Self::Allow => true,
            Self::DenyOverAllow => !is_secret,
            Self::ListingsOnly => ["list", "templates"].contains(&operation),
        }
    }
}

impl PrincipalKind {
    pub(super) const OVER_HTTP: [Self; 3] = [Self::Anonymous, Self::Token, Self::GroupMember];

    /// Returns the principal's token.
    pub(super) fn token(self) -> Option<&'static str> {
        match self {
            Self::Local | Self::Anonymous => None,
            Self::Token => Some(CI),
            Self::GroupMember => Some(OPS),
        }
    }
}

/// Adds principals, a group and rules.
pub(super) fn add(config: ConfigFile, kind: Kind) -> ConfigFile {
    let config = config.principal("ci", CI).principal("ops", OPS).principal("witness", WITNESS);
    let mut sections = "\n[[group]]\nname = \"operators\"\nprincipals = [\"ops\"]\n".to_owned();
    let rules = match kind {
        Kind::None => &[][..],
        Kind::Allow => &["allow = ['**']"],
        Kind::DenyOverAllow => &["deny = ['notes://n/secret/**']", "allow = ['**']"],
        Kind::ListingsOnly => &["allow = ['**']\noperations = ['list', 'templates']"],
    };
    for rule in rules {
        for selector in ["principals = ['local', 'anonymous', 'ci']", "groups = ['operators']"] {
            sections.push_str(&format!("\n[[rule]]\n{selector}\n{rule}\n"));
        }
    }
    config.append(&sections).rule(Rule::for_principal("witness").allow(["**"]))
}

/// If no rule applies to anonymous clients, and others have tokens, a request without a token is answered only by a
/// challenge.
pub(super) async fn check_unauthorized(server: &HttpServer, revision: &Revision) {
    let wire = server.uninitialized(revision.clone());
    let first = match revision.has_initialize() {
        true => request(revision, 0, "initialize", initialize_params(revision)),
        false => request(revision, 0, "resources/list", json!({})),
    };
    let refused = wire.post(&first).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{revision}");
    assert!(!refused.text().await.unwrap().contains("notes"));
}
