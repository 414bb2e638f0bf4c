//! Tools: `tools` of `[server]`.

use std::fmt;

use super::error::{Diagnostic, quote};
use super::reader::{FromNode, Node, Schema};
use super::suggest::closest;

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

/// Returns the name of a tool that is a word of what a client calls it, such as `search_resources`.
fn name_within(written: &str) -> Option<&'static str> {
    let (first, last) = written.split_once('_')?;
    [first, last].into_iter().find_map(|word| closest(word, Tool::ALL.map(Tool::name)))
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
        if let Some((written, meant)) = node.value.as_str().and_then(|written| Some((written, name_within(written)?))) {
            let message = format!("{} is not {}", quote(written), Self::TYPE_NAME);
            let help = format!("write \"{meant}\": the config has a shorter name than clients");
            node.context.report(Diagnostic::new(message, help).at(node.span.clone()));
            return None;
        }
        node.one_of(&Self::ALL.map(|tool| (tool.name(), tool)))
    }
}
