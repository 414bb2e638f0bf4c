//! The origin implementation for components: HTTP through the host, limited by its grants.

use super::{FetchError, Origin, Request, Response};
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_provider::http as sdk;
use mcp_provider::log;
use std::io::Read;
use std::time::{Duration, Instant};

/// The size of one read from the body.
const CHUNK: usize = 64 * 1024;

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
            read(response.body, request.max_body, began, request.timeout)?
        } else {
            Vec::new()
        };
        Ok(Response { status, headers, body })
    }
}

/// Reads a body, bounded in size and total time, against slow-drip bodies.
fn read(mut body: sdk::Body, max_body: usize, began: Instant, timeout: Duration) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        if began.elapsed() > timeout {
            return Err(sdk::Error::Timeout.into());
        }
        let read = body.read(&mut chunk).map_err(|error| {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<sdk::Error>());
            FetchError::from(cause.cloned().unwrap_or(sdk::Error::Host))
        })?;
        if read == 0 {
            return Ok(bytes);
        }
        if bytes.len().saturating_add(read) > max_body {
            return Err(FetchError::TooLarge(max_body));
        }
        bytes.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
}

/// Returns the valid headers; others are ignored, as in a browser.
fn headers(received: &[(String, Vec<u8>)]) -> HeaderMap {
    let valid = |(name, value): &(String, Vec<u8>)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in received.iter().filter_map(valid) {
        // The map holds a bounded number of headers; so does the host.
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
