//! Search: `[search]`, and `[plugin.search]` of each plugin whose resources are searched.
//!
//! A plugin is searched only if it has a table `search`; an empty one selects all defaults.
//!
//! ```
//! use mcp_resource_host::config::search::PluginSearch;
//! use mcp_resource_host::config::Plugin;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut notes = Plugin::new("notes".parse()?, "notes.wasm", "notes:///".parse()?);
//! assert_eq!(notes.search, None, "nothing is read that nobody asked for");
//!
//! let mut search = PluginSearch::default();
//! search.exclude.push("notes:///private/**".parse()?);
//! search.reads = "60/m".parse()?;
//! notes.search = Some(search);
//! # Ok(())
//! # }
//! ```

mod embeddings;

use std::fmt;
use std::str::FromStr;

use toml::de::DeValue;

pub use self::embeddings::{
    BatchSize, Dimensions, EmbeddedPassages, EmbeddingTimeout, Embeddings, QueryRate, QueryTimeout, TokenRate,
    VectorMemory,
};
use super::UriGlob;
use super::count::Count;
use super::duration::{BoundedDuration, DAY, MINUTE, SECOND};
use super::error::{Diagnostic, Suggest, quote};
use super::rate::Rate;
use super::reader::{FromNode, FromTable, Node, Schema, Table, documented};
use super::server::one_line;
use super::size::{GIB, KIB, MIB, Size, TIB};

/// The schemes of the resources of search, which no plugin has while anything is searched.
pub(super) const SCHEMES: [&str; 2] = ["search:", "context:"];

/// The maximum size of the index on disk.
pub type IndexSize = Size<MIB, { GIB }, { TIB }>;
/// The maximum size of the text of one resource.
pub type DocumentSize = Size<KIB, MIB, { 64 * MIB }>;
/// The maximum size of the indexed text of one plugin.
pub type IndexedBytes = Size<KIB, { 256 * MIB }, { TIB }>;
/// The interval at which a plugin's listing is compared with the index.
pub type RefreshInterval = BoundedDuration<SECOND, { 10 * MINUTE }, { 7 * DAY }>;
/// The rate limit of reads for the index.
pub type IndexReads = Rate<500, 1_000_000, 1>;
/// The number of results.
pub type ResultCount = Count<1, 20, 100>;

documented! {
    /// Search over all plugins: `[search]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Search {
        /// The maximum size of the index on disk. Resources that it has no room for are not found. 1 GiB unless set; 1 MiB
        /// to 1 TiB.
        pub max_size: IndexSize,
        /// Searches that are listed as resources, `search:///saved/NAME`, and can be subscribed to.
        pub saved: Vec<SavedSearch>,
        /// The endpoint that computes embeddings of passages, by which searches find what has other words. None unless set.
        pub embeddings: Option<Embeddings>,
    }
}

documented! {
    /// What is searched of a plugin: `search` of a `[[plugin]]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct PluginSearch {
        /// Globs of the URIs that are indexed. All unless set.
        pub include: Vec<UriGlob>,
        /// Globs of URIs that are not indexed.
        pub exclude: Vec<UriGlob>,
        /// The MIME types whose content is read, such as `text/markdown` or `text/*`. Unless set: all but `image/*`, `audio/*`,
        /// `video/*` and `font/*`. Of other resources the name, the title and the description are indexed.
        pub types: Vec<MediaRange>,
        /// The maximum size of the text of one resource. A larger resource is indexed by its name, title and description. 1 MiB
        /// unless set; 1 KiB to 64 MiB.
        pub max_document: DocumentSize,
        /// The maximum size of the text of all resources, before it is indexed. 256 MiB unless set; 1 KiB to 1 TiB.
        pub max_bytes: IndexedBytes,
        /// The interval at which the listing is compared with the index. A provider that reports changes is also asked for them
        /// at `watch-interval`. 10 min unless set; 1 s to 7 days.
        pub refresh: RefreshInterval,
        /// The rate limit of reads for the index, which count towards the limits of the plugin as well. 500/s unless set; 1/h to
        /// 1000000/s.
        pub reads: IndexReads,
        /// Whether the text is sent to the endpoint of `[search.embeddings]`. `false` unless set.
        pub embeddings: bool,
    }
}

documented! {
    /// A search that is listed as a resource: an entry of `search.saved`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct SavedSearch {
        /// Its name, the last segment of its URI. Unique.
        pub name: SearchName,
        /// The title for people.
        pub title: Option<String>,
        /// The words that are searched for.
        pub query: String,
        /// A URI prefix: only resources below it are searched.
        pub within: Option<String>,
        /// A MIME type, or its part before the slash: only resources of it are searched.
        pub kind: Option<KindFilter>,
        /// The code of a language, such as `en`: only resources in it are searched.
        pub lang: Option<LanguageCode>,
        /// The number of results. 20 unless set; 1 to 100.
        pub limit: ResultCount,
    }
}

impl FromTable for Search {
    const TYPE_NAME: &'static str = "a table about search";

    fn example() -> String {
        "{ max-size = \"1GiB\" }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        Some(Self {
            max_size: table.or_default("max-size"),
            saved: table.optional("saved").map(|SavedSearches(saved)| saved).unwrap_or_default(),
            embeddings: table.optional("embeddings"),
        })
    }
}

impl FromTable for PluginSearch {
    const TYPE_NAME: &'static str = "a table about search";

    fn example() -> String {
        "{}".into()
    }

