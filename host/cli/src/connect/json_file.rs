//! The servers in a JSON file, with comments and trailing commas as editors accept them. Comments, order, indentation
//! and line ends are kept.

use jsonc_parser::common::Ranged as _;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::edit::{EditError, OtherEntry, Position, is_own};
use super::entry::{Entry, Value, input_id};

/// The key of the inputs for which an editor prompts.
const INPUTS: &str = "inputs";
/// The mark at the beginning of files of some editors.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The extensions of JSON that editors accept.
const SYNTAX: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A file that is being changed.
struct JsonFile<'t> {
    /// The text that was read, without the mark.
    source: &'t str,
    root: CstRootNode,
    has_mark: bool,
}

impl<'t> JsonFile<'t> {
    fn parse(text: &'t str) -> Result<Self, EditError> {
        let (text, has_mark) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        // Spaces alone would stand in front of the object.
        let text = if text.trim().is_empty() { "" } else { text };
        let root = CstRootNode::parse(text, &SYNTAX).map_err(|error| EditError::Syntax(error.to_string()))?;
        Ok(Self { source: text, root, has_mark })
    }

    fn text(&self) -> String {
        let mark = self.has_mark.then_some(BYTE_ORDER_MARK);
        mark.into_iter().chain(self.root.to_string().chars()).collect()
    }

    /// The object of the file, which is created if it is missing.
    fn object(&self) -> Result<CstObject, EditError> {
        self.root.object_value_or_create().ok_or(EditError::NotATable(None))
    }

    /// The property of an object with the last name of this path. A duplicate is an error: a client reads one of the
    /// two, and which one is unknown.
    fn unique(&self, object: &CstObject, path: &[&str]) -> Result<Option<CstObjectProp>, EditError> {
        let name = path.last().copied().unwrap_or_default();
        let mut found =
            object.properties().into_iter().filter(|property| property.decoded_name().as_deref() == Some(name));
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(EditError::Twice { key: name.to_owned(), second: self.second(path) }),
            (property, None) => Ok(property),
        }
    }

    /// The place of the second property at this path.
    fn second(&self, path: &[&str]) -> Option<Position> {
        let (name, above) = path.split_last()?;
        let parsed = parse_to_ast(self.source, &CollectOptions::default(), &SYNTAX).ok()?.value?;
        let mut object = parsed.as_object()?;
        for key in above {
            object = object.get_object(key)?;
        }
        let second = object.properties.iter().filter(|property| property.name.as_str() == *name).nth(1)?;
        Some(Position::after(self.source.get(..second.start())?))
    }
}

/// Adds an entry, or replaces the entry of this name if it is ours or `force` is set. Returns the new text.
pub(crate) fn add(text: &str, key: &str, entry: &Entry, force: bool) -> Result<String, EditError> {
    let file = JsonFile::parse(text)?;
    let root = file.object()?;
    file.unique(&root, &[key])?;
    let servers = root.object_value_or_create(key).ok_or_else(|| EditError::NotATable(Some(key.to_owned())))?;
    match file.unique(&servers, &[key, &entry.name])? {
        None => drop(servers.append(&entry.name, input_value(&entry.server))),
        Some(property) => {
            let before = json(&property);
            if before != entry.server.to_json() {
                if !force && !is_own(&before, &entry.server) {
                    return Err(EditError::Other(OtherEntry::named(&entry.name, &before)));
                }
                property.set_value(input_value(&entry.server));
            }
        }
    }
    if let Some(input) = &entry.input {
        file.unique(&root, &[INPUTS])?;
        let inputs = root.array_value_or_create(INPUTS).ok_or_else(|| EditError::NotATable(Some(INPUTS.to_owned())))?;
        // An input that the user changed stays.
        if !inputs.elements().iter().any(|element| is_input(element, &input.id)) {
            inputs.append(input_value(&input.value));
        }
    }
    Ok(file.text())
}

