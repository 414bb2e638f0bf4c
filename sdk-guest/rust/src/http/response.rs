//! HTTP responses and their bodies.

use super::{Error, Result};
use crate::component::bindings::wasi::http::types::{IncomingBody, IncomingResponse, InputStream, http_error_code};
use crate::component::bindings::wasi::io::streams::StreamError;
use std::fmt;
use std::io::{self, Read};
use std::time::Instant;

/// The maximum size of one read from the body, in bytes.
const CHUNK: u64 = 64 * 1024;

/// A response of any status.
#[derive(Debug)]
#[non_exhaustive]
pub struct Response {
    /// The status code, such as 200 or 404.
    pub status: u16,
    /// The headers. Names are in lower case and may repeat; values may not be UTF-8.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The unread part of the body.
    pub body: Body,
}

impl Response {
    pub(super) fn new(response: IncomingResponse) -> Result<Self> {
        let mut headers = response.headers().entries();
        for (name, _) in &mut headers {
            name.make_ascii_lowercase();
        }
        let body = response.consume().map_err(|()| Error::Host)?;
        let stream = body.stream().map_err(|()| Error::Host)?;
        let body = Body { stream: Some(stream), _body: body, deadline: None };
        Ok(Self { status: response.status(), headers, body })
    }

    /// Returns the value of the first header with this name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }
}

/// The body of a response, streamed as it is read. Dropping it ends the exchange.
///
/// An [`io::Error`] from [`Read`] wraps an [`Error`] of this module.
pub struct Body {
    // Declared before the body, since a stream must be dropped before its parent.
    stream: Option<InputStream>,
    _body: IncomingBody,
    deadline: Option<Instant>,
}

impl Body {
    /// Sets the time at which reading fails with [`Error::Timeout`], however steadily bytes arrive.
    #[must_use]
    pub fn with_deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Reads the whole body, which may have at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if the body is larger; otherwise the error that interrupted the transfer.
    pub fn read_to_limit(mut self, limit: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk(CHUNK)? {
            if bytes.len().saturating_add(chunk.len()) > limit {
                return Err(Error::TooLarge { limit });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Reads the next chunk, which is not empty; returns `None` at the end.
    fn chunk(&mut self, max_len: u64) -> Result<Option<Vec<u8>>> {
        loop {
            let Some(stream) = &self.stream else { return Ok(None) };
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::Timeout);
            }
            match stream.blocking_read(max_len) {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Ok(Some(bytes)),
                Err(StreamError::Closed) => self.stream = None,
                Err(StreamError::LastOperationFailed(error)) => {
                    let error = http_error_code(&error).map_or(Error::Host, Error::from);
                    self.stream = None;
                    return Err(error);
                }
            }
        }
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let most = u64::try_from(buffer.len()).unwrap_or(CHUNK).min(CHUNK);
        let Some(bytes) = self.chunk(most).map_err(io::Error::other)? else { return Ok(0) };
        let (room, _) = buffer.split_at_mut_checked(bytes.len()).ok_or_else(|| io::Error::other(Error::Host))?;
        room.copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}
