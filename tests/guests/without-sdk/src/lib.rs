//! A provider without the SDK: it breaks the contract in ways that the SDK prevents.
//!
//! Reading `not-utf8` returns invalid UTF-8 as text; `good` is listed with invalid JSON as metadata; with `describe =
//! "trap"` in its config, `describe` traps.

mod bindings {
    #![allow(
        missing_docs,
        unsafe_code,
        unreachable_pub,
        dead_code,
        clippy::all,
        clippy::restriction,
        reason = "generated"
    )]
    wit_bindgen::generate!({ path: "../../../wit", world: "provider", generate_all });
}

use bindings::exports::mcp_host::provider::resource_provider::{
    Argument, Body, ChangeSet, Completion, Contents, Entry, Failure, Guest, Page, ProviderInfo, TemplatePage,
};
use bindings::wasi::config::store;

struct WithoutSdk;

impl Guest for WithoutSdk {
    fn describe() -> ProviderInfo {
        if matches!(store::get("describe"), Ok(Some(how)) if how == "trap") {
            std::process::abort();
        }
        ProviderInfo {
            name: "without-sdk".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            title: None,
            description: None,
            watches: false,
        }
    }

    fn list_entries(_parent: Option<String>, _cursor: Option<String>, _limit: u32) -> Result<Page, Failure> {
        Ok(Page { entries: vec![entry("good")], next_cursor: None })
    }

    fn list_templates(_cursor: Option<String>) -> Result<TemplatePage, Failure> {
        Ok(TemplatePage { templates: Vec::new(), next_cursor: None })
    }

    fn read(path: String) -> Result<Vec<Contents>, Failure> {
        let body = match path.as_str() {
            "good" => Body::TextBytes(b"good".to_vec()),
            "not-utf8" => Body::TextBytes(vec![0xff, 0xfe]),
            _ => return Err(Failure::NotFound),
        };
        Ok(vec![Contents { entry: entry(&path), body }])
    }

    fn stat(path: String) -> Result<Entry, Failure> {
        Ok(entry(&path))
    }

    fn complete(_template: String, _argument: Argument, _known: Vec<Argument>) -> Result<Completion, Failure> {
        Err(Failure::InvalidRequest("there are no templates".to_owned()))
    }

    fn changes(_watched: Vec<String>, _since: Option<String>) -> Result<ChangeSet, Failure> {
        Err(Failure::InvalidRequest("nothing is watched".to_owned()))
    }
}

fn entry(path: &str) -> Entry {
    Entry {
        path: path.to_owned(),
        name: path.to_owned(),
        title: None,
        description: None,
        mime_type: None,
        size: None,
        annotations: None,
        icons: Vec::new(),
        listable: false,
        subscribable: false,
        ttl_ms: None,
        meta: Some("{ this is not JSON".to_owned()),
    }
}

#[allow(unsafe_code, reason = "generated")]
mod exported {
    use super::{WithoutSdk, bindings};

    bindings::export!(WithoutSdk with_types_in bindings);
}
