//! The layers in front of the endpoint, from the outside in: origin check, CORS, compression. The endpoint itself
//! normalizes `Accept`.
//!
//! They are functions and services of one call, and not middleware of a router, which boxes a future and clones a service for each
//! layer and each request.

pub(super) mod accept;
mod compress;
mod cors;
mod origin_check;

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::HttpOptions;
use crate::host::Host;

/// Answers a request by that handler, behind the layers.
pub(super) async fn apply<F: Future<Output = Response>>(
    host: &Host,
    options: &HttpOptions,
    request: Request,
    mut handler: impl FnMut(Request) -> F,
) -> Response {
    let config = host.config();
    if options.origin_check
        && let Err(rejected) = origin_check::validate(&config, &request)
    {
        return rejected.into_response();
    }
    let handler = service_fn(move |request| {
        let answering = handler(request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let compressed =
        compress::layer().layer(handler).map_response(|response: axum::http::Response<_>| response.map(Body::new));
    let answered = match cors::layer(config, request.headers()).filter(|_| options.cors) {
        None => compressed.oneshot(request).await,
        Some(cors) => Box::pin(cors.layer(compressed).oneshot(request)).await,
    };
    match answered {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
