//! Validation of `Host` and `Origin`: local pages and programs are allowed, and pages and names in the config.
//!
//! A page in a browser can make the browser send requests to any server that it reaches, including this one (CSRF).
//! `Origin` distinguishes such a request from a program's request. If a name of the page's own site resolves to this
//! machine (DNS rebinding), `Host` reveals it (MCP 2025-11-25, "Transports", "Security Warning").
//!
//! | header | allows |
//! |---|---|
//! | the name of the server: `Host`, an absolute target, `:authority` of HTTP/2 | `localhost`, loopback addresses, the address that the server listens at, [`hosts`](mcp_host_config::http::Http::hosts), and the host of [`public-url`](mcp_host_config::http::Http::public_url), at any port |
//! | `Origin` | `localhost` and loopback addresses, with `http` or `https`; [`cors`](mcp_host_config::http::Http::cors). Programs send none |
//!
//! A request has exactly one server name. Over HTTP/1.1 it is the host in an absolute target (`POST http://host/mcp`),
//! else `Host`, which an absolute target supersedes (RFC 9112, 3.2.2): a proxy replaces it, and a page cannot make a
//! browser send such a target. Over HTTP/2 it is `:authority`, or `Host`, or both and equal (RFC 9113, 8.3.1). Each
//! occurs at most once, and is a host and optionally a port (RFC 9110, 7.2), without user information. Anything else is
//! answered with 400, because an intermediary may have parsed another name.

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};

use mcp_host_base::log_target;
use mcp_host_config::Config;
use mcp_host_model::net::{Origin, OriginPattern, UrlHost};

/// The reason for rejecting a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::http) enum OriginRejection {
    #[error(
        "expected one `Host`, or `:authority`, of the form `host:port`; the request has none, several, or something else"
    )]
    InvalidHost,
    #[error("the `Host` of the request is not allowed; `http.hosts` of the server's config can allow it")]
    HostNotAllowed,
    #[error("the `Origin` of the request is not allowed; `http.cors` of the server's config can allow it")]
    OriginNotAllowed,
}

/// Rejects requests with a `Host` or `Origin` that is not allowed, and logs this at debug level.
pub(super) fn validate(config: &Config, request: &Request) -> Result<(), OriginRejection> {
    validate_with(config, request, |host| config.is_own_host(host), |_| false)
}

/// Validates a request of a server with these names and these allowed pages.
pub(in crate::http) fn validate_with(
    config: &Config,
    request: &Request,
    is_own_host: impl Fn(&UrlHost) -> bool,
    is_own_page: impl Fn(&HeaderValue) -> bool,
) -> Result<(), OriginRejection> {
    find_rejection(config, request, is_own_host, is_own_page).inspect_err(|rejection| {
        tracing::debug!(target: log_target::SERVER, host = ?request.headers().get(HOST), origin = ?request.headers().get(ORIGIN), "{rejection}");
    })
}

/// Returns whether this is the origin of a page in the config.
pub(super) fn is_allowed(origin: &HeaderValue, pages: &[OriginPattern]) -> bool {
    parse_origin(origin).is_some_and(|origin| pages.iter().any(|page| page.matches(&origin)))
}

fn find_rejection(
    config: &Config,
    request: &Request,
    is_own_host: impl Fn(&UrlHost) -> bool,
    is_own_page: impl Fn(&HeaderValue) -> bool,
) -> Result<(), OriginRejection> {
    let (host, _) = host_and_port(request)?;
    let host: UrlHost = host.parse().map_err(|_| OriginRejection::HostNotAllowed)?;
    if !is_own_host(&host) {
        return Err(OriginRejection::HostNotAllowed);
    }
    let is_local_origin = |origin: &HeaderValue| parse_origin(origin).is_some_and(|origin| origin.host().is_loopback());
    let mut origins = request.headers().get_all(ORIGIN).iter();
    if origins.all(|origin| is_local_origin(origin) || is_own_page(origin) || is_allowed(origin, &config.http.cors)) {
        Ok(())
    } else {
        Err(OriginRejection::OriginNotAllowed)
    }
}

