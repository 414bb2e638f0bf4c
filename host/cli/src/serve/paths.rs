//! `serve PATH…`: a config in memory for the [contents of the paths](crate::served_paths), equal to the config of
//! `init`.
//!
//! No config file is read, and nothing is reloaded. Over HTTP a client needs a token, which is made for this run and
//! printed; the config has only its digest.

use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mcp_host_base::log_target;
use mcp_host_config::{Config, ConfigError, PrincipalSelector, Rule, TokenDigest, TokenDigests, TokenPrincipal};
use zeroize::Zeroizing;

use crate::error::CliError;
use crate::messages::Messages;
use crate::served_paths::{Components, ConfigPlace, ServedPaths};
use crate::token;

/// The principal that the token authenticates.
const PRINCIPAL: &str = "client";

/// The options of `serve` without a config.
#[derive(Debug, Default, clap::Args)]
pub(super) struct PathArgs {
    /// Serve these paths without a config, read-only: git repositories, folders of notes or other files, SQLite
    /// databases
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// With PATH: the directory with the components of the providers; by default, the directory of the installed
    /// package, or `plugins` beside the program or one level above it
    #[arg(long, value_name = "DIR", requires = "paths")]
    plugins: Option<PathBuf>,

    /// With PATH: accept the home directory, and directories that contain it
    #[arg(long, requires = "paths")]
    yes: bool,
}

/// The server of paths, without a config file.
#[derive(Debug)]
pub(crate) struct PathServer {
    served: ServedPaths,
    /// The token of the client, over HTTP.
    token: Option<Zeroizing<String>>,
}

impl PathArgs {
    /// Whether there are paths, so that no config is read.
    pub(super) fn are_given(&self) -> bool {
        !self.paths.is_empty()
    }

    /// The config for the paths, without an address.
    pub(super) fn config(&self) -> Result<(Config, ServedPaths), CliError> {
        let served = ServedPaths::find(&self.paths, self.yes)?;
        let components = Components::find(&served.providers(), self.plugins.as_deref(), [], "serve PATH")?;
        let text = served.render(ConfigPlace::Memory, &components)?;
        let mut config = Config::parse(&text, Path::new("mcp-host.toml")).map_err(not_served)?;
        config.file = None;
        // Without a terminal only `--http` leads here, and it replaces this address.
        config.server.http = std::io::stdin().is_terminal().then(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into());
        Ok((config, served))
    }
}

/// The error for a path that changed after it was examined. It leaves out the text of the generated config, which is in
/// no file.
fn not_served(error: ConfigError) -> CliError {
    let problems: Vec<_> = error.diagnostics().iter().map(|problem| problem.message().to_owned()).collect();
    CliError::Other(anyhow::anyhow!("the paths cannot be served: {}", problems.join("; ")))
}

impl PathServer {
    /// Completes the config: over HTTP, a client with the token of this run may do everything that no rule denies.
    pub(super) fn new(config: &mut Config, served: ServedPaths) -> Result<Self, CliError> {
        let Some(address) = config.server.http else { return Ok(Self { served, token: None }) };
        let token = token::generate();
        let name = PRINCIPAL.parse().context("the name of the principal")?;
        config.principals.push(TokenPrincipal { name, token_sha256: TokenDigests::new([TokenDigest::of(&token)]) });
        let mut rule = Rule::new([PrincipalSelector::Named(PRINCIPAL.to_owned())]);
        rule.allow.push("**".parse().context("the glob of everything")?);
        config.rules.push(rule);
        config.check_exposure().map_err(|_| CliError::ExposedPaths { address })?;
        Ok(Self { served, token: Some(token) })
    }

    /// Logs the served paths, and warns of other data that is served with them.
    pub(super) fn log(&self) {
        for (plugin, mount, path) in self.served.rows() {
            tracing::info!(target: log_target::PLUGIN, plugin, mount, path = %path.display(), "serving read-only, without a config");
        }
        for (plugin, repository) in self.served.repositories_elsewhere() {
            tracing::info!(target: log_target::PLUGIN, plugin, repository = %repository.display(), "it reads this repository; the path is its work tree");
        }
        for warning in self.served.warnings() {
            tracing::warn!(target: log_target::PLUGIN, "{warning}");
        }
    }

    /// Prints the address and the entry for a client: the URL, and the token of this run.
    pub(super) fn print_listening(&self, messages: &Messages, name: &str, scheme: &str, address: SocketAddr) {
        let Some(token) = &self.token else { return messages.listening(scheme, address) };
        // The token's characters need no escapes in JSON.
        let authorization = format!("{{ \"Authorization\": \"Bearer {}\" }}", token.as_str());
        messages.listening_with(
            scheme,
            address,
            "the token is of this run only, and this is the entry for a client's file; `mcp-host connect CLIENT PATH` has the client \
             start the server by itself instead",
            &format!(
                "\"{name}\": {{ \"type\": \"http\", \"url\": \"{scheme}://{address}/mcp\", \"headers\": {authorization} }}"
            ),
        );
    }
}
