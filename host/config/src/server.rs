//! The server: its name, address, page sizes and directories, and its MCP features in addition to resources.

use std::path::PathBuf;

use super::component::PluginPath;
use super::count::Count;
use super::cursor_key::CursorKeys;
use super::declare::{named_enum, one_line, table};
use super::diagnostic::quote;
use super::duration::{BoundedDuration, MINUTE};
use super::http::HttpAddress;
use super::limits::CompileLimits;
use super::paths::CreatableDirectory;
use super::reader::{FromNode, Node, Schema};
use super::registry::StateDirectory;
use super::secret::Secret;
use super::size::{GIB, KIB, MIB, Size};
use super::suggest::closest;

/// The maximum number of resources on a page of a listing.
pub type PageSize = Count<1, 1000, 10_000>;
/// The memory for cached responses; 0 B disables the cache.
pub type ResponseCacheSize = Size<0, { 64 * MIB }, { 64 * GIB }>;
/// The approximate maximum size of a page of a listing.
pub type PageBytes = Size<KIB, { 2 * MIB }, { 64 * MIB }>;
/// The time between the end of readiness and the graceful shutdown. 0 unless set; at most 10 min.
pub type DrainDelay = BoundedDuration<0, 0, { 10 * MINUTE }>;

table! {
    /// The server: `[server]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Server as "a table", such as "{ name = \"team-context\" }" {
        /// The name of the server for clients. `mcp-host` unless set.
        #[read(Name)]
        #[default("mcp-host".into())]
        pub name: String,
        /// The display name of the server.
        #[read(Name)]
        pub title: Option<String>,
        /// Instructions for models on the resources of this server. Every client gets them as written, whichever
        /// resources it may access.
        #[read(Text)]
        pub instructions: Option<String>,
        /// The address of the HTTP server. Without it the server uses stdio.
        pub http: Option<HttpAddress>,
        /// The maximum number of resources on a page. 1000 unless set; 1 to 10000.
        pub page_size: PageSize,
        /// The maximum size of a page in memory, which is about its size as JSON. 2 MiB unless set; 1 KiB to 64 MiB. A
        /// page has at least one resource, of any size.
        pub page_bytes: PageBytes,
        /// The memory of the cache for encoded responses with a time to live, divided equally among the plugins. 64 MiB
        /// unless set; 0 B to 64 GiB. 0 B switches the cache off.
        pub response_cache: ResponseCacheSize,
        /// Whether the command `mcp-host serve` is confined by the kernel (Landlock) to the files, directories and
        /// ports that the config names when it starts. `false` unless set.
        pub confine: bool,
        /// The time after a termination signal in which requests are still accepted, while `/readyz` of `[admin]`
        /// reports that the server is not ready. Then the graceful shutdown begins. 0 s unless set; at most 10 min.
        pub drain_delay: DrainDelay,
        /// The directories in which `component = "git"` finds `git.wasm`. The first directory with the file is used.
        /// Unless set: `plugins` beside the program, `../lib/mcp-host/plugins` from there, and
        /// `/usr/lib/mcp-host/plugins`.
        #[read(PluginPath)]
        pub plugin_path: Option<Vec<PathBuf>>,
        /// The directory of compiled components. The user's cache directory unless set.
        #[read(CreatableDirectory)]
        pub cache: Option<PathBuf>,
        /// Resource limits of compiling one component.
        pub compile: CompileLimits,
        /// The directory of persistent state. The user's state directory unless set.
        #[read(StateDirectory)]
        pub state: Option<PathBuf>,
        /// The key that encrypts cursors, so that replicas can continue each other's listings. To replace the key,
        /// write a list: the first key encrypts, and all decrypt. Unless set, a key is generated once and stored in the
        /// state directory.
        #[read(CursorKeys)]
        pub cursor_key: Vec<Secret<[u8; 32]>>,
        /// Capabilities that are advertised although their lists are empty. None unless set.
        pub advertise: Vec<AdvertisedCapability>,
        /// Tools that are offered to clients that support only tools. None unless set.
        pub tools: Vec<Tool>,
        /// Whether results of tools have links to resources (`resource_link`) beside their text. `false` unless set,
        /// because some clients end a conversation at a link.
        pub tool_links: bool,
        /// Whether results of tools have structured content beside their text, and tools have output schemas. `false`
        /// unless set, because it repeats the text, and some clients show it to the model instead of the text.
        pub tool_structured_content: bool,
        /// Extensions of MCP that are enabled. None unless set.
        pub extensions: Vec<Extension>,
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::with_defaults()
    }
}

one_line! {
    /// The name of the server.
    struct Name, "\"team-context\"";
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

named_enum! {
    /// A capability of MCP that a host does not implement. If it is advertised, it has no items; if not, requests for
    /// it are errors.
    ///
    /// For clients that send such requests regardless of the server's capabilities, and fail when they are rejected.
    pub enum AdvertisedCapability as "a capability that can be advertised", such as "\"tools\"" {
        /// Prompts: `prompts/list` is empty, and completion of an argument of a prompt returns no values.
        Prompts = "prompts",
        /// Tools: `tools/list` is empty.
        Tools = "tools",
    }
}

named_enum! {
    /// An extension of MCP. A disabled extension is invisible to clients.
    pub enum Extension as "an extension that this host has", such as "\"sep-2093\"" {
        /// SEP-2093: `resources/metadata`, listing the children of one resource, capabilities per resource, and
        /// contents with complete metadata. It did not become part of a revision.
        Sep2093 = "sep-2093",
        /// `resources/directory/read` of SEP-2640, without its skills.
        Sep2640DirectoryRead = "sep-2640-directory-read",
    }
}

named_enum! {
    /// A tool that the server offers, for clients that support only tools. Each tool corresponds to a request for
    /// resources, with the same access rules.
    pub enum Tool as "a tool", such as "\"search\"", unless is_name_of_clients {
        /// `list_resources`: a page of the catalog, or the children of a resource.
        List = "list",
        /// `read_resource`: the content of a resource.
        Read = "read",
        /// `search_resources`: a search.
        Search = "search",
        /// `resource_context`: the best selection for a question within a budget.
        Context = "context",
    }
}

impl Tool {
    /// Whether the tool exists only if a plugin is searched.
    pub(super) fn needs_search(self) -> bool {
        matches!(self, Self::Search | Self::Context)
    }
}

/// Rejects the name of a tool in the protocol, such as `search_resources`: the config uses one word of it.
fn is_name_of_clients(node: &Node<'_>) -> bool {
    let name_within = |written: &str| {
        let (first, last) = written.split_once('_')?;
        [first, last].into_iter().find_map(|word| closest(word, Tool::ALL.map(Tool::name)))
    };
    let found = node.value.as_str().and_then(|written| Some((written, name_within(written)?)));
    if let Some((written, meant)) = found {
        let help = format!("write \"{meant}\": the config has a shorter name than clients");
        node.report_error(format!("{} is not {}", quote(written), Tool::TYPE_NAME), help);
    }
    found.is_some()
}
