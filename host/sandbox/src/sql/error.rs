//! Query errors: without data and addresses for the guest and its clients, and with all details for the admin.
//!
//! Each kind of error is logged once a minute, with the number of occurrences ([`QueryError::log`]). Errors that the
//! guest causes go through the guest's own log. Errors that only an admin can repair (a server that is down, a role
//! that can write) are logged as the host's, with the reason: a guest that has exhausted its log allowance does not
//! hide them.

use mcp_host_base::log_target;
use mcp_host_base::text::prefix;

use crate::guest_log::ThrottledWarnings;

/// The maximum length of a reason in the log, in bytes. A server can send a longer one.
const MAX_REASON: usize = 1024;

/// The reason why a query has no result. Its text is returned to the guest, which may pass it on to a client.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, thiserror::Error)]
#[allow(unreachable_pub, reason = "the generated code re-exports it")]
pub enum QueryError {
    /// No database with this name is granted.
    #[error("the database `{0}` is not granted")]
    NotGranted(String),
    /// The database refused the statement.
    #[error("{sqlstate}: {message}")]
    Rejected {
        /// The SQLSTATE.
        sqlstate: String,
        /// The meaning of the SQLSTATE, without stored data.
        message: String,
        /// The position in the statement, in characters from 1.
        position: Option<u32>,
    },
    /// The result is larger than the grant allows.
    #[error("the result has more than {}, the `max-bytes` of the grant", bytesize::ByteSize(*.0))]
    TooLarge(u64),
    /// `limits.memory` is exhausted.
    #[error("out of memory: the query and its result exceed `limits.memory`")]
    OutOfMemory,
    /// The query took longer than the grant allows.
    #[error("the query took longer than the `timeout` of the grant")]
    Timeout,
    /// The call has exhausted `limits.cpu`, and ends.
    #[error("the query used up the CPU time of the call (`limits.cpu`)")]
    OutOfCpu,
    /// All connections, or the client's share of them, were busy until the timeout.
    #[error("all {0} connections to the database, or the share of one client, are in use; try again")]
    Busy(usize),
    // The last three are logged with their reasons. Most providers return them as failures, which are logged, too, so
    // the texts do not refer to the log.
    /// The host refuses to connect with the role of the grant. The text is the reason, for the admin.
    #[error("the host refuses to use the database")]
    Refused(String),
    /// The database cannot be reached. The text is the reason, for the admin.
    #[error("the database cannot be reached")]
    Unreachable(String),
    /// The query failed in the host. The text is the reason, for the admin.
    #[error("the query failed in the host")]
    Failed(String),
}

impl QueryError {
    /// Creates the error for a statement that the database refused.
    pub(super) fn rejected(sqlstate: &str, message: impl Into<String>) -> Self {
        Self::Rejected { sqlstate: sqlstate.to_owned(), message: message.into(), position: None }
    }

    /// Logs the error of a query to this database, unless it is throttled.
    pub(super) fn log(&self, database: &str, warnings: &ThrottledWarnings) {
        let reason = match self {
            Self::NotGranted(_) => "not granted",
            Self::Rejected { .. } => "rejected",
            Self::TooLarge(_) | Self::OutOfMemory | Self::Timeout | Self::OutOfCpu => "bound",
            Self::Busy(_) => "busy",
            Self::Refused(reason) | Self::Unreachable(reason) | Self::Failed(reason) => {
                if let Some(count) = warnings.record("database") {
                    let (plugin, reason) = (warnings.plugin(), prefix(reason, MAX_REASON));
                    tracing::error!(target: log_target::PLUGIN, plugin, database, reason, count, "a database of a plugin cannot be used");
                }
                return;
            }
        };
        warnings.warn(reason, format_args!("a query of the database `{database}` failed: {self}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_is_told_has_no_word_of_the_address_nor_of_the_log_that_it_ends_in() {
        for error in [
            QueryError::Refused("secret".into()),
            QueryError::Unreachable("secret".into()),
            QueryError::Failed("secret".into()),
        ] {
            let text = error.to_string();
            assert!(!text.contains("secret") && !text.contains("log"), "{text}");
        }
    }

    #[test]
    fn the_bound_is_told_as_it_is_written() {
        let text = "the result has more than 4.0 MiB, the `max-bytes` of the grant";
        assert_eq!(QueryError::TooLarge(4 << 20).to_string(), text);
    }
}
