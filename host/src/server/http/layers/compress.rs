//! Compression by `Accept-Encoding`: brotli or gzip, whichever the client prefers.
//!
//! Only bodies of at least 1 KiB are compressed, at the fastest level. Event streams are not: their events would be
//! delayed.

use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, NotForContentType, Predicate, SizeAbove};

/// The smallest body that is compressed, in bytes: a smaller one fits one packet anyway.
const MIN_SIZE: u16 = 1024;

/// Returns the layer that compresses responses.
pub(super) fn layer() -> CompressionLayer<And<SizeAbove, NotForContentType>> {
    let worthwhile = SizeAbove::new(MIN_SIZE).and(NotForContentType::SSE);
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worthwhile)
}
