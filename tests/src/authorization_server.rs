//! The authorization server `oidc-provider`, for one test.
//!
//! It issues tokens for any resource, to the accounts `alice`, in the group `engineers`, and `bob`, in no group:
//!
//! ```no_run
//! # use mcp_host_tests::{AuthorizationServer, TokenFormat};
//! # async fn test() {
//! let server = AuthorizationServer::start(TokenFormat::Jwt("ES256"), 3600).await;
//! let issuer = server.issuer(); // http://127.0.0.1:PORT
//! // … a client registers, and is authorized …
//! server.wait_for("issued by authorization_code to alice").await;
//! # }
//! ```
//!
//! `tests/clients/authorization-server/server.mjs` describes the program, and the lines that it prints.

use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use crate::artifacts::{client_program, node};
use crate::log::Log;

/// The format of access tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFormat {
    /// JWTs (RFC 9068), signed with that algorithm: `RS256` or `ES256`.
    Jwt(&'static str),
    /// Opaque tokens, for introspection.
    Opaque,
}

/// A running authorization server. It ends when it is dropped.
#[derive(Debug)]
pub struct AuthorizationServer {
    _process: Child,
    commands: ChildStdin,
    log: Log,
    issuer: String,
}

impl AuthorizationServer {
    /// The scopes that clients may request.
    pub const SCOPES: [&str; 2] = ["mcp:read", "mcp:subscribe"];
    /// The client id with which the resource server introspects tokens.
    pub const CLIENT_ID: &str = "mcp-host";
    /// The client secret that belongs to it.
    pub const CLIENT_SECRET: &str = "secret-of-the-resource-server";

    /// Starts a server whose access tokens are valid for `lifetime` seconds.
    pub async fn start(format: TokenFormat, lifetime: u32) -> Self {
        Self::start_with(format, lifetime, None).await
    }

    /// Starts a server with opaque tokens. The resource server gets access tokens for an upstream at this URL from it:
    /// for itself by client credentials, and for an account in exchange for the account's own access token. Tokens for
    /// the upstream are JWTs.
    pub async fn start_for_upstream(url: &str) -> Self {
        Self::start_with(TokenFormat::Opaque, 3600, Some(url)).await
    }

    async fn start_with(format: TokenFormat, lifetime: u32, upstream: Option<&str>) -> Self {
        let (format, algorithm) = match format {
            TokenFormat::Jwt(algorithm) => ("jwt", algorithm),
            TokenFormat::Opaque => ("opaque", "ES256"),
        };
        let options = json!({
            "format": format,
            "algorithm": algorithm,
            "lifetime": lifetime,
            "scopes": Self::SCOPES,
            "accounts": { "alice": ["engineers"], "bob": [] },
            "client": { "id": Self::CLIENT_ID, "secret": Self::CLIENT_SECRET },
            "upstream": upstream,
        });
        let mut command = Command::new(node());
        command.arg(client_program("authorization-server/server.mjs")).arg(options.to_string());
        // It warns of everything that is not for production.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut process = command.spawn().expect("Node.js starts");
        let (commands, stdout) = (process.stdin.take().expect("a pipe"), process.stdout.take().expect("a pipe"));
        let log = Log::new(stdout);
        let line = log.wait_for_line("listening on ").await;
        let issuer = line.trim_start_matches("listening on ").to_owned();
        Self { _process: process, commands, log, issuer }
    }

    /// Its issuer identifier, which is its URL.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns an access token of this account for a resource, without the authorization of a client.
    pub async fn token(&mut self, account: &str, resource: &str) -> String {
        let number = self.count("token ") + 1;
        self.command(&format!("token {account} {resource}"), "token ").await;
        let printed = self.log.snapshot();
        let line = printed.lines().filter_map(|line| line.strip_prefix("token ")).nth(number - 1);
        line.expect("it was printed").to_owned()
    }

    /// Waits for the first event whose line contains that text.
    pub async fn wait_for(&self, event: &str) {
        self.log.wait_for_line(event).await;
    }

    /// Waits until `number` lines of the log contain the event.
    pub async fn wait_for_number(&self, event: &str, number: usize) {
        self.log.wait_for_lines(event, number).await;
    }

    /// The number of events so far whose lines contain that text.
    pub fn count(&self, event: &str) -> usize {
        self.log.snapshot().lines().filter(|line| line.contains(event)).count()
    }

    /// Invalidates all tokens of that account. JWTs stay valid for those who do not ask.
    pub async fn revoke(&mut self, account: &str) {
        self.command(&format!("revoke {account}"), "revoked").await;
    }

    /// Sets the lifetime of the access tokens to come, in seconds.
    pub async fn set_lifetime(&mut self, seconds: u32) {
        self.command(&format!("lifetime {seconds}"), "lifetime").await;
    }

    async fn command(&mut self, command: &str, answer: &str) {
        let number = self.count(answer) + 1;
        self.commands.write_all(format!("{command}\n").as_bytes()).await.expect("it reads its input");
        self.wait_for_number(answer, number).await;
    }
}
