//! The content of stored files, in ranges.
//!
//! A part is requested in ranges of 4 MiB. An interrupted transfer continues after the last received byte. The range
//! and the file size in each response must match the request and the other responses.

use super::{Client, Error, Stopped, read_to_limit};
use crate::id::Id;
use mcp_provider::Failure;

/// The size of one range, in bytes.
const RANGE: u64 = 4 * 1024 * 1024;

/// The maximum number of times that an interrupted transfer is continued.
const MAX_BREAKS: u32 = 2;

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    /// The number of requests sent.
    pub(crate) requests: u32,
}

impl Client<'_> {
    /// Downloads `len` bytes of a file of `size` bytes, or fewer at its end.
    pub(crate) fn media(&self, id: &Id, size: u64, first: u64, len: usize) -> Result<Part, Error> {
        let end = first.saturating_add(u64::try_from(len).unwrap_or(u64::MAX)).min(size);
        let mut part = Part { bytes: Vec::new(), requests: 0 };
        let mut breaks: u32 = 0;
        loop {
            let start = first.saturating_add(u64::try_from(part.bytes.len()).unwrap_or(u64::MAX));
            if start >= end {
                return Ok(part);
            }
            part.requests = part.requests.saturating_add(1);
            let last = end.min(start.saturating_add(RANGE)).saturating_sub(1);
            match self.range(id, size, start, last) {
                Ok(bytes) if bytes.is_empty() => return Err(changed()),
                Ok(bytes) => part.bytes.extend(bytes),
                Err(RangeError::Broken(bytes, failure)) => {
                    breaks = breaks.saturating_add(1);
                    if breaks > MAX_BREAKS {
                        return Err(failure.into());
                    }
                    part.bytes.extend(bytes);
                }
                Err(RangeError::Refused(error)) => return Err(error),
            }
        }
    }

    /// Requests the bytes from `start` to `last`.
    fn range(&self, id: &Id, size: u64, start: u64, last: u64) -> Result<Vec<u8>, RangeError> {
        let range = format!("bytes={start}-{last}");
        let parameters = [("alt", "media"), ("supportsAllDrives", "true")];
        let response = self.send(&format!("files/{id}"), &parameters, Some(&range))?;
        let expected = format!("bytes {start}-{last}/{size}");
        // A server that ignores the range sends the whole file, which is correct only if the range is the whole file.
        let is_right = match response.status {
            206 => response.content_range.as_deref() == Some(expected.as_str()),
            _ => start == 0 && last.saturating_add(1) == size,
        };
        if !is_right {
            return Err(RangeError::Refused(changed()));
        }
        let len = usize::try_from(last.saturating_sub(start).saturating_add(1)).unwrap_or(usize::MAX);
        match read_to_limit(response.body, len) {
            Ok(bytes) if bytes.len() == len => Ok(bytes),
            Ok(_) | Err(Stopped::TooLarge) => Err(RangeError::Refused(changed())),
            Err(Stopped::Broken(bytes, failure)) => Err(RangeError::Broken(bytes, failure)),
        }
    }
}

enum RangeError {
    Refused(Error),
    /// The transfer was interrupted after these bytes.
    Broken(Vec<u8>, Failure),
}

impl From<Error> for RangeError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Returns the error for content that does not match the metadata.
fn changed() -> Error {
    Failure::unavailable("the content of the file has not the size that Drive says; it may have just changed").into()
}
