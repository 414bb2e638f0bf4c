//! The transport of components: HTTP through the host, limited by its grants.

use super::{Response, Transport};
use mcp_provider::{Result, http};
use std::time::{Duration, Instant};

/// Sends requests through the host.
#[derive(Debug, Clone, Copy, Default)]
pub struct WasiHttp;

impl Transport for WasiHttp {
    fn get(&self, url: &str, deadline: Instant) -> Result<Response> {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let response = http::Request::get(url).header("accept", "application/json").timeout(timeout).send()?;
        let retry_after = response.header("retry-after").and_then(|seconds| seconds.trim().parse().ok());
        Ok(Response {
            status: response.status,
            retry_after: retry_after.map(|seconds: u32| Duration::from_secs(seconds.into())),
            body: Box::new(response.body.with_deadline(deadline)),
        })
    }
}
