//! The servers in a TOML file. Comments, order and spaces are kept.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table};

use super::edit::{EditError, OtherEntry, entry_to_remove, is_own};
use super::entry::{Entry, Value};

fn parse(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Syntax(error.to_string()))
}

/// Adds an entry, or replaces the entry of this name if it is ours or `force` is set. Returns the new text.
pub(crate) fn add(text: &str, key: &str, entry: &Entry, force: bool) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let before = match document.get(key) {
        None => None,
        Some(servers) => servers.as_table_like().ok_or_else(|| not_a_table(key))?.get(&entry.name).map(to_json),
    };
    match before {
        Some(before) if before == entry.server.to_json() => return Ok(text.to_owned()),
        Some(before) if !force && !is_own(&before, &entry.server) => {
            return Err(EditError::Other(OtherEntry::named(&entry.name, &before)));
        }
        _ => {}
    }
    let mut group = Table::new();
    // The headers of the servers make the group's own header redundant.
    group.set_implicit(true);
    let servers = document.entry(key).or_insert(Item::Table(group));
    match servers {
        Item::Table(table) => drop(table.insert(&entry.name, Item::Table(table_of(&entry.server)))),
        _ => {
            let servers = servers.as_table_like_mut().ok_or_else(|| not_a_table(key))?;
            servers.insert(&entry.name, Item::Value(value(&entry.server)));
        }
    }
    Ok(document.to_string())
}

/// Removes the entry with this name, or the only one that is ours. Returns the name and the new text.
pub(crate) fn remove(
    text: &str,
    key: &str,
    name: Option<&str>,
    url: Option<&str>,
    force: bool,
) -> Result<(String, String), EditError> {
    let mut document = parse(text)?;
    let Some(servers) = document.get_mut(key) else {
        return Err(EditError::NoEntry { name: name.map(str::to_owned), known: Vec::new() });
    };
    let servers = servers.as_table_like_mut().ok_or_else(|| not_a_table(key))?;
    let entries: Vec<_> = servers.iter().map(|(name, server)| (name.to_owned(), to_json(server))).collect();
    let name = entry_to_remove(&entries, name, url, force)?;
    servers.remove(&name);
    if servers.is_empty() {
        document.remove(key);
    }
    Ok((name, document.to_string()))
}

fn not_a_table(key: &str) -> EditError {
    EditError::NotATable(Some(key.to_owned()))
}

fn table_of(server: &Value) -> Table {
    let mut table = Table::new();
    if let Value::Table(pairs) = server {
        for (key, of_key) in pairs {
            table.insert(key, Item::Value(value(of_key)));
        }
    }
    table
}

fn value(of: &Value) -> toml_edit::Value {
    match of {
        Value::Bool(value) => (*value).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(texts) => toml_edit::Value::Array(texts.iter().map(String::as_str).collect::<Array>()),
        Value::Table(pairs) => {
            let mut table = InlineTable::new();
            for (key, of_key) in pairs {
                table.insert(*key, value(of_key));
            }
            toml_edit::Value::InlineTable(table)
        }
    }
}

/// The value as JSON, for comparisons. A type without a JSON counterpart becomes text.
fn to_json(item: &Item) -> serde_json::Value {
    match item {
        Item::Value(toml_edit::Value::String(text)) => text.value().as_str().into(),
        Item::Value(toml_edit::Value::Boolean(value)) => (*value.value()).into(),
        Item::Value(toml_edit::Value::Integer(value)) => (*value.value()).into(),
        Item::Value(toml_edit::Value::Array(values)) => {
            values.iter().map(|value| to_json(&Item::Value(value.clone()))).collect()
        }
        _ => match item.as_table_like() {
            Some(table) => table.iter().map(|(key, value)| (key.to_owned(), to_json(value))).collect(),
            None => item.to_string().into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::client::Client;
    use crate::connect::entry::Server;

    const KEY: &str = "mcp_servers";

    fn entry() -> Entry {
        let args = vec!["serve".to_owned(), "--stdio".to_owned()];
        Entry::new("team", &Server::Stdio { command: "/usr/bin/mcp-host".to_owned(), args }, Some(Client::Codex))
    }

    const ADDED: &str = "[mcp_servers.team]\ncommand = \"/usr/bin/mcp-host\"\nargs = [\"serve\", \"--stdio\"]\n";

    #[test]
    fn comments_order_and_spaces_stay_and_undoing_restores_every_byte() {
        for text in [
            "",
            "# mine\nmodel   =  'x'  # beside\n\n[mcp_servers.other]\ncommand = \"y\" # why\n\n[z]\na = 1\n",
            "[tui]\nnotifications = true\n",
        ] {
            let changed = add(text, KEY, &entry(), false).unwrap();
            assert!(changed.contains(ADDED), "{changed}");
            assert_eq!(add(&changed, KEY, &entry(), false).unwrap(), changed, "a second time changes nothing");
            assert_eq!(remove(&changed, KEY, None, None, false).unwrap(), ("team".to_owned(), text.to_owned()));
        }
    }

    #[test]
    fn servers_in_other_forms_of_tables_are_added_to() {
        for text in ["mcp_servers = { other = { command = \"y\" } }\n", "mcp_servers.other.command = \"y\"\n"] {
            let changed = add(text, KEY, &entry(), false).unwrap();
            let value: toml::Table = changed.parse().unwrap();
            assert_eq!(value["mcp_servers"]["team"]["args"][1].as_str(), Some("--stdio"), "{changed}");
            assert_eq!(value["mcp_servers"]["other"]["command"].as_str(), Some("y"), "{changed}");
        }
    }

    #[test]
    fn what_is_broken_is_an_error_with_its_line() {
        for (text, said) in [
            ("a = \n", "line 1"),
            ("a = 1\na = 2\n", "line 2"),
            ("mcp_servers = 1\n", "`mcp_servers` is not an object"),
        ] {
            let error = add(text, KEY, &entry(), true).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn another_server_of_the_name_is_replaced_and_removed_only_by_force() {
        let text = "[mcp_servers.team]\ncommand = \"/bin/other\"\n";
        assert!(matches!(add(text, KEY, &entry(), false), Err(EditError::Other(_))));
        assert_eq!(add(text, KEY, &entry(), true).unwrap(), ADDED);
        assert!(matches!(remove(text, KEY, Some("team"), None, false), Err(EditError::Other(_))));
        assert_eq!(remove(text, KEY, Some("team"), None, true).unwrap().1, "");
    }
}
