//! Options of a mounted service.

use mcp_resource_host::access::Principal;

/// How a service answers that is mounted in another server; see [`http_service`](super::http_service). All else is in
/// `[http]` of the host's config.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The principal of requests that have none in their extensions.
    pub(super) default_principal: Option<Principal>,
    /// Whether `Host` and `Origin` are validated.
    pub(super) origin_check: bool,
    /// Whether CORS is handled.
    pub(super) cors: bool,
}

impl HttpOptions {
    /// The defaults: requests without a principal are [`Principal::ANONYMOUS`], `Host` and `Origin` are validated, and
    /// CORS is handled.
    pub fn new() -> Self {
        Self { default_principal: Some(Principal::ANONYMOUS), origin_check: true, cors: true }
    }

    /// The principal of requests that have no [`Principal`] in their extensions.
    #[must_use]
    pub fn default_principal(mut self, principal: Principal) -> Self {
        self.default_principal = Some(principal);
        self
    }

    /// Rejects requests that have no [`Principal`] in their extensions, with 401. So a route that the login layer of an
    /// application does not cover serves no request.
    #[must_use]
    pub fn require_principal(mut self) -> Self {
        self.default_principal = None;
        self
    }

    /// Sets whether `Host` and `Origin` are validated, by `http.hosts` and `http.cors` of the config. Without this
    /// validation a page in a browser may reach the server by DNS rebinding: switch it off only if the application
    /// validates them itself, or if every request is authenticated by something that a browser does not send by itself.
    #[must_use]
    pub fn origin_check(mut self, is_on: bool) -> Self {
        self.origin_check = is_on;
        self
    }

    /// Sets whether CORS is handled here, by `http.cors` of the config: preflight requests are answered, and responses
    /// get the headers of CORS. An application with a CORS layer of its own switches it off.
    #[must_use]
    pub fn cors(mut self, is_on: bool) -> Self {
        self.cors = is_on;
        self
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self::new()
    }
}
