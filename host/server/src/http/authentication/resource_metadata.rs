//! The metadata of this server as a protected resource (RFC 9728): where clients get access tokens.
//!
//! The metadata is served at the well-known path of `http.public-url` (RFC 9728, section 3.1), and at the well-known
//! path without the path of the URL, where MCP clients look last. It is public.

use std::collections::BTreeSet;

use axum::extract::Request;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use mcp_host_config::Config;
use mcp_host_config::issuer::Scope;
use mcp_resource_host::host::Host;
use serde_json::{Value, json};

use crate::http::ENDPOINT_PATH;

/// The well-known path, without the path of the resource.
pub(in crate::http) const WELL_KNOWN_PATH: &str = "/.well-known/oauth-protected-resource";

/// Returns the URL of the metadata. None if there is no metadata.
pub(super) fn url(config: &Config) -> Option<String> {
    let url = config.http.public_url.as_ref().filter(|_| !config.issuers.is_empty())?;
    Some(format!("{}{WELL_KNOWN_PATH}{}", url.origin(), path(url.path())))
}

/// The path of a URL, where a single slash counts as empty (RFC 9728, section 3.1).
fn path(path: &str) -> &str {
    if path == "/" { "" } else { path }
}

/// Answers requests for the metadata.
pub(in crate::http) fn respond(host: &Host, request: &Request) -> Response {
    let config = host.config();
    let behind = request.uri().path().strip_prefix(WELL_KNOWN_PATH).unwrap_or_default();
    let is_own = |url: &mcp_host_config::EndpointUrl| [path(url.path()), "", ENDPOINT_PATH].contains(&path(behind));
    match &config.http.public_url {
        Some(url) if !config.issuers.is_empty() && is_own(url) => match *request.method() {
            Method::GET | Method::HEAD => {
                let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "max-age=300")];
                (headers, document(&config, url.as_str()).to_string()).into_response()
            }
            _ => (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")]).into_response(),
        },
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn document(config: &Config, url: &str) -> Value {
    let issuers: Vec<_> = config.issuers.iter().map(|issuer| issuer.issuer.as_written()).collect();
    let scopes = config.issuers.iter().flat_map(|issuer| &issuer.scopes);
    let scopes: BTreeSet<_> = scopes.map(Scope::as_str).collect();
    let mut document = json!({
        "resource": url,
        "authorization_servers": issuers,
        "bearer_methods_supported": ["header"],
        "resource_name": config.server.title.as_deref().unwrap_or(&config.server.name),
    });
    if let Some(document) = document.as_object_mut().filter(|_| !scopes.is_empty()) {
        document.insert("scopes_supported".to_owned(), json!(scopes));
    }
    document
}
