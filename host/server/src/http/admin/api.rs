//! The administration API: `/api/v1`, JSON for administrators only.
//!
//! | path | answer |
//! |---|---|
//! | `GET audit?follow`, `updates?follow` | the lines of the audit log, and the updates that are sent, from now on ([`follow`]) |
//! | `GET status`, `plugins`, `plugins/NAME`, `config`, `cache`, `cluster`, `sessions`, `subscriptions`, `search` | the state of the host ([`views`]); `config` without secrets ([`config_view`]) |
//! | `POST browse/…` | the view of a principal ([`browse`], [`viewer`], [`shown`]), and its changes ([`watch`]) |
//! | `GET config/changes`, `config/warnings` | what a reload would change, and the warnings about the config |
//! | `GET session` | the name of the administrator |
//! | `POST plugins/NAME/record`, `plugins/NAME/profile` | a recording of its calls as JSON Lines, and a profile of them ([`observe`]), each with a line of the audit log |
//! | `POST reload`, `explain`, `explain/who`, `log`, `plugins/NAME/disable`, `plugins/NAME/enable`, `plugins/NAME/reset`, `login-code` | an action ([`actions`]), which has a line of the audit log with the administrator's name |
//!
//! The types of all bodies, and their JSON Schema, are in [`types`]. An answer is bounded: a list is a page of at most
//! [`MAX_PAGE`](types::MAX_PAGE) items, which the parameters `limit` and `after` choose, and says how many there are.
//!
//! Clients that are not administrators get 401 for every path, except that [users](super::users) may browse. A body has
//! at most [`MAX_BODY`] bytes, is `application/json`, which a form of a web page cannot send, and has arrived within
//! [`BODY_TIMEOUT`].

mod actions;
mod browse;
pub mod browse_types;
mod config_view;
pub(super) mod follow;
pub(super) mod observe;
#[cfg(feature = "search")]
mod search;
#[cfg(not(feature = "search"))]
#[path = "api/search/absent.rs"]
mod search;
mod shown;
pub mod types;
mod user_streams;
mod viewer;
mod views;
mod watch;

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use mcp_host_base::share_limiter::SharePermit;
use mcp_host_config::Config;
use mcp_host_model::resource::Error;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use percent_encoding::percent_decode_str;

use self::types::{ConsoleSession, MAX_PAGE, Status, SubscriptionsView};
pub(super) use self::user_streams::UserStreams;
use self::viewer::ApiClient;
use self::views::PageRequest;
pub(super) use self::views::time;
use super::authority::StreamCredentials;
use super::connections::ConnectionSlot;
use super::json::{Refusal, body, join_quoted, json, ok, read_body, receive_body};
use super::{AdminServer, Connection, users};

/// The path of the API.
pub(super) const PREFIX: &str = "/api/v1/";
/// Whether a path is of the API.
pub(super) fn has_path(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

/// Whether users who are not administrators may request a path.
pub(super) fn is_for_users(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|path| path == "session" || path.starts_with("browse/"))
}

/// The time for an action, in addition to the time for a connection.
const ACTION_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of names of plugins or principals in a message.
const MAX_NAMES: usize = 20;
/// The help for a request without a token.
const SEND_TOKEN: &str = "send `Authorization: Bearer TOKEN` with the token of `admin.token`";
/// A body that holds the permit of its request until it is sent.
struct HeldBody {
    body: Body,
    _permit: SharePermit<String>,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::unavailable(&error)
    }
}

