//! The console: a page in a browser that shows what the administration API has.
//!
//! | path | answer |
//! |---|---|
//! | `GET /`, and the files that it loads | the bundle ([`files`]), to everyone: it has no data |
//! | `POST /console/login` | a session ([`sessions`]) in exchange for the token of `[admin]`, for a code of [`LoginCodes`], or for the token of a client ([`users`](super::users)) |
//! | `POST /console/logout` | ends it |
//!
//! A session is a cookie, which no script of a page reads, and a key, which the page sends as the header [`KEY`]. Both
//! are required: a browser sends the cookie to every port of a host, and the key to its own origin only. A request by
//! cookie must say that it is of a page of the same origin (`Sec-Fetch-Site`), and one that changes something must have
//! the origin of this listener. `/mcp` is another listener, and takes no cookies.
//!
//! Without the feature `console` there are no files, and a login is not possible.

mod files;
pub(super) mod policy;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::{COOKIE, HOST, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use mcp_host_config::Config;
use mcp_resource_host::access::Principal;
use serde::Deserialize;
use tokio::sync::watch;
use zeroize::Zeroizing;

pub(super) use self::sessions::CODE_TIME;
pub use self::sessions::LoginCodes;
use self::sessions::{Identity, Login, Sessions};
use super::api::types::ConsoleSession;
use super::json::{Refusal, body, json};
use super::{AdminServer, Connection, TOKEN_HOLDER};

/// The path that begins a session.
const LOGIN: &str = "/console/login";
/// The path that ends it.
const LOGOUT: &str = "/console/logout";
/// The header with the key of a session.
const KEY: &str = "mcp-host-console";
/// Says which pages a request is of. Browsers set it, and no script can.
const SEC_FETCH_SITE: &str = "sec-fetch-site";
/// The time after which a session ends.
const SESSION_TIME: Duration = Duration::from_hours(12);

/// The console of a listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Console {
    sessions: Arc<Sessions>,
    codes: LoginCodes,
    /// The port of the listener, which is part of the name of the cookie: hosts with several ports have one jar.
    port: u16,
    is_tls: bool,
}

/// Whether the program has the console.
pub(super) fn exists() -> bool {
    files::exist()
}

/// Whether a path is of the console.
pub(super) fn has_path(path: &str) -> bool {
    files::exist() && (path == LOGIN || path == LOGOUT) || files::find(path).is_some()
}

/// What is exchanged for a session.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Credentials {
    /// A code of [`LoginCodes`].
    Code(String),
    /// The token of `[admin]`.
    Token(String),
}

impl Console {
    pub(super) fn new(codes: LoginCodes, port: u16, is_tls: bool) -> Self {
        Self { sessions: Arc::default(), codes, port, is_tls }
    }

    /// Makes a code that logs in once. None if the system supplies no randomness.
    pub(super) fn issue_code(&self) -> Option<String> {
        self.codes.issue()
    }

    /// Returns the administrator whose session a request is of.
    pub(super) fn administrator(&self, config: &Config, method: &Method, headers: &HeaderMap) -> Option<Principal> {
        match self.identity(method, headers)? {
            Identity::Administrator(name, token) => {
                (config.admin.as_ref()?.token == token).then(|| Principal::new(name))
            }
            Identity::User { .. } => None,
        }
    }

    /// Returns the bearer token of the client whose session a request is of.
    pub(super) fn user_token(&self, method: &Method, headers: &HeaderMap) -> Option<Zeroizing<String>> {
        match self.identity(method, headers)? {
            Identity::Administrator(..) => None,
            Identity::User { token, .. } => Some(token),
        }
    }

    /// Notifies of each session that ends before its time.
    pub(super) fn ended_sessions(&self) -> watch::Receiver<()> {
        self.sessions.ended()
    }

    /// Returns the owner of the session that a request belongs to.
    fn identity(&self, method: &Method, headers: &HeaderMap) -> Option<Identity> {
        let is_of_page = matches!(*method, Method::GET | Method::HEAD) || self.is_own_page(headers);
        if !is_of_page || headers.get(SEC_FETCH_SITE)? != "same-origin" {
            return None;
        }
        let key = headers.get(KEY)?.to_str().ok()?;
        self.sessions.find(&self.cookie(headers)?, key)
    }

