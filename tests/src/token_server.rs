//! A token server that a test controls: OAuth 2.0 with service accounts, refresh tokens and client credentials.
//!
//! ```no_run
//! # use mcp_host_tests::{MockOrigin, TokenServer};
//! # async fn test() {
//! let tokens = TokenServer::start().await;
//! let api = MockOrigin::http().await;
//! tokens.protect(&api, "/", "welcome"); // 401 without a token that is valid.
//! // … `oauth` of the grant: `tokens.service_account()`, `tokens.refresh_token()` or `tokens.client_credentials()` …
//! tokens.revoke_tokens(); // Those that it issued so far.
//! tokens.refuse("invalid_grant"); // From now on.
//! # }
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use toml::Table;

use crate::token_issuer::unix_time;
use crate::{CertificateAuthority, Folder, MockOrigin, RecordedRequest, Reply};

/// The key of a service account, which was made for tests.
const KEY: &str = include_str!("../../host/config/tests/ui/valid/secrets/service-account.json");
/// The token endpoint that the key names, which is the audience of what is signed with it.
const AUDIENCE: &str = "https://oauth2.googleapis.com/token";

/// A token server, on a web server of its own.
#[derive(Debug)]
pub struct TokenServer {
    origin: MockOrigin,
    state: Arc<Mutex<State>>,
    secrets: Folder,
}

#[derive(Debug)]
struct State {
    /// The value of `expires_in`, in seconds.
    lifetime: u64,
    issued: Vec<String>,
    valid: HashSet<String>,
    /// The error code with which all requests are refused.
    refusal: Option<String>,
    /// The refresh token that is accepted.
    refresh_token: String,
    /// The claims of the last assertion.
    claims: Value,
}

impl TokenServer {
    /// The scope of what it issues.
    pub const SCOPE: &str = "https://www.googleapis.com/auth/drive.readonly";
    /// Texts of credentials and tokens, none of which may be visible anywhere: the beginning of the private key, the
    /// first refresh token, the client secret, and what all access tokens contain.
    pub const SECRETS: [&str; 4] = ["BEGIN PRIVATE KEY", "refresh-hunter2", "secret-hunter2", "ya29."];

    /// Starts a server without TLS, whose tokens are valid for an hour.
    pub async fn start() -> Self {
        Self::on(MockOrigin::http().await)
    }

    /// Starts a server over TLS.
    pub async fn https(authority: &CertificateAuthority) -> Self {
        Self::on(MockOrigin::https(authority).await)
    }

    fn on(origin: MockOrigin) -> Self {
        let state = Arc::new(Mutex::new(State {
            lifetime: 3600,
            issued: Vec::new(),
            valid: HashSet::new(),
            refusal: None,
            refresh_token: "refresh-hunter2".to_owned(),
            claims: Value::Null,
        }));
        let shared = state.clone();
        origin.serve_with("/token", move |request| shared.lock().expect("no test panics meanwhile").answer(request));
        let secrets =
            Folder::with_files([("key.json", KEY), ("refresh", "refresh-hunter2\n"), ("client", "secret-hunter2\n")]);
        Self { origin, state, secrets }
    }

    /// Its web server.
    pub fn origin(&self) -> &MockOrigin {
        &self.origin
    }

    /// `oauth` of a grant, with the key of a service account that acts for a user.
    pub fn service_account(&self) -> Table {
        let mut oauth = self.table([("service-account", self.file("key.json"))]);
        oauth.insert("subject".to_owned(), "user@example.com".into());
        oauth
    }

    /// `oauth` of a grant, with a refresh token. The client authenticates in the body.
    pub fn refresh_token(&self) -> Table {
        let mut oauth = self.table([("refresh-token", self.file("refresh")), ("client-secret", self.file("client"))]);
        oauth.extend([("client-id", "mcp-host"), ("client-authentication", "post")].map(entry));
        oauth
    }

    /// `oauth` of a grant, with the credentials of a client. It authenticates by HTTP Basic.
    pub fn client_credentials(&self) -> Table {
        let mut oauth = self.table([("client-secret", self.file("client"))]);
        oauth.extend([("client-id", "mcp-host")].map(entry));
        oauth
    }

    fn table<const N: usize>(&self, secrets: [(&str, toml::Value); N]) -> Table {
        let secrets = secrets.into_iter().map(|(key, value)| (key.to_owned(), value));
        let scopes = toml::Value::Array(vec![Self::SCOPE.into()]);
        let uri = self.origin.url("/token").into();
        secrets.chain([("token-uri".to_owned(), uri), ("scopes".to_owned(), scopes)]).collect()
    }

    fn file(&self, name: &str) -> toml::Value {
        let path = self.secrets.path().join(name);
        Table::from_iter([entry(("file", path.to_str().expect("paths of tests are UTF-8")))]).into()
    }

    /// Lets a path of a web server answer a request with a valid token with that text, and any other with 401.
    pub fn protect(&self, api: &MockOrigin, path: &str, text: &'static str) {
        self.protect_with(api, path, move |_| Reply::ok("text/plain", text));
    }

