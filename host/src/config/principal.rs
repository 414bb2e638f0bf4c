//! Principals that authenticate with bearer tokens, `[[principal]]`, and groups of principals, `[[group]]`.
//!
//! A name in the config has no slash. A name with one, `ISSUER/NAME`, is that of a principal that somebody else
//! authenticates: an issuer of access tokens, an authority of client certificates, or an embedding application. So neither can be taken for the other.

use std::fmt;
use std::str::FromStr;

use super::error::{Diagnostic, Suggest, quote};
use super::reader::{FromNode, FromTable, Node, Schema, Table, documented};
use super::rule::{BUILT_IN, PrincipalSelector, is_external_name};
use super::token::TokenDigests;

/// The maximum length of a name, in bytes.
const MAX_NAME_LEN: usize = 64;

documented! {
    /// A principal that authenticates with a bearer token over HTTP: `[[principal]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct TokenPrincipal {
        /// Its name in rules, groups and the audit log. Unique, and no built-in one.
        pub name: PrincipalName,
        /// The SHA-256 digests of its tokens, as 64 lower-case hexadecimal digits. `mcp-host token new` creates both.
        pub token_sha256: TokenDigests,
    }
}

documented! {
    /// A group of principals, which rules name like a principal: `[[group]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct PrincipalGroup {
        /// Its name in rules. Unique among groups.
        pub name: PrincipalName,
        /// Its members: principals of the config, built-in ones, and those of others, such as `corp/ada`.
        pub principals: Vec<String>,
        /// The groups of others whose members are members of it, too, such as `corp/engineering`.
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
    /// It has characters that a name does not have, or begins with a punctuation mark, or is empty or too long.
    #[error("{} is not a name of a principal or a group", quote(.0))]
    Syntax(String),
    /// It is the name of a built-in principal.
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

impl FromNode for PrincipalName {
    const TYPE_NAME: &'static str = "a name";

    fn example() -> String {
        "\"ci\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^(?!(local|anonymous)$)[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.parse()
    }
}

impl FromTable for TokenPrincipal {
    const TYPE_NAME: &'static str = "a principal";

    fn example() -> String {
        "{ name = \"ci\", token-sha256 = \"…\" }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let name = table.required::<PrincipalName>("name");
        let token_sha256 = table.required("token-sha256");
        Some(Self { name: name?, token_sha256: token_sha256? })
    }
}

impl FromTable for PrincipalGroup {
    const TYPE_NAME: &'static str = "a group";

    fn example() -> String {
        "{ name = \"developers\", principals = [\"ci\"] }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let name = table.required::<PrincipalName>("name");
        let principals: Vec<Member> = table.or_default("principals");
        let groups: Vec<ExternalGroup> = table.or_default("groups");
        let name = name?;
        let principals = principals.into_iter().map(|Member(name)| name).collect();
        Some(Self { name, principals, groups: groups.into_iter().map(|ExternalGroup(name)| name).collect() })
    }
}

/// A member of a group.
struct Member(String);

impl FromNode for Member {
    const TYPE_NAME: &'static str = "a principal";

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

/// A group that an issuer or an application names.
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

/// The principals of a config: unique names, and no token of two principals.
#[derive(Default)]
pub(super) struct Principals(pub(super) Vec<TokenPrincipal>);

/// The groups of a config, with unique names.
#[derive(Default)]
pub(super) struct Groups(pub(super) Vec<PrincipalGroup>);

impl FromNode for Principals {
    const TYPE_NAME: &'static str = "a list of principals";

    fn example() -> String {
        format!("[{}]", <TokenPrincipal as FromNode>::example())
    }

    fn schema() -> Schema {
        Schema::list(TokenPrincipal::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let items = node.items::<TokenPrincipal>()?;
        node.context.declared.borrow_mut().principals = declared_names(&items);
        report_repeated_names(&items, "two principals have the name");
        let principals: Vec<_> = items.iter().map(|item| (item, TokenPrincipal::from_node(item))).collect();
        let mut earlier: Vec<&TokenPrincipal> = Vec::new();
        for (item, principal) in &principals {
            let Some(principal) = principal else { continue };
            let shares = |other: &&&TokenPrincipal| other.token_sha256.intersects(&principal.token_sha256);
            if let Some(other) = earlier.iter().find(shares) {
                let message = format!("a token of `{}` is one of `{}`, too", principal.name, other.name);
                let problem = Diagnostic::new(message, "give each principal tokens of its own: `mcp-host token new`");
                item.context.report(problem.at(item.entry_span("token-sha256")));
            }
            earlier.push(principal);
        }
        Some(Self(principals.into_iter().filter_map(|(_, principal)| principal).collect()))
    }
}

impl FromNode for Groups {
    const TYPE_NAME: &'static str = "a list of groups";

    fn example() -> String {
        format!("[{}]", <PrincipalGroup as FromNode>::example())
    }

    fn schema() -> Schema {
        Schema::list(PrincipalGroup::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let items = node.items::<PrincipalGroup>()?;
        node.context.declared.borrow_mut().groups = declared_names(&items);
        report_repeated_names(&items, "two groups have the name");
        Some(Self(items.iter().filter_map(PrincipalGroup::from_node).collect()))
    }
}

/// Reports each name that an earlier entry of the list has.
pub(super) fn report_repeated_names(items: &[Node<'_>], message: &str) {
    for (index, item) in items.iter().enumerate() {
        let Some(name) = item.parse_entry::<PrincipalName>("name") else { continue };
        let mut earlier = items.iter().take(index);
        if let Some(other) = earlier.find(|earlier| earlier.parse_entry("name").as_ref() == Some(&name)) {
            let problem = Diagnostic::new(format!("{message} `{name}`"), "give each a name of its own");
            item.context
                .report(problem.at(item.entry_span("name")).secondary(other.entry_span("name"), "the other one"));
        }
    }
}

/// Returns the names that the entries of a list declare, as far as they are valid.
pub(super) fn declared_names(items: &[Node<'_>]) -> Vec<String> {
    items.iter().filter_map(|item| item.parse_entry::<PrincipalName>("name")).map(|name| name.0).collect()
}
