//! A provider that violates the contract in one point. The config key `fault` has the name of the check of `mcp-host
//! test` that the provider must fail, or one of the names below, each a second fault of some check. With `none`, the
//! provider passes all checks.
//!
//! | fault | |
//! |---|---|
//! | `template-spelling`, `template-stat`, `template-twice` | `stat` of an expansion has another path, or fails; a template is listed twice |
//! | `contents-of-another`, `contents-twice` | reading `a` returns the contents of `b`, or its own twice |
//! | `empty-name` | `a` has an empty name |
//! | `completion-twice` | a completion contains a value twice |
//!
//! The provider lists six resources, `a` to `f`, in pages, and the listable `dir`, whose child is `dir/x`. The
//! completions of the template `item/{name}` are `one` and `two`. The data come from the file `/data/version` if that
//! directory is granted; if not, they never change.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::SystemTime;

use crate::bindings::exports::mcp_host::provider::resource_provider::{
    Annotations, Argument, Body, ChangeSet, Completion, Contents, Entry, Failure, Guest, Page, ProviderInfo,
    TemplatePage,
};
use crate::{config, info, invalid, template};

/// The file whose content is the version of the data.
const VERSION: &str = "/data/version";
/// The resources of the default listing.
const PATHS: [&str; 7] = ["a", "b", "c", "d", "dir", "e", "f"];
/// The completions of the template's variable.
const NAMES: [&str; 2] = ["one", "two"];

/// The number of reads by this instance.
static READS: AtomicU8 = AtomicU8::new(0);

pub(crate) struct Faults;

/// Returns whether the config selects this fault.
fn has(fault: &str) -> bool {
    config("fault").is_some_and(|configured| configured == fault)
}

impl Guest for Faults {
    fn describe() -> ProviderInfo {
        let version = if has("describe") { "" } else { env!("CARGO_PKG_VERSION") };
        ProviderInfo { description: Some("Six resources and one fault.".to_owned()), watches: true, ..info(version) }
    }

    fn list_entries(parent: Option<String>, cursor: Option<String>, limit: u32) -> Result<Page, Failure> {
        match parent.as_deref() {
            None => list(cursor.as_deref(), limit),
            Some("dir") if !has("children") => Ok(Page { entries: vec![entry("dir/x")], next_cursor: None }),
            Some(path) if is_known(path) && path != "dir" => Err(invalid("expected a listable resource")),
            Some(_) => Err(Failure::NotFound),
        }
    }

    fn list_templates(cursor: Option<String>) -> Result<TemplatePage, Failure> {
        if cursor.is_some() {
            return Err(invalid("expected no cursor"));
        }
        let templates = vec![template("item/{name}".to_owned()); if has("template-twice") { 2 } else { 1 }];
        Ok(TemplatePage { templates, next_cursor: None })
    }

    fn read(path: String) -> Result<Vec<Contents>, Failure> {
        if !is_known(&path) {
            return Err(unknown());
        }
        let body = match path.as_str() {
            "a" if has("readable") => return Err(Failure::NotFound),
            "b" if has("stateless") => Body::Text(READS.fetch_add(1, Ordering::Relaxed).wrapping_rem(10).to_string()),
            "c" if has("utf-8") => Body::TextBytes(vec![0xff]),
            "e" if has("limits") => {
                black_box(vec![1_u8; 100 << 20]);
                text(&path)
            }
            "item/two" if has("template-value") => std::process::abort(),
            item if item.starts_with("item/") && has("templates") => return Err(Failure::NotFound),
            "f" => Body::Blob(vec![0xff]),
            _ => text(&path),
        };
        let described = if path == "a" && has("contents-of-another") { "b" } else { path.as_str() };
        let contents = Contents { entry: entry(described), body };
        Ok(vec![contents; if path == "a" && has("contents-twice") { 2 } else { 1 }])
    }

    fn stat(path: String) -> Result<Entry, Failure> {
        if !is_known(&path) {
            return Err(unknown());
        }
        let mut entry = entry(&path);
        if path == "b" && has("stat-agrees") {
            entry.mime_type = Some("text/html".to_owned());
        }
        if path.starts_with("item/") && has("template-spelling") {
            entry.path = path.replace("item/", "item/%25");
        }
        if path.starts_with("item/") && has("template-stat") {
            return Err(Failure::NotFound);
        }
        Ok(entry)
    }