    /// Lets a path of a web server answer a request with a valid token with that function, and any other with 401.
    pub fn protect_with(
        &self,
        api: &MockOrigin,
        path: &str,
        answer: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
    ) {
        let state = self.state.clone();
        api.serve_with(path, move |request| {
            let token = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
            let valid = |token: &str| state.lock().expect("no test panics meanwhile").valid.contains(token);
            if token.is_some_and(valid) {
                answer(request)
            } else {
                Reply::status(401).header("WWW-Authenticate", "Bearer error=\"invalid_token\"")
            }
        });
    }

    /// Sets the lifetime of the tokens to come, in seconds. Until they are revoked they stay valid.
    pub fn set_lifetime(&self, seconds: u64) {
        self.state().lifetime = seconds;
    }

    /// Makes all tokens invalid that were issued so far.
    pub fn revoke_tokens(&self) {
        self.state().valid.clear();
    }

    /// Refuses all requests from now on, with that error code.
    pub fn refuse(&self, code: &str) {
        self.state().refusal = Some(code.to_owned());
    }

    /// The number of tokens that were issued so far.
    pub fn issued(&self) -> usize {
        self.state().issued.len()
    }

    /// The claims of the last assertion of a service account.
    pub fn claims(&self) -> Value {
        self.state().claims.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no test panics meanwhile")
    }
}

impl State {
    fn answer(&mut self, request: &RecordedRequest) -> Reply {
        let form: HashMap<_, _> = form_urlencoded::parse(&request.body).into_owned().collect();
        let refusal = self.refusal.clone().or_else(|| self.check(request, &form).err().map(str::to_owned));
        if let Some(error) = refusal {
            // Servers repeat what they refuse.
            let sent = format!("{form:?} {:?}", request.header("authorization"));
            let body = json!({ "error": error, "error_description": sent });
            return Reply::ok("application/json", body.to_string()).with_status(400);
        }
        let token = format!("ya29.token-{}", self.issued.len());
        self.issued.push(token.clone());
        self.valid.insert(token.clone());
        let mut body = json!({ "access_token": token, "token_type": "Bearer", "expires_in": self.lifetime });
        if form["grant_type"] == "refresh_token" {
            self.refresh_token = format!("refresh-hunter2-{}", self.issued.len());
            body["refresh_token"] = self.refresh_token.clone().into();
        }
        Reply::ok("application/json", body.to_string())
    }

    fn check(&mut self, request: &RecordedRequest, form: &HashMap<String, String>) -> Result<(), &'static str> {
        let is_form = request.header("content-type") == Some("application/x-www-form-urlencoded");
        if request.method != "POST" || !is_form {
            return Err("invalid_request");
        }
        let field = |name: &str| form.get(name).map(String::as_str);
        let basic = format!("Basic {}", STANDARD.encode("mcp-host:secret-hunter2"));
        match field("grant_type") {
            Some("urn:ietf:params:oauth:grant-type:jwt-bearer") => {
                self.claims = verify(field("assertion").ok_or("invalid_request")?).ok_or("invalid_grant")?;
                Ok(())
            }
            _ if field("scope") != Some(TokenServer::SCOPE) => Err("invalid_scope"),
            Some("client_credentials") if request.header("authorization") == Some(&basic) => Ok(()),
            Some("refresh_token")
                if (field("client_id"), field("client_secret")) == (Some("mcp-host"), Some("secret-hunter2")) =>
            {
                // A refresh token is used once: the answer has the next one.
                if field("refresh_token") == Some(&self.refresh_token) { Ok(()) } else { Err("invalid_grant") }
            }
            Some("client_credentials" | "refresh_token") => Err("invalid_client"),
            _ => Err("unsupported_grant_type"),
        }
    }
}

/// Verifies an assertion as Google does, and returns its claims.
fn verify(assertion: &str) -> Option<Value> {
    let key: Value = serde_json::from_str(KEY).ok()?;
    let private_key = PrivatePkcs8KeyDer::from_pem_slice(key["private_key"].as_str()?.as_bytes()).ok()?;
    let pair = RsaKeyPair::from_pkcs8(private_key.secret_pkcs8_der()).ok()?;
    let (content, signature) = assertion.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let public_key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
    public_key.verify(content.as_bytes(), &signature).ok()?;
    let (header, claims) = content.split_once('.')?;
    let [header, claims] =
        [header, claims].map(|part| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok());
    let (header, claims, now) = (header?, claims?, unix_time());
    let (issued_at, expires) = (claims["iat"].as_u64()?, claims["exp"].as_u64()?);
    let is_valid = header["alg"] == "RS256"
        && header["kid"] == key["private_key_id"]
        && claims["iss"] == key["client_email"]
        && claims["aud"] == AUDIENCE
        && claims["scope"] == TokenServer::SCOPE
        && issued_at <= now
        && now < expires
        && expires - issued_at <= 3600;
    is_valid.then_some(claims)
}

fn entry((key, value): (&str, &str)) -> (String, toml::Value) {
    (key.to_owned(), value.into())
}
