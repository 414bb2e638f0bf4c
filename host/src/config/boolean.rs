//! Booleans: `confine = true`.

use toml::de::DeValue;

use super::reader::{FromNode, Node, Schema};

impl FromNode for bool {
    const TYPE_NAME: &'static str = "`true` or `false`";

    fn example() -> String {
        "true".into()
    }

    fn schema() -> Schema {
        Schema::boolean()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        if let DeValue::Boolean(value) = node.value {
            return Some(*value);
        }
        node.expected_type::<Self>();
        None
    }
}
