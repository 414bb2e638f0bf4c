//! The origin implementation for components: HTTP through the host, limited by its grants.

use super::{FetchError, Origin, Request, Response};
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_provider::http as sdk;
use mcp_provider::{Grants, log};
use std::time::Instant;

/// Sends requests through the host.
#[derive(Debug, Clone, Copy, Default)]
pub struct WasiHttpOrigin;

impl Origin for WasiHttpOrigin {
    fn send(&self, request: &Request) -> Result<Response, FetchError> {
        let began = Instant::now();
        let url = request.url.as_str();
        let asked = if request.is_head { sdk::Request::head(url) } else { sdk::Request::get(url) };
        let asked = request.headers.iter().fold(asked, |asked, (name, value)| asked.header(name.as_str(), value));
        let response = asked.timeout(request.timeout).send()?;
        log::debug!("{} {url}: status {}", if request.is_head { "HEAD" } else { "GET" }, response.status);
        let (status, headers) = (response.status, headers(&response.headers));
        let is_page = !request.is_head && (200..300).contains(&status);
        let body = if is_page {
            let announced = response.header("content-length").and_then(|length| length.trim().parse().ok());
            if announced.is_some_and(|length: usize| length > request.max_body) {
                return Err(FetchError::TooLarge(request.max_body));
            }
            // The deadline also bounds the total time of a body that arrives slowly.
            let deadline = began.checked_add(request.timeout).unwrap_or(began);
            response.body.with_deadline(deadline).read_to_limit(request.max_body)?
        } else {
            Vec::new()
        };
        Ok(Response { status, headers, body })
    }

    fn is_granted(&self, origin: &str) -> bool {
        // A host that is too old to support this query denies requests only.
        Grants::current().allows_http(origin).unwrap_or(true)
    }
}

/// Returns the valid headers. Invalid ones are ignored, as in a browser.
fn headers(received: &[(String, Vec<u8>)]) -> HeaderMap {
    let valid = |(name, value): &(String, Vec<u8>)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in received.iter().filter_map(valid) {
        // The number of headers in the map is bounded, as in the host.
        if headers.try_append(name, value).is_err() {
            break;
        }
    }
    headers
}

impl From<sdk::Error> for FetchError {
    fn from(error: sdk::Error) -> Self {
        match error {
            sdk::Error::Denied => Self::Denied(error.to_string()),
            sdk::Error::TooLarge { limit } => Self::TooLarge(limit),
            sdk::Error::Url(_) | sdk::Error::Header(_) => Self::Host(error.to_string()),
            _ => Self::Unreachable(error.to_string()),
        }
    }
}
