//! The server: its name, address, pages and directories.

use std::path::PathBuf;

use super::advertise::AdvertisedCapability;
use super::compile::CompileLimits;
use super::count::Count;
use super::cursor_key;
use super::extension::Extension;
use super::http::HttpAddress;
use super::paths::CreatableDirectory;
use super::reader::{FromNode, FromTable, Node, Schema, Table, documented};
use super::secret::Secret;
use super::size::{GIB, KIB, MIB, Size};
use super::tool::Tool;

/// The maximum number of resources on a page of a listing.
pub type PageSize = Count<1, 1000, 10_000>;
/// The memory for cached responses; 0 B switches the cache off.
pub type ResponseCacheSize = Size<0, { 64 * MIB }, { 64 * GIB }>;
/// The approximate maximum size of a page of a listing.
pub type PageBytes = Size<KIB, { 2 * MIB }, { 64 * MIB }>;

documented! {
    /// The server: `[server]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Server {
        /// The name of the server for clients. `mcp-host` unless set.
        pub name: String,
        /// The display name of the server.
        pub title: Option<String>,
        /// Instructions for models on the resources of this server. They are sent as written to every client, whatever it may see.
        pub instructions: Option<String>,
        /// The address of the HTTP server. Without it the server uses stdio.
        pub http: Option<HttpAddress>,
        /// The maximum number of resources on a page. 1000 unless set; 1 to 10000.
        pub page_size: PageSize,
        /// The maximum size of a page, measured in memory, which is about the size as JSON. 2 MiB unless set; 1 KiB to
        /// 64 MiB. A page has at least one resource, of any size.
        pub page_bytes: PageBytes,
        /// The memory for encoded responses whose providers give a time to live, divided equally among the plugins. 64 MiB unless
        /// set; 0 B, which switches the cache off, to 64 GiB.
        pub response_cache: ResponseCacheSize,
        /// Whether the command `mcp-host serve` is confined by the kernel (Landlock) to the files, directories and ports that
        /// the config names when it starts. `false` unless set.
        pub confine: bool,
        /// The directory of compiled components. Without it: the user's cache directory.
        pub cache: Option<PathBuf>,
        /// Resource limits of compiling one component.
        pub compile: CompileLimits,
        /// The directory of persistent state. Without it: the user's state directory.
        pub state: Option<PathBuf>,
        /// The key that seals cursors, for replicas that continue each other's listings. Without it: a key that is
        /// generated once and stored in the state directory.
        pub cursor_key: Option<Secret<[u8; 32]>>,
        /// Capabilities that are advertised although the host has no items of them. None unless set.
        pub advertise: Vec<AdvertisedCapability>,
        /// Tools that are offered to clients that know only tools. None unless set.
        pub tools: Vec<Tool>,
        /// Whether results of tools have links to resources (`resource_link`) beside their text. `false` unless set: some clients end a
        /// conversation at one.
        pub tool_links: bool,
        /// Whether results of tools have structured content beside their text, and tools output schemas. `false` unless set: it repeats
        /// the text, and some clients show it to the model in place of the text.
        pub tool_structured_content: bool,
        /// Extensions of MCP that are enabled. None unless set.
        pub extensions: Vec<Extension>,
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            name: "mcp-host".into(),
            title: None,
            instructions: None,
            http: None,
            page_size: PageSize::default(),
            page_bytes: PageBytes::default(),
            response_cache: ResponseCacheSize::default(),
            confine: false,
            cache: None,
            compile: CompileLimits::default(),
            state: None,
            cursor_key: None,
            advertise: Vec::new(),
            tools: Vec::new(),
            tool_links: false,
            tool_structured_content: false,
            extensions: Vec::new(),
        }
    }
}

impl FromTable for Server {
    const TYPE_NAME: &'static str = "a table";

    fn example() -> String {
        "{ name = \"team-context\" }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        table.requires_feature("http", "http", cfg!(feature = "http"));
        Some(Self {
            name: table.optional("name").map_or_else(|| Self::default().name, |Name(name)| name),
            title: table.optional("title").map(|Name(title)| title),
            instructions: table.optional("instructions").map(|Text(text)| text),
            http: table.optional("http"),
            page_size: table.or_default("page-size"),
            page_bytes: table.or_default("page-bytes"),
            response_cache: table.or_default("response-cache"),
            confine: table.or_default("confine"),
            cache: table.optional("cache").map(|CreatableDirectory(path)| path),
            compile: table.or_default("compile"),
            state: table.optional("state").map(|CreatableDirectory(path)| path),
            cursor_key: table.optional("cursor-key").map(|cursor_key::CursorKey(key)| key),
            advertise: table.or_default("advertise"),
            tools: table.or_default("tools"),
            tool_links: table.or_default("tool-links"),
            tool_structured_content: table.or_default("tool-structured-content"),
            extensions: table.or_default("extensions"),
        })
    }
}

/// A name: one line that is not empty.
struct Name(String);

impl FromNode for Name {
    const TYPE_NAME: &'static str = "a string";

    fn example() -> String {
        "\"team-context\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"\S")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        one_line::<Self>(node, "a name").map(Self)
    }
}

/// Reads a text that must be one line, and not empty.
pub(super) fn one_line<T: FromNode>(node: &Node<'_>, what: &str) -> Option<String> {
    let text = node.string::<T>()?;
    if text.trim().is_empty() || text.contains(char::is_control) {
        let help = format!("write {}, or remove it", node.assignment_hint(&T::example()));
        node.report_error(format!("{what} is one line that is not empty, without control characters"), help);
        return None;
    }
    Some(text.to_owned())
}

/// Any text.
struct Text(String);

impl FromNode for Text {
    const TYPE_NAME: &'static str = "a string";

    fn example() -> String {
        "\"Source and notes of the team.\"".into()
    }

    fn schema() -> Schema {
        Schema::string()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.string::<Self>().map(|text| Self(text.to_owned()))
    }
}
