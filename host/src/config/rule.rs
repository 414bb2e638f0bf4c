//! Access rules: `[[rule]]`.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::json;

use super::glob::UriGlob;
use super::reader::{Documented, FromNode, Node, Schema, Table, documented};
use super::suggest::closest;

/// The principal over stdio.
pub const LOCAL: &str = "local";

/// The principal of HTTP requests without authentication.
pub const ANONYMOUS: &str = "anonymous";

/// The names of the built-in principals.
const BUILT_IN: [&str; 2] = [LOCAL, ANONYMOUS];

/// The maximum length of a principal's name in a rule, in bytes.
const MAX_PRINCIPAL_LEN: usize = 256;

documented! {
    /// An access rule: `[[rule]]`.
    ///
    /// A rule applies to a request when it selects the principal and the operation. Then it allows the URIs that a glob
    /// of `allow` matches, and denies those that a glob of `deny` matches. Deny wins over every allow, of all rules.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Rule {
        /// The principals that it applies to. None, if it is empty.
        pub principals: Vec<PrincipalSelector>,
        /// The resources that are allowed.
        pub allow: Vec<UriGlob>,
        /// The resources that are denied.
        pub deny: Vec<UriGlob>,
        /// The operations that it applies to. All, unless set.
        pub operations: BTreeSet<Operation>,
    }
}

impl Rule {
    /// A rule for all operations, which neither allows nor denies anything yet.
    pub fn new(principals: impl IntoIterator<Item = PrincipalSelector>) -> Self {
        Self {
            principals: principals.into_iter().collect(),
            allow: Vec::new(),
            deny: Vec::new(),
            operations: Operation::ALL.into(),
        }
    }
}

/// A selector of principals.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrincipalSelector {
    /// Every principal: `*`.
    Any,
    /// The principal with this name: [`LOCAL`], [`ANONYMOUS`], or one that an application authenticates.
    Named(String),
}

impl PrincipalSelector {
    /// Returns the selector as written: `*`, or the name of the principal.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Any => "*",
            Self::Named(name) => name,
        }
    }
}

/// An operation on resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// List resources.
    List,
    /// List templates.
    Templates,
    /// Read a resource.
    Read,
    /// Read the metadata of a resource, without its contents.
    Metadata,
    /// Complete an argument of a template.
    Complete,
    /// Subscribe to changes of a resource.
    Subscribe,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 6] =
        [Self::List, Self::Templates, Self::Read, Self::Metadata, Self::Complete, Self::Subscribe];

    /// Returns its name in a rule.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Templates => "templates",
            Self::Read => "read",
            Self::Metadata => "metadata",
            Self::Complete => "complete",
            Self::Subscribe => "subscribe",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromNode for Rule {
    const TYPE_NAME: &'static str = "a rule";

    fn example() -> String {
        "{ principals = [\"local\"], allow = [\"git://linux/**\"] }".into()
    }

    fn schema() -> Schema {
        let is_given = |key: &str| json!({ "required": [key] });
        Table::describe(Self::KEY_DOCS, Self::from_table).with("anyOf", vec![is_given("allow"), is_given("deny")])
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.table(Self::from_table)
    }
}

impl Rule {
    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let NonEmpty(principals) = table.required("principals").unwrap_or_default();
        let (allows, denies) = (table.has("allow"), table.has("deny"));
        let NonEmpty(allow) = table.optional("allow").unwrap_or_default();
        let NonEmpty(deny) = table.optional("deny").unwrap_or_default();
        let NonEmpty(operations) = table.optional("operations").unwrap_or_else(|| NonEmpty(Operation::ALL.into()));
        if !allows && !denies {
            let help = "add `allow = [\"git://linux/**\"]` or `deny = [\"**/.env\"]`";
            table.report_error(format!("`{}` has neither `allow` nor `deny`", table.path()), help);
        }
        Some(Self { principals, allow, deny, operations: operations.into_iter().collect() })
    }
}

/// A list that is not empty: an empty one would mean the opposite of what it seems to.
struct NonEmpty<T>(Vec<T>);

impl<T> Default for NonEmpty<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: FromNode> FromNode for NonEmpty<T> {
    const TYPE_NAME: &'static str = Vec::<T>::TYPE_NAME;

    fn example() -> String {
        Vec::<T>::example()
    }

    fn schema() -> Schema {
        Schema::list(T::schema()).with("minItems", 1)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        if node.value.as_array().is_some_and(|items| items.is_empty()) {
            let help = format!("write {}, or remove the key", node.assignment_hint(&Self::example()));
            node.report_error(format!("`{}` is empty", node.key), help);
        }
        Vec::from_node(node).map(Self)
    }
}

impl FromNode for PrincipalSelector {
    const TYPE_NAME: &'static str = "a principal";

    fn example() -> String {
        format!("\"{LOCAL}\"")
    }

    fn schema() -> Schema {
        Schema::pattern(r"^([*]|[^*\s]+)$").with("maxLength", MAX_PRINCIPAL_LEN)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let written = node.string::<Self>()?;
        if written == "*" {
            return Some(Self::Any);
        }
        // A misspelled name in `deny` would have no effect.
        if misspelled_principal(written).is_some() || !is_name(written) {
            return node.one_of(&[
                (LOCAL, Self::Named(LOCAL.into())),
                (ANONYMOUS, Self::Named(ANONYMOUS.into())),
                ("*", Self::Any),
            ]);
        }
        Some(Self::Named(written.to_owned()))
    }
}

/// Returns the built-in principal of which a name is a misspelling.
pub(crate) fn misspelled_principal(name: &str) -> Option<&'static str> {
    closest(name, BUILT_IN).filter(|built_in| *built_in != name)
}

/// Returns whether an authenticated principal can have that name.
fn is_name(name: &str) -> bool {
    let is_visible = |c: char| !c.is_control() && !c.is_whitespace() && c != '*';
    !name.is_empty() && name.len() <= MAX_PRINCIPAL_LEN && name.chars().all(is_visible)
}

impl FromNode for Operation {
    const TYPE_NAME: &'static str = "an operation";

    fn example() -> String {
        "\"read\"".into()
    }

    fn schema() -> Schema {
        Schema::one_of_names(Self::ALL.map(Self::name))
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.one_of(&Self::ALL.map(|operation| (operation.name(), operation)))
    }
}
