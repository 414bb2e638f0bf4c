//! Advertised capabilities: `advertise` of `[server]`.

use std::fmt;

use super::reader::{FromNode, Node, Schema};

/// A capability of MCP that a host does not implement. Advertised, it has no items; otherwise a request for it is an
/// error.
///
/// For clients that request it regardless of the server's capabilities, and fail when the request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdvertisedCapability {
    /// Prompts: `prompts/list` is empty, and completion of an argument of a prompt returns no values.
    Prompts,
    /// Tools: `tools/list` is empty.
    Tools,
}

impl AdvertisedCapability {
    /// All capabilities.
    pub const ALL: [Self; 2] = [Self::Prompts, Self::Tools];

    /// Returns its name in the config.
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
