//! Environment variables of the provider: `grants.env`.
//!
//! A table from names to values. The provider sees these variables and none of the host's own. By default the table is
//! empty.
//!
//! | value | meaning |
//! |---|---|
//! | `"text"` | the text |
//! | `{ env = "NAME" }` | the value of an environment variable of the host, which must be set |
//! | `{ file = "PATH" }` | the text of a file of at most 64 KiB, without one line break at its end |
//!
//! A name is not empty and contains neither `=` nor control characters; a value contains no NUL. Values are read once,
//! with the config, and appear in no message.
//!
//! ```
//! use mcp_host_config::{Plugin, Secret};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut notes = Plugin::new("notes".parse()?, "notes.wasm", "notes:///".parse()?);
//! assert!(notes.grants.env.is_empty());
//!
//! let token = Secret::new("hunter2".to_owned());
//! assert_eq!(format!("{token:?}"), "Secret(…)");
//! notes.grants.env.insert("TOKEN".parse()?, token);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::declare::checked_text;
use crate::reader::{FromNode, Node, Schema};
use crate::secret::{Secret, SecretSource};
use crate::secret_text::names_secret;

checked_text! {
    /// The name of an environment variable of a provider: letters, digits, `_`, `.` and `-`, not beginning with `.` or
    /// `-`; at most 128 characters. The grammar is strict because a publisher may choose the name, which appears in
    /// messages and commands.
    pub struct EnvName, EnvNameError as "a valid variable name", such as "\"LANG\"",
    schema Schema::pattern("^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"),
    valid if |text| {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        (1..=128).contains(&text.len()) && text.chars().all(is_of_name) && !text.starts_with(['.', '-'])
    },
    otherwise "write a name of letters, digits, `_`, `.` and `-`, such as `LANG`"
}

/// The table of granted variables.
pub(super) struct Env(pub(super) BTreeMap<EnvName, Secret<String>>);

impl FromNode for Env {
    const TYPE_NAME: &'static str = "a table of variables";

    fn example() -> String {
        "{ LANG = \"ja\", TOKEN = { env = \"MY_TOKEN\" } }".into()
    }

    fn schema() -> Schema {
        Schema::map(EnvName::schema(), EnvValue::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let variables = node.entries::<Self>()?.into_iter().filter_map(|entry| {
            let name = entry.parse_key::<EnvName>();
            let value = EnvValue::from_node(&entry);
            let (is_written, is_secret) = (entry.value.is_str(), names_secret(entry.key));
            if is_written && is_secret {
                node.context.set_has_secret();
            }
            let EnvValue(value) = value?;
            let value = if is_written && !is_secret { Secret::written(value.expose().clone()) } else { value };
            Some((name?, value))
        });
        Some(Self(variables.collect()))
    }
}

/// The value of a granted variable, from any source.
struct EnvValue(Secret<String>);

impl FromNode for EnvValue {
    const TYPE_NAME: &'static str = "a string, or a table with `env` or `file`";

    fn example() -> String {
        SecretSource::example()
    }

    fn schema() -> Schema {
        Schema::any_of([Schema::string(), SecretSource::schema()])
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let value = match node.value {
            DeValue::Table(_) => SecretSource::from_node(node)?.0.to_string(),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {
                let help = format!("put it in quotes: {}", node.assignment_hint("\"…\""));
                node.report_error("the value of a variable is text", help);
                return None;
            }
            _ => node.string::<Self>()?.to_owned(),
        };
        if value.contains('\0') {
            node.report_error("the value of a variable cannot hold a NUL", "remove the NUL");
            return None;
        }
        Some(Self(Secret::new(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_a_name_that_can_be_set() {
        assert!("LANG".parse::<EnvName>().is_ok());
        for text in ["", "A=B", "A\0"] {
            assert!(text.parse::<EnvName>().is_err(), "{text:?}");
        }
    }
}
