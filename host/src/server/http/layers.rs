//! The layers in front of the endpoint, from the outside in: origin check, CORS, compression. The endpoint itself
//! normalizes `Accept`.

pub(super) mod accept;
mod compress;
mod cors;
mod origin_check;

use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use axum::routing::MethodRouter;

use super::HttpOptions;
use crate::host::Host;

/// Applies the layers to a route.
pub(super) fn apply(route: MethodRouter, host: &Arc<Host>, options: &HttpOptions) -> MethodRouter {
    let mut route = route.layer(compress::layer());
    if options.cors {
        route = route.layer(from_fn_with_state(host.clone(), cors::apply));
    }
    if options.origin_check {
        route = route.layer(from_fn_with_state(host.clone(), origin_check::require_allowed_origin));
    }
    route
}
