//! The conditions for listening beyond loopback: authentication and TLS, or `insecure = true` in `[http]`.

use std::fmt;

use mcp_host_model::net::UrlHost;

use super::diagnostic::Diagnostic;
use super::http::HttpAddress;
use super::reader::Table;
use super::{Config, EndpointUrl};

/// The sections that declare how clients authenticate.
const AUTHENTICATION_SECTIONS: [&str; 2] = ["principal", "issuer"];

/// The reason why a server must not listen at an address: other machines can reach it, and the config lacks a
/// protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{address}` can be reached from other machines, and the config has {missing}")]
pub struct ExposureError {
    address: HttpAddress,
    missing: Missing,
}

/// The protections that a server beyond loopback lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Authentication,
    Tls,
    Both,
}

impl Missing {
    fn new(has_authentication: bool, has_tls: bool) -> Option<Self> {
        match (has_authentication, has_tls) {
            (true, true) => None,
            (false, true) => Some(Self::Authentication),
            (true, false) => Some(Self::Tls),
            (false, false) => Some(Self::Both),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Authentication => "no authentication",
            Self::Tls => "no TLS",
            Self::Both => "neither authentication nor TLS",
        })
    }
}

impl ExposureError {
    /// Returns the change to the config that allows the address.
    pub fn help(&self) -> String {
        let port = self.address.socket_addr().port();
        format!(
            "{}; or listen on loopback, `127.0.0.1:{port}`, behind a proxy; or accept the risk with `insecure = true` in \
             `[http]`",
            self.advice()
        )
    }

    /// Returns the additions to the config that protect the server.
    pub(super) fn advice(&self) -> String {
        let principal = "a `[[principal]]` with a token, as `mcp-host token new` makes, an `[[issuer]]` of access tokens, or \
                         `client-ca` to `[http]`";
        let tls = "`tls = { certificate = \"…\", key = \"…\" }` to `[http]`";
        match self.missing {
            Missing::Authentication => format!("add {principal}"),
            Missing::Tls => format!("add {tls}"),
            Missing::Both => format!("add {principal}, and {tls}"),
        }
    }
}

impl Config {
    /// Whether clients can authenticate over HTTP.
    pub fn has_authentication(&self) -> bool {
        !self.principals.is_empty() || !self.issuers.is_empty() || !self.http.client_ca.is_empty()
    }

    /// Checks that the HTTP server may listen at its address ([`Server::http`](super::Server::http)): on loopback;
    /// beyond it with authentication and TLS, or with [`insecure`](super::http::Http::insecure).
    ///
    /// # Errors
    ///
    /// The server may not listen there.
    pub fn check_exposure(&self) -> Result<(), ExposureError> {
        self.server.http.map_or(Ok(()), |address| self.check_exposure_at(address))
    }

    /// Checks that a server with this config may listen at this address.
    ///
    /// # Errors
    ///
    /// The server may not listen there: see [`check_exposure`](Self::check_exposure).
    pub fn check_exposure_at(&self, address: HttpAddress) -> Result<(), ExposureError> {
        if self.http.insecure { Ok(()) } else { self.missing_protection(address).map_or(Ok(()), Err) }
    }

    /// Returns the missing protections for this address, even if the config accepts the risk.
    pub(super) fn missing_protection(&self, address: HttpAddress) -> Option<ExposureError> {
        let missing = Missing::new(self.has_authentication(), self.http.tls.is_some())?;
        (!address.is_loopback()).then_some(ExposureError { address, missing })
    }

    /// Reports an address in the file at which the server must not listen.
    pub(super) fn report_exposure(&self, table: &Table<'_>) {
        let Some(address) = self.server.http.filter(|address| !address.is_loopback()) else { return };
        if self.http.insecure || table.has_nested("http", "insecure") && table.has_problems() {
            return;
        }
        // An invalid section has been reported already.
        let is_broken = |is_there: bool| is_there && table.has_problems();
        let has_authentication = self.has_authentication()
            || is_broken(AUTHENTICATION_SECTIONS.iter().any(|section| table.has(section)))
            || is_broken(table.has_nested("http", "client-ca"));
        let has_tls = self.http.tls.is_some() || is_broken(table.has_nested("http", "tls"));
        if let Some(missing) = Missing::new(has_authentication, has_tls) {
            let error = ExposureError { address, missing };
            let problem = Diagnostic::new(error.to_string(), error.help());
            table.report(problem.at(table.nested_span("server", "http")));
        }
    }

    /// Whether clients may use this host in the URL of the server: `localhost` and the loopback addresses, the listen
    /// address, [`hosts`](super::http::Http::hosts), and the host of [`public_url`](super::http::Http::public_url).
    pub fn is_own_host(&self, host: &UrlHost) -> bool {
        let is_own_address = |address: HttpAddress| match host {
            UrlHost::Name(_) => false,
            UrlHost::Address(ip) => {
                !address.is_wildcard() && ip.to_canonical() == address.socket_addr().ip().to_canonical()
            }
        };
        let is_public = |url: &EndpointUrl| url.origin().host() == host;
        host.is_loopback()
            || self.server.http.is_some_and(is_own_address)
            || self.http.hosts.contains(host)
            || self.http.public_url.as_ref().is_some_and(is_public)
    }

    /// Whether clients on other machines have a valid host for the server.
    pub(super) fn has_public_host(&self, address: HttpAddress) -> bool {
        !address.is_wildcard() || !self.http.hosts.is_empty() || self.http.public_url.is_some()
    }
}
