//! The layers in front of the endpoint, from the outside in: origin check, CORS, compression. The endpoint itself
//! normalizes `Accept`.
//!
//! They are functions and services of one call, and not middleware of a router, which boxes a future and clones a service for each
//! layer and each request.

pub(super) mod accept;
mod compress;
mod cors;
pub(super) mod origin_check;

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use mcp_host_config::Config;
use tower::{Layer as _, ServiceExt as _, service_fn};

use self::compress::AcceptedEncodings;
use super::HttpOptions;

/// Answers a request by that handler, behind the layers.
pub(super) async fn apply<F: Future<Output = Response>>(
    config: Arc<Config>,
    options: &HttpOptions,
    request: Request,
    mut handler: impl FnMut(Request) -> F,
) -> Response {
    if options.origin_check
        && let Err(rejected) = origin_check::validate(&config, &request)
    {
        return rejected.into_response();
    }
    let accepted = AcceptedEncodings::of(request.headers());
    let Some(cors) = cors::layer(config, request.headers()).filter(|_| options.cors) else {
        return accepted.compress(handler(request).await).await;
    };
    let compressed = service_fn(move |request| {
        let (accepted, answering) = (accepted.clone(), handler(request));
        async move { Ok::<_, Infallible>(accepted.compress(answering.await).await) }
    });
    match Box::pin(cors.layer(compressed).oneshot(request)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
