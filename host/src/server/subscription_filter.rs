//! The filter of `subscriptions/listen`, over both transports.

use crate::host::Host;
use crate::watch::Subscriber;

/// The URIs of one filter that are checked; those after them are not accepted.
const MAX_CHECKED_URIS: usize = 4 * Subscriber::MAX_RESOURCES;

/// Returns the URIs of a filter that are acknowledged. They depend neither on the principal nor on the mounts,
/// whose existence is not public: URIs are acknowledged whether or not there are such resources.
pub(super) fn accepted_uris(host: &Host, uris: Vec<String>) -> Vec<String> {
    let mut bytes = 0_usize;
    let served = uris.into_iter().take(MAX_CHECKED_URIS).filter(|uri| host.is_uri(uri));
    let few_enough = served.take(Subscriber::MAX_RESOURCES).take_while(|uri| {
        bytes = bytes.saturating_add(uri.len());
        bytes <= Subscriber::MAX_URI_BYTES
    });
    few_enough.collect()
}