/// Removes the entry with this name, or the only one that is ours, and the input of its token. Returns the name and the
/// new text.
pub(crate) fn remove(
    text: &str,
    key: &str,
    name: Option<&str>,
    url: Option<&str>,
    force: bool,
) -> Result<(String, String), EditError> {
    let file = JsonFile::parse(text)?;
    let root = file.object()?;
    let property = file.unique(&root, &[key])?;
    let servers = match &property {
        None => return Err(EditError::NoEntry { name: name.map(str::to_owned), known: Vec::new() }),
        Some(property) => property.object_value().ok_or_else(|| EditError::NotATable(Some(key.to_owned())))?,
    };
    let entries = servers.properties().into_iter();
    let entries: Vec<_> = entries.map(|entry| (entry.decoded_name().unwrap_or_default(), json(&entry))).collect();
    let name = super::edit::entry_to_remove(&entries, name, url, force)?;
    if let Some(entry) = file.unique(&servers, &[key, &name])? {
        entry.remove();
    }
    if servers.properties().is_empty() {
        property.into_iter().for_each(CstObjectProp::remove);
    }
    remove_input(&file, &root, &input_id(&name))?;
    Ok((name, file.text()))
}

/// Removes an input that no server uses.
fn remove_input(file: &JsonFile<'_>, root: &CstObject, id: &str) -> Result<(), EditError> {
    let Some(property) = file.unique(root, &[INPUTS])? else { return Ok(()) };
    let Some(inputs) = property.array_value() else { return Ok(()) };
    if root.to_string().contains(&format!("${{input:{id}}}")) {
        return Ok(());
    }
    if let Some(element) = inputs.elements().into_iter().find(|element| is_input(element, id)) {
        element.remove();
        if inputs.elements().is_empty() {
            property.remove();
        }
    }
    Ok(())
}

fn is_input(element: &CstNode, id: &str) -> bool {
    let found = element.as_object().and_then(|object| object.get("id")).and_then(|id| id.value());
    found
        .and_then(|value| value.as_string_lit())
        .and_then(|text| text.decoded_value().ok())
        .is_some_and(|text| text == id)
}

/// The value of a property.
fn json(property: &CstObjectProp) -> serde_json::Value {
    property.value().and_then(|value| value.to_serde_value()).unwrap_or_default()
}