    fn advice(node: &Node<'_>) -> Option<String> {
        let is_off = matches!(node.value, DeValue::Boolean(false));
        is_off.then(|| format!("remove `{}`: a plugin without it is not searched", node.key))
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        Some(Self {
            include: table.or_default("include"),
            exclude: table.or_default("exclude"),
            types: table.or_default("types"),
            max_document: table.or_default("max-document"),
            max_bytes: table.or_default("max-bytes"),
            refresh: table.or_default("refresh"),
            reads: table.or_default("reads"),
            embeddings: table.or_default("embeddings"),
        })
    }
}

impl SavedSearch {
    /// A search for those words.
    pub fn new(name: SearchName, query: impl Into<String>) -> Self {
        Self {
            name,
            title: None,
            query: query.into(),
            within: None,
            kind: None,
            lang: None,
            limit: ResultCount::default(),
        }
    }
}

impl FromTable for SavedSearch {
    const TYPE_NAME: &'static str = "a saved search";

    fn example() -> String {
        "{ name = \"todo\", query = \"TODO FIXME\" }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let line = |line: Option<Line>| line.map(|Line(text)| text);
        let name = table.required("name");
        let title = line(table.optional("title"));
        let query = table.required::<Line>("query");
        let within = line(table.optional("within"));
        let kind = table.optional("kind");
        let lang = table.optional("lang");
        let limit = table.or_default("limit");
        Some(Self { title, within, kind, lang, limit, ..Self::new(name?, query?.0) })
    }
}

/// The list of saved searches, whose names are unique.
struct SavedSearches(Vec<SavedSearch>);

impl FromNode for SavedSearches {
    const TYPE_NAME: &'static str = "a list of saved searches";

    fn example() -> String {
        format!("[{}]", <SavedSearch as FromTable>::example())
    }

    fn schema() -> Schema {
        Schema::list(SavedSearch::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let items = node.items::<SavedSearch>()?;
        let names: Vec<Option<SearchName>> = items.iter().map(|item| item.parse_entry("name")).collect();
        for (index, (item, name)) in items.iter().zip(&names).enumerate() {
            let Some(name) = name else { continue };
            let Some(earlier) = names.iter().take(index).position(|other| other.as_ref() == Some(name)) else {
                continue;
            };
            let problem = Diagnostic::new(
                format!("two saved searches are named `{name}`"),
                "give each saved search a name of its own",
            );
            let problem = problem.at(item.entry_span("name"));
            node.context.report(match items.get(earlier) {
                Some(other) => problem.secondary(other.entry_span("name"), "the other one"),
                None => problem,
            });
        }
        Some(Self(items.iter().filter_map(SavedSearch::from_node).collect()))
    }
}

/// One line of text that is not empty.
struct Line(String);

impl FromNode for Line {
    const TYPE_NAME: &'static str = "a string";

    fn example() -> String {
        "\"TODO FIXME\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"\S")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        one_line::<Self>(node, "this text").map(Self)
    }
}

/// Declares a text that is valid by a check, with its error.
macro_rules! checked_text {
    (
        $(#[$doc:meta])* $name:ident, $error:ident, $what:literal, $example:literal, $pattern:literal, $help:literal,
        $is_valid:expr
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        #[doc = concat!("A text that is not ", $what, ".")]
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[error("{} is not {}", quote(.0), $what)]
        pub struct $error(String);

        impl $name {
            /// Returns it as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) { Ok(Self(text.to_owned())) } else { Err($error(text.to_owned())) }
            }
        }

        impl Suggest for $error {
            fn suggestion(&self, _: &str) -> String {
                $help.to_owned()
            }
        }

        impl FromNode for $name {
            const TYPE_NAME: &'static str = $what;

            fn example() -> String {
                $example.into()
            }

            fn schema() -> Schema {
                Schema::pattern($pattern)
            }

            fn from_node(node: &Node<'_>) -> Option<Self> {
                node.parse()
            }
        }
    };
}

checked_text! {
    /// The name of a saved search: at most 64 of `a-z`, `0-9` and `-`.
    SearchName, SearchNameError, "a name of a saved search", "\"todo\"", "^[a-z0-9-]{1,64}$",
    "write at most 64 of a-z, 0-9 and `-`, such as `name = \"todo\"`",
    |text| {
        (1..=64).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    }
}

checked_text! {
    /// A MIME type, or all of one kind: `text/markdown`, `text/*`.
    MediaRange, MediaRangeError, "a MIME type", "\"text/*\"", "^[a-z0-9.+-]+/([a-z0-9.+-]+|[*])$",
    "write a type and a subtype in lower case, such as `text/markdown`, or `text/*` for all of one type",
    |text| {
        let is_token = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'+' | b'-'))
        };
        text.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && (subtype == "*" || is_token(subtype)))
    }
}

impl MediaRange {
    /// Returns whether it includes a MIME type. Parameters of the type do not matter.
    pub fn includes(&self, mime_type: &str) -> bool {
        let essence = mime_type.split(';').next().unwrap_or_default().trim();
        match self.0.strip_suffix('*') {
            Some(kind) => essence.get(..kind.len()).is_some_and(|found| found.eq_ignore_ascii_case(kind)),
            None => essence.eq_ignore_ascii_case(&self.0),
        }
    }
}

mod filters;

pub use self::filters::{KindFilter, KindFilterError, LanguageCode, LanguageCodeError};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_range_includes_types_whatever_their_parameters() {
        let range = |text: &str| text.parse::<MediaRange>().unwrap();
        assert!(range("text/*").includes("text/markdown; charset=utf-8"));
        assert!(range("text/markdown").includes("Text/Markdown"));
        assert!(!range("text/*").includes("textual/x"));
        assert!(!range("text/markdown").includes("text/plain"));
        for text in ["text", "*/*", "text/", "Text/*", "text/a/b"] {
            assert!(text.parse::<MediaRange>().is_err(), "{text}");
        }
    }
}