    /// Returns whether an `Origin` is this listener's own, with the name in `Host`.
    pub(super) fn is_own_origin(&self, origin: &HeaderValue, headers: &HeaderMap) -> bool {
        let scheme = if self.is_tls { "https" } else { "http" };
        let own = headers.get(HOST).and_then(|host| host.to_str().ok());
        let rest = origin.to_str().ok().and_then(|origin| origin.strip_prefix(scheme)?.strip_prefix("://"));
        matches!((own, rest), (Some(own), Some(rest)) if own.eq_ignore_ascii_case(rest))
    }

    fn is_own_page(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        matches!((origins.next(), origins.next()), (Some(origin), None) if self.is_own_origin(origin, headers))
    }

    /// The name of the cookie. The prefix makes the browser refuse it without `Secure`, and for other hosts.
    fn cookie_name(&self) -> String {
        let prefix = if self.is_tls { "__Host-" } else { "" };
        format!("{prefix}mcp-host-console-{}", self.port)
    }

    fn cookie(&self, headers: &HeaderMap) -> Option<String> {
        let name = self.cookie_name();
        let fields = headers.get_all(COOKIE).iter().filter_map(|field| field.to_str().ok());
        let mut cookies = fields.flat_map(|field| field.split(';')).filter_map(|pair| pair.trim().split_once('='));
        cookies.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
    }

    /// The field that sets the cookie for a time; empty and at once for its removal.
    fn set_cookie(&self, value: &str, time: Duration) -> Option<HeaderValue> {
        let secure = if self.is_tls { "; Secure" } else { "" };
        let (name, seconds) = (self.cookie_name(), time.as_secs());
        let field = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(field).ok()
    }
}

impl AdminServer {
    /// Answers a request for a path of the console.
    pub(super) async fn answer_console(&self, request: Request, config: &Config, from: Connection) -> Response {
        let path = request.uri().path();
        let Some(file) = files::find(path) else {
            let is_login = path == LOGIN;
            return self.change_session(request, config, from, is_login).await.unwrap_or_else(Refusal::into_response);
        };
        match (from, request.method()) {
            (Connection::Unencrypted, _) => super::text(StatusCode::FORBIDDEN, "use https\n"),
            (_, &Method::GET | &Method::HEAD) => file.respond(request.headers()).await,
            _ => super::method_not_allowed(),
        }
    }

    async fn change_session(
        &self,
        request: Request,
        config: &Config,
        from: Connection,
        is_login: bool,
    ) -> Result<Response, Refusal> {
        let console = &self.authority.console;
        if from == Connection::Unencrypted {
            return Err(Refusal::new(StatusCode::FORBIDDEN, "use https", None));
        }
        if request.method() != Method::POST {
            return Err(Refusal::method("POST"));
        }
        let is_same_origin = request.headers().get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin");
        if !is_same_origin || !console.is_own_page(request.headers()) {
            let help = "programs send the token of `[admin]` as `Authorization: Bearer` to `/api/v1`";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "this is for the console's own page", Some(help)));
        }
        if !is_login {
            if let Some(cookie) = console.cookie(request.headers()) {
                console.sessions.end(&cookie);
            }
            let mut response = json(StatusCode::OK, &serde_json::json!({}));
            response.headers_mut().extend(console.set_cookie("", Duration::ZERO).map(|field| (SET_COOKIE, field)));
            return Ok(response);
        }
        let credentials = body(request).await?;
        let (identity, principal) = self.log_in(credentials, config, from).await?;
        let unavailable = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions", None);
        let Login { cookie, key } = console.sessions.begin(identity.clone()).ok_or_else(unavailable)?;
        let administrator = matches!(identity, Identity::Administrator(..));
        let session = ConsoleSession { key: Some(key), principal, administrator };
        let mut response = json(StatusCode::OK, &session);
        response.headers_mut().extend(console.set_cookie(&cookie, SESSION_TIME).map(|field| (SET_COOKIE, field)));
        Ok(response)
    }

    /// Returns who logs in with those credentials, and the name.
    async fn log_in(
        &self,
        credentials: Credentials,
        config: &Config,
        from: Connection,
    ) -> Result<(Identity, String), Refusal> {
        let token = config.admin.as_ref().and_then(|admin| admin.token.as_ref());
        let administrator = |name: &'static str| (Identity::Administrator(name, token.cloned()), name.to_owned());
        let error = match credentials {
            Credentials::Code(code) if self.authority.console.codes.take(&code) => {
                return Ok(administrator("admin/console"));
            }
            Credentials::Code(_) => "the code has expired, or was used already",
            Credentials::Token(text) if token.is_some_and(|token| token.matches(text.trim())) => {
                return Ok(administrator(TOKEN_HOLDER));
            }
            Credentials::Token(text) if self.users.may_log_in(config) => {
                let token = Zeroizing::new(text.trim().to_owned());
                let user = self.users.authenticate(config, &token, from).await?;
                let principal = user.principal.name().to_owned();
                return Ok((Identity::User { principal: principal.clone(), token }, principal));
            }
            Credentials::Token(_) if token.is_some() => "this is not the token of the server",
            Credentials::Token(_) => "`[admin]` has no token",
        };
        self.record_failed_login(from);
        Err(Refusal::new(StatusCode::UNAUTHORIZED, error, Some(login_help(token.is_some()))))
    }
}