fn input_value(value: &Value) -> CstInputValue {
    match value {
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Text(text) => CstInputValue::String(text.clone()),
        Value::List(texts) => {
            CstInputValue::Array(texts.iter().map(|text| CstInputValue::String(text.clone())).collect())
        }
        Value::Table(pairs) => {
            CstInputValue::Object(pairs.iter().map(|(key, value)| ((*key).to_owned(), input_value(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::client::Client;
    use crate::connect::entry::{Server, Token};

    const KEY: &str = "mcpServers";

    fn entry() -> Entry {
        let server = Server::Stdio { command: "/usr/bin/mcp-host".to_owned(), args: vec!["serve".to_owned()] };
        Entry::new("team", &server, Some(Client::ClaudeDesktop))
    }

    fn added(text: &str) -> String {
        add(text, KEY, &entry(), false).unwrap()
    }

    #[test]
    fn comments_order_indentation_and_line_ends_stay_and_undoing_restores_every_byte() {
        for (text, expected) in [
            (
                "{\r\n\t// first\r\n\t\"a\": 1, // beside\r\n}\r\n",
                "{\r\n\t// first\r\n\t\"a\": 1, // beside\r\n\t\"mcpServers\": {\r\n\t\t\"team\": {\r\n\t\t\t\"command\": \
                 \"/usr/bin/mcp-host\",\r\n\t\t\t\"args\": [\"serve\"]\r\n\t\t}\r\n\t},\r\n}\r\n",
            ),
            (
                "{\n  \"z\": 1,\n  \"mcpServers\": {\n    /* other */ \"x\": {\"command\": \"y\"} // trailing\n  },\n  \"b\": [ ]\n}",
                "{\n  \"z\": 1,\n  \"mcpServers\": {\n    /* other */ \"x\": {\"command\": \"y\"}, // trailing\n    \"team\": {\n      \
                 \"command\": \"/usr/bin/mcp-host\",\n      \"args\": [\"serve\"]\n    }\n  },\n  \"b\": [ ]\n}",
            ),
        ] {
            let changed = added(text);
            assert_eq!(changed, expected);
            assert_eq!(added(&changed), changed, "a second time changes nothing");
            assert_eq!(remove(&changed, KEY, None, None, false).unwrap(), ("team".to_owned(), text.to_owned()));
        }
    }

    #[test]
    fn a_file_that_is_empty_or_has_comments_only_gets_its_first_server() {
        for (text, before) in
            [("", ""), (" \n", ""), ("// mine\n", "// mine\n"), ("{}", ""), ("\u{feff}{}", "\u{feff}")]
        {
            let changed = added(text);
            let json = changed.strip_prefix(before).unwrap();
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(value["mcpServers"]["team"]["command"], "/usr/bin/mcp-host", "{changed}");
        }
    }

    #[test]
    fn what_is_broken_or_ambiguous_is_an_error() {
        for (text, said) in [
            ("{\"a\": 1", "line 1 column"),
            ("{\n  \"a\": 1\n  \"b\": 2\n}", "line 2 column"),
            ("{'a': 1}", "line 1"),
            ("{} {}", "line 1 column 4"),
            ("[1]", "is not an object"),
            ("null", "is not an object"),
            ("{\"mcpServers\": []}", "`mcpServers` is not an object"),
            ("{\"mcpServers\": {}, \"mcpServers\": {}}", "`mcpServers` twice, again on line 1 column 20"),
            (
                "\u{feff}{\"mcpServers\": {\n  \"team\": {},\n   \"team\": {}}}",
                "`team` twice, again on line 3 column 4",
            ),
        ] {
            let error = add(text, KEY, &entry(), true).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn another_server_of_the_name_is_replaced_and_removed_only_by_force() {
        let text = "{\"mcpServers\": {\"team\": {\"command\": \"/bin/other\"}}}";
        assert!(matches!(add(text, KEY, &entry(), false), Err(EditError::Other(_))));
        assert!(add(text, KEY, &entry(), true).unwrap().contains("/usr/bin/mcp-host"));
        assert!(matches!(remove(text, KEY, Some("team"), None, false), Err(EditError::Other(_))));
        assert_eq!(remove(text, KEY, Some("team"), None, true).unwrap().1, "{}");
        let elsewhere = "{\"mcpServers\": {\"team\": {\"command\": \"/old/mcp-host\", \"args\": [\"serve\", \"/b\"]}}}";
        let error = add(elsewhere, KEY, &entry(), false).unwrap_err().to_string();
        assert_eq!(error, "it has another server `team`, /old/mcp-host serve /b");
        let own = "{\"mcpServers\": {\"team\": {\"command\": \"/old/mcp-host\", \"args\": [\"serve\"]}}}";
        assert!(add(own, KEY, &entry(), false).unwrap().contains("/usr/bin/mcp-host"));
    }

    #[test]
    fn an_input_is_added_once_and_leaves_with_the_last_server_that_uses_it() {
        let token = Token { variable: "T".to_owned(), literal: String::new() };
        let server = Server::Http { url: "http://127.0.0.1:1/mcp".to_owned(), token: Some(token) };
        let entry = Entry::new("team", &server, Some(Client::VsCode));
        let changed = add("", "servers", &entry, false).unwrap();
        assert_eq!(add(&changed, "servers", &entry, false).unwrap(), changed);
        let value: serde_json::Value = serde_json::from_str(&changed).unwrap();
        assert_eq!(value["inputs"][0]["password"], true);
        let shared =
            changed.replace("\"servers\": {", "\"servers\": {\n    \"b\": {\"url\": \"${input:team-token}\"},");
        let (_, left) = remove(&shared, "servers", Some("team"), None, true).unwrap();
        assert!(left.contains("promptString"), "{left}");
        assert!(matches!(remove(&changed, "servers", Some("team"), None, false), Err(EditError::Other(_))));
        let none = remove(&changed, "servers", None, Some("http://127.0.0.1:2/mcp"), false).unwrap_err().to_string();
        assert_eq!(none, "it has no server that `mcp-host connect` added; its servers: team");
        let (name, left) = remove(&changed, "servers", None, Some("http://127.0.0.1:1/mcp"), false).unwrap();
        assert_eq!(name, "team");
        assert_eq!(left, "{}\n");
    }
}
