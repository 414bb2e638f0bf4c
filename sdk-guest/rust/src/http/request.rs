//! HTTP requests.

use super::url::Url;
use super::{Error, Response, Result};
use crate::component::bindings::wasi::http::outgoing_handler::handle;
use crate::component::bindings::wasi::http::types::{ErrorCode, Fields, Method, OutgoingRequest, RequestOptions};
use std::time::Duration;

/// A request without a body.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    url: String,
    is_head: bool,
    headers: Vec<(String, Vec<u8>)>,
    timeout: Option<Duration>,
}

impl Request {
    /// Creates a GET request for an absolute `https:` or `http:` URL.
    pub fn get(url: impl Into<String>) -> Self {
        Self { url: url.into(), is_head: false, headers: Vec::new(), timeout: None }
    }

    /// Creates a HEAD request for an absolute `https:` or `http:` URL.
    pub fn head(url: impl Into<String>) -> Self {
        Self { is_head: true, ..Self::get(url) }
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    /// Sets the timeout for the connection, for the first byte of the response, and between bytes of its body. The
    /// host also bounds the whole exchange and may time out earlier.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the request and waits for the head of the response.
    ///
    /// # Errors
    ///
    /// Any failure to get a response; see [`Error`]. An error status is not a failure.
    pub fn send(self) -> Result<Response> {
        let url = Url::parse(&self.url)?;
        if cfg!(not(target_family = "wasm")) {
            return Err(Error::NoHost);
        }
        let headers = Fields::new();
        for (name, value) in &self.headers {
            headers.append(name, value).map_err(|_| Error::Header(name.clone()))?;
        }
        let request = OutgoingRequest::new(headers);
        let method = if self.is_head { Method::Head } else { Method::Get };
        request
            .set_method(&method)
            .and_then(|()| request.set_scheme(Some(&url.scheme)))
            .and_then(|()| request.set_authority(Some(url.authority)))
            .and_then(|()| request.set_path_with_query(Some(&url.path_with_query)))
            .map_err(|()| Error::Url(self.url.clone()))?;
        let coming = handle(request, self.timeout.map(options).transpose()?)?;
        coming.subscribe().block();
        match coming.get() {
            Some(Ok(response)) => Response::new(response?),
            // Unreachable: the future is ready, and its result is taken once.
            Some(Err(())) | None => Err(Error::from(ErrorCode::InternalError(None))),
        }
    }
}

fn options(timeout: Duration) -> Result<RequestOptions> {
    let nanoseconds = Some(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
    let options = RequestOptions::new();
    options
        .set_connect_timeout(nanoseconds)
        .and_then(|()| options.set_first_byte_timeout(nanoseconds))
        .and_then(|()| options.set_between_bytes_timeout(nanoseconds))
        .map_err(|()| Error::Host)?;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn natively_there_is_no_host_to_send_it() {
        assert_eq!(Request::get("https://docs.rs/").send().err(), Some(Error::NoHost));
        assert_eq!(Request::head("docs.rs").send().err(), Some(Error::Url("docs.rs".to_owned())));
    }
}