/// How an administrator logs in.
fn login_help(has_token: bool) -> &'static str {
    if has_token {
        "use the token of `admin.token`, or an address that `mcp-host admin open` prints, as `serve --open` does on SIGUSR1"
    } else {
        "`mcp-host serve --open` prints another address on SIGUSR1: its first one has the command; without `--open`, add a token to \
         `[admin]`"
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_config::admin::{Admin, AdminAddress, AdminToken};

    use super::*;

    fn config(token: &str) -> Config {
        let mut admin = Admin::new(AdminAddress::Tcp("127.0.0.1:0".parse().unwrap()));
        admin.token = Some(AdminToken::new(token));
        Config { admin: Some(admin), ..Config::default() }
    }

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap())).collect()
    }

    /// A session, and the fields of a request of its page.
    fn session(config: &Config) -> (Console, Vec<(&'static str, String)>) {
        let console = Console::new(LoginCodes::default(), 9464, false);
        let identity = Identity::Administrator("admin/x", config.admin.as_ref().unwrap().token.clone());
        let Login { cookie, key } = console.sessions.begin(identity).unwrap();
        let fields = vec![
            (HOST.as_str(), "127.0.0.1:9464".to_owned()),
            (COOKIE.as_str(), format!("other=1; mcp-host-console-9464={cookie}")),
            (KEY, key),
            (SEC_FETCH_SITE, "same-origin".to_owned()),
            (ORIGIN.as_str(), "http://127.0.0.1:9464".to_owned()),
        ];
        (console, fields)
    }

    #[test]
    fn each_part_of_a_request_of_the_page_is_required() {
        let config = config("one");
        let (console, fields) = session(&config);
        let may = |fields: &[(&'static str, String)], method: &Method| {
            let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            console.administrator(&config, method, &headers(&fields)).is_some()
        };
        assert!(may(&fields, &Method::POST));
        for (at, (name, value)) in fields.iter().enumerate() {
            let mut without = fields.clone();
            without.remove(at);
            // A browser sends no `Origin` with GET, which needs no `Host` then.
            let reads = [HOST.as_str(), ORIGIN.as_str()].contains(name);
            assert_eq!((may(&without, &Method::POST), may(&without, &Method::GET)), (false, reads), "{name}");
            let mut other = fields.clone();
            other[at].1 = format!("{value}0");
            assert!(!may(&other, &Method::POST), "{name}");
        }
        for site in ["same-site", "cross-site", "none"] {
            let mut other = fields.clone();
            other[3].1 = site.to_owned();
            assert!(!may(&other, &Method::GET), "{site}");
        }
        for origin in ["http://127.0.0.1:3000", "https://127.0.0.1:9464", "null"] {
            let mut other = fields.clone();
            other[4].1 = origin.to_owned();
            assert!(!may(&other, &Method::POST), "{origin}");
        }
    }

    #[test]
    fn a_session_ends_with_the_token_that_it_was_exchanged_for() {
        let (console, fields) = session(&config("one"));
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let headers = headers(&fields);
        let found = console.administrator(&config("one"), &Method::POST, &headers);
        assert_eq!(found.unwrap().name(), "admin/x");
        assert!(console.administrator(&config("two"), &Method::POST, &headers).is_none());
        assert!(console.administrator(&Config::default(), &Method::POST, &headers).is_none());
        console.sessions.end(&console.cookie(&headers).unwrap());
        assert!(console.administrator(&config("one"), &Method::POST, &headers).is_none());
    }
}
