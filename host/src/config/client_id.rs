//! Identifiers of OAuth clients (RFC 6749, section 2.2).

use super::reader::{FromNode, Node, Schema};

/// The id under which the host is registered at an authorization server: any text that is not empty.
pub(super) struct ClientId(pub(super) String);

impl FromNode for ClientId {
    const TYPE_NAME: &'static str = "a string";

    fn example() -> String {
        "\"mcp-host\"".into()
    }

    fn schema() -> Schema {
        Schema::string().with("minLength", 1)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let id = node.string::<Self>()?;
        if id.is_empty() {
            let help = "write the id under which this host is registered at the authorization server";
            node.report_error("the id of the client is empty", help);
            return None;
        }
        Some(Self(id.to_owned()))
    }
}
