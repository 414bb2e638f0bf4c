//! The server of a `connect` command: one that the client starts for paths or for a config, or a running one at a URL.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mcp_host_config::{Config, EndpointUrl};

use super::ConnectError;
use super::entry::Server;
use super::entry::Token;
use crate::context::Context;
use crate::error::CliError;
use crate::served_paths::{Components, ServedPaths};

/// The name of a server if neither a config nor a path has one.
const DEFAULT_NAME: &str = "mcp-host";

/// The options that say which server it is.
#[derive(Debug, clap::Args)]
pub(super) struct ServerArgs {
    /// The server runs at this URL, such as `https://mcp.example.com/mcp`; takes precedence over the config
    #[arg(long, value_name = "URL", conflicts_with = "stdio", value_parser = endpoint)]
    url: Option<EndpointUrl>,

    /// With `--url`: clients need a bearer token
    #[arg(long, requires = "url")]
    token: bool,

    /// The client starts the server, even if the config names an HTTP address
    #[arg(long)]
    stdio: bool,

    /// The environment variable of the client with the bearer token, for clients that support variables
    #[arg(long, value_name = "NAME", default_value = "MCP_HOST_TOKEN", value_parser = variable)]
    token_variable: String,

    /// With PATH: the directory with the components of the providers, as for `serve`
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,

    /// With PATH: accept the home directory, and directories that contain it
    #[arg(long)]
    yes: bool,
}

pub(super) fn endpoint(text: &str) -> Result<EndpointUrl, String> {
    text.parse::<EndpointUrl>()
        .map_err(|error| format!("{error}; write `https://…`, or `http://` with an address of this machine"))
}

fn variable(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| text.to_owned()).ok_or_else(|| "write letters, digits and `_`, such as `MCP_HOST_TOKEN`".to_owned())
}

impl ServerArgs {
    /// The server and its name.
    pub(super) fn server(&self, paths: &[PathBuf], context: &Context) -> Result<(Server, String), CliError> {
        if !paths.is_empty() {
            return self.of_paths(paths);
        }
        if self.plugins.is_some() || self.yes {
            return Err(ConnectError::NoPath.into());
        }
        if let Some(url) = &self.url {
            let token = self.token.then(|| self.client_token());
            return Ok((Server::Http { url: url.as_str().to_owned(), token }, DEFAULT_NAME.to_owned()));
        }
        let config = context.config_without_secrets()?;
        let name = server_name(&config.server.name);
        if let Some(url) = endpoint_of(&config)?.filter(|_| !self.stdio) {
            let token = (!config.principals.is_empty()).then(|| self.client_token());
            return Ok((Server::Http { url, token }, name));
        }
        let file = absolute(context.config_file())?;
        Ok((stdio(vec!["--config".to_owned(), utf8(&file)?])?, name))
    }

    /// The server of `serve PATH`.
    fn of_paths(&self, paths: &[PathBuf]) -> Result<(Server, String), CliError> {
        if self.url.is_some() {
            return Err(ConnectError::PathAndUrl.into());
        }
        // An error is reported now, and not later by a client that cannot start the server.
        let served = ServedPaths::find(paths, self.yes)?;
        Components::find(&served.providers(), self.plugins.as_deref(), [], "connect CLIENT PATH")?;
        let mut args = Vec::new();
        if let Some(plugins) = &self.plugins {
            args.extend(["--plugins".to_owned(), utf8(&absolute(plugins)?)?]);
        }
        args.extend(self.yes.then(|| "--yes".to_owned()));
        for path in paths {
            // `ServedPaths` has opened the canonical path: the entry names the path that was examined.
            args.push(utf8(&path.canonicalize().with_context(|| format!("the path `{}`", path.display()))?)?);
        }
        Ok((stdio(args)?, server_name(served.name())))
    }

    /// The token. The client has it in a variable; a client without variables gets the value of this process's
    /// variable.
    fn client_token(&self) -> Token {
        let literal = std::env::var(&self.token_variable).unwrap_or_default();
        Token { variable: self.token_variable.clone(), literal }
    }
}

/// The URL of a config's server as seen from this machine; `None` if the server uses stdio.
pub(super) fn endpoint_of(config: &Config) -> Result<Option<String>, ConnectError> {
    if let Some(url) = &config.http.public_url {
        return Ok(Some(url.as_str().to_owned()));
    }
    let Some(address) = config.server.http.map(|address| address.socket_addr()) else { return Ok(None) };
    if address.port() == 0 {
        return Err(ConnectError::AnyPort);
    }
    let scheme = if config.http.tls.is_some() { "https" } else { "http" };
    Ok(Some(format!("{scheme}://{}/mcp", reachable(address))))
}

/// An address that this machine can reach.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// This program as a server that a client starts.
fn stdio(args: Vec<String>) -> Result<Server, CliError> {
    let command = utf8(&program()?)?;
    Ok(Server::Stdio { command, args: ["serve".to_owned(), "--stdio".to_owned()].into_iter().chain(args).collect() })
}

/// The path of this program. Its entry in `PATH` is preferred: that may be a link to a version, which survives an
/// upgrade.
fn program() -> Result<PathBuf, CliError> {
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let name = program.file_name().unwrap_or_default().to_owned();
    let candidates = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(&name));
    let is_program = |candidate: &PathBuf| candidate.canonicalize().is_ok_and(|real| real == program);
    Ok(candidates.into_iter().find(is_program).unwrap_or(program))
}

/// A name that each client accepts: letters, digits, `-` and `_`, with a letter first.
fn server_name(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    let plain = plain.trim_matches('-').trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    if plain.is_empty() { DEFAULT_NAME.to_owned() } else { plain.to_owned() }
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    Ok(std::path::absolute(path).with_context(|| format!("the path `{}` is not valid", path.display()))?)
}

fn utf8(path: &Path) -> Result<String, CliError> {
    Ok(path.to_str().ok_or_else(|| CliError::NotUtf8 { path: path.to_owned() })?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_a_name_that_each_client_accepts() {
        for (name, expected) in [
            ("team", "team"),
            ("Team context!", "Team-context"),
            ("42", "mcp-host"),
            ("", "mcp-host"),
            ("ノート", "mcp-host"),
        ] {
            assert_eq!(server_name(name), expected);
        }
    }

    #[test]
    fn a_server_is_reached_at_its_url_or_at_an_address_of_this_machine() {
        let url = |address: &str| {
            let mut config = Config::new();
            config.server.http = Some(address.parse().unwrap());
            endpoint_of(&config)
        };
        assert_eq!(endpoint_of(&Config::new()), Ok(None));
        assert_eq!(url("127.0.0.1:8080"), Ok(Some("http://127.0.0.1:8080/mcp".to_owned())));
        assert_eq!(url("0.0.0.0:8443"), Ok(Some("http://127.0.0.1:8443/mcp".to_owned())));
        assert_eq!(url("[::]:1"), Ok(Some("http://[::1]:1/mcp".to_owned())));
        assert_eq!(url("127.0.0.1:0"), Err(ConnectError::AnyPort));
        let mut config = Config::new();
        config.http.public_url = Some("https://mcp.example.com/mcp".parse().unwrap());
        assert_eq!(endpoint_of(&config), Ok(Some("https://mcp.example.com/mcp".to_owned())));
    }
}
