//! One entry `[[upstream]]`, which makes an existing MCP server a plugin.
//!
//! The plugin's provider is a client of the server ([`Upstream`]), so names, mounts, limits, rules, search and reload
//! handle one kind of entry.

use mcp_host_model::uri::Mount;

use super::declare::{list_type, table, written_as};
use super::diagnostic::{Diagnostic, quote};
use super::endpoint_url::EndpointUrl;
use super::glob::UriGlob;
use super::grants::{Grants, HttpGrant};
use super::limits::{Limits, Memory};
use super::plugin::{Plugin, PluginName, Title, WatchInterval};
use super::plugins;
use super::reader::{FromNode, FromTable, Node, Schema, Table};
use super::search::PluginSearch;
use super::upstream::{Authentication, SandboxMode, Upstream, UpstreamCommand, UpstreamSource, Views};

table! {
    struct UpstreamKeys {
        /// The name of the upstream in the log and in messages. Unique among plugins and upstreams.
        #[required]
        name: PluginName,
        /// A prefix of the titles of the upstream's entries and templates in merged listings.
        #[read(Title)]
        title: Option<String>,
        /// The URL of a server that speaks streamable HTTP: `https`, or `http` to this machine.
        url: Option<EndpointUrl>,
        /// An installed program, and its arguments. The program speaks MCP over its standard input and output.
        command: Option<UpstreamCommand>,
        /// The URI prefix that the upstream owns: `NAME+`, in front of its URIs, or a mount like a plugin's, which
        /// replaces `prefix`.
        #[required]
        mount: Mount,
        /// The beginning of the upstream's URIs that the mount replaces. URIs that do not begin with it are dropped.
        #[read(ExchangedPrefix)]
        prefix: Option<Mount>,
        /// The credentials of the host at the upstream. None unless set.
        auth: Option<Authentication>,
        /// The grants of a program: `dirs`, `env` and `http`.
        grants: Grants,
        /// The confinement of a program: `full`, or `none`, so that the program may do everything that the user of the
        /// host may do. `full` unless set.
        sandbox: SandboxMode,
        /// The user that a program runs as, by name or number, if the host is root. `nobody` unless set; with
        /// `sandbox = "none"`, the user of the host.
        #[read(UserName)]
        user: Option<String>,
        /// The resource limits, with the keys of a plugin's. `memory` of a program is 256 MiB unless set, in addition
        /// to the memory that its calls take in the host.
        limits: Limits,
        /// The interval of polls for changes while a client watches and the server does not notify. 2 s unless set;
        /// 100 ms to 1 h.
        watch_interval: WatchInterval,
        /// Whether principals share the responses of the upstream. With `"principal"` each principal has its own
        /// connection or program, with the same credentials, and nothing is cached, indexed or watched. `"shared"`
        /// unless set. The key has no effect with `auth.tokens` and `auth.forward`, because there no two identities
        /// share responses.
        views: Views,
        /// Whether watched resources are read again at `watch-interval`, but not before their time to live ends, if the
        /// server cannot notify of changes. `false` unless set.
        poll: bool,
        /// Whether this server is ready (`/readyz` of `[admin]`) only when the upstream is connected. `false` unless
        /// set.
        required: bool,
        /// Whether responses of the upstream with a time to live are cached, within `server.response-cache`. `true`
        /// unless set.
        #[default(true)]
        response_cache: bool,
        /// The resources that are indexed for search. None unless set; an empty table selects all defaults.
        search: Option<PluginSearch>,
        /// Globs of the URIs of directories that are skills if they have a `SKILL.md`, such as `**/skills/*`. None
        /// unless set.
        skills: Vec<UriGlob>,
    }
}

/// The name or the number of a user.
struct UserName(Option<String>);

impl FromNode for UserName {
    const TYPE_NAME: &'static str = "the name of a user";

    fn example() -> String {
        "\"mcp-servers\"".to_owned()
    }

