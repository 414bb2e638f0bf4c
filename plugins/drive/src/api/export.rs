//! Exports of documents of Google's own types.

use super::{Client, Error, read_to_limit};
use crate::id::Id;

/// The maximum size of an export: the API's 10 MB, in the larger unit.
const MAX_EXPORT: usize = 10 * 1024 * 1024;

impl Client<'_> {
    /// Exports a document to a format.
    pub(crate) fn export(&self, id: &Id, mime_type: &str) -> Result<Vec<u8>, Error> {
        let response = self.send(&format!("files/{id}/export"), &[("mimeType", mime_type)], None)?;
        read_to_limit(response.body, MAX_EXPORT).map_err(|stopped| stopped.into_error(MAX_EXPORT))
    }
}
