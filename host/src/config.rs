//! The config: what is served, to whom, and within which bounds.
//!
//! It is one TOML file, `mcp-host.toml`, and is checked *whole* before anything starts: [`Config::load`] gives a config that
//! can be used, or a [`ConfigError`] with everything that is wrong with the file, each with line and column, the offending
//! text underlined, and what to write instead. Unknown keys are refused. So are components and directories that are not
//! there, and variables that are not set.
//!
//! Text is parsed here, once. What comes out is typed so that the rest of the host has nothing left to check: a
//! [`PluginName`] is a name, a [`limits::Deadline`] lies within its range, [`Plugins`] do not overlap.
//!
//! An application needs no file:
//!
//! ```
//! use mcp_resource_host::config::{Config, DirGrant, Mode, Plugin, Rule, Who};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut notes = Plugin::new("notes".parse()?, "plugins/notes.wasm", "notes:///".parse()?);
//! notes.config.insert("language".into(), "ja".into());
//! notes.grants.dirs.insert("/notes".parse()?, DirGrant { host: "/home/me/notes".into(), mode: Mode::ReadOnly });
//! notes.limits.memory = "128MiB".parse()?;
//!
//! let mut everyone = Rule::new([Who::Everyone]);
//! everyone.allow.push("notes:///**".parse()?);
//! everyone.deny.push("notes:///private/**".parse()?);
//!
//! let config = Config::new().plugin(notes)?.rule(everyone);
//! assert_eq!(config.plugins[0].limits.memory.bytes(), 128 << 20);
//! # Ok(())
//! # }
//! ```
//!
//! Bounded: a file of [`Config::LARGEST_FILE`] bytes, values as deep as the TOML parser goes (80).

mod announce;
pub mod compile;
mod count;
mod cursor_key;
mod digest;
mod environment;
mod error;
mod extension;
mod glob;
mod grants;
mod guest;
pub mod http;
pub mod instances;
pub mod limits;
mod paths;
mod plugin;
mod plugins;
mod range;
mod reader;
mod rule;
mod secret;
mod server;
mod settings;
mod size;
mod suggest;
mod syntax;
#[cfg(test)]
mod tests;
mod time;
mod warning;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub use announce::Announced;
pub use compile::Compile;
pub use count::Count;
pub use digest::{Digest, DigestError};
pub use environment::Environment;
pub use error::{ConfigError, Look, Position, Problem};
pub use extension::Extension;
pub use glob::{GlobError, UriGlob};
pub use grants::{
    BucketKeys, BucketName, BucketNameError, BucketQuota, CredentialError, CredentialName, CredentialValue, DirGrant,
    DirQuota, Grants, Host, HostName, HttpGrant, HttpGrants, KeyvalueGrant, Mode, Origin, OriginError, OriginPattern,
    OriginTwice, Roots, RootsError, Scheme,
};
pub use guest::{EnvName, EnvNameError, GuestPath, GuestPathError};
pub use http::{
    ClientShare, Http, HttpAddress, HttpAddressError, HttpServerLimits, KeepAlive, ShareError, Tls, TlsError,
};
pub use instances::Instances;
pub use limits::Limits;
pub use plugin::{Plugin, PluginName, PluginNameError, WatchInterval};
pub use plugins::{Clash, Plugins};
pub use range::OutOfRange;
pub use rule::{ANONYMOUS, LOCAL, Operation, Rule, Who};
pub use secret::Secret;
pub use server::{PageBytes, PageSize, Server};
pub use size::{Size, SizeError};
pub use time::{Time, TimeError};
pub use warning::Warning;

use reader::{Scope, Table};

use crate::regular_file;

/// What is served, to whom, and within which bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The host as a server.
    pub server: Server,
    /// How HTTP is spoken.
    pub http: Http,
    /// What is served. From a file, at least one.
    pub plugins: Plugins,
    /// Who may what.
    pub rules: Vec<Rule>,
    /// The files that a config file names, with absolute paths: components, and values that stand in files of their own.
    pub files: BTreeSet<PathBuf>,
}

