//! Errors of reading a repository.
//!
//! All layers below the provider return [`Error`]; the provider converts it to a [`Failure`]. The variant decides who
//! receives the text: client errors go to the client, errors that an administrator can fix go to the client and the
//! log, and damage in the repository goes to the log only.

use gix_hash::ObjectId;
use mcp_provider::Failure;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// The result type of the layers below the provider.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why reading from a repository failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The revision, or the path in it, does not exist.
    #[error("not found")]
    NotFound,
    /// The request is malformed, regardless of the repository's content.
    #[error("{0}")]
    Invalid(String),
    /// An abbreviated id that matches several objects.
    #[error("{}", ambiguous(.prefix, .candidates, *.has_more))]
    Ambiguous {
        /// The abbreviated id.
        prefix: String,
        /// Some of the matching objects.
        candidates: Vec<String>,
        /// Whether there are more matches.
        has_more: bool,
    },
    /// An object that exceeds the memory limit for objects.
    #[error("{what} has {size} bytes, expected at most {limit}; {help}")]
    TooLarge {
        /// The object, and its purpose.
        what: String,
        /// The object's size in bytes.
        size: u64,
        /// The size limit in bytes.
        limit: u64,
        /// How to raise the limit.
        help: &'static str,
    },
    /// A referenced object does not exist.
    #[error("object {0} is missing: the repository is a partial clone, or damaged (run `git fsck`)")]
    Missing(ObjectId),
    /// The repository uses an unsupported feature.
    #[error("{0}")]
    Unsupported(String),
    /// The configured directory contains no repository.
    #[error("no git repository at {}: {reason}", .dir.display())]
    NoRepository {
        /// The configured directory.
        dir: PathBuf,
        /// The reason, such as a missing file.
        reason: String,
    },
    /// The repository's data are damaged.
    #[error("{location} is damaged: {fault}")]
    Corrupt {
        /// The file, object or offset.
        location: String,
        /// The damage.
        fault: String,
    },
    /// A file exists but cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file's path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Error {
    /// Creates an error for damaged data.
    pub(crate) fn corrupt(location: impl ToString, fault: impl ToString) -> Self {
        Self::Corrupt { location: location.to_string(), fault: fault.to_string() }
    }

    /// Converts an I/O error to damaged data or to an unreadable file, by its kind.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::InvalidData => Self::corrupt(path.display(), source),
            io::ErrorKind::UnexpectedEof => Self::corrupt(path.display(), "unexpected end of file"),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }
}

fn ambiguous(prefix: &str, candidates: &[String], more: bool) -> String {
    let mut text = format!("the short id {prefix} is ambiguous; use more digits. It matches:");
    for candidate in candidates {
        // Writing to a string does not fail.
        let _ = write!(text, " {candidate}");
    }
    if more {
        text.push_str(" and more");
    }
    text
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => Self::NotFound,
            Error::Invalid(_) | Error::Ambiguous { .. } => Self::invalid(error.to_string()),
            Error::TooLarge { .. } | Error::Missing(_) | Error::Unsupported(_) | Error::NoRepository { .. } => {
                Self::unavailable(error.to_string())
            }
            Error::Corrupt { .. } | Error::Io { .. } => Self::internal(error.to_string()),
        }
    }
}

/// A client error found while parsing the request.
impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::InvalidRequest(expected) => Self::Invalid(expected),
            other => Self::Invalid(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ambiguous_id_is_the_clients_to_mend_and_names_the_candidates() {
        let candidates = vec!["abcd1".to_owned(), "abcd2".to_owned()];
        let error = Error::Ambiguous { prefix: "abcd".to_owned(), candidates, has_more: true };
        let Failure::InvalidRequest(text) = Failure::from(error) else { panic!("expected an invalid request") };
        assert_eq!(text, "the short id abcd is ambiguous; use more digits. It matches: abcd1 abcd2 and more");
    }

    #[test]
    fn damage_goes_to_the_log_and_says_where_and_what() {
        let failure = Failure::from(Error::corrupt("a.pack at byte 12", "the checksum does not fit"));
        assert_eq!(failure, Failure::internal("a.pack at byte 12 is damaged: the checksum does not fit"));
    }

    #[test]
    fn a_file_that_ends_too_early_is_damaged_and_not_merely_unreadable() {
        let error = Error::io(Path::new("x.idx"), io::ErrorKind::UnexpectedEof.into());
        assert!(matches!(error, Error::Corrupt { .. }));
    }
}
