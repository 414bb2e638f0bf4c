//! Pages of the keys of a bucket.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The position at which a page of a listing starts.
#[derive(Clone, Debug)]
pub(super) enum PageStart {
    /// After the key that a cursor names, or at the first key.
    After(Option<String>),
    /// After this number of keys.
    Offset(u64),
}

/// One page of the keys, in byte order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) keys: Vec<String>,
    /// Whether there are more keys.
    pub(super) has_more: bool,
}

impl Page {
    /// Returns the cursor for [`PageStart::After`] if there are more keys: the last key, which may have been deleted
    /// since.
    pub(super) fn cursor(&self) -> Option<String> {
        self.keys.last().filter(|_| self.has_more).map(|key| URL_SAFE_NO_PAD.encode(key))
    }
}
