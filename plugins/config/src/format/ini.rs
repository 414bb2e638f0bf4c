//! INI files, by the rules of Python's `configparser`: `=` or `:`, comments on separate lines, and values that continue
//! on indented lines. Two differences: keys keep their case, and `DEFAULT` is an ordinary section.

use super::Fault;
use configparser::ini::Ini;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The section of the keys before the first section. No section can have this name.
const ROOT: &str = "\n";

/// Parses an INI file.
pub(super) fn parse(text: &str) -> Result<Value, Fault> {
    let mut ini = Ini::new_cs();
    ini.set_default_section(ROOT);
    ini.set_inline_comment_symbols(Some(&[]));
    ini.set_multiline(true);
    let mut sections = ini.read(text.to_owned()).map_err(|error| fault(&error))?;
    let values = |keys: HashMap<String, Option<String>>| -> Map<String, Value> {
        keys.into_iter().map(|(key, value)| (key, value.map_or(Value::Null, Value::String))).collect()
    };
    let mut root = values(sections.remove(ROOT).unwrap_or_default());
    for (name, keys) in sections {
        if root.insert(name, Value::Object(values(keys))).is_some() {
            return Err("line 1: expected different names for sections and for keys before the first one".to_owned());
        }
    }
    Ok(Value::Object(root))
}

/// Returns the line of an error. The text of the error begins with it, and may quote the file.
fn fault(error: &str) -> Fault {
    let line: String = error.trim_start_matches("line ").chars().take_while(char::is_ascii_digit).collect();
    let reason = "expected `[section]`, `key = value` or a comment";
    if line.is_empty() { format!("line 1: {reason}") } else { format!("line {line}: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sections_and_keys_are_as_they_stand() {
        let text =
            "top = 1\n[DB]\nUrl = http://x:y@z/#part ; no comment\n# a comment\n; another\nbare\nmany = a\n  b\n";
        let expected =
            json!({ "top": "1", "DB": { "Url": "http://x:y@z/#part ; no comment", "bare": null, "many": "a\nb" } });
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn a_key_may_not_have_the_name_of_a_section() {
        assert!(parse("a = 1\n[a]\nb = 2\n").is_err());
    }
}
