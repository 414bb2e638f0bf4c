//! A provider of valid resources, and of resources with one invalid or oversized field, selected by the path.
//!
//! A resource is named `FIELD/COUNT`. The entry of its content contains COUNT of the following:
//!
//! | field | counted |
//! |---|---|
//! | `sizes` | empty sizes of one icon, in an entry with a path of 8000 bytes |
//! | `icons` | icons without a source |
//! | `audience` | roles |
//! | `objects` | objects `{"":0}` in the metadata |
//! | `numbers` | numbers in the metadata |
//! | `deep` | nested arrays in the metadata |
//! | `path` | control characters in its path |
//! | `date` | digits of the fraction of a second in its modification time |
//! | `contents` | contents, all of the same resource below it |
//! | `blob` | bytes of the content |
//! | `meta` | opening braces in the metadata, which are not JSON |
//!
//! `not-utf8` contains invalid UTF-8 as text; other paths read as `good`. The config keys `list`, `templates`,
//! `complete` and `describe` select the answers of those functions in the same way: `list = "entries/COUNT"`, or
//! `"FIELD/COUNT"` for one such entry; `templates = "variables/COUNT"`; `complete = "value/COUNT"` for one value of
//! COUNT bytes, `"values/COUNT"` for COUNT values; `describe = "description/COUNT"`, or `"trap"`.

use crate::bindings::exports::mcp_host::provider::resource_provider::{
    Annotations, Argument, Body, ChangeSet, Completion, Contents, Entry, Failure, Guest, Icon, Page, ProviderInfo,
    Role, TemplatePage,
};
use crate::{config, entry, info, invalid, template};

pub(crate) struct Resources;

impl Guest for Resources {
    fn describe() -> ProviderInfo {
        if config("describe").is_some_and(|selected| selected == "trap") {
            std::process::abort();
        }
        let (_, length) = config_value("describe").unwrap_or_default();
        ProviderInfo { description: Some("x".repeat(length)), ..info(env!("CARGO_PKG_VERSION")) }
    }

    fn list_entries(_parent: Option<String>, _cursor: Option<String>, _limit: u32) -> Result<Page, Failure> {
        let entries = match config_value("list") {
            Some((what, count)) if what == "entries" => (0..count).map(|index| entry(&index.to_string())).collect(),
            Some((field, count)) => vec![entry_with(&field, count)],
            None => vec![entry("good")],
        };
        Ok(Page { entries, next_cursor: None })
    }

    fn list_templates(_cursor: Option<String>) -> Result<TemplatePage, Failure> {
        let variables = config_value("templates").map_or(1, |(_, count)| count);
        let templates = ["{a}".repeat(variables), "good/{a}".to_owned()].map(template);
        Ok(TemplatePage { templates: templates.into(), next_cursor: None })
    }

    fn read(path: String) -> Result<Vec<Contents>, Failure> {
        if path == "not-utf8" {
            return Ok(vec![Contents { entry: entry(&path), body: Body::TextBytes(vec![0xff, 0xfe]) }]);
        }
        let Some((field, count)) = field_and_count(&path) else { return Ok(vec![good_contents(entry(&path))]) };
        Ok(match field.as_str() {
            "contents" => (0..count).map(|_| good_contents(entry(&format!("{path}/below")))).collect(),
            "blob" => vec![Contents { entry: entry(&path), body: Body::Blob(vec![1; count]) }],
            field => vec![good_contents(entry_with(field, count))],
        })
    }

    fn stat(path: String) -> Result<Entry, Failure> {
        Ok(entry(&path))
    }

    fn complete(_template: String, _argument: Argument, _known: Vec<Argument>) -> Result<Completion, Failure> {
        let values = match config_value("complete") {
            Some((what, count)) if what == "values" => (0..count).map(|index| index.to_string()).collect(),
            Some((_, count)) => vec!["x".repeat(count), "short".to_owned()],
            None => Vec::new(),
        };
        Ok(Completion { values, total: None, has_more: false })
    }

    fn changes(_watched: Vec<String>, _since: Option<String>) -> Result<ChangeSet, Failure> {
        Err(invalid("nothing is watched"))
    }
}

/// Returns the field and count that the config selects for a function.
fn config_value(key: &str) -> Option<(String, usize)> {
    field_and_count(&config(key)?)
}

fn field_and_count(text: &str) -> Option<(String, usize)> {
    let (field, count) = text.split_once('/')?;
    Some((field.to_owned(), count.parse().ok()?))
}

fn entry_with(field: &str, count: usize) -> Entry {
    let annotations = Annotations { audience: Vec::new(), priority: None, last_modified: None };
    let icon = Icon { src: "https://example.com/icon.png".to_owned(), mime_type: None, sizes: Vec::new(), theme: None };
    let meta = |value: String| Some(format!(r#"{{"a":{value}}}"#));
    let plain = entry(&format!("{field}/{count}"));
    match field {
        "sizes" => {
            let icon = Icon { sizes: vec![String::new(); count], ..icon };
            Entry { path: "x".repeat(8000), icons: vec![icon], ..plain }
        }
        "icons" => Entry { icons: vec![Icon { src: String::new(), ..icon }; count], ..plain },
        "audience" => {
            Entry { annotations: Some(Annotations { audience: vec![Role::User; count], ..annotations }), ..plain }
        }
        "objects" => Entry { meta: meta(format!("[{}0]", r#"{"":0},"#.repeat(count))), ..plain },
        "numbers" => Entry { meta: meta(format!("[{}0]", "0,".repeat(count))), ..plain },
        "deep" => Entry { meta: meta(format!("{}{}", "[".repeat(count), "]".repeat(count))), ..plain },
        "meta" => Entry { meta: Some("{".repeat(count)), ..plain },
        "path" => Entry { path: "\u{1}".repeat(count), ..plain },
        "date" => {
            let last_modified = Some(format!("2025-01-12T15:00:58.{}Z", "0".repeat(count)));
            Entry { annotations: Some(Annotations { last_modified, ..annotations }), ..plain }
        }
        _ => plain,
    }
}

fn good_contents(entry: Entry) -> Contents {
    Contents { entry, body: Body::Text("good".to_owned()) }
}
