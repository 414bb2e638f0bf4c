//! The config: mounts, plugins, grants, limits and access rules.
//!
//! The config is one TOML file, `mcp-host.toml`. It is validated *as a whole* before anything starts: [`Config::load`]
//! returns a valid config, or a [`ConfigError`] with all problems, each with its line and column, the offending text
//! underlined, and a correction. Unknown keys are rejected, and so are missing components and directories, and unset
//! variables.
//!
//! Text is parsed here, once, into types with only valid values, so the rest of the host needs no further checks: a
//! [`PluginName`] is a valid name, a [`limits::Deadline`] lies within its bounds, [`Plugins`] do not overlap.
//!
//! An application needs no file:
//!
//! ```
//! use mcp_host_config::grants::{DirGrant, Mode};
//! use mcp_host_config::{Config, Plugin, PrincipalSelector, Rule};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut notes = Plugin::new("notes".parse()?, "plugins/notes.wasm", "notes:///".parse()?);
//! notes.config.insert("language".into(), "ja".into());
//! notes.grants.dirs.insert("/notes".parse()?, DirGrant { host: "/home/me/notes".into(), mode: Mode::ReadOnly });
//! notes.limits.memory = "128MiB".parse()?;
//!
//! let mut everyone = Rule::new([PrincipalSelector::Any]);
//! everyone.allow.push("notes:///**".parse()?);
//! everyone.deny.push("notes:///private/**".parse()?);
//!
//! let config = Config::new().plugin(notes)?.rule(everyone);
//! assert_eq!(config.plugins[0].limits.memory.bytes(), 128 << 20);
//! # Ok(())
//! # }
//! ```
//!
//! Bounded: a file has at most [`Config::MAX_FILE_SIZE`] bytes, and values nest as deep as the TOML parser allows (80).

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

pub mod admin;
pub mod audit;
pub mod cluster;
mod component;
mod consistency;
mod count;
mod cursor_key;
mod declare;
mod dev;
mod diagnostic;
mod duration;
mod endpoint_url;
mod environment;
mod error;
mod exposure;
mod feature;
mod glob;
pub mod grants;
mod guest_path;
mod headings;
pub mod http;
pub mod instances;
pub mod issuer;
pub mod limits;
pub mod log;
mod paths;
mod plugin;
mod plugins;
mod principal;
mod quantity;
mod rate;
mod reader;
pub mod registry;
mod rule;
pub mod search;
mod secret;
mod secret_text;
mod server;
mod settings;
mod size;
mod suggest;
mod syntax;
pub mod telemetry;
#[cfg(test)]
mod tests;
mod token;
mod upstream;
mod upstream_entry;
mod warning;

/// Diagnostics of an invalid config.
pub mod diagnostics {
    pub use super::diagnostic::{Diagnostic, Position};
    pub use super::error::RenderStyle;
}

/// Numbers and quantities with bounds.
pub mod values {
    pub use super::count::Count;
    pub use super::duration::{BoundedDuration, BoundedDurationError};
    pub use super::quantity::OutOfRange;
    pub use super::rate::{ByteRate, Period, Rate, RateError};
    pub use super::size::{Size, SizeError};
}

/// Assertions of the fuzz targets for config files and globs.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    use super::diagnostics::RenderStyle;
    use super::{Config, Environment, UriGlob};
    use std::path::Path;

    /// Parses a config file, and asserts that an error can be rendered. The files in the config do not exist, and there
    /// are no environment variables.
    pub fn config(text: &str) {
        let nowhere = Path::new("/nonexistent/mcp-host.toml");
        let Err(error) = Config::parse_in(text, nowhere, &Environment::empty()) else { return };
        assert!(!error.diagnostics().is_empty(), "an error says what is wrong");
        let shown = error.render(RenderStyle::Plain);
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\0']), "what is shown is harmless to a terminal: {shown:?}");
    }

    /// Parses a lock. If it is valid, its serialized text is parsed again.
    pub fn lock(text: &str) {
        use super::registry::Lock;
        match Lock::parse(text) {
            Ok(lock) => {
                let is_same = |written: &String| Lock::parse(written).as_ref() == Ok(&lock);
                assert!(lock.to_text().is_ok_and(|written| is_same(&written)), "it is read as it is written: {lock:?}");
            }
            Err(error) => assert!(!error.contains(['\u{1b}', '\u{202e}', '\0']), "{error:?}"),
        }
    }

    /// Parses a glob, and matches it.
    pub fn glob(text: &str) {
        if let Ok(glob) = text.parse::<UriGlob>() {
            glob.matches(text);
        }
    }
}

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub use component::{ProviderNotFound, find_component};
pub use dev::{BuildCommand, BuildCommandError, Dev, WatchPattern, WatchPatternError};
pub use endpoint_url::{EndpointUrl, EndpointUrlError};
pub use environment::Environment;
pub use error::ConfigError;
pub use exposure::ExposureError;
pub use feature::{Feature, MissingFeature};
pub use glob::GlobLookup;
pub use glob::{GlobError, UriGlob};
pub use plugin::{Plugin, PluginName, PluginNameError, WatchInterval};
pub use plugins::{PluginConflict, Plugins};
pub use principal::{PrincipalGroup, PrincipalName, PrincipalNameError, TokenPrincipal};
pub use rule::{ANONYMOUS, LOCAL, Operation, PrincipalSelector, Rule, RuleLine};
pub use secret::Secret;
pub use server::{AdvertisedCapability, DrainDelay, Extension, PageBytes, PageSize, ResponseCacheSize, Server, Tool};
pub use suggest::{closest, nearest_mount};
pub use token::{TokenDigest, TokenDigestError, TokenDigests};
pub use upstream::{
    FetchedProgram, IdentityToken, SandboxMode, TokenExchange, TokenHolder, Upstream, UpstreamCommand, UpstreamSource,
    Views,
};
pub use warning::{CertificateProblem, PlacedGlob, RuleRef, SensitiveFile, Warning};