/// Returns the server name in the request, from its target, `:authority` or the header, as host and port.
fn host_and_port(request: &Request) -> Result<(&str, Option<u16>), OriginRejection> {
    let mut headers = request.headers().get_all(HOST).iter();
    let header = headers.next().map(|header| header.to_str().map_err(|_| OriginRejection::InvalidHost)).transpose()?;
    let names =
        [request.uri().authority().map(Authority::as_str), header].map(|name| name.map(split_host_port).transpose());
    match (names, headers.next()) {
        ([Ok(Some(name)), Ok(None)] | [Ok(None), Ok(Some(name))], None) => Ok(name),
        ([Ok(Some((host, port))), Ok(Some(other))], None)
            if request.version() < Version::HTTP_2 || (host.eq_ignore_ascii_case(other.0) && port == other.1) =>
        {
            Ok((host, port))
        }
        _ => Err(OriginRejection::InvalidHost),
    }
}

/// Splits `uri-host [ ":" port ]`. An empty port counts as absent.
fn split_host_port(name: &str) -> Result<(&str, Option<u16>), OriginRejection> {
    let behind = name.rfind(']').unwrap_or(0);
    let colon = name.bytes().enumerate().skip(behind).find(|(_, byte)| *byte == b':').map(|(at, _)| at);
    let (host, port) = match colon.and_then(|colon| name.split_at_checked(colon)) {
        Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
        None => (name, ""),
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'[' | b']' | b':');
    if host.is_empty() || !host.bytes().all(is_host) || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(OriginRejection::InvalidHost);
    }
    let port = (!port.is_empty()).then(|| port.parse().map_err(|_| OriginRejection::InvalidHost)).transpose()?;
    Ok((host, port))
}

fn parse_origin(header: &HeaderValue) -> Option<Origin> {
    header.to_str().ok()?.parse().ok()
}