    fn schema() -> Schema {
        Schema::string().with("pattern", "^[A-Za-z0-9_.@$-]{1,256}$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let name = node.string::<Self>()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '$' | '@');
        if name.is_empty() || name.len() > MAX_USER_LEN || !name.chars().all(is_plain) {
            let message = format!("{} is not the name of a user", quote(name));
            node.report_error(message, "write a name or a number of `/etc/passwd`");
            return None;
        }
        if matches!(name, "root" | "0") {
            node.report_error(
                "a program is not started as root",
                "write another user, or remove it: it is `nobody` then",
            );
            return None;
        }
        Some(Self(Some(name.to_owned())))
    }
}

/// The prefix of URIs that a mount replaces.
struct ExchangedPrefix(Option<Mount>);

written_as! {
    ExchangedPrefix as Mount, such as "\"file:///srv/\"", |node| {
        let prefix = Mount::from_node(node)?;
        if prefix.is_prefix() {
            let help = "write the scheme, the host and the path that all its URIs begin with, such as `prefix = \"file:///srv/\"`";
            node.report_error(format!("`{prefix}` is not the beginning of URIs"), help);
            return None;
        }
        Some(Self(Some(prefix)))
    }
}

/// The default memory of a program in bytes: JavaScript runtimes collect garbage late.
const PROGRAM_MEMORY: u64 = 256 << 20;
/// The maximum length of a user's name in bytes.
const MAX_USER_LEN: usize = 256;
/// Limits of components that do not apply to an upstream.
pub(super) const LIMITS_OF_COMPONENTS: [&str; 5] = ["handles", "files", "random-bytes", "http", "prepare"];

/// An upstream in the form of a plugin.
struct UpstreamPlugin(Plugin);

impl FromTable for UpstreamPlugin {
    type Keys = UpstreamKeys;

    const TYPE_NAME: &'static str = "an upstream";

    fn example() -> String {
        "{ name = \"github\", url = \"https://mcp.example.com/mcp\", mount = \"github+\" }".to_owned()
    }

    fn constrain(schema: Schema) -> Schema {
        schema.with("oneOf", serde_json::json!([{ "required": ["url"] }, { "required": ["command"] }]))
    }

    fn check(table: &Table<'_>) {
        if table.has("url") == table.has("command") {
            let found = if table.has("url") { "both `url` and `command`" } else { "neither `url` nor `command`" };
            let help = "write the URL of a server, `url = \"https://mcp.example.com/mcp\"`, or an installed program, `command = \
                        [\"/opt/acme/bin/server\", \"--stdio\"]`";
            table.report_error(format!("`upstream` has {found}"), help);
        }
        let report = |key: &str, message: &str, help: &str| {
            table.report(Diagnostic::new(message, help).at(table.entry_span(key)));
        };
        for key in ["sandbox", "grants", "user"].into_iter().filter(|key| table.has("url") && table.has(key)) {
            report(key, &format!("`{key}` is for a program, and this upstream is a URL"), "remove it");
        }
        if table.has("url") && table.has_nested("limits", "program-cpu") {
            let message = "`limits.program-cpu` is for a program, and this upstream is a URL";
            table.report(Diagnostic::new(message, "remove it").at(table.nested_span("limits", "program-cpu")));
        }
        if table.has("command") && table.has("auth") {
            report("auth", "`auth` is for a URL, and this upstream is a program", "give it a variable: `grants.env`");
        }
        let of_components = [("keyvalue", "give it a directory: `grants.dirs`"), ("sql", "remove it")];
        for (key, help) in of_components.into_iter().filter(|(key, _)| table.has_nested("grants", key)) {
            let problem = Diagnostic::new(
                format!("`grants.{key}` is for components, and a program has no interface for it"),
                help,
            );
            table.report(problem.at(table.nested_span("grants", key)));
        }
        for key in LIMITS_OF_COMPONENTS.into_iter().filter(|key| table.has_nested("limits", key)) {
            let message = format!("`limits.{key}` is a limit of components, and an upstream has none");
            table.report(Diagnostic::new(message, "remove it").at(table.nested_span("limits", key)));
        }
    }

