//! What a host announces beside its resources.

use std::fmt;

use super::reader::{FromNode, Node, Schema};

/// A kind of thing that MCP knows and a host has none of: announced, there are none of it; not announced, asking for it is
/// an error.
///
/// That is for clients that ask for it whatever a server announces, and give up when it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvertisedCapability {
    /// Prompts: `prompts/list` is empty, and completing an argument of one finds nothing.
    Prompts,
    /// Tools: `tools/list` is empty.
    Tools,
}

impl AdvertisedCapability {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Prompts, Self::Tools];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Tools => "tools",
        }
    }
}

impl fmt::Display for AdvertisedCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromNode for AdvertisedCapability {
    const TYPE_NAME: &'static str = "a capability that can be advertised";

    fn example() -> String {
        "\"tools\"".into()
    }

    fn schema() -> Schema {
        Schema::one_of_names(Self::ALL.map(Self::name))
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.one_of(&Self::ALL.map(|announced| (announced.name(), announced)))
    }
}