impl Config {
    /// The largest file that is read, in bytes.
    pub const LARGEST_FILE: usize = 1024 * 1024;

    /// A config without plugins and rules, to build on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin.
    ///
    /// # Errors
    ///
    /// Its name is that of a plugin that is there, or its mount overlaps with one's.
    pub fn plugin(mut self, plugin: Plugin) -> Result<Self, Clash> {
        self.plugins.add(plugin)?;
        Ok(self)
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Reads a config file, with the variables and the home directory of this process.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has mistakes: all of them are in the error.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::load_in(file, &Environment::of_process())
    }

    /// Reads a config file with an environment of the caller's. Fails like [`load`](Self::load).
    pub fn load_in(file: &Path, environment: &Environment) -> Result<Self, ConfigError> {
        let bytes = regular_file::read(file, Self::LARGEST_FILE).map_err(|error| unreadable(file, &error))?;
        match str::from_utf8(&bytes) {
            Ok(text) => Self::parse_in(text, file, environment),
            // A character at the end of what was read may be cut.
            Err(_) if bytes.len() > Self::LARGEST_FILE => Err(too_large(file)),
            Err(error) => {
                let (text, at) = (String::from_utf8_lossy(&bytes), error.valid_up_to());
                let problem = Problem::new("the file is not UTF-8", "save the file as UTF-8").at(at..at);
                Err(ConfigError::new(file, &text, problem))
            }
        }
    }

    /// Parses a config, with the variables and the home directory of this process.
    ///
    /// `file` is what messages call it; relative paths start from its directory. It need not exist.
    ///
    /// # Errors
    ///
    /// The text has mistakes: all of them are in the error.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        Self::parse_in(text, file, &Environment::of_process())
    }

    /// Parses a config with an environment of the caller's. Otherwise like [`parse`](Self::parse).
    pub fn parse_in(text: &str, file: &Path, environment: &Environment) -> Result<Self, ConfigError> {
        if text.len() > Self::LARGEST_FILE {
            return Err(too_large(file));
        }
        let document = syntax::parse(text).map_err(|problems| ConfigError::new(file, text, problems))?;
        let scope = Scope::new(text, file.parent().unwrap_or(Path::new("")), environment);
        let config = Table::outermost(&scope, document.get_ref(), Self::from_table);
        let (problems, files) = scope.into_gathered();
        if problems.is_empty() {
            return Ok(Self { files, ..config });
        }
        let rest = problems.are_of_disk().then_some(config);
        Err(ConfigError::new(file, text, problems).with_files(files).with_rest(rest))
    }

    fn from_table(table: &mut Table<'_>) -> Self {
        let config = Self {
            server: table.or_default("server"),
            http: table.or_default("http"),
            plugins: table.or_default("plugin"),
            rules: table.or_default("rule"),
            files: BTreeSet::new(),
        };
        if !table.has("plugin") && !table.has_misspelt("plugin") {
            table.report(Problem::new(
                "there are no plugins, so there is nothing to serve",
                "add one:\n[[plugin]]\nname = \"notes\"\ncomponent = \"plugins/notes.wasm\"\nmount = \"notes:///\"",
            ));
        }
        config
    }
}

fn unreadable(file: &Path, error: &io::Error) -> ConfigError {
    let problem = match error.kind() {
        ErrorKind::NotFound => Problem::new("there is no such file", "write a config there, or name another file"),
        ErrorKind::IsADirectory => Problem::new("this is a directory", "name the file in it: `mcp-host.toml`"),
        ErrorKind::InvalidInput => Problem::new(
            format!("the file cannot be read: {error}"),
            "write the config to a regular file and name that: a pipe cannot be read again when the config is reloaded",
        ),
        _ => Problem::new(format!("the file cannot be read: {error}"), "name a file that the host may read"),
    };
    ConfigError::new(file, "", problem)
}

fn too_large(file: &Path) -> ConfigError {
    let message = format!("the file has more than {} bytes", Config::LARGEST_FILE);
    ConfigError::new(file, "", Problem::new(message, "a config is far smaller: is this another file?"))
}