impl AdminServer {
    /// Answers a request of an `/mcp` client for its own view. Refuses it if it is not authenticated.
    async fn answer_user(
        &self,
        request: Request,
        config: &Config,
        from: Connection,
        slot: &ConnectionSlot,
    ) -> Result<Response, Refusal> {
        let unauthorized = || unauthorized(config, request.headers(), from);
        let path = request.uri().path().strip_prefix(PREFIX).unwrap_or_default();
        if !self.users.may_log_in(config) || !is_for_users(request.uri().path()) {
            return Err(unauthorized());
        }
        let of_session = self.authority.console.user_token(request.method(), request.headers());
        let token = users::bearer_token(request.headers()).or(of_session.as_deref().map(String::as_str));
        let user = self.users.authenticate(config, token.ok_or_else(unauthorized)?, from).await?;
        let permit = self.users.begin_request(&user.principal)?;
        slot.set_authenticated();
        slot.extend(ACTION_TIMEOUT);
        let answer = match path.split_once('/') {
            None if !matches!(*request.method(), Method::GET | Method::HEAD) => Err(Refusal::method("GET")),
            None => {
                Ok(ok(&ConsoleSession { key: None, principal: user.principal.name().to_owned(), administrator: false }))
            }
            Some(_) if request.method() != Method::POST => Err(Refusal::method("POST")),
            Some((_, what)) => {
                let what = what.to_owned();
                if what == "watch" {
                    slot.extend(follow::STREAM_TIMEOUT);
                }
                self.browse(&what, request, from, &ApiClient::User(&user)).await
            }
        };
        answer.map(|response| response.map(|body| Body::new(HeldBody { body, _permit: permit })))
    }

    /// Answers a request below [`PREFIX`].
    pub(super) async fn answer_api(
        &self,
        request: Request,
        administrator: Option<Principal>,
        config: &Config,
        from: Connection,
        slot: &ConnectionSlot,
    ) -> Response {
        let is_administrator = administrator.is_some();
        let answer = match administrator {
            None => self.answer_user(request, config, from, slot).await,
            Some(_) if matches!(request.uri().path().strip_prefix(PREFIX), Some("audit" | "updates")) => {
                slot.extend(follow::STREAM_TIMEOUT);
                let (query, credentials) = (request.uri().query(), StreamCredentials::of(&request, from));
                match *request.method() {
                    Method::GET if request.uri().path().ends_with("/audit") => self.follow_audit(query, credentials),
                    Method::GET => self.follow_updates(query, credentials),
                    _ => Err(Refusal::method("GET")),
                }
            }
            Some(administrator) if observe::has_path(request.uri().path()) => {
                slot.extend(follow::STREAM_TIMEOUT);
                self.observe(request, &administrator, from).await
            }
            Some(administrator) => {
                let is_stream = request.uri().path().strip_prefix(PREFIX) == Some("browse/watch");
                slot.extend(if is_stream { follow::STREAM_TIMEOUT } else { ACTION_TIMEOUT });
                self.route(request, &administrator, from).await
            }
        };
        answer.unwrap_or_else(|refusal| {
            let refusal = match is_administrator {
                true => refusal.naming_audit_log(self.host.audit_state()),
                false => refusal,
            };
            refusal.into_response()
        })
    }

