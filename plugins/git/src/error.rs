//! Why a repository does not give what was asked of it.
//!
//! Everything below the provider speaks [`Error`]; at the provider's edge it becomes a [`Failure`]. Which one decides
//! who gets to read the text: what the client did is told to the client, what an administrator can help is told to
//! both, and what is broken in the repository goes to the log only.

use gix_hash::ObjectId;
use mcp_provider::Failure;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// What the layers below the provider return.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a repository does not give what was asked of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No such revision, or no such path in it.
    #[error("not found")]
    NotFound,
    /// The request makes no sense, whatever the repository holds.
    #[error("{0}")]
    Invalid(String),
    /// A short id that begins more than one object's.
    #[error("{}", ambiguous(.prefix, .candidates, *.has_more))]
    Ambiguous {
        /// The short id.
        prefix: String,
        /// Some of the objects that it stands for.
        candidates: Vec<String>,
        /// Whether it stands for others, too.
        has_more: bool,
    },
    /// An object of more bytes than may be held in memory.
    #[error("{what} has {size} bytes, and at most {limit} are read; {help}")]
    TooLarge {
        /// Which object, and what it was needed for.
        what: String,
        /// Its size.
        size: u64,
        /// The size that is still read.
        limit: u64,
        /// What helps.
        help: &'static str,
    },
    /// An object that others name is not there.
    #[error("object {0} is missing: the repository is a partial clone, or damaged (`git fsck` tells)")]
    Missing(ObjectId),
    /// The repository uses something that is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// There is no repository where one should be.
    #[error("no git repository at {}: {reason}", .dir.display())]
    NoRepository {
        /// Where it should be.
        dir: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// The repository's own data are broken.
    #[error("{location} is damaged: {fault}")]
    Corrupt {
        /// The file, the object or the place in it.
        location: String,
        /// What is wrong there.
        fault: String,
    },
    /// A file is there and cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Error {
    /// Broken data at a place.
    pub(crate) fn corrupt(location: impl ToString, fault: impl ToString) -> Self {
        Self::Corrupt { location: location.to_string(), fault: fault.to_string() }
    }

    /// An error of reading a file: broken data where that is what it says, else the system's refusal.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::InvalidData => Self::corrupt(path.display(), source),
            io::ErrorKind::UnexpectedEof => Self::corrupt(path.display(), "it ends too early"),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }
}

fn ambiguous(prefix: &str, candidates: &[String], more: bool) -> String {
    let mut text = format!("the short id {prefix} stands for several objects; use more of its digits:");
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

/// What the client asked for, in a form that was refused when it was taken apart.
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
        assert_eq!(text, "the short id abcd stands for several objects; use more of its digits: abcd1 abcd2 and more");
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
