//! A provider without the SDK. It returns answers that the SDK prevents. The config selects one of three providers:
//!
//! | config key | provider |
//! |---|---|
//! | `fault` | [`faults`]: violates the contract in one point |
//! | `field` | [`fields`]: every function returns one extreme field |
//! | neither | [`resources`]: valid resources, and resources with one invalid or oversized field |

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

mod faults;
mod fields;
mod resources;

use bindings::exports::mcp_host::provider::resource_provider::{
    Argument, ChangeSet, Completion, Contents, Entry, EntryTemplate, Failure, Guest, Page, ProviderInfo, TemplatePage,
};
use bindings::wasi::config::store;

use self::faults::Faults;
use self::fields::Fields;
use self::resources::Resources;

struct Raw;

/// Calls a function of the selected provider.
macro_rules! call {
    ($function:ident($($argument:ident),*)) => {
        if config("fault").is_some() {
            Faults::$function($($argument),*)
        } else if config("field").is_some() {
            Fields::$function($($argument),*)
        } else {
            Resources::$function($($argument),*)
        }
    };
}

impl Guest for Raw {
    fn describe() -> ProviderInfo {
        call!(describe())
    }

    fn list_entries(parent: Option<String>, cursor: Option<String>, limit: u32) -> Result<Page, Failure> {
        call!(list_entries(parent, cursor, limit))
    }

    fn list_templates(cursor: Option<String>) -> Result<TemplatePage, Failure> {
        call!(list_templates(cursor))
    }

    fn read(path: String) -> Result<Vec<Contents>, Failure> {
        call!(read(path))
    }

    fn stat(path: String) -> Result<Entry, Failure> {
        call!(stat(path))
    }

    fn complete(template: String, argument: Argument, known: Vec<Argument>) -> Result<Completion, Failure> {
        call!(complete(template, argument, known))
    }

    fn changes(watched: Vec<String>, since: Option<String>) -> Result<ChangeSet, Failure> {
        call!(changes(watched, since))
    }
}

/// Returns the value of a config key.
fn config(key: &str) -> Option<String> {
    store::get(key).ok().flatten()
}

fn info(version: &str) -> ProviderInfo {
    ProviderInfo { name: "raw".to_owned(), version: version.to_owned(), title: None, description: None, watches: false }
}

/// Returns an entry without optional fields.
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
        meta: None,
    }
}

/// Returns a template without optional fields.
fn template(path_template: String) -> EntryTemplate {
    EntryTemplate {
        path_template,
        name: "template".to_owned(),
        title: None,
        description: None,
        mime_type: None,
        annotations: None,
        icons: Vec::new(),
        meta: None,
    }
}

fn invalid(expected: &str) -> Failure {
    Failure::InvalidRequest(expected.to_owned())
}

#[allow(unsafe_code, reason = "generated")]
mod exported {
    use super::{Raw, bindings};

    bindings::export!(Raw with_types_in bindings);
}
