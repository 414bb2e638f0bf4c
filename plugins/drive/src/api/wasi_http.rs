//! The transport of components: HTTP through the host, limited by its grants.

use super::{Response, Transport};
use mcp_provider::{Result, http};
use std::time::{Duration, Instant};

/// Sends requests through the host, which adds the credential.
#[derive(Debug, Clone, Copy, Default)]
pub struct WasiHttp;

impl Transport for WasiHttp {
    fn get(&self, url: &str, range: Option<&str>, deadline: Instant) -> Result<Response> {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let mut request = http::Request::get(url).timeout(timeout);
        if let Some(range) = range {
            request = request.header("range", range);
        }
        let response = request.send()?;
        let retry_after = response.header("retry-after").and_then(|seconds| seconds.trim().parse().ok());
        Ok(Response {
            status: response.status,
            retry_after: retry_after.map(|seconds: u32| Duration::from_secs(seconds.into())),
            content_range: response.header("content-range").map(str::to_owned),
            body: Box::new(response.body.with_deadline(deadline)),
        })
    }

    fn sleep(&self, pause: Duration) {
        std::thread::sleep(pause);
    }
}
