//! One entry `[[upstream]]`: an existing MCP server, mounted like a plugin.
//!
//! It becomes a [`Plugin`] whose provider is a client of that server, so names, mounts, limits, rules, search and reload have one kind of
//! entry to work with. Two kinds of mounts:
//!
//! | `mount` | `prefix` | the upstream's `file:///srv/a.md` is |
//! |---|---|---|
//! | `nas+` | not set | `nas+file:///srv/a.md`: the mount is in front of every URI |
//! | `files://nas/` | `file:///srv/` | `files://nas/a.md`: the prefix is exchanged; URIs that do not begin with it are dropped |

mod command;

use std::fmt;

use mcp_host_model::uri::Mount;

use super::declare::{list_type, named_enum, table, written_as};
use super::endpoint_url::EndpointUrl;
use super::error::Diagnostic;
use super::glob::UriGlob;
use super::grants::{CredentialValue, Grants};
use super::limits::Limits;
use super::plugin::{Plugin, PluginName, Title, WatchInterval};
use super::plugins;
use super::reader::{FromTable, Schema, Table};
use super::search::PluginSearch;
use super::secret::{Secret, SecretSource};

pub use self::command::UpstreamCommand;

/// An existing MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upstream {
    /// Where it is.
    pub source: UpstreamSource,
    /// The beginning of its URIs that the mount replaces; none if the mount is in front of whole URIs.
    pub prefix: Option<Mount>,
    /// The value of the header `Authorization`. None unless set.
    pub authorization: Option<Secret<CredentialValue>>,
    /// Whether resources are read again to detect changes, where the server cannot notify of them.
    pub poll: bool,
}

/// Where an upstream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamSource {
    /// A server that speaks streamable HTTP.
    Url(EndpointUrl),
    /// A program that is started, and speaks over its standard input and output.
    Command(UpstreamCommand),
}

impl fmt::Display for UpstreamSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Command(command) => command.program.display().fmt(f),
        }
    }
}

named_enum! {
    /// What a program may do beside what it is granted.
    #[non_exhaustive]
    pub enum SandboxMode as "a sandbox", such as "\"none\"" {
        /// Everything that the user of the host may do.
        None = "none",
    }
}

table! {
    struct UpstreamKeys {
        /// Its name in the log and in messages. Unique among plugins and upstreams.
        #[required]
        name: PluginName,
        /// A prefix of the titles of its entries and templates in merged listings.
        #[read(Title)]
        title: Option<String>,
        /// The URL of a server that speaks streamable HTTP: `https`, or `http` to this machine.
        url: Option<EndpointUrl>,
        /// A program that is installed, and its arguments. It speaks over its standard input and output.
        command: Option<UpstreamCommand>,
        /// The URI prefix that it owns: `NAME+` in front of its URIs, or a mount like a plugin's that replaces `prefix`.
        #[required]
        mount: Mount,
        /// The beginning of its URIs that the mount replaces. URIs that do not begin with it are dropped.
        #[read(ExchangedPrefix)]
        prefix: Option<Mount>,
        /// How the host authenticates. Not at all unless set.
        auth: Option<Authentication>,
        /// What a program is granted: `env`, the variables that it gets. It gets no others.
        grants: Grants,
        /// `none`, if a program may do everything that the user of the host may do.
        sandbox: Option<SandboxMode>,
        /// Its resource limits, as those of a plugin.
        limits: Limits,
        /// The interval at which changes are asked for while a client watches and the server does not notify. 2 s unless set; 100 ms to
        /// 1 h.
        watch_interval: WatchInterval,
        /// Whether watched resources are read again at that interval, and not before their time to live is over, if the server cannot
        /// notify of changes. `false` unless set.
        poll: bool,
        /// Whether the server is ready (`/readyz` of `[admin]`) only when it is connected to. `false` unless set.
        required: bool,
        /// Whether its responses with a time to live are cached, within `server.response-cache`. `true` unless set.
        #[default(true)]
        response_cache: bool,
        /// What is indexed for search. Nothing unless set; an empty table selects all defaults.
        search: Option<PluginSearch>,
        /// The directories that are skills if they have a `SKILL.md`: globs of their URIs, such as `**/skills/*`. None unless set.
        skills: Vec<UriGlob>,
    }
}

table! {
    /// How the host authenticates to an upstream: `auth` of an `[[upstream]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Authentication as "a table", such as "{ token = { file = \"token.txt\" } }" {
        /// A bearer token.
        #[required]
        #[read(BearerToken)]
        token: Option<Secret<CredentialValue>>,
    }
}

/// A bearer token: the value of the header that has it.
struct BearerToken(Option<Secret<CredentialValue>>);

written_as! {
    BearerToken as SecretSource, such as "{ file = \"token.txt\" }", |node| {
        let token = SecretSource::from_node(node)?.0;
        // RFC 6750, section 2.1: a token has no spaces.
        let header = format!("Bearer {}", token.trim());
        match header.parse() {
            Ok(value) if !token.trim().contains(char::is_whitespace) => Some(Self(Some(Secret::new(value)))),
            Ok(_) => {
                node.report_machine_error("the token has a space", "write the token alone, without `Bearer`");
                None
            }
            Err(error) => {
                node.reject_source(&error);
                None
            }
        }
    }
}

/// The beginning of URIs that a mount replaces.
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

/// Limits of a component that an upstream has no use for.
const LIMITS_OF_COMPONENTS: [&str; 4] = ["handles", "files", "random-bytes", "http"];

/// An upstream, as the plugin that it becomes.
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
        for key in ["sandbox", "grants"].into_iter().filter(|key| table.has("url") && table.has(key)) {
            report(key, &format!("`{key}` is for a program, and this upstream is a URL"), "remove it");
        }
        if table.has("command") && table.has("auth") {
            report("auth", "`auth` is for a URL, and this upstream is a program", "give it a variable: `grants.env`");
        }
        if table.has("command") && !table.has("sandbox") {
            let help = "write `sandbox = \"none\"` if the program may do everything that the user of the host may do, or mount a server by \
                        its `url`";
            report("command", "this version has no sandbox for programs", help);
        }
        for key in ["dirs", "http", "keyvalue", "sql"].into_iter().filter(|key| table.has_nested("grants", key)) {
            let message = format!("`grants.{key}` has no effect on a program without a sandbox");
            let problem =
                Diagnostic::new(message, "remove it: such a program may use what the user of the host may use");
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
                format!("nothing says which URIs of the upstream `{mount}` replaces the beginning of"),
                format!(
                    "add that beginning, such as `prefix = \"file:///srv/\"`, or put the mount in front of all its URIs: `mount = \"{}+\"`",
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
        let source = match (keys.url, keys.command) {
            (Some(url), None) => UpstreamSource::Url(url),
            (None, Some(command)) => {
                UpstreamSource::Command(UpstreamCommand { sandbox: keys.sandbox.unwrap_or(command.sandbox), ..command })
            }
            _ => return None,
        };
        let upstream = Upstream {
            source,
            prefix: keys.prefix,
            authorization: keys.auth.and_then(|auth| auth.token),
            poll: keys.poll,
        };
        Some(Self(Plugin {
            title: keys.title,
            grants: keys.grants,
            required: keys.required,
            limits: keys.limits,
            watch_interval: keys.watch_interval,
            response_cache: keys.response_cache,
            search: keys.search,
            skills: keys.skills,
            upstream: Some(Box::new(upstream)),
            ..Plugin::new(keys.name, "", keys.mount)
        }))
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
