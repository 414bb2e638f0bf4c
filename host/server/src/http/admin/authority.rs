//! Identification of administrators.
//!
//! | request | administrator |
//! |---|---|
//! | over the Unix socket, by its owner or root | `admin/uid:` and the id of the user |
//! | with the bearer token of `[admin]` | `admin/token` |
//! | of a page of the console, with its cookie and its key ([`console`](super::console)) | the one who logged in |
//!
//! A connection without TLS to a listener with a certificate has no administrator: its credentials would be readable.

use std::time::Duration;

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method};
use mcp_host_config::Config;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use tokio::time::sleep;

use super::console::Console;
use super::{Connection, TOKEN_HOLDER};

/// The interval at which the credentials of a stream are verified again even without a change, because sessions expire.
const RECHECK: Duration = Duration::from_secs(15);

/// Identifies administrators.
#[derive(Clone, Debug, Default)]
pub(super) struct Authority {
    pub(super) console: Console,
}

impl Authority {
    /// Returns the principal of the administrator who makes a request; actions are recorded under its name. Digests are
    /// compared in constant time.
    pub(super) fn administrator(
        &self,
        config: &Config,
        method: &Method,
        headers: &HeaderMap,
        from: Connection,
    ) -> Option<Principal> {
        match from {
            Connection::Owner(user) => Some(Principal::new(format!("admin/uid:{user}"))),
            Connection::Unencrypted => None,
            Connection::Tcp(_) if headers.contains_key(AUTHORIZATION) => {
                has_token(config, headers).then(|| Principal::new(TOKEN_HOLDER))
            }
            Connection::Tcp(_) => self.console.administrator(config, method, headers),
        }
    }
}

/// The credentials of a request that is answered by a stream. They are verified repeatedly while the stream is open.
#[derive(Clone, Debug)]
pub(super) struct StreamCredentials {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) from: Connection,
}

impl StreamCredentials {
    /// Returns the credentials of a request.
    pub(super) fn of(request: &Request, from: Connection) -> Self {
        Self { method: request.method().clone(), headers: request.headers().clone(), from }
    }
}

impl Authority {
    /// Waits until a condition on the config and the sessions no longer holds. It is checked after each reload, after
    /// the end of each session, and every [`RECHECK`].
    pub(super) async fn until(&self, host: &Host, holds: impl Fn(&Config) -> bool) {
        let (mut generations, mut ended) = (host.generations(), self.console.ended_sessions());
        while holds(&host.config()) {
            tokio::select! {
                changed = generations.changed() => if changed.is_err() { return },
                _ = ended.changed() => {}
                () = sleep(RECHECK) => {}
            }
        }
    }

    /// Whether the credentials are an administrator's.
    pub(super) fn is_administrator(&self, config: &Config, of: &StreamCredentials) -> bool {
        self.administrator(config, &of.method, &of.headers, of.from).is_some()
    }

    /// Waits until the credentials are no longer an administrator's.
    pub(super) async fn until_not_administrator(&self, host: &Host, of: &StreamCredentials) {
        self.until(host, |config| self.is_administrator(config, of)).await;
    }
}

fn has_token(config: &Config, headers: &HeaderMap) -> bool {
    let matches = || {
        let expected = config.admin.as_ref()?.token.as_ref()?;
        let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        Some(scheme.eq_ignore_ascii_case("bearer") && expected.matches(token.trim()))
    };
    matches().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use mcp_host_config::admin::{Admin, AdminAddress, AdminToken};

    use super::*;

    #[test]
    fn an_administrator_has_the_token_or_owns_the_socket() {
        let mut admin = Admin::new(AdminAddress::Tcp("127.0.0.1:0".parse().unwrap()));
        let without = Config { admin: Some(admin.clone()), ..Config::default() };
        admin.token = Some(AdminToken::new("right"));
        let config = Config { admin: Some(admin), ..Config::default() };
        let is_administrator = |config: &Config, authorization: &'static str, from| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(authorization))]);
            Authority::default().administrator(config, &Method::GET, &headers, from).is_some()
        };
        let owner = Authority::default().administrator(&without, &Method::GET, &HeaderMap::new(), Connection::Owner(7));
        assert_eq!(owner.unwrap().name(), "admin/uid:7");
        assert!(is_administrator(&config, "Bearer right", Connection::Tcp(None)));
        for wrong in ["", "right", "Bearer wrong", "Basic right"] {
            assert!(!is_administrator(&config, wrong, Connection::Tcp(None)), "{wrong}");
        }
        assert!(!is_administrator(&without, "Bearer right", Connection::Tcp(None)));
        assert!(!is_administrator(&config, "Bearer right", Connection::Unencrypted));
    }
}
