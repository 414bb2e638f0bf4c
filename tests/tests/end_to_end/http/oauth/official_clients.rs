//! The official TypeScript and Python clients with their OAuth code, and a certified authorization server.
//!
//! Each client discovers the authorization server from this server's challenge, registers, gets a token by the
//! authorization code grant with PKCE, and uses it. The login and the consent are scripted; everything else is real.

use std::fs;

use mcp_host_tests::{
    AuthorizationServer, ConfigFile, Folder, HttpServer, Plugin, ReservedPort, TokenFormat, WrittenConfig,
};
use tempfile::NamedTempFile;

use crate::clients::ts_and_python_clients::program;
use crate::clients::ts_and_python_clients::watcher::ClientWatcher;

const A: &str = "faulty://x/a";
/// The Python client refreshes a token that has expired by its own clock, and requests a new authorization if the
/// server rejected the token earlier.
const CLOCK_SKEW: &str = "5s";

/// A server that engineers may use, and the authorization server that it trusts.
struct Company {
    authorization: AuthorizationServer,
    server: HttpServer,
    files: Folder,
    _port: ReservedPort,
    _config: WrittenConfig,
    _secret: NamedTempFile,
}

impl Company {
    async fn start(format: TokenFormat, lifetime: u32) -> Self {
        let (authorization, port) = (AuthorizationServer::start(format, lifetime).await, ReservedPort::new());
        let (files, secret) =
            (Folder::with_files([("a", "0"), ("b", "0"), (".faults/none", "")]), NamedTempFile::new().unwrap());
        fs::write(secret.path(), AuthorizationServer::CLIENT_SECRET).unwrap();
        let issuer = authorization.issuer();
        let verification = match format {
            TokenFormat::Jwt(algorithm) => format!("jwks = \"{issuer}/jwks\"\nalgorithms = [\"{algorithm}\"]"),
            TokenFormat::Opaque => format!(
                "introspection = {{ url = \"{issuer}/token/introspection\", client-id = \"{}\", client-secret = {{ file = \"{}\" }} }}",
                AuthorizationServer::CLIENT_ID,
                secret.path().display(),
            ),
        };
        let config = ConfigFile::new()
            .http("public-url", port.mcp_url())
            .plugin(Plugin::faulty("x", files.path()))
            .append(&format!(
                "\n[[issuer]]\nname = \"corp\"\nissuer = \"{issuer}\"\n{verification}\nclock-skew = \"{CLOCK_SKEW}\"\nscopes = [\"mcp:read\"]\n\
                 operation-scopes = {{ subscribe = [\"mcp:subscribe\"] }}\n",
            ))
            .append("\n[[rule]]\ngroups = [\"corp/engineers\"]\nallow = [\"**\"]\n")
            .write();
        let server = HttpServer::start_at(&config, &port.address().to_string()).await;
        Self { authorization, server, files, _port: port, _config: config, _secret: secret }
    }

    /// Starts a client of a language, for a person with an account.
    fn client(&self, language: &str, stateless: bool, account: &str) -> ClientWatcher {
        let mut command = program(language, "watch");
        command.args(stateless.then_some("--stateless")).args(["--as", account, "http", self.server.url()]);
        ClientWatcher::start(command)
    }

    /// Edits the file `a` without changing its entry in the listing.
    fn edit(&self, digit: u8) {
        let aside = self.files.write(".faults/aside", digit.to_string());
        fs::rename(aside, self.files.path().join("a")).unwrap();
    }
}

/// Subscribes, and waits for the notification of a change.
async fn subscribe_and_be_told(client: &mut ClientWatcher, company: &Company, stateless: bool, digit: u8) {
    client.subscribe(A).await;
    if stateless {
        assert_eq!(client.next_updated().await, A, "a stream tells of each resource when it counts");
    }
    company.edit(digit);
    assert_eq!(client.next_updated().await, A);
    assert_eq!(client.text(A).await, digit.to_string());
}