    fn complete(template: String, argument: Argument, _known: Vec<Argument>) -> Result<Completion, Failure> {
        if (template.as_str(), argument.name.as_str()) != ("item/{name}", "name") {
            return Err(invalid("expected `name` of `item/{name}`"));
        }
        let repeated = match () {
            () if has("completion") => 1000,
            () if has("completion-twice") => 2,
            () => 1,
        };
        let values = NAMES.repeat(repeated).into_iter().filter(|name| name.starts_with(&argument.value));
        Ok(Completion { values: values.map(str::to_owned).collect(), total: None, has_more: false })
    }

    fn changes(watched: Vec<String>, since: Option<String>) -> Result<ChangeSet, Failure> {
        let version = std::fs::read_to_string(VERSION).unwrap_or_default().trim().to_owned();
        // Tokens after the first answer are rejected.
        if has("token") && since.as_deref().is_some_and(|since| since.starts_with('+')) {
            return Err(invalid("expected an older token"));
        }
        let token = if has("token") && since.is_some() { format!("+{version}") } else { version.clone() };
        let is_changed = match since.as_deref() {
            None => false,
            _ if has("changes-reported") => since.is_some_and(|since| since.contains("mcp-host")),
            Some(since) if has("bad-token") => !since.contains("mcp-host") && since != version,
            Some(since) => since != version,
        };
        let listing_changed = is_changed || has("changes-quiet");
        let changed = if is_changed { watched } else { Vec::new() };
        Ok(ChangeSet { token, changed, listing_changed, poll_after_ms: None })
    }
}

/// Returns one page of the default listing. A cursor is the index of the next entry.
fn list(cursor: Option<&str>, limit: u32) -> Result<Page, Failure> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let start = match cursor {
        None => 0,
        Some(cursor) => match cursor.parse::<usize>() {
            Ok(start) if (1..=PATHS.len()).contains(&start) => start,
            _ if has("bad-cursor") => std::process::abort(),
            _ => return Err(invalid("expected a cursor of this provider")),
        },
    };
    let mut entries: Vec<_> = PATHS.iter().skip(start).take(limit).map(|path| entry(path)).collect();
    let end = start.saturating_add(entries.len());
    let mut next_cursor = (end < PATHS.len()).then(|| end.to_string());
    if next_cursor.is_none() && has("paths") {
        entries.push(entry("../out"));
    }
    if next_cursor.is_none() && has("listing-unique") {
        entries.push(entry("%61"));
    }
    if start == 0 && has("listing-stable") {
        let now = SystemTime::UNIX_EPOCH.elapsed().map(|now| now.as_nanos().to_string());
        entries.iter_mut().for_each(|entry| entry.description = now.clone().ok());
    }
    // Later pages lack entries.
    if start > 0 && has("cursor-resume") {
        entries.truncate(1);
    }
    if has("listing-ends") {
        next_cursor = Some("1".to_owned());
    }
    Ok(Page { entries, next_cursor })
}

fn is_known(path: &str) -> bool {
    let is_item = path.strip_prefix("item/").is_some_and(|name| NAMES.contains(&name));
    PATHS.contains(&path) || path == "dir/x" || is_item
}

/// Returns the failure for a missing resource.
fn unknown() -> Failure {
    if has("not-found") { Failure::Internal("no such file".to_owned()) } else { Failure::NotFound }
}

fn text(path: &str) -> Body {
    Body::TextBytes(path.as_bytes().to_vec())
}

fn entry(path: &str) -> Entry {
    let priority = if has("hints") { 7.0 } else { 0.5 };
    let size = if path == "d" && has("sizes") { 999 } else { 1 };
    Entry {
        mime_type: Some("text/plain".to_owned()),
        size: (path.len() == 1).then_some(size),
        annotations: Some(Annotations { audience: Vec::new(), priority: Some(priority), last_modified: None }),
        listable: path == "dir",
        subscribable: true,
        name: if path == "a" && has("empty-name") { " ".to_owned() } else { path.to_owned() },
        ..crate::entry(path)
    }
}
