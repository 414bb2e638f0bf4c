//! Compression, for those who ask for it (`Accept-Encoding`): brotli or gzip, whichever they prefer.
//!
//! Only what is worth it is compressed, and fast rather than small. Streams of events are not: their events would wait for
//! each other.

use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, NotForContentType, Predicate, SizeAbove};

/// The smallest body that is compressed, in bytes: a smaller one is one packet anyway.
const MIN_SIZE: u16 = 1024;

/// Compresses answers.
pub(super) fn layer() -> CompressionLayer<And<SizeAbove, NotForContentType>> {
    let worthwhile = SizeAbove::new(MIN_SIZE).and(NotForContentType::SSE);
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worthwhile)
}