/// The whole flow, in both kinds of lifecycle: authorization, use, more scopes, use.
async fn assert_is_authorized_and_steps_up(language: &str, format: TokenFormat) {
    let company = Company::start(format, 3600).await;
    for (number, stateless) in [(1, false), (2, true)] {
        let mut client = company.client(language, stateless, "alice");
        assert_eq!(client.list().await, [A, "faulty://x/b"]);
        company.authorization.wait_for_number("registered ", number).await;
        company
            .authorization
            .wait_for_number("issued by authorization_code to alice for mcp:read", 2 * number - 1)
            .await;
        subscribe_and_be_told(&mut client, &company, stateless, u8::try_from(number).unwrap()).await;
        // A token for the previously requested scopes, and for subscriptions.
        company.authorization.wait_for_number("to alice for mcp:read mcp:subscribe", number).await;
        client.end().await;
    }
    assert_eq!(company.authorization.count("issued by"), 4, "no token was asked for without need");
    assert_eq!(company.authorization.count("refused"), 0);
    company.server.end().await;
}

/// A token expires while its streams are open. The client refreshes it, and is notified of later changes.
async fn assert_refreshes(language: &str) {
    for stateless in [false, true] {
        let mut company = Company::start(TokenFormat::Jwt("ES256"), 3).await;
        let mut client = company.client(language, stateless, "alice");
        subscribe_and_be_told(&mut client, &company, stateless, 1).await;
        company.authorization.set_lifetime(3600).await;
        if stateless {
            assert_eq!(client.next_event("ended").await, A, "the stream ends with the token");
            assert_eq!(client.list().await.len(), 2);
        }
        // In a session, the stream ended with the token, and the client opens it again.
        company.authorization.wait_for("issued by refresh_token to alice for mcp:read mcp:subscribe").await;
        if stateless {
            subscribe_and_be_told(&mut client, &company, stateless, 2).await;
        } else {
            company.edit(2);
            assert_eq!(client.next_updated().await, A);
        }
        assert_eq!(company.authorization.count("registered "), 1);
        client.end().await;
        company.server.end().await;
    }
}

/// A revoked token is rejected after a while: the client must be authorized again.
async fn assert_is_authorized_again_after_revocation(language: &str) {
    let mut company = Company::start(TokenFormat::Opaque, 3600).await;
    let mut client = company.client(language, true, "alice");
    subscribe_and_be_told(&mut client, &company, true, 1).await;
    let before = company.authorization.count("authorized alice");
    company.authorization.revoke("alice").await;
    assert_eq!(client.next_event("ended").await, A, "the stream ends with the token");
    assert_eq!(client.list().await.len(), 2);
    assert!(company.authorization.count("authorized alice") > before);
    client.end().await;
    company.server.end().await;
}

#[tokio::test]
async fn the_typescript_client_is_authorized_and_steps_up() {
    assert_is_authorized_and_steps_up("typescript", TokenFormat::Jwt("ES256")).await;
}

#[tokio::test]
async fn the_python_client_is_authorized_and_steps_up() {
    assert_is_authorized_and_steps_up("python", TokenFormat::Jwt("RS256")).await;
}

#[tokio::test]
async fn the_typescript_client_with_opaque_tokens_is_authorized_and_steps_up() {
    assert_is_authorized_and_steps_up("typescript", TokenFormat::Opaque).await;
}

#[tokio::test]
async fn the_python_client_with_opaque_tokens_is_authorized_and_steps_up() {
    assert_is_authorized_and_steps_up("python", TokenFormat::Opaque).await;
}

#[tokio::test]
async fn the_typescript_client_refreshes_its_token_and_goes_on() {
    assert_refreshes("typescript").await;
}

#[tokio::test]
async fn the_python_client_refreshes_its_token_and_goes_on() {
    assert_refreshes("python").await;
}

#[tokio::test]
async fn the_typescript_client_is_authorized_again_when_its_tokens_are_revoked() {
    assert_is_authorized_again_after_revocation("typescript").await;
}

#[tokio::test]
async fn the_python_client_is_authorized_again_when_its_tokens_are_revoked() {
    assert_is_authorized_again_after_revocation("python").await;
}

#[tokio::test]
async fn a_person_without_the_group_gets_a_token_and_sees_nothing() {
    let company = Company::start(TokenFormat::Jwt("ES256"), 3600).await;
    for language in ["typescript", "python"] {
        let mut client = company.client(language, true, "bob");
        assert!(client.list().await.is_empty());
        client.end().await;
    }
    assert_eq!(company.authorization.count("issued by authorization_code to bob"), 2);
    company.server.end().await;
}
