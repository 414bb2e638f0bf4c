//! The requests and responses of browsing: the view of one principal.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maximum number of resources in a response, and the default.
pub const MAX_RESOURCES: usize = 1000;
/// The maximum number of resources that one stream watches.
pub const MAX_WATCHED: usize = 64;
/// The maximum size of contents in a response, in bytes.
pub const MAX_CONTENT: usize = 2 << 20;

/// Declares a request.
macro_rules! requests {
    ($($(#[$attribute:meta])* struct $name:ident { $($body:tt)* })*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Debug, Serialize, Deserialize)]
            #[cfg_attr(test, derive(JsonSchema))]
            #[serde(deny_unknown_fields)]
            pub struct $name {
                /// The principal whose view is requested. For an administrator, `local` by default. Not allowed for a client, which has
                /// only its own view.
                #[serde(default, rename = "as")]
                pub viewer: Option<Viewer>,
                $($body)*
            }
        )*
    };
}

/// Declares a response.
macro_rules! answers {
    ($($(#[$attribute:meta])* struct $name:ident { $($body:tt)* })*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[cfg_attr(test, derive(JsonSchema))]
            #[cfg_attr(test, schemars(deny_unknown_fields))]
            pub struct $name { $($body)* }
        )*
    };
}

/// The principal whose view is requested.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Viewer {
    /// The name of the principal.
    #[serde(default = "super::types::local_principal")]
    pub principal: String,
    /// The groups of the principal according to its login.
    #[serde(default)]
    pub groups: Vec<String>,
}

requests! {
    /// Requests a page of the catalog, or of the resources below a resource.
    struct BrowseList {
        /// The URI of the resource; null for the catalog.
        #[serde(default)]
        pub parent: Option<String>,
        /// The cursor from `next` of the previous page.
        #[serde(default)]
        pub cursor: Option<String>,
        /// The maximum number of resources.
        #[serde(default = "max_resources")]
        #[cfg_attr(test, schemars(range(min = 1, max = MAX_RESOURCES)))]
        pub limit: usize,
    }

    /// Requests the contents of a resource.
    struct BrowseRead {
        /// The URI of the resource.
        pub uri: String,
    }

    /// Requests a page of the templates.
    struct BrowseTemplates {
        /// The cursor from `next` of the previous page.
        #[serde(default)]
        pub cursor: Option<String>,
    }

    /// Requests notifications of changes.
    struct BrowseWatch {
        /// The URIs of the resources to watch.
        #[serde(default)]
        #[cfg_attr(test, schemars(length(max = MAX_WATCHED)))]
        pub uris: Vec<String>,
        /// Whether to watch the catalog.
        #[serde(default)]
        pub listing: bool,
    }

    /// Requests completions of a template's variable.
    struct BrowseComplete {
        /// The URI template.
        pub template: String,
        /// The name of the variable.
        pub variable: String,
        /// The prefix of the value.
        pub value: String,
        /// The values of other variables.
        #[serde(default)]
        pub known: BTreeMap<String, String>,
    }

    /// Requests a search.
    struct BrowseSearch {
        /// The words to search for.
        pub query: String,
        /// A URI: only that resource, and those below it, are searched.
        #[serde(default)]
        pub within: Option<String>,
        /// A MIME type, or its part before the slash.
        #[serde(default)]
        pub kind: Option<String>,
        /// The code of a language.
        #[serde(default)]
        pub language: Option<String>,
    }

    /// Requests passages for a question.
    struct BrowseContext {
        /// The question; null to select by priority.
        #[serde(default)]
        pub query: Option<String>,
        /// The maximum number of tokens.
        pub budget: usize,
    }
}

answers! {
    /// A resource.
    struct ResourceView {
        /// The URI of the resource.
        pub uri: String,
        /// Its name.
        pub name: String,
        /// Its title.
        pub title: Option<String>,
        /// The title of the plugin, if `title` starts with it.
        pub title_prefix: Option<String>,
        /// Its description.
        pub description: Option<String>,
        /// The MIME type of its content.
        pub mime_type: Option<String>,
        /// The size of its content.
        pub size: Option<u64>,
        /// The audience: `user` and `assistant`.
        pub audience: Vec<String>,
        /// The importance, from 0 to 1.
        pub priority: Option<f64>,
        /// The time of the last change, as written by the provider.
        pub modified: Option<String>,
        /// The code of the language of its text, in a listing: null if it is not indexed for search, may not be read, or is undetermined.
        pub language: Option<String>,
        /// Whether the principal may list the resources below it.
        pub listable: bool,
        /// Whether the principal may subscribe to it.
        pub subscribable: bool,
        /// Notices of the host or the provider about the resource, such as that it is a part.
        pub notices: Vec<String>,
    }

    /// A plugin that is missing from a listing.
    struct MissingView {
        /// The name of the plugin.
        pub plugin: String,
        /// The reason.
        pub reason: String,
    }

    /// A page of resources.
    struct ResourceList {
        /// The resources.
        pub items: Vec<ResourceView>,
        /// The cursor of the next page; null at the end.
        pub next: Option<String>,
        /// The plugins that are missing in the listing.
        pub missing: Vec<MissingView>,
    }

    /// The contents of a resource, and of the resources below it that were read with it.
    struct Contents {
        /// The contents.
        pub contents: Vec<ContentView>,
        /// The number of omitted contents: the contents before them reach the limit of 2 MiB.
        pub left_out: usize,
    }

    /// The content of a resource.
    struct ContentView {
        /// The resource.
        pub resource: ResourceView,
        /// The text; null for binary content.
        pub text: Option<String>,
        /// The bytes in Base64; null for a text.
        pub blob: Option<String>,
        /// The size of the whole content.
        pub bytes: usize,
        /// Whether the content is truncated: a response has at most 2 MiB of content.
        pub cut: bool,
    }

    /// A template.
    struct TemplateView {
        /// The URI template.
        pub template: String,
        /// Its name.
        pub name: String,
        /// Its title.
        pub title: Option<String>,
        /// Its description.
        pub description: Option<String>,
        /// The MIME type of all of its resources.
        pub mime_type: Option<String>,
        /// Its variables.
        pub variables: Vec<String>,
    }

    /// A page of templates.
    struct TemplateList {
        /// The templates.
        pub items: Vec<TemplateView>,
        /// The cursor of the next page; null at the end.
        pub next: Option<String>,
        /// The plugins that are missing in the listing.
        pub missing: Vec<MissingView>,
    }

    /// Completions of a variable.
    struct CompletionView {
        /// The values, best first.
        pub values: Vec<String>,
        /// Whether there are more values.
        pub has_more: bool,
    }

    /// The result of a search.
    struct Found {
        /// The matching resources, best first.
        pub hits: Vec<HitView>,
        /// The number of all matching resources.
        pub total: u64,
        /// Whether there may be more or better results.
        pub partial: bool,
        /// The plugins that are not completely indexed.
        pub incomplete: Vec<String>,
    }

    /// A matching resource.
    struct HitView {
        /// The resource.
        pub resource: ResourceView,
        /// The best matching part of the text, divided into parts that match and parts that do not.
        pub snippet: Vec<SnippetPart>,
        /// The first and the last line of the snippet.
        pub lines: Option<(usize, usize)>,
    }

    /// A part of a snippet.
    struct SnippetPart {
        /// The text.
        pub text: String,
        /// Whether it matches.
        pub matches: bool,
    }

    /// The selected passages.
    struct ContextView {
        /// The passages, best first.
        pub passages: Vec<PassageView>,
        /// The estimated number of tokens of all passages.
        pub tokens: usize,
        /// The number of passages that do not fit the budget.
        pub over_budget: usize,
        /// The best passages that do not fit the budget; at most 20.
        pub left_out: Vec<PassageView>,
        /// The number of passages that repeat selected ones.
        pub near_copies: usize,
        /// Whether there may be better passages.
        pub partial: bool,
        /// The plugins that are not completely indexed.
        pub incomplete: Vec<String>,
    }

    /// A passage of a resource.
    struct PassageView {
        /// The resource.
        pub resource: ResourceView,
        /// The text.
        pub text: String,
        /// The first and the last line of the passage.
        pub lines: (usize, usize),
        /// The estimated number of tokens of the passage.
        pub tokens: usize,
        /// The reason for its selection.
        pub reason: String,
    }
}

fn max_resources() -> usize {
    MAX_RESOURCES
}
