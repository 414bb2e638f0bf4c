//! Drive's API, version 3: requests, and the validation of answers.
//!
//! A [`Client`] serves one call of the provider. Bounds: the total time and number of its requests, the size of a
//! response, the number of list items. An answer that violates the API fails as unavailable, with the reason. Temporary
//! refusals (too many requests, a failure of the server) are retried twice, after the pause that the response requests,
//! or after half a second and a second (exponential back-off). If the pause exceeds two seconds, the call fails with
//! the time to retry. [`Transport`] is HTTP; tests have another implementation.

mod error;
mod export;
mod list;
mod media;
mod model;
mod wasi_http;

pub(crate) use error::Error;
pub(crate) use list::{Corpora, FileQuery};
pub(crate) use model::{Change, ExportFormats, FOLDER, File, FileList, SHORTCUT};
pub use wasi_http::WasiHttp;

use crate::id::Id;
use crate::settings::Settings;
use mcp_provider::Failure;
use model::{About, DRIVE_FIELDS, FILE_FIELDS, SharedDrive, StartPageToken};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::io::Read;
use std::time::{Duration, Instant};

/// All characters except the unreserved ones of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The maximum number of requests of one call.
const MAX_REQUESTS: u32 = 200;

/// The maximum size of a response with metadata, in bytes.
const MAX_JSON: usize = 4 * 1024 * 1024;

/// The maximum number of attempts of a request that Drive temporarily refuses.
const ATTEMPTS: u32 = 3;

/// The default pause before the second attempt. It doubles.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest pause that a call waits for.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Sends GET requests.
pub trait Transport {
    /// Sends a request for a URL, with a `Range` header if `range` is given. Returns the response, whose body is read
    /// until `deadline` at most.
    ///
    /// # Errors
    ///
    /// Any failure to receive a response. An error status is not a failure.
    fn get(&self, url: &str, range: Option<&str>, deadline: Instant) -> mcp_provider::Result<Response>;

    /// Waits for a pause.
    fn sleep(&self, pause: Duration);
}

/// A response of any status.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The header `Retry-After`, in seconds.
    pub retry_after: Option<Duration>,
    /// The header `Content-Range`.
    pub content_range: Option<String>,
    /// The body.
    pub body: Box<dyn Read>,
}

/// The API for the duration of one call.
pub(crate) struct Client<'a> {
    transport: &'a dyn Transport,
    settings: &'a Settings,
    deadline: Instant,
    requests: Cell<u32>,
}

impl<'a> Client<'a> {
    /// Creates a client for a call that begins now.
    pub(crate) fn new(transport: &'a dyn Transport, settings: &'a Settings) -> Self {
        let now = Instant::now();
        let deadline = now.checked_add(settings.timeout).unwrap_or(now);
        Self { transport, settings, deadline, requests: Cell::new(0) }
    }

    /// Returns the metadata of a file.
    pub(crate) fn file(&self, id: &Id) -> Result<File, Error> {
        self.json(&format!("files/{id}"), &[("fields", FILE_FIELDS), ("supportsAllDrives", "true")])
    }

    /// Returns the name of a shared drive.
    pub(crate) fn drive_name(&self, id: &Id) -> Result<String, Error> {
        Ok(self.json::<SharedDrive>(&format!("drives/{id}"), &[("fields", DRIVE_FIELDS)])?.name)
    }

    /// Returns the export formats of Google's types.
    pub(crate) fn export_formats(&self) -> Result<ExportFormats, Error> {
        Ok(self.json::<About>("about", &[("fields", "exportFormats")])?.export_formats)
    }

    /// Returns the token for changes from now on.
    pub(crate) fn start_page_token(&self) -> Result<String, Error> {
        let parameters = [("supportsAllDrives", "true"), ("fields", "startPageToken")];
        Ok(self.json::<StartPageToken>("changes/startPageToken", &parameters)?.start_page_token)
    }

    /// Requests metadata below `/drive/v3/`.
    fn json<T: DeserializeOwned>(&self, path: &str, parameters: &[(&str, &str)]) -> Result<T, Error> {
        let response = self.send(path, parameters, None)?;
        let body = read_to_limit(response.body, MAX_JSON).map_err(|stopped| stopped.into_error(MAX_JSON))?;
        serde_json::from_slice(&body).map_err(|error| Error::nonsense(error.to_string()))
    }

    /// Sends a request until the response is a success or a permanent refusal, or the attempts are used up.
    fn send(&self, path: &str, parameters: &[(&str, &str)], range: Option<&str>) -> Result<Response, Error> {
        let mut url = format!("{}/drive/v3/{path}", self.settings.url);
        for (n, (name, value)) in parameters.iter().enumerate() {
            let separator = if n == 0 { '?' } else { '&' };
            url.push_str(&format!("{separator}{name}={}", utf8_percent_encode(value, ENCODED)));
        }
        let mut pause = PAUSE;
        let mut attempt: u32 = 1;
        loop {
            let error = match self.send_once(&url, range) {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let Some(asked) = error.pause() else { return Err(error) };
            let wait = asked.unwrap_or(pause);
            if attempt >= ATTEMPTS || wait > MAX_PAUSE || wait >= self.time_left() {
                return Err(error);
            }
            self.transport.sleep(wait);
            attempt = attempt.saturating_add(1);
            pause = pause.saturating_mul(2);
        }
    }

    fn send_once(&self, url: &str, range: Option<&str>) -> Result<Response, Error> {
        let requests = self.requests.get().saturating_add(1);
        self.requests.set(requests);
        if requests > MAX_REQUESTS {
            return Err(
                Failure::unavailable(format!("the call needs more than {MAX_REQUESTS} requests to Drive")).into()
            );
        }
        if self.time_left().is_zero() {
            return Err(self.too_slow());
        }
        let response = self.transport.get(url, range, self.deadline)?;
        if matches!(response.status, 200 | 206) { Ok(response) } else { Err(Error::of_response(response)) }
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn too_slow(&self) -> Error {
        let timeout = self.settings.timeout.as_secs_f32();
        let reason = format!("Drive did not answer within {timeout} s, the `timeout` of this plugin");
        Failure::unavailable(reason).into()
    }
}

/// The reason why a body was not read to its end, with the bytes read before.
enum Stopped {
    TooLarge,
    Broken(Vec<u8>, Failure),
}

impl Stopped {
    fn into_error(self, limit: usize) -> Error {
        match self {
            Self::TooLarge => Error::nonsense(format!("it has more than {limit} bytes")),
            Self::Broken(_, failure) => failure.into(),
        }
    }
}

/// Reads a body of at most `limit` bytes.
fn read_to_limit(body: Box<dyn Read>, limit: usize) -> Result<Vec<u8>, Stopped> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    match body.take(most).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() > limit => Err(Stopped::TooLarge),
        Ok(_) => Ok(bytes),
        Err(error) => Err(Stopped::Broken(bytes, error::of_transfer(&error))),
    }
}
