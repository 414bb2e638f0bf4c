//! Booleans: `confine = true`.

use toml::de::DeValue;

use super::reader::{FromNode, Node, Schema};

impl FromNode for bool {
    const TYPE_NAME: &'static str = "`true` or `false`";

    fn example() -> String {
        "true".into()
    }

    fn advice(node: &Node<'_>) -> Option<String> {
        let written = match node.value {
            DeValue::String(text) => text.trim().to_ascii_lowercase(),
            _ => node.number()?,
        };
        let meant = match written.as_str() {
            "true" | "yes" | "on" | "enabled" | "1" => "true",
            "false" | "no" | "off" | "disabled" | "none" | "0" => "false",
            _ => return None,
        };
        Some(format!("write {}", node.assignment_hint(meant)))
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