use admin::Admin;
use audit::Audit;
use cluster::Cluster;
use declare::table;
use diagnostic::{Cause, Diagnostic};
use http::Http;
use issuer::{Issuer, Issuers};
use log::Log;
use principal::{Groups, Principals};
use reader::{Keys, ReadContext, ReadOutcome, Table};
use registry::trust::Trusts;
use registry::{Reference, Registry, Repository, Trust};
use search::Search;
use telemetry::Telemetry;
use upstream_entry::Upstreams;

use mcp_host_base::regular_file;
use mcp_host_model::uri::Mount;

/// A valid config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The server: its name, address, page sizes and directories.
    pub server: Server,
    /// The HTTP server.
    pub http: Http,
    /// The administration listener. None unless set.
    pub admin: Option<Admin>,
    /// The log of the command `serve`.
    pub log: Log,
    /// The audit log. None unless set.
    pub audit: Option<Audit>,
    /// The cluster of which this host is a replica. None unless set.
    pub cluster: Option<Cluster>,
    /// The collector for traces. None unless set.
    pub telemetry: Option<Telemetry>,
    /// Search over the plugins with a table `search`. Without it: the defaults.
    pub search: Option<Search>,
    /// The registries of components.
    pub registry: Registry,
    /// The signatures that components from registries require.
    pub trust: Vec<Trust>,
    /// The directory of verified components; `None` without a state directory.
    pub store: Option<PathBuf>,
    /// The plugins, and the upstreams behind them. A config file has at least one.
    pub plugins: Plugins,
    /// The principals that authenticate with bearer tokens.
    pub principals: Vec<TokenPrincipal>,
    /// The issuers of access tokens.
    pub issuers: Vec<Issuer>,
    /// The groups of principals.
    pub groups: Vec<PrincipalGroup>,
    /// The access rules.
    pub rules: Vec<Rule>,
    /// Development of a provider, for the command `mcp-host dev`. Nothing else uses it.
    pub dev: Option<Dev>,
    /// The absolute paths of the files in a config file: components, and files that contain values.
    pub files: BTreeSet<PathBuf>,
    /// The absolute paths of the files with secrets, whose permissions [`warnings`](Self::warnings) checks: keys, files
    /// that contain values, and the config file itself if the name of a plugin's variable in it suggests a secret.
    pub secret_files: BTreeSet<PathBuf>,
    /// The config file; `None` for a config that an application made.
    pub file: Option<PathBuf>,
}

table! {
    #[derive(Default)]
    struct ConfigKeys {
        /// The server: its name, address, page sizes, directories and tools.
        server: Server,
        /// The HTTP server: TLS, CORS and limits of clients.
        http: Http,
        /// The administration listener, separate from the listener of clients: health checks, metrics, an API and the
        /// console.
        admin: Option<Admin>,
        /// An issuer of OAuth 2.1 access tokens, which authenticate principals over HTTP.
        #[read(Issuers)]
        issuer: Vec<Issuer>,
        /// The log of the command `serve` on standard error: its format and its filter.
        log: Log,
        /// The audit log: one JSON line per request, to a file or to standard error.
        audit: Option<Audit>,
        /// The cluster that this host is a replica of: replicas share their polls of providers over NATS.
        cluster: Option<Cluster>,
        /// The collector that traces are sent to, and the part of requests that are traced.
        telemetry: Option<Telemetry>,
        /// Search over the plugins that have a table `search`: the size of the index, saved searches, and embeddings.
        search: Option<Search>,
        /// The registries that components come from, and the store of verified components.
        registry: Registry,
        /// The signatures that are required for components from a registry.
        #[read(Trusts)]
        trust: Vec<Trust>,
        /// A provider with its mount, config, grants and limits.
        plugin: Plugins,
        /// An existing MCP server, mounted like a plugin.
        #[read(Upstreams)]
        upstream: Vec<Plugin>,
        /// A principal that authenticates with a bearer token over HTTP.
        #[read(Principals)]
        principal: Vec<TokenPrincipal>,
        /// A group of principals, for rules.
        #[read(Groups)]
        group: Vec<PrincipalGroup>,
        /// An access rule: its principals, and the resources that they may or may not use.
        rule: Vec<Rule>,
        /// The build of the provider in this directory, for the command `mcp-host dev`.
        dev: Option<Dev>,
    }
}

