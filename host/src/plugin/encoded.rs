//! Encoded responses: the JSON of a server, which is opaque here, with what access decisions and cache hints need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::resource::{Footprint, Resource, ResourceContents};
use crate::uri::Uri;

/// Which JSON a response is encoded as: revisions of MCP with equal forms have equal objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EncodingForm(pub(crate) u8);

/// A page of a provider's listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageKey<'a> {
    /// The provider's cursor.
    pub(crate) cursor: Option<&'a str>,
    /// The number of items that are requested.
    pub(crate) size: u32,
    pub(crate) form: EncodingForm,
}

/// The response to a read, for one principal.
pub(crate) enum ReadResponse {
    /// Contents that are not cached.
    Contents(Vec<ResourceContents>),
    /// Contents that are cached, all of which the principal may read.
    Encoded(Arc<EncodedContents>),
}

/// All contents of a read as JSON.
#[derive(Debug)]
pub(crate) struct EncodedContents {
    /// The array of contents.
    pub(crate) json: Bytes,
    /// The resources that the contents belong to.
    pub(crate) uris: Box<[Uri]>,
    /// The bytes of the contents before they were encoded.
    pub(crate) len: u64,
    /// When the response stops to hold.
    pub(crate) expires: Instant,
}

/// A page of a provider's listing as JSON: all its valid items.
#[derive(Debug)]
pub(crate) struct EncodedPage {
    /// The items, with the time at which each stops to hold.
    pub(crate) items: Vec<(EncodedResource, Instant)>,
    /// The provider's cursor of the next page.
    pub(crate) next_cursor: Option<String>,
}

/// A resource of a listing as JSON.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct EncodedResource {
    /// Its URI, for access decisions. It is cloned for each page that shows it.
    pub(crate) uri: Arc<Uri>,
    /// The object.
    pub(crate) json: Bytes,
}

/// A resource of a listing, encoded if its page is cached.
#[derive(Clone, Debug, PartialEq, Hash)]
#[allow(clippy::large_enum_variant, reason = "nearly all of them are resources, which are not to be boxed one by one")]
pub(crate) enum ListedResource {
    Resource(Resource),
    /// With the time at which it stops to hold.
    Encoded(EncodedResource, Instant),
}

impl EncodedResource {
    /// The approximate memory that it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>().saturating_add(self.uri.as_str().len()).saturating_add(self.json.len())
    }
}

impl ListedResource {
    /// Its URI.
    pub(crate) fn uri(&self) -> &Uri {
        match self {
            Self::Resource(entry) => &entry.uri,
            Self::Encoded(encoded, _) => &encoded.uri,
        }
    }

    /// The time for which it holds from `now` on; zero if its provider gives none.
    pub(crate) fn ttl(&self, now: Instant) -> Duration {
        match self {
            Self::Resource(entry) => entry.ttl.unwrap_or_default(),
            Self::Encoded(_, expires) => expires.saturating_duration_since(now),
        }
    }
}

impl Footprint for ListedResource {
    fn footprint(&self) -> usize {
        match self {
            Self::Resource(entry) => entry.footprint(),
            Self::Encoded(encoded, _) => encoded.memory(),
        }
    }
}
