//! Channels of PostgreSQL.

use std::str::FromStr;

use crate::config::error::{Suggest, quote};
use crate::config::reader::{FromNode, Node, Schema};

/// The maximum length of a name, which PostgreSQL has for all identifiers.
const MAX_LEN: usize = 63;

/// The name of a channel that `NOTIFY` sends to: 1 to 63 bytes without NUL, as `pg_notify` has it. `NOTIFY` without quotes converts a
/// name to lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelName(String);

impl ChannelName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is not the name of a channel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not the name of a channel", quote(.0))]
pub struct ChannelNameError(String);

impl Suggest for ChannelNameError {
    fn suggestion(&self, _: &str) -> String {
        format!(
            "write the name that `pg_notify` is called with, in at most {MAX_LEN} bytes, such as {}",
            ChannelName::example()
        )
    }
}

impl FromStr for ChannelName {
    type Err = ChannelNameError;

    fn from_str(text: &str) -> Result<Self, ChannelNameError> {
        let is_valid = (1..=MAX_LEN).contains(&text.len()) && !text.contains('\0');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(ChannelNameError(text.to_owned())) }
    }
}

impl FromNode for ChannelName {
    const TYPE_NAME: &'static str = "the name of a channel";

    fn example() -> String {
        "\"shop_changed\"".into()
    }

    fn schema() -> Schema {
        Schema::string().with("minLength", 1)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.parse()
    }
}
