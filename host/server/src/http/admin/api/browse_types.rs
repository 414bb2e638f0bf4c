//! The requests and answers of browsing: what one principal sees.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maximum number of resources in an answer, and the default.
pub const MAX_RESOURCES: usize = 1000;
/// The maximum number of resources that one stream watches.
pub const MAX_WATCHED: usize = 64;
/// The bytes of a content that an answer has.
pub const MAX_CONTENT: usize = 2 << 20;

/// Declares a request.
macro_rules! requests {
    ($($(#[$attribute:meta])* struct $name:ident { $($body:tt)* })*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            pub struct $name {
                /// Whose view it is: for an administrator `local` unless said, for a client always its own.
                #[serde(default, rename = "as")]
                pub viewer: Option<Viewer>,
                $($body)*
            }
        )*
    };
}

/// Declares an answer.
macro_rules! answers {
    ($($(#[$attribute:meta])* struct $name:ident { $($body:tt)* })*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[schemars(deny_unknown_fields)]
            pub struct $name { $($body)* }
        )*
    };
}

/// Whose view it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Viewer {
    /// The name of the principal.
    #[serde(default = "super::types::local_principal")]
    pub principal: String,
    /// The groups that its login says it is in.
    #[serde(default)]
    pub groups: Vec<String>,
}

requests! {
    /// A page of the catalog, or of what is below a resource.
    struct BrowseList {
        /// The resource; null for the catalog.
        #[serde(default)]
        pub parent: Option<String>,
        /// `next` of the page before.
        #[serde(default)]
        pub cursor: Option<String>,
        /// The maximum number of resources.
        #[serde(default = "max_resources")]
        #[schemars(range(min = 1, max = MAX_RESOURCES))]
        pub limit: usize,
    }

    /// A resource.
    struct BrowseRead {
        /// Its URI.
        pub uri: String,
    }

    /// A page of the templates.
    struct BrowseTemplates {
        /// `next` of the page before.
        #[serde(default)]
        pub cursor: Option<String>,
    }

    /// What is watched.
    struct BrowseWatch {
        /// The resources whose changes are told.
        #[serde(default)]
        #[schemars(length(max = MAX_WATCHED))]
        pub uris: Vec<String>,
        /// Whether changes of the catalog are told.
        #[serde(default)]
        pub listing: bool,
    }

    /// The beginning of a value of a variable of a template.
    struct BrowseComplete {
        /// The template.
        pub template: String,
        /// The variable.
        pub variable: String,
        /// The beginning of its value.
        pub value: String,
        /// The other variables that have values.
        #[serde(default)]
        pub known: BTreeMap<String, String>,
    }

    /// A search.
    struct BrowseSearch {
        /// The words.
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

    /// A question that passages are chosen for.
    struct BrowseContext {
        /// The question; null to choose by priority.
        #[serde(default)]
        pub query: Option<String>,
        /// The maximum number of tokens.
        pub budget: usize,
    }
}

answers! {
    /// A resource.
    struct ResourceView {
        /// Its URI.
        pub uri: String,
        /// Its name.
        pub name: String,
        /// Its title.
        pub title: Option<String>,
        /// The title of its plugin, if that is in front of its title.
        pub title_prefix: Option<String>,
        /// Its description.
        pub description: Option<String>,
        /// The MIME type of its content.
        pub mime_type: Option<String>,
        /// The size of its content.
        pub size: Option<u64>,
        /// Whom it is for: `user` and `assistant`.
        pub audience: Vec<String>,
        /// Its importance, from 0 to 1.
        pub priority: Option<f64>,
        /// The time of its last change, as its provider writes it.
        pub modified: Option<String>,
        /// The code of the language of its text, in a listing: null if it is not indexed for search, may not be read, or is undetermined.
        pub language: Option<String>,
        /// Whether the principal may list what is below it.
        pub listable: bool,
        /// Whether the principal may subscribe to it.
        pub subscribable: bool,
        /// What the host or the provider says about it, such as that it is a part.
        pub notices: Vec<String>,
    }

    /// A plugin that is missing from a listing.
    struct MissingView {
        /// Its name.
        pub plugin: String,
        /// Why.
        pub reason: String,
    }

    /// A page of resources.
    struct ResourceList {
        /// The resources.
        pub items: Vec<ResourceView>,
        /// The cursor of the next page; null at the end.
        pub next: Option<String>,
        /// The plugins that are missing.
        pub missing: Vec<MissingView>,
    }

    /// The contents of a resource, and of those below it that were read with it.
    struct Contents {
        /// The contents.
        pub contents: Vec<ContentView>,
        /// The number of contents that are left out, as those before are 2 MiB.
        pub left_out: usize,
    }

    /// A content.
    struct ContentView {
        /// The resource.
        pub resource: ResourceView,
        /// The text; null if it is binary.
        pub text: Option<String>,
        /// The bytes in Base64; null if it is a text.
        pub blob: Option<String>,
        /// The size of the content.
        pub bytes: usize,
        /// Whether only its first bytes are in the answer, which has at most 2 MiB of a content, and of all together.
        pub cut: bool,
    }

    /// A template.
    struct TemplateView {
        /// The template.
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
        /// The plugins that are missing.
        pub missing: Vec<MissingView>,
    }

    /// Values of a variable.
    struct CompletionView {
        /// The values, the best first.
        pub values: Vec<String>,
        /// Whether there are more.
        pub has_more: bool,
    }

    /// What was found.
    struct Found {
        /// The resources, the best first.
        pub hits: Vec<HitView>,
        /// The number of all that match.
        pub total: u64,
        /// Whether there may be more or better ones.
        pub partial: bool,
        /// The plugins that are not completely indexed.
        pub incomplete: Vec<String>,
    }

    /// A resource that was found.
    struct HitView {
        /// The resource.
        pub resource: ResourceView,
        /// The part of its text that matches best, as parts that match and parts that do not.
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

    /// The passages that were chosen.
    struct ContextView {
        /// The passages, the best first.
        pub passages: Vec<PassageView>,
        /// The estimated number of tokens of all.
        pub tokens: usize,
        /// The number of passages that do not fit the budget.
        pub over_budget: usize,
        /// The best of these, 20 at most.
        pub left_out: Vec<PassageView>,
        /// The number of passages that repeat chosen ones.
        pub near_copies: usize,
        /// Whether there may be better ones.
        pub partial: bool,
        /// The plugins that are not completely indexed.
        pub incomplete: Vec<String>,
    }

    /// A passage.
    struct PassageView {
        /// Its resource.
        pub resource: ResourceView,
        /// The text.
        pub text: String,
        /// Its first and its last line.
        pub lines: (usize, usize),
        /// The estimated number of its tokens.
        pub tokens: usize,
        /// Why it was chosen.
        pub reason: String,
    }
}

fn max_resources() -> usize {
    MAX_RESOURCES
}