    async fn route(&self, request: Request, administrator: &Principal, from: Connection) -> Result<Response, Refusal> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let path = uri.path().strip_prefix(PREFIX).ok_or_else(Refusal::no_path)?;
        let segments: Vec<_> = path.split('/').collect();
        match segments.as_slice() {
            ["browse", what] => {
                if method != Method::POST {
                    return Err(Refusal::method("POST"));
                }
                self.browse(what, request, from, &ApiClient::Administrator(administrator)).await
            }
            ["reload" | "explain" | "log" | "login-code"]
            | ["explain", "who"]
            | ["plugins", _, "disable" | "enable" | "reset"] => {
                if method != Method::POST {
                    return Err(Refusal::method("POST"));
                }
                self.act(&segments, request, administrator).await
            }
            _ => {
                let page = page_request(uri.query())?;
                let answer = match segments.as_slice() {
                    ["session"] => ok(&ConsoleSession {
                        key: None,
                        principal: administrator.name().to_owned(),
                        administrator: true,
                    }),
                    ["config", "changes"] => self.compare().await?,
                    ["config", "warnings"] => ok(&views::config_warnings(&self.host).await),
                    segments => self.view(segments, &page).await?,
                };
                match method {
                    Method::GET | Method::HEAD => Ok(answer),
                    _ => Err(Refusal::method("GET")),
                }
            }
        }
    }

    async fn view(&self, segments: &[&str], page: &PageRequest) -> Result<Response, Refusal> {
        let host = &*self.host;
        Ok(match *segments {
            ["status"] => ok(&self.status(page)),
            ["plugins"] => ok(&views::plugins(host, &self.traffic, page)),
            ["plugins", name] => {
                ok(&views::plugin(host, &self.traffic, &decoded(name)?).await.ok_or_else(|| no_plugin(host, name))?)
            }
            ["config"] => ok(&config_view::config(&host.config(), host.generation())),
            ["cache"] => ok(&views::cache(host, page)),
            ["sessions"] => ok(&views::sessions(host, page).map_err(Refusal::bad_request)?),
            ["subscriptions"] => ok(&SubscriptionsView {
                watched: views::watched_counts(host),
                resources: views::watched_resources(host, page),
            }),
            ["search"] => ok(&views::search(host, page)),
            ["cluster"] => ok(&views::cluster(host, page).ok_or_else(|| {
                let help = "add `[cluster]` to the config, see docs/cluster.md";
                Refusal::new(StatusCode::NOT_FOUND, "this host is no replica of a cluster", Some(help))
            })?),
            _ => return Err(Refusal::no_path()),
        })
    }

    fn status(&self, page: &PageRequest) -> Status {
        let config = self.host.config();
        let not_ready = self.reasons();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started: views::time(self.started),
            uptime_seconds: self.started.elapsed().unwrap_or_default().as_secs(),
            generation: self.host.generation(),
            config_file: config.file.as_ref().map(|file| file.display().to_string()),
            ready: not_ready.is_empty(),
            not_ready,
            reload_failure: self.host.reload_failure().map(views::reload_failure),
            plugins: views::plugins(&self.host, &self.traffic, page),
            sessions: self.host.session_count(),
            watched: views::watched_counts(&self.host),
            audit: self.host.audit_state().map(views::audit),
            search_failures: search::failures(&self.host),
            log: views::log(self.log.as_ref()),
            cluster: views::cluster(&self.host, page),
        }
    }
}

/// The refusal of a request that is not an administrator's.
fn unauthorized(config: &Config, headers: &HeaderMap, from: Connection) -> Refusal {
    if from == Connection::Unencrypted {
        return Refusal::new(StatusCode::FORBIDDEN, "use https", None);
    }
    let (error, help) = match config.admin.as_ref().is_some_and(|admin| admin.token.is_some()) {
        true if headers.contains_key(AUTHORIZATION) => {
            ("the token of the request is not `admin.token` of the server", SEND_TOKEN)
        }
        true => ("the request has no token", SEND_TOKEN),
        false => (
            "the API needs a token, and `[admin]` has none",
            "add `token = { file = \"admin.token\" }` to `[admin]`, or listen at a Unix socket: `listen = \"unix:PATH\"`",
        ),
    };
    Refusal::new(StatusCode::UNAUTHORIZED, error, Some(help))
}

/// The refusal for an unknown plugin name. It lists the existing plugins.
fn no_plugin(host: &Host, name: &str) -> Refusal {
    let mut names: Vec<_> = host.plugins().into_iter().map(|plugin| plugin.name).collect();
    let others = names.len().saturating_sub(MAX_NAMES);
    names.truncate(MAX_NAMES);
    let help = match (names.is_empty(), others) {
        (true, _) => "it has no plugin at all".to_owned(),
        (false, 0) => format!("it has {}", join_quoted(&names)),
        (false, others) => format!("it has {}, and {others} others", join_quoted(&names)),
    };
    let name = mcp_host_base::text::quote(name);
    Refusal::new(StatusCode::NOT_FOUND, format!("the server has no plugin {name}"), Some(&help))
}

/// The parameters of a request for a list.
fn page_request(query: Option<&str>) -> Result<PageRequest, Refusal> {
    let mut page = PageRequest { after: None, limit: MAX_PAGE };
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match &*key {
            "after" => page.after = Some(value.into_owned()),
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
                let expected =
                    || Refusal::bad_request(format!("`limit` is not a number from 1 to {MAX_PAGE}: {value}"));
                page.limit = limit.ok_or_else(expected)?;
            }
            _ => {
                return Err(Refusal::bad_request(format!(
                    "there is no parameter `{key}`; there are `after` and `limit`"
                )));
            }
        }
    }
    Ok(page)
}

/// Decodes the percent-encoding of a path segment.
fn decoded(segment: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(segment).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| Refusal::bad_request("the path is not UTF-8"))
}
