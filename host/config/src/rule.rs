//! Access rules: `[[rule]]`.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use serde_json::json;

use super::declare::{named_enum, table};
use super::diagnostic::{Diagnostic, quote};
use super::glob::UriGlob;
use super::reader::{FromKey, FromNode, FromTable, Node, Schema, Table};
use super::suggest::did_you_mean;

pub use mcp_host_model::principal::{ANONYMOUS, LOCAL};

/// The names of the built-in principals.
pub(super) const BUILT_IN: [&str; 2] = [LOCAL, ANONYMOUS];

/// The maximum length of a principal's name in a rule, in bytes.
const MAX_PRINCIPAL_LEN: usize = 256;

table! {
    /// An access rule: `[[rule]]`.
    ///
    /// A rule applies to a request if it selects the principal and the operation. It then allows the URIs that match a
    /// glob of `allow`, and denies the URIs that match a glob of `deny`. A deny overrides all allows, of all rules.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Rule {
        /// The principals that the rule applies to.
        #[read(NonEmpty<PrincipalSelector>)]
        pub principals: Vec<PrincipalSelector>,
        /// The groups whose members the rule applies to.
        #[read(NonEmpty<GroupSelector, Vec<String>>)]
        pub groups: Vec<String>,
        /// The resources that are allowed.
        #[read(NonEmpty<UriGlob>)]
        pub allow: Vec<UriGlob>,
        /// The resources that are denied.
        #[read(NonEmpty<UriGlob>)]
        pub deny: Vec<UriGlob>,
        /// The operations that the rule applies to. All unless set.
        #[read(NonEmpty<Operation, BTreeSet<Operation>>)]
        #[default(Operation::ALL.into())]
        pub operations: BTreeSet<Operation>,
        /// The line of the rule in the config file.
        pub line: RuleLine,
    }
}

/// The line of a rule in the config file, counted from 1; `None` for a rule that an application made.
///
/// All lines are equal: a rule that was moved is the same rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleLine(Option<usize>);

impl RuleLine {
    /// Returns the line.
    pub fn get(self) -> Option<usize> {
        self.0
    }
}

/// The line is not a key; it is the position of the table.
impl FromKey for RuleLine {
    fn optional(table: &mut Table<'_>, _: &str) -> Self {
        Self(Some(table.line()))
    }

    fn required(table: &mut Table<'_>, field: &str) -> Option<Self> {
        Some(Self::optional(table, field))
    }
}

impl PartialEq for RuleLine {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RuleLine {}

impl Rule {
    /// A rule for all operations, without `allow` and `deny` globs yet.
    pub fn new(principals: impl IntoIterator<Item = PrincipalSelector>) -> Self {
        Self { principals: principals.into_iter().collect(), ..Self::with_defaults() }
    }

    /// A rule for the members of groups and all operations, without `allow` and `deny` globs yet.
    pub fn for_groups(groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { groups: groups.into_iter().map(Into::into).collect(), ..Self::new([]) }
    }
}

/// A selector of principals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrincipalSelector {
    /// Every principal: `*`.
    Any,
    /// The principal with this name: [`LOCAL`], [`ANONYMOUS`], a principal of the config, or one with a slash in its
    /// name, which an issuer of access tokens or an application authenticates.
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

named_enum! {
    /// An operation on resources.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Operation as "an operation", such as "\"read\"" {
        /// List resources.
        List = "list",
        /// List templates.
        Templates = "templates",
        /// Read a resource.
        Read = "read",
        /// Read the metadata of a resource, without its contents.
        Metadata = "metadata",
        /// Complete an argument of a template.
        Complete = "complete",
        /// Subscribe to changes of a resource.
        Subscribe = "subscribe",
    }
}

impl FromTable for Rule {
    type Keys = Self;

    const TYPE_NAME: &'static str = "a rule";

    fn example() -> String {
        "{ principals = [\"local\"], allow = [\"git://linux/**\"] }".into()
    }

    fn constrain(schema: Schema) -> Schema {
        let either = |one: &str, other: &str| json!({ "anyOf": [{ "required": [one] }, { "required": [other] }] });
        schema.with("allOf", vec![either("principals", "groups"), either("allow", "deny")])
    }

    fn check(table: &Table<'_>) {
        if !table.has("principals") && !table.has("groups") && !table.has_misspelling_of("principals") {
            let help = "add `principals = [\"local\"]`, or `[\"*\"]` for every principal, or `groups`";
            table.report_error(format!("`{}` has neither `principals` nor `groups`", table.path()), help);
        }
        if !table.has("allow") && !table.has("deny") {
            let help = "add `allow = [\"git://linux/**\"]` or `deny = [\"**/.env\"]`";
            table.report_error(format!("`{}` has neither `allow` nor `deny`", table.path()), help);
        }
    }