    fn from_keys(keys: UpstreamKeys, table: &Table<'_>) -> Option<Self> {
        let UpstreamKeys { mount, prefix, .. } = &keys;
        let report = |key: &str, message: String, help: String| {
            table.report(Diagnostic::new(message, help).at(table.entry_span(key)));
        };
        match prefix {
            None if !mount.is_prefix() && !table.has("prefix") => report(
                "mount",
                format!("the mount `{mount}` needs `prefix`: the beginning of the upstream's URIs that it replaces"),
                format!(
                    "add it, such as `prefix = \"file:///srv/\"`, or put the mount in front of all its URIs: `mount = \"{}+\"`",
                    keys.name.as_str().replace('_', "-")
                ),
            ),
            Some(_) if mount.is_prefix() => report(
                "prefix",
                format!("`{mount}` is in front of whole URIs, so no prefix is replaced"),
                "remove it, or write a mount such as `mount = \"files://nas/\"`".to_owned(),
            ),
            Some(prefix) if prefix.owns_all_hosts() != mount.owns_all_hosts() => report(
                "prefix",
                format!("one of `{mount}` and `{prefix}` has hosts below it, and the other has not"),
                "write both with a host, or both without, as in `web://`".to_owned(),
            ),
            _ => {}
        }
        let sandbox = keys.sandbox;
        if keys.views == Views::Principal {
            report_shared(table, "`views = \"principal\"`");
        } else if keys.auth.as_ref().is_some_and(|auth| !auth.tokens.is_empty() || auth.exchange.is_some()) {
            report_shared(table, "`auth.tokens` or `auth.forward`");
        }
        let mut limits = keys.limits;
        if table.has("command") {
            if !table.has_nested("limits", "memory")
                && let Ok(memory) = Memory::try_from(PROGRAM_MEMORY)
            {
                limits.memory = memory;
            }
            report_grants(&keys.grants, sandbox, table);
        }
        let source = match (keys.url, keys.command) {
            (Some(url), None) => UpstreamSource::Url(url),
            (None, Some(command)) => UpstreamSource::Command(UpstreamCommand { sandbox, user: keys.user, ..command }),
            _ => return None,
        };
        let auth = keys.auth.map(|auth| (auth.token, auth.tokens, auth.oauth, auth.exchange));
        let (authorization, identities, oauth, exchange) = auth.unwrap_or_default();
        let upstream = Upstream {
            source,
            prefix: keys.prefix,
            authorization,
            identities,
            oauth: oauth.map(Box::new),
            exchange: exchange.map(Box::new),
            views: keys.views,
            poll: keys.poll,
        };
        Some(Self(Plugin {
            title: keys.title,
            grants: keys.grants,
            required: keys.required,
            limits,
            watch_interval: keys.watch_interval,
            response_cache: keys.response_cache,
            search: keys.search,
            skills: keys.skills,
            upstream: Some(Box::new(upstream)),
            ..Plugin::new(keys.name, "", keys.mount)
        }))
    }
}

/// Reports keys for shared data if another key prevents sharing between principals.
fn report_shared(table: &Table<'_>, beside: &str) {
    for (key, what) in
        [("search", "the index is one for all principals"), ("skills", "skills are kept for all principals")]
    {
        if table.has(key) {
            let message = format!(
                "`{key}` cannot be set beside {beside}: {what}, and each sees its own content of this upstream"
            );
            table.report(Diagnostic::new(message, "remove it").at(table.entry_span(key)));
        }
    }
}

/// Reports grants that a program in this sandbox cannot have.
fn report_grants(grants: &Grants, sandbox: SandboxMode, table: &Table<'_>) {
    let report = |key: &str, message: String, help: &str| {
        table.report(Diagnostic::new(message, help).at(table.nested_span("grants", key)));
    };
    if sandbox == SandboxMode::None {
        for key in ["dirs", "http"].into_iter().filter(|key| table.has_nested("grants", key)) {
            let message = format!("`grants.{key}` has no effect on a program without a sandbox");
            report(key, message, "remove it: such a program may use what the user of the host may use");
        }
        return;
    }
    let has_credentials = |grant: &&HttpGrant| !grant.headers.is_empty() || grant.oauth.is_some();
    if let Some(grant) = grants.http.iter().find(has_credentials) {
        let message = format!("`headers-from` or `oauth` of `{}` cannot be granted to a program", grant.origin);
        report(
            "http",
            message,
            "what it sends is encrypted between it and the server; give it a variable: `grants.env`",
        );
    }
    if let Some(grant) = grants.http.iter().find(|grant| grant.ca.is_some()) {
        let message = format!("`ca` of `{}` cannot be granted to a program", grant.origin);
        report("http", message, "it verifies certificates itself; give it the file, and a variable that names it");
    }
}

list_type! {
    /// The upstreams, without conflicts with each other and with the plugins.
    pub(super) struct Upstreams(Vec<Plugin>) of UpstreamPlugin as "a list of upstreams", |node| {
        let items = node.items::<UpstreamPlugin>()?;
        let upstreams = items.iter().filter_map(UpstreamPlugin::from_node).map(|UpstreamPlugin(plugin)| plugin).collect();
        plugins::declare(node.context, &items);
        Some(upstreams)
    }
}

#[cfg(test)]
mod tests;