impl Config {
    /// The maximum size of a config file in bytes.
    pub const MAX_FILE_SIZE: usize = 1024 * 1024;

    /// A config without plugins and rules, to build on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin.
    ///
    /// # Errors
    ///
    /// Another plugin has the same name, or an overlapping mount.
    pub fn plugin(mut self, plugin: Plugin) -> Result<Self, PluginConflict> {
        self.plugins.add(plugin)?;
        Ok(self)
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Returns whether rules can select a principal with this name: a built-in principal, one of this config, or one
    /// with a slash in its name, which an issuer, a client CA or an application authenticates.
    pub fn has_principal(&self, name: &str) -> bool {
        self.principal_names().any(|known| known == name) || rule::is_external_name(name)
    }

    /// The names of the built-in principals and of the config's principals.
    pub fn principal_names(&self) -> impl Iterator<Item = &str> {
        rule::BUILT_IN.into_iter().chain(self.principals.iter().map(|principal| principal.name.as_str()))
    }

    /// The name of the principal that the author probably meant.
    pub fn nearest_principal(&self, written: &str) -> Option<&str> {
        suggest::closest(written, self.principal_names())
    }

    /// The mount that is most similar to the beginning of a URI or a glob.
    pub fn nearest_mount(&self, written: &str) -> Option<&Mount> {
        suggest::nearest_mount(written, self.plugins.iter().map(|plugin| &plugin.mount))
    }

    /// The references to components in registries, for a config that was read with [`Environment::keep_references`].
    pub fn references(&self) -> impl Iterator<Item = Reference> {
        self.plugins.iter().filter_map(Plugin::reference)
    }

    /// The table `[[trust]]` for a repository: the one with the longest matching prefix.
    pub fn trust_in(&self, repository: &Repository) -> Option<&Trust> {
        registry::trust::longest(&self.trust, repository)
    }

    /// The source of the `[[trust]]` that the author probably meant for a repository without one.
    pub fn nearest_source(&self, repository: &Repository) -> Option<&registry::Source> {
        registry::trust::nearest(&self.trust, repository)
    }

    /// Reads a config file, with the environment variables and the home directory of this process.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is invalid. The error contains all problems.
    pub fn load(file: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::load_in(file, &Environment::from_process())
    }

    /// Reads a config file with the given environment. Fails like [`load`](Self::load).
    pub fn load_in(file: impl AsRef<Path>, environment: &Environment) -> Result<Self, ConfigError> {
        let file = file.as_ref();
        let bytes = regular_file::read(file, Self::MAX_FILE_SIZE).map_err(|error| read_error(file, &error))?;
        match str::from_utf8(&bytes) {
            Ok(text) => Self::parse_in(text, file, environment),
            // Reading stops at the limit, so the last character may be incomplete.
            Err(_) if bytes.len() > Self::MAX_FILE_SIZE => Err(too_large(file)),
            Err(error) => {
                let (text, at) = (String::from_utf8_lossy(&bytes), error.valid_up_to());
                let problem = Diagnostic::new("the file is not UTF-8", "save the file as UTF-8").at(at..at);
                Err(ConfigError::new(file, &text, problem))
            }
        }
    }

    /// Parses a config, with the environment variables and the home directory of this process.
    ///
    /// `file` is the name of the file in messages; the file need not exist. Relative paths are relative to its
    /// directory.
    ///
    /// # Errors
    ///
    /// The text is invalid. The error contains all problems.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        Self::parse_in(text, file, &Environment::from_process())
    }

