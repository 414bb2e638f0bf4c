//! Tools: `tools` of `[server]`.

use std::fmt;

use super::reader::{FromNode, Node, Schema};

/// A tool that the server offers, for clients that know only tools. Each does what a request for resources does, under the
/// same access rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tool {
    /// `list_resources`: a page of the catalog, or the children of a resource.
    List,
    /// `read_resource`: the content of a resource.
    Read,
    /// `search_resources`: a search.
    Search,
    /// `resource_context`: the best selection for a question within a budget.
    Context,
}

impl Tool {
    /// All tools.
    pub const ALL: [Self; 4] = [Self::List, Self::Read, Self::Search, Self::Context];

    /// Returns its name in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Search => "search",
            Self::Context => "context",
        }
    }

    /// Whether it exists only where something is searched.
    pub(super) fn needs_search(self) -> bool {
        matches!(self, Self::Search | Self::Context)
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromNode for Tool {
    const TYPE_NAME: &'static str = "a tool";

    fn example() -> String {
        "\"search\"".into()
    }

    fn schema() -> Schema {
        Schema::one_of_names(Self::ALL.map(Self::name))
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.one_of(&Self::ALL.map(|tool| (tool.name(), tool)))
    }
}
