//! Who may ask: pages and programs of this machine, and whom the config names.
//!
//! A page that somebody opens in a browser can make that browser ask whatever it reaches, this server too. What tells such a
//! request from that of a program is its `Origin`; and where a name of the page's own leads to this machine (DNS rebinding),
//! its `Host` (MCP 2025-11-25, "Transports", "Security Warning").
//!
//! | header | lets in |
//! |---|---|
//! | `Host`, and `:authority` of HTTP/2 | `localhost`, loopback addresses, [`hosts`](crate::config::Http::hosts), at any port |
//! | `Origin` | the same but for `hosts`, with `http` or `https`; [`cors`](crate::config::Http::cors). Programs send none |

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::config::{self, Http, Origin, OriginPattern};
use crate::host::Host;

/// Why somebody may not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("the request says no `Host`, or what cannot be one")]
    NoHost,
    #[error("the `Host` of the request is none of this server's; `http.hosts` of its config can name more")]
    Host,
    #[error("the `Origin` of the request is not of this machine; `http.cors` of the server's config can name more")]
    Origin,
}

/// Refuses those who may not ask.
pub(super) async fn check(State(host): State<Arc<Host>>, request: Request, next: Next) -> Response {
    match admit(&host.config().http, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            tracing::debug!(host = ?request.headers().get(HOST), origin = ?request.headers().get(ORIGIN), "{refusal}");
            refusal.into_response()
        }
    }
}

/// Whether that is the origin of a page that the config names.
pub(super) fn is_named(origin: &HeaderValue, pages: &[OriginPattern]) -> bool {
    parse_origin(origin).is_some_and(|origin| pages.iter().any(|page| page.matches(&origin)))
}

fn admit(config: &Http, request: &Request) -> Result<(), Refusal> {
    let mut names = request.uri().authority().cloned().into_iter().collect::<Vec<_>>();
    for header in request.headers().get_all(HOST) {
        names.push(Authority::try_from(header.as_bytes()).map_err(|_| Refusal::NoHost)?);
    }
    if names.is_empty() {
        return Err(Refusal::NoHost);
    }
    for name in names {
        let host: config::Host = name.host().parse().map_err(|_| Refusal::Host)?;
        if !is_here(&host) && !config.hosts.contains(&host) {
            return Err(Refusal::Host);
        }
    }
    let is_page_of_here = |origin: &HeaderValue| parse_origin(origin).is_some_and(|origin| is_here(origin.host()));
    let mut origins = request.headers().get_all(ORIGIN).iter();
    if origins.all(|origin| is_page_of_here(origin) || is_named(origin, &config.cors)) {
        Ok(())
    } else {
        Err(Refusal::Origin)
    }
}

/// Whether that is a name of this machine that cannot lead anywhere else (RFC 6761, 6.3).
fn is_here(host: &config::Host) -> bool {
    match host {
        config::Host::Name(name) => name.as_str() == "localhost",
        config::Host::Address(address) => address.is_loopback(),
    }
}

fn parse_origin(header: &HeaderValue) -> Option<Origin> {
    header.to_str().ok()?.parse().ok()
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = if self == Self::NoHost { StatusCode::BAD_REQUEST } else { StatusCode::FORBIDDEN };
        (status, format!("{self}\n")).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn asked(config: &Http, uri: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        admit(config, &request.body(Body::empty()).unwrap())
    }

    #[test]
    fn programs_of_this_machine_may_ask() {
        let config = Http::default();
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.8.9.10", "[::1]:443"] {
            assert_eq!(asked(&config, "/mcp", &[("host", host)]), Ok(()), "{host}");
            assert_eq!(asked(&config, &format!("http://{host}/mcp"), &[]), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_names_of_this_machine_are_refused_in_every_place_of_a_request() {
        let config = Http::default();
        for host in ["evil.example", "localhost.evil.example", "192.168.1.2", "0.0.0.0", "[::]", "2130706433"] {
            assert_eq!(asked(&config, "/mcp", &[("host", host)]), Err(Refusal::Host), "{host}");
            let uri = format!("http://{host}/mcp");
            assert_eq!(asked(&config, &uri, &[("host", "localhost")]), Err(Refusal::Host), "{host}");
            let twice = [("host", "localhost"), ("host", host)];
            assert_eq!(asked(&config, "/mcp", &twice), Err(Refusal::Host), "{host}");
        }
        assert_eq!(asked(&config, "/mcp", &[]), Err(Refusal::NoHost));
        assert_eq!(asked(&config, "/mcp", &[("host", "a b")]), Err(Refusal::NoHost));
    }

    #[test]
    fn pages_of_this_machine_may_ask_and_others_only_if_they_are_named() {
        let named = Http { cors: vec!["https://*.example.com".parse().unwrap()], ..Http::default() };
        let page = |config: &Http, origin| asked(config, "/mcp", &[("host", "localhost"), ("origin", origin)]);
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:80"] {
            assert_eq!(page(&Http::default(), origin), Ok(()), "{origin}");
        }
        assert_eq!(page(&named, "https://app.example.com"), Ok(()));
        for origin in ["https://evil.example", "null", "", "file://", "https://app.example.com:8443"] {
            assert_eq!(page(&named, origin), Err(Refusal::Origin), "{origin}");
        }
        assert_eq!(page(&Http::default(), "https://app.example.com"), Err(Refusal::Origin));
    }

    #[test]
    fn a_host_that_is_named_may_be_called_at_any_port_and_its_pages_do_not_ask() {
        let config = Http { hosts: vec!["mcp.example.com".parse().unwrap()], ..Http::default() };
        assert_eq!(asked(&config, "/mcp", &[("host", "MCP.example.com:8443")]), Ok(()));
        let page = [("host", "mcp.example.com"), ("origin", "https://mcp.example.com")];
        assert_eq!(asked(&config, "/mcp", &page), Err(Refusal::Origin));
    }
}