    /// Parses a config with the given environment. Apart from that like [`parse`](Self::parse).
    pub fn parse_in(text: &str, file: &Path, environment: &Environment) -> Result<Self, ConfigError> {
        if text.len() > Self::MAX_FILE_SIZE {
            return Err(too_large(file));
        }
        let (document, syntax_errors) = syntax::parse(text);
        let context = ReadContext::new(text, file.parent().unwrap_or(Path::new("")), environment);
        let config = Table::root(&context, document.get_ref(), Self::from_table);
        if !syntax_errors.is_empty() {
            // Clients of a server that runs with an earlier version of the file need only this.
            let rest = Self { admin: config.admin, ..Self::default() };
            return Err(ConfigError::new(file, text, syntax_errors).with_rest(rest, Some(Cause::Config)));
        }
        let store = registry::source::store_of(&context);
        let ReadOutcome { problems, files, mut secret_files, has_secret } = context.finish();
        if has_secret {
            secret_files.insert(std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
        }
        let mut config = Self { secret_files, file: Some(file.to_owned()), store, ..config };
        config.find_nested_grants();
        config.hide_from_programs(environment);
        if problems.is_empty() {
            return Ok(Self { files, ..config });
        }
        let cause = problems.cause();
        Err(ConfigError::new(file, text, problems).with_files(files).with_rest(config, cause))
    }

    /// Returns the JSON Schema (2020-12) of config files, for editors. It does not depend on the features of the
    /// program.
    ///
    /// A file that [`load`](Self::load) accepts is valid by the schema. The reverse is not true: a schema can express
    /// neither conflicts between plugins nor files that must exist.
    pub fn json_schema() -> serde_json::Value {
        Table::describe::<ConfigKeys>()
            .with("$schema", "https://json-schema.org/draft/2020-12/schema")
            .with("title", "mcp-host.toml")
            .with("description", "The config of mcp-host.")
            .with("anyOf", serde_json::json!([{ "required": ["plugin"] }, { "required": ["upstream"] }]))
            .into_json()
    }

    fn from_table(table: &mut Table<'_>) -> Self {
        let keys = ConfigKeys::read(table).unwrap_or_default();
        let config = Self {
            server: keys.server,
            http: keys.http,
            admin: keys.admin,
            log: keys.log,
            audit: keys.audit,
            cluster: keys.cluster,
            telemetry: keys.telemetry,
            search: keys.search,
            registry: keys.registry,
            trust: keys.trust,
            plugins: keys.plugin.with(keys.upstream),
            principals: keys.principal,
            issuers: keys.issuer,
            groups: keys.group,
            rules: keys.rule,
            dev: keys.dev,
            ..Self::default()
        };
        let is_misspelled = |key| table.has_misspelling_of(key);
        let has_provider = table.has("plugin") || table.has("upstream");
        if !has_provider
            && !["plugin", "upstream"].into_iter().any(is_misspelled)
            && !table.environment().keeps_references()
        {
            table.report(Diagnostic::new(
                "there are no plugins, so there is nothing to serve",
                "`mcp-host init` writes a config for a directory; or add one:\n[[plugin]]\nname = \"notes\"\ncomponent = \"notes\"\n\
                 mount = \"notes:///\"\ngrants.dirs = [{ host = \".\", guest = \"/notes\" }]",
            ));
        }
        config.report_issuers(table);
        config.report_tools(table);
        config.report_embeddings(table);
        config.report_exposure(table);
        config.report_admin_address(table);
        config.report_cluster(table);
        config.report_token_holders(table);
        config.report_spelled_globs(table);
        config
    }

    /// Returns whether a plugin is searched.
    pub fn has_search(&self) -> bool {
        self.plugins.iter().any(|plugin| plugin.search.is_some())
    }

    /// Returns the programs of upstreams, each with its plugin.
    pub fn programs(&self) -> impl Iterator<Item = (&Plugin, &UpstreamCommand)> {
        self.plugins.iter().filter_map(|plugin| match plugin.upstream.as_deref()?.source {
            UpstreamSource::Command(ref command) => Some((plugin, command)),
            UpstreamSource::Url(_) => None,
        })
    }
}

fn read_error(file: &Path, error: &io::Error) -> ConfigError {
    let problem = match error.kind() {
        ErrorKind::NotFound => Diagnostic::new(
            "there is no such file",
            "write it, as `mcp-host init` does, or name another file; `mcp-host serve PATH` and `mcp-host connect CLIENT PATH` need \
             none",
        ),
        ErrorKind::IsADirectory => Diagnostic::new("this is a directory", "name the file in it: `mcp-host.toml`"),
        ErrorKind::InvalidInput => Diagnostic::new(
            format!("the file cannot be read: {error}"),
            "write the config to a regular file and name that: a pipe cannot be read again when the config is reloaded",
        ),
        _ => Diagnostic::new(format!("the file cannot be read: {error}"), "name a file that the host may read"),
    };
    ConfigError::new(file, "", problem)
}

fn too_large(file: &Path) -> ConfigError {
    let message = format!("the file has more than {} bytes", Config::MAX_FILE_SIZE);
    ConfigError::new(file, "", Diagnostic::new(message, "a config is far smaller: is this another file?"))
}