impl IntoResponse for OriginRejection {
    fn into_response(self) -> Response {
        let status = if self == Self::InvalidHost { StatusCode::BAD_REQUEST } else { StatusCode::FORBIDDEN };
        (status, format!("{self}\n")).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn validate_request(config: &Config, uri: &str, headers: &[(&str, &str)]) -> Result<(), OriginRejection> {
        validate_version(Version::HTTP_11, config, uri, headers)
    }

    fn validate_version(
        version: Version,
        config: &Config,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Result<(), OriginRejection> {
        let mut request = Request::builder().version(version).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        validate(config, &request.body(Body::empty()).unwrap())
    }

    #[test]
    fn programs_of_this_machine_may_ask() {
        let config = Config::default();
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.8.9.10", "[::1]:443"] {
            assert_eq!(validate_request(&config, "/mcp", &[("host", host)]), Ok(()), "{host}");
            assert_eq!(validate_request(&config, &format!("http://{host}/mcp"), &[]), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_names_of_this_machine_are_refused_in_every_place_of_a_request() {
        let config = Config::default();
        for host in ["evil.example", "localhost.evil.example", "192.168.1.2", "0.0.0.0", "[::]", "2130706433"] {
            assert_eq!(
                validate_request(&config, "/mcp", &[("host", host)]),
                Err(OriginRejection::HostNotAllowed),
                "{host}"
            );
            assert_eq!(
                validate_request(&config, &format!("http://{host}/mcp"), &[]),
                Err(OriginRejection::HostNotAllowed),
                "{host}"
            );
        }
    }

    #[test]
    fn a_request_has_one_name_of_a_host_and_maybe_a_port() {
        let config = Config::default();
        assert_eq!(validate_request(&config, "/mcp", &[]), Err(OriginRejection::InvalidHost));
        for host in [
            "",
            "a b",
            " ",
            ":80",
            "evil.example@localhost",
            "localhost@evil.example",
            "user:@localhost",
            "@localhost",
            "localhost:80:80",
            "localhost:x",
            "localhost:+80",
            "localhost:65536",
            "localhost:8 0",
            "localhost/",
            "localhost/evil.example",
            "localhost?x",
            "localhost#x",
            "localhost\\evil.example",
            "localhost,evil.example",
            "http://localhost",
            "[::1",
            "%6cocalhost",
            "localhost%00.evil.example",
            "loc\talhost",
            "l\u{f6}calhost",
        ] {
            assert_eq!(
                validate_request(&config, "/mcp", &[("host", host)]),
                Err(OriginRejection::InvalidHost),
                "{host:?}"
            );
            assert_eq!(
                validate_request(&config, "http://localhost/mcp", &[("host", host)]),
                Err(OriginRejection::InvalidHost),
                "{host:?}"
            );
        }
        for host in
            ["::1", "[::1]x", "[::1]]", "[[::1]]", "]:", "[localhost]", "localhost..", ".localhost", "127.1", "1"]
        {
            assert!(validate_request(&config, "/mcp", &[("host", host)]).is_err(), "{host:?}");
        }
        for other in ["evil.example", "127.0.0.1", "localhost:81", "localhost"] {
            let twice = [("host", "localhost:80"), ("host", other)];
            assert_eq!(validate_request(&config, "/mcp", &twice), Err(OriginRejection::InvalidHost), "{other}");
            let uri = format!("http://{other}/mcp");
            assert_eq!(
                validate_version(Version::HTTP_2, &config, &uri, &[("host", "localhost:80")]),
                Err(OriginRejection::InvalidHost),
                "{other}"
            );
        }
        for uri in ["http://evil.example@localhost/mcp", "http://evil.example:80@localhost:80/mcp"] {
            assert_eq!(validate_request(&config, uri, &[]), Err(OriginRejection::InvalidHost), "{uri}");
        }
        for host in ["localhost", "localhost:", "localhost.", "localhost.:80", "LOCALHOST:65535", "[::1]:80", "[0::1]"]
        {
            assert_eq!(validate_request(&config, "/mcp", &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(validate_request(&config, "http://LocalHost:80/mcp", &[("host", "localhost:80")]), Ok(()));
    }

    #[test]
    fn an_absolute_target_supersedes_the_header_and_is_validated_like_it() {
        let config = Config::default();
        let validate = |target: &str, host| validate_request(&config, target, &[("host", host)]);
        for target in ["http://localhost/mcp", "http://127.0.0.1:81/mcp"] {
            for host in ["localhost", "evil.example", "127.0.0.2:82"] {
                assert_eq!(validate(target, host), Ok(()), "{target} {host}");
            }
        }
        assert_eq!(validate("http://evil.example/mcp", "localhost"), Err(OriginRejection::HostNotAllowed));
        assert_eq!(validate("http://localhost@evil.example/mcp", "localhost"), Err(OriginRejection::InvalidHost));
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(validate_request(&config, "http://localhost/mcp", &twice), Err(OriginRejection::InvalidHost));
    }

    #[test]
    fn pages_of_this_machine_may_ask_and_others_only_if_they_are_named() {
        let mut named = Config::default();
        named.http.cors = vec!["https://*.example.com".parse().unwrap()];
        let page =
            |config: &Config, origin| validate_request(config, "/mcp", &[("host", "localhost"), ("origin", origin)]);
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:80"] {
            assert_eq!(page(&Config::default(), origin), Ok(()), "{origin}");
        }
        assert_eq!(page(&named, "https://app.example.com"), Ok(()));
        for origin in ["https://evil.example", "null", "", "file://", "https://app.example.com:8443"] {
            assert_eq!(page(&named, origin), Err(OriginRejection::OriginNotAllowed), "{origin}");
        }
        assert_eq!(page(&Config::default(), "https://app.example.com"), Err(OriginRejection::OriginNotAllowed));
    }

    #[test]
    fn a_host_that_is_named_may_be_called_at_any_port_and_its_pages_do_not_ask() {
        let mut config = Config::default();
        config.http.hosts = vec!["mcp.example.com".parse().unwrap()];
        assert_eq!(validate_request(&config, "/mcp", &[("host", "MCP.example.com:8443")]), Ok(()));
        let page = [("host", "mcp.example.com"), ("origin", "https://mcp.example.com")];
        assert_eq!(validate_request(&config, "/mcp", &page), Err(OriginRejection::OriginNotAllowed));
    }

    #[test]
    fn the_address_that_the_server_listens_at_is_a_name_of_it_and_a_wildcard_is_none() {
        let listening_at = |address: &str, host: &str| {
            let mut config = Config::default();
            config.server.http = Some(address.parse().unwrap());
            validate_request(&config, "/mcp", &[("host", host)])
        };
        assert_eq!(listening_at("192.168.1.2:80", "192.168.1.2:8080"), Ok(()));
        assert_eq!(listening_at("[::ffff:10.0.0.1]:80", "10.0.0.1"), Ok(()));
        for (address, host) in [("192.168.1.2:80", "192.168.1.3"), ("0.0.0.0:80", "0.0.0.0"), ("[::]:80", "[::]")] {
            assert_eq!(listening_at(address, host), Err(OriginRejection::HostNotAllowed), "{address} {host}");
            assert_eq!(listening_at(address, "localhost"), Ok(()), "{address}");
        }
    }
}
