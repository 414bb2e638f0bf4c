//! Principals that authenticate with bearer tokens, `[[principal]]`, and groups of principals, `[[group]]`.
//!
//! A name in the config has no slash. A name with a slash, `ISSUER/NAME`, belongs to a principal that another authority
//! authenticates: an issuer of access tokens, a CA of client certificates, or an embedding application. So the names
//! are disjoint.

use std::fmt;
use std::str::FromStr;

use super::declare::{from_text, list_type, table};
use super::diagnostic::{Diagnostic, Suggest, quote};
use super::reader::{FromNode, Node, Schema};
use super::rule::{BUILT_IN, PrincipalSelector, is_external_name};
use super::token::TokenDigests;

/// The maximum length of a name, in bytes.
const MAX_NAME_LEN: usize = 64;

table! {
    /// A principal that authenticates with a bearer token over HTTP: `[[principal]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TokenPrincipal as "a principal", such as "{ name = \"ci\", token-sha256 = \"…\" }" {
        /// The name of the principal in rules, groups and the audit log. Unique, and not the name of a built-in
        /// principal.
        #[required]
        pub name: PrincipalName,
        /// The SHA-256 digests of the principal's tokens, each 64 lower-case hexadecimal digits. `mcp-host token new`
        /// creates a token and its digest.
        #[required]
        pub token_sha256: TokenDigests,
    }
}

table! {
    /// A group of principals, which rules select by name like a principal: `[[group]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct PrincipalGroup as "a group", such as "{ name = \"developers\", principals = [\"ci\"] }" {
        /// The name of the group in rules. Unique among groups.
        #[required]
        pub name: PrincipalName,
        /// The members: principals of the config, built-in principals, and principals of issuers, such as `corp/ada`.
        #[read_each(Member)]
        pub principals: Vec<String>,
        /// Groups that an issuer or an embedding application names, such as `corp/engineering`. Their members are
        /// members of this group, too.
        #[read_each(ExternalGroup)]
        pub groups: Vec<String>,
    }
}

/// The name of a principal or a group in the config: letters, digits, `.`, `_`, `@` and `-`, at most 64 characters; the
/// first one is a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrincipalName(String);

/// The reason why a text is not a name of a principal or a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrincipalNameError {
    /// The text has invalid characters, begins with punctuation, or is empty or too long.
    #[error("{} is not a name of a principal or a group", quote(.0))]
    Syntax(String),
    /// The name belongs to a built-in principal.
    #[error("{} is a built-in principal", quote(.0))]
    BuiltIn(String),
}

impl PrincipalName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PrincipalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PrincipalName {
    type Err = PrincipalNameError;

    fn from_str(text: &str) -> Result<Self, PrincipalNameError> {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
        let is_name = text.len() <= MAX_NAME_LEN
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(is_inner);
        if !is_name {
            return Err(PrincipalNameError::Syntax(text.to_owned()));
        }
        if BUILT_IN.contains(&text) {
            return Err(PrincipalNameError::BuiltIn(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl Suggest for PrincipalNameError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::Syntax(_) => format!(
                "use letters, digits, `.`, `_`, `@` and `-`, {MAX_NAME_LEN} at most, such as `{key} = \"ci\"`; names with \
                 a slash are for principals that an issuer, a client CA or an application authenticates"
            ),
            Self::BuiltIn(_) => "choose another name: built-in principals have no token".to_owned(),
        }
    }
}

from_text!(
    PrincipalName,
    "a name",
    "\"ci\"",
    Schema::pattern(r"^(?!(local|anonymous)$)[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")
);

/// A member of a group.
struct Member(String);

impl FromNode for Member {
    const TYPE_NAME: &'static str = PrincipalSelector::TYPE_NAME;

    fn example() -> String {
        "\"ci\"".into()
    }

    fn schema() -> Schema {
        PrincipalSelector::name_schema()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        PrincipalSelector::read_name(node).map(Self)
    }
}

/// A group from an issuer or an application.
struct ExternalGroup(String);

impl FromNode for ExternalGroup {
    const TYPE_NAME: &'static str = "a group of an issuer or an application";

    fn example() -> String {
        "\"corp/engineering\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^[^*/\s]+/[^*]*[^*\s]$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let written = node.string::<Self>()?;
        if is_external_name(written) {
            return Some(Self(written.to_owned()));
        }
        let help = "write `ISSUER/NAME`; members of the config are named by `principals`";
        node.report_error(format!("{} is not {}", quote(written), Self::TYPE_NAME), help);
        None
    }
}

list_type! {
    /// The principals of a config, with unique names and unique tokens.
    pub(super) struct Principals(Vec<TokenPrincipal>) of TokenPrincipal as "a list of principals", |node| {
        node.context.declared.borrow_mut().principals = declared_names(node);
        let items: Vec<(Node<'_>, TokenPrincipal)> = unique_names(node, "two principals have the name")?;
        for (index, (item, principal)) in items.iter().enumerate() {
            let mut earlier = items.iter().take(index).map(|(_, other)| other);
            if let Some(other) = earlier.find(|other| other.token_sha256.intersects(&principal.token_sha256)) {
                let message = format!("a token of `{}` is one of `{}`, too", principal.name, other.name);
                let problem = Diagnostic::new(message, "give each principal tokens of its own: `mcp-host token new`");
                item.context.report(problem.at(item.entry_span("token-sha256")));
            }
        }
        Some(items.into_iter().map(|(_, principal)| principal).collect())
    }
}

list_type! {
    /// The groups of a config, with unique names.
    pub(super) struct Groups(Vec<PrincipalGroup>) of PrincipalGroup as "a list of groups", |node| {
        node.context.declared.borrow_mut().groups = declared_names(node);
        let items: Vec<(Node<'_>, PrincipalGroup)> = unique_names(node, "two groups have the name")?;
        Some(items.into_iter().map(|(_, group)| group).collect())
    }
}

/// Reads a list, and reports each name that an earlier entry has, too.
pub(super) fn unique_names<'a, T: FromNode>(node: &Node<'a>, message: &str) -> Option<Vec<(Node<'a>, T)>> {
    node.unique_items("name", |name: &PrincipalName| format!("{message} `{name}`"), "give each a name of its own")
}

/// Returns the valid names that the entries of a list declare.
pub(super) fn declared_names(list: &Node<'_>) -> Vec<String> {
    let items = list.value.as_array().into_iter().flat_map(|items| items.iter());
    let names = items.filter_map(|item| item.get_ref().as_table()?.get("name")?.get_ref().as_str());
    names.filter_map(|name| name.parse::<PrincipalName>().ok()).map(|name| name.0).collect()
}
