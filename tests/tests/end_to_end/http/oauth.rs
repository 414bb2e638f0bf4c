//! OAuth 2.1: the server as a resource server, with tokens that issuers sign or introspect.

mod changed_scopes;
mod introspection;
mod keys;
mod metadata;
mod official_clients;
mod principals;
mod scopes;
mod signatures;
mod streams;
mod tokens;

use mcp_host_tests::{
    ConfigFile, Folder, HttpServer, Plugin, RawHttp, ReservedPort, Revision, Rule, TokenIssuer, WrittenConfig,
};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

/// A revision in which one request suffices to test a token.
const REVISION: Revision = Revision::V_2026_07_28;

/// A server with one issuer, `corp`, and the folder `m` with the files `f` and `g`. `corp/alice` may use `f`, and the
/// group `corp/engineers` both.
struct ResourceServer {
    issuer: TokenIssuer,
    server: HttpServer,
    port: ReservedPort,
    config: WrittenConfig,
    folder: Folder,
}

impl ResourceServer {
    /// Starts a server that fetches the issuer's keys.
    async fn start() -> Self {
        Self::start_with(jwks).await
    }

    /// Starts a server with a text in the issuer's entry of the config.
    async fn start_with(entry: impl FnOnce(&TokenIssuer) -> String) -> Self {
        Self::start_with_config(entry, |config| config).await
    }

    /// The same, with an extended config.
    async fn start_with_config(
        entry: impl FnOnce(&TokenIssuer) -> String,
        more: impl FnOnce(ConfigFile) -> ConfigFile,
    ) -> Self {
        let (issuer, port) = (TokenIssuer::start().await, ReservedPort::new());
        let folder = Folder::with_files([("f", "text of f"), ("g", "text of g")]);
        let config =
            more(base_config(&folder, &port).append(&issuer_entry("corp", &issuer.identifier(), &entry(&issuer))));
        let config = config.write();
        let server = HttpServer::start_at(&config, &port.address().to_string()).await;
        Self { issuer, server, port, config, folder }
    }

    /// The canonical URI of the server: the audience of its tokens.
    fn audience(&self) -> String {
        self.port.mcp_url()
    }

    /// Returns the claims of a valid token.
    fn claims(&self, subject: &str) -> Value {
        self.issuer.claims(subject, &self.audience())
    }

    /// A valid token.
    fn token(&self, subject: &str) -> String {
        self.issuer.sign(&self.claims(subject))
    }

    /// A request for the listing, without credentials.
    fn list_request(&self) -> RequestBuilder {
        self.server.uninitialized(REVISION).request_builder("resources/list", json!({}))
    }

    /// Requests the listing with a token.
    async fn list(&self, token: &str) -> Response {
        self.list_request().bearer_auth(token).send().await.unwrap()
    }

    /// Returns the listed URIs for a token, which must be valid.
    async fn uris(&self, token: &str) -> Vec<String> {
        uris(self.list(token).await).await
    }

    async fn assert_valid(&self, token: &str) {
        assert_eq!(self.list(token).await.status(), StatusCode::OK);
    }

    /// Asserts that a token is rejected as invalid, with a challenge (RFC 6750, 3.1).
    async fn assert_invalid(&self, token: &str, what: &str) {
        let refused = self.list(token).await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{what}");
        let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
        assert!(
            challenge.starts_with("Bearer ") && challenge.contains("error=\"invalid_token\""),
            "{what}: {challenge}"
        );
        assert!(challenge.contains("resource_metadata=\""), "{what}: {challenge}");
        let body = refused.text().await.unwrap();
        assert!(!body.contains("text of"), "{what}: {body}");
    }

    /// Asserts that a token with an unknown key is rejected: as invalid after the issuer's keys were fetched, or
    /// temporarily while the key may be new.
    async fn assert_refused(&self, token: &str, what: &str) {
        let refused = self.list(token).await;
        match refused.status() {
            StatusCode::UNAUTHORIZED => {}
            StatusCode::SERVICE_UNAVAILABLE => {
                let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
                assert!((1..=30).contains(&seconds), "{what}: {seconds}");
            }
            other => panic!("{what}: {other}"),
        }
        let body = refused.text().await.unwrap();
        assert!(!body.contains("text of"), "{what}: {body}");
    }

    /// Waits until a token is no longer valid.
    async fn wait_until_invalid(&self, token: &str) {
        while self.list(token).await.status() == StatusCode::OK {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    /// Opens the stream of `subscriptions/listen` with a token, for these notifications.
    async fn listen(&self, token: &str, notifications: Value) -> Response {
        let filter = json!({ "notifications": notifications });
        let mut wire = self.server.uninitialized(REVISION);
        let listening = wire.request_builder("subscriptions/listen", filter).bearer_auth(token).send().await.unwrap();
        assert_eq!(listening.status(), StatusCode::OK);
        listening
    }

    /// Starts a session with a token.
    async fn session(&self, token: &str) -> RawHttp {
        RawHttp::start_with_token(self.server.url(), Revision::V_2025_11_25, token).await
    }

    /// Ends the server, and asserts that its log contains none of these secrets.
    async fn end_without(self, secrets: &[&str]) {
        let log = self.server.end().await.log;
        for secret in secrets {
            assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
        }
    }
}

/// The folder, its plugin and its rules.
fn base_config(folder: &Folder, port: &ReservedPort) -> ConfigFile {
    ConfigFile::new()
        .http("public-url", port.mcp_url())
        .http_limit("failed-authentications", "1000000/m")
        .plugin(Plugin::faulty("m", folder.path()))
        .rule(Rule::for_principal("corp/alice").allow(["faulty://m/f"]))
        .append("\n[[rule]]\ngroups = [\"corp/engineers\"]\nallow = [\"faulty://m/**\"]\n")
}

/// An entry `[[issuer]]`.
fn issuer_entry(name: &str, identifier: &str, more: &str) -> String {
    format!("\n[[issuer]]\nname = \"{name}\"\nissuer = \"{identifier}\"\nalgorithms = [\"ES256\"]\n{more}\n")
}

/// Returns the config key that makes the host fetch the issuer's keys from the issuer's server.
fn jwks(issuer: &TokenIssuer) -> String {
    format!("jwks = \"{}\"", issuer.origin().url("/jwks"))
}

/// The URIs of a listing.
async fn uris(listed: Response) -> Vec<String> {
    assert_eq!(listed.status(), StatusCode::OK);
    let listed: Value = listed.json().await.unwrap();
    listed["result"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["uri"].as_str().unwrap().into())
        .collect()
}
