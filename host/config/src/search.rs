//! Search: `[search]`, and `[plugin.search]` of each plugin whose resources are searched.
//!
//! A plugin is searched only if it has a table `search`; an empty one selects all defaults.
//!
//! ```
//! use mcp_host_config::search::PluginSearch;
//! use mcp_host_config::Plugin;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut notes = Plugin::new("notes".parse()?, "notes.wasm", "notes:///".parse()?);
//! assert_eq!(notes.search, None, "nothing is indexed unless the config says so");
//!
//! let mut search = PluginSearch::default();
//! search.exclude.push("notes:///private/**".parse()?);
//! search.reads = "60/m".parse()?;
//! notes.search = Some(search);
//! # Ok(())
//! # }
//! ```

mod embeddings;
mod filters;

use toml::de::DeValue;

pub use self::embeddings::{
    BatchSize, Dimensions, EmbeddedPassages, EmbeddingTimeout, Embeddings, QueryRate, QueryTimeout, TokenRate,
    VectorMemory,
};
pub use self::filters::{KindFilter, KindFilterError, LanguageCode, LanguageCodeError};
use super::UriGlob;
use super::count::Count;
use super::declare::{checked_text, list_type, one_line, table};
use super::duration::{BoundedDuration, DAY, MINUTE, SECOND};
use super::rate::Rate;
use super::reader::{FromTable, Node, Schema, Table};
use super::size::{GIB, KIB, MIB, Size, TIB};

/// The schemes of search resources, which no plugin may use while any plugin is searched.
pub(super) const SCHEMES: [&str; 2] = ["search:", "context:"];

/// The maximum size of the index on disk.
pub type IndexSize = Size<MIB, { GIB }, { TIB }>;
/// The maximum size of the text of one resource.
pub type DocumentSize = Size<KIB, MIB, { 64 * MIB }>;
/// The maximum size of the indexed text of one plugin.
pub type IndexedBytes = Size<KIB, { 256 * MIB }, { TIB }>;
/// The interval at which a plugin's listing is compared with the index.
pub type RefreshInterval = BoundedDuration<SECOND, { 10 * MINUTE }, { 7 * DAY }>;
/// The rate limit of reads for the index (a token bucket).
pub type IndexReads = Rate<500, 1_000_000, 1>;
/// The number of results.
pub type ResultCount = Count<1, 20, 100>;

table! {
    /// Search over all plugins: `[search]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Search as "a table about search", such as "{ max-size = \"1GiB\" }" {
        /// The maximum size of the index on disk. Resources for which the index has no room are not found. 1 GiB unless
        /// set; 1 MiB to 1 TiB.
        pub max_size: IndexSize,
        /// Searches that are listed as resources, `search:///saved/NAME`, and can be subscribed to.
        #[read(SavedSearches)]
        pub saved: Vec<SavedSearch>,
        /// The endpoint that computes embeddings of passages, so that searches also find passages with other words.
        /// None unless set.
        pub embeddings: Option<Embeddings>,
        /// Whether one replica of the cluster builds the index of each plugin whose polls are shared, and the others
        /// fetch it. Requires `[cluster]`. `false` unless set.
        pub shared: bool,
    }
}

table! {
    /// The searched part of a plugin: `search` of a `[[plugin]]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct PluginSearch {
        /// Globs of the URIs that are indexed. All unless set.
        pub include: Vec<UriGlob>,
        /// Globs of the URIs that are not indexed.
        pub exclude: Vec<UriGlob>,
        /// The MIME types whose content is read, such as `text/markdown` or `text/*`. All but `image/*`, `audio/*`,
        /// `video/*` and `font/*` unless set. Resources of other types are indexed by name, title, description and
        /// path.
        pub types: Vec<MediaRange>,
        /// The maximum size of the text of one resource. Of a longer text the beginning is indexed. 1 MiB unless set;
        /// 1 KiB to 64 MiB.
        pub max_document: DocumentSize,
        /// The maximum size of the text of all resources, before it is indexed. 256 MiB unless set; 1 KiB to 1 TiB.
        pub max_bytes: IndexedBytes,
        /// The interval at which the listing is compared with the index. A provider that reports changes is also polled
        /// for changes at `watch-interval`. 10 min unless set; 1 s to 7 days.
        pub refresh: RefreshInterval,
        /// The rate limit of reads for the index. These reads also count towards the limits of the plugin. 500/s unless
        /// set; 1/h to 1000000/s.
        pub reads: IndexReads,
        /// Whether the text of the resources is sent to the endpoint of `[search.embeddings]`. `false` unless set.
        pub embeddings: bool,
    }
}