    fn from_keys(keys: Self, _: &Table<'_>) -> Option<Self> {
        Some(keys)
    }
}

/// A list of `T` that is stored as a `C` and is not empty: an empty list would mean the opposite of its appearance.
struct NonEmpty<T, C = Vec<T>>(C, PhantomData<T>);

impl<T: FromNode + Into<I>, I, C: FromIterator<I> + IntoIterator<Item = I>> FromNode for NonEmpty<T, C> {
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
        Some(Self(Vec::<T>::from_node(node)?.into_iter().map(Into::into).collect(), PhantomData))
    }
}

impl FromNode for PrincipalSelector {
    const TYPE_NAME: &'static str = "a principal";

    fn example() -> String {
        format!("\"{LOCAL}\"")
    }

    fn schema() -> Schema {
        Schema::pattern(r"^([*]|[^*\s/]+|[^*\s/]+/[^*]*[^*\s])$").with("maxLength", MAX_PRINCIPAL_LEN)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        match node.string::<Self>()? {
            "*" => Some(Self::Any),
            _ => Self::read_name(node).map(Self::Named),
        }
    }
}

impl PrincipalSelector {
    /// The schema of the name of one principal.
    pub(super) fn name_schema() -> Schema {
        Schema::pattern(r"^([^*\s/]+|[^*\s/]+/[^*]*[^*\s])$").with("maxLength", MAX_PRINCIPAL_LEN)
    }

    /// Reads the name of one principal: a built-in principal, one of the config, or one with a slash.
    pub(super) fn read_name(node: &Node<'_>) -> Option<String> {
        let declared = &node.context.declared.borrow();
        let known = BUILT_IN.into_iter().chain(declared.principals.iter().map(String::as_str));
        let written = node.string::<Self>()?;
        let help = if declared.groups.iter().any(|group| group == written) {
            "it is a group: name it by `groups`"
        } else {
            "declare it with `[[principal]]`, or write `ISSUER/NAME` for one that an issuer, a client CA or an application \
             authenticates, or `*` for every principal"
        };
        read_reference(node, written, known, Self::TYPE_NAME, help)
    }
}

/// The name of a group: a group of the config, or one with a slash.
struct GroupSelector(String);

impl FromNode for GroupSelector {
    const TYPE_NAME: &'static str = "a group";

    fn example() -> String {
        "\"developers\"".into()
    }

    fn schema() -> Schema {
        PrincipalSelector::name_schema()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let declared = &node.context.declared.borrow();
        let written = node.string::<Self>()?;
        let mut principals = BUILT_IN.into_iter().chain(declared.principals.iter().map(String::as_str));
        let help = if principals.any(|principal| principal == written) {
            "it is a principal: name it by `principals`"
        } else {
            "declare it with `[[group]]`, or write `ISSUER/NAME` for one that an issuer or an application names"
        };
        let known = declared.groups.iter().map(String::as_str);
        read_reference(node, written, known, Self::TYPE_NAME, help).map(Self)
    }
}

impl From<GroupSelector> for String {
    fn from(GroupSelector(name): GroupSelector) -> Self {
        name
    }
}

/// Reads a name that is one of `known`, or that has a slash. An unknown name would have no effect, even in `deny`.
fn read_reference<'k>(
    node: &Node<'_>,
    written: &str,
    known: impl Iterator<Item = &'k str> + Clone,
    what: &str,
    help: &str,
) -> Option<String> {
    if is_external_name(written) || known.clone().any(|name| name == written) {
        return Some(written.to_owned());
    }
    let problem = Diagnostic::new(format!("{} is not {what} of this config", quote(written)), help);
    node.context.report(did_you_mean(problem.at(node.span.clone()), written, known));
    None
}

/// Returns whether a principal or a group of an issuer can have this name.
pub(super) fn is_external_name(name: &str) -> bool {
    let is_inner = |c: char| !c.is_control() && (c == ' ' || !c.is_whitespace()) && c != '*';
    let is_issuer = |issuer: &str| !issuer.is_empty() && !issuer.contains(' ');
    let has_parts = name.split_once('/').is_some_and(|(issuer, rest)| is_issuer(issuer) && !rest.is_empty());
    has_parts && name.len() <= MAX_PRINCIPAL_LEN && name.trim() == name && name.chars().all(is_inner)
}
