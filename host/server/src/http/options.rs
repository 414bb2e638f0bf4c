//! Options of a mounted service.

use mcp_resource_host::access::Principal;

/// The options of a service that is mounted in another server; see [`http_service`](super::http_service). All other
/// settings are in `[http]` of the host's config.
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

    /// Rejects requests that have no [`Principal`] in their extensions, with 401. So a route that the application's
    /// login layer does not cover serves no request.
    #[must_use]
    pub fn require_principal(mut self) -> Self {
        self.default_principal = None;
        self
    }

    /// Sets whether `Host` and `Origin` are validated, by `http.hosts` and `http.cors` of the config. Without this
    /// validation a page in a browser may reach the server by DNS rebinding: switch it off only if the application
    /// validates both headers itself, or if every request is authenticated by credentials that a browser does not send
    /// automatically.
    #[must_use]
    pub fn origin_check(mut self, is_on: bool) -> Self {
        self.origin_check = is_on;
        self
    }

    /// Sets whether the service handles CORS by `http.cors` of the config: it answers preflight requests, and adds CORS
    /// headers to responses. An application with its own CORS layer switches it off.
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