table! {
    /// A search that is listed as a resource: an entry of `search.saved`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct SavedSearch as "a saved search", such as "{ name = \"todo\", query = \"TODO FIXME\" }" {
        /// The name of the search, which is the last segment of its URI. Unique.
        #[required]
        pub name: SearchName,
        /// The title for people.
        #[read(Line)]
        pub title: Option<String>,
        /// The words that are searched for.
        #[required]
        #[read(Line)]
        pub query: String,
        /// A URI prefix: only resources below it are searched.
        #[read(Line)]
        pub within: Option<String>,
        /// A MIME type, or its part before the slash: only resources of this type are searched.
        pub kind: Option<KindFilter>,
        /// The code of a language, such as `en`: only resources in this language are searched.
        pub lang: Option<LanguageCode>,
        /// The number of results. 20 unless set; 1 to 100.
        pub limit: ResultCount,
    }
}

impl FromTable for PluginSearch {
    type Keys = Self;

    const TYPE_NAME: &'static str = "a table about search";

    fn example() -> String {
        "{}".into()
    }

    fn advice(node: &Node<'_>) -> Option<String> {
        let is_off = matches!(node.value, DeValue::Boolean(false));
        is_off.then(|| format!("remove `{}`: a plugin without it is not searched", node.key))
    }

    fn from_keys(keys: Self, _: &Table<'_>) -> Option<Self> {
        Some(keys)
    }
}

impl SavedSearch {
    /// A search for these words.
    pub fn new(name: SearchName, query: impl Into<String>) -> Self {
        Self::with_defaults(name, query.into())
    }
}

list_type! {
    /// The list of saved searches, with unique names.
    struct SavedSearches(Vec<SavedSearch>) of SavedSearch as "a list of saved searches", |node| {
        node.unique_list(
            "name",
            |name: &SearchName| format!("two saved searches are named `{name}`"),
            "give each saved search a name of its own",
        )
    }
}

one_line! {
    /// One line of text.
    struct Line, "\"TODO FIXME\"";
}

checked_text! {
    /// The name of a saved search: at most 64 of `a-z`, `0-9` and `-`.
    pub struct SearchName, SearchNameError as "a name of a saved search", such as "\"todo\"",
    schema Schema::pattern("^[a-z0-9-]{1,64}$"),
    valid if |text| {
        (1..=64).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    },
    otherwise "write at most 64 of a-z, 0-9 and `-`, such as `name = \"todo\"`"
}

checked_text! {
    /// A MIME type, or all of one kind: `text/markdown`, `text/*`.
    pub struct MediaRange, MediaRangeError as "a MIME type", such as "\"text/*\"",
    schema Schema::pattern("^[a-z0-9.+-]+/([a-z0-9.+-]+|[*])$"),
    valid if |text| {
        let is_token = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'+' | b'-'))
        };
        text.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && (subtype == "*" || is_token(subtype)))
    },
    otherwise "write a type and a subtype in lower case, such as `text/markdown`, or `text/*` for all of one type"
}

impl MediaRange {
    /// Returns whether the range includes a MIME type. Parameters of the type are ignored.
    pub fn includes(&self, mime_type: &str) -> bool {
        let essence = mime_type.split(';').next().unwrap_or_default().trim();
        match self.0.strip_suffix('*') {
            Some(kind) => essence.get(..kind.len()).is_some_and(|found| found.eq_ignore_ascii_case(kind)),
            None => essence.eq_ignore_ascii_case(&self.0),
        }
    }
}

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
