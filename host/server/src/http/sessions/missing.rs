//! The reasons why a session is not at this replica, and the answers to the client.

use std::time::Duration;

use axum::http::HeaderMap;
use mcp_resource_host::host::{ClusterView, Opener};

use super::{REPLICA_DIGITS, SESSION_ID_BYTES};
use crate::SESSION_ID_HEADER;
use crate::jsonrpc::{Rejection, RejectionStatus, RequestId};

/// The time without a heartbeat after which a replica may be cut off: two of their intervals.
const MAX_SILENCE: Duration = Duration::from_secs(2);

/// The reason why a principal has no session with an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Missing {
    /// No such session exists, or it belongs to another principal.
    Unknown,
    /// The session is, or may be, at the replica that opened it, and sessions are not shared.
    Elsewhere,
    /// Sessions are shared, but the record cannot be read now, or the replica that opened the session may not have
    /// written it yet.
    Unreadable,
    /// The limit of sessions is reached at this replica.
    Full,
}

impl Missing {
    /// Rejects a message with this request id.
    pub(in crate::http) fn rejection(self, id: Option<RequestId>) -> Rejection {
        let (reason, status) = match self {
            Self::Unknown => (
                "there is no such session, or it has ended: open a new one with `initialize`, without `Mcp-Session-Id`, and \
                 subscribe again",
                RejectionStatus::NotFound,
            ),
            Self::Elsewhere => (
                "the session is one of another replica: send the request again; the balancer has to send requests of a session \
                 where it began, by `Mcp-Session-Id`",
                RejectionStatus::Unavailable,
            ),
            Self::Unreadable => (
                "the session is not known at this replica, and not all others can be reached now: send the request again",
                RejectionStatus::Unavailable,
            ),
            Self::Full => {
                ("all sessions that there may be are in use: send the request again", RejectionStatus::Unavailable)
            }
        };
        Rejection::invalid_request(id, reason).with_status(status)
    }
}

/// The session that the headers of a request name.
pub(in crate::http) fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID_HEADER).and_then(|id| id.to_str().ok())
}

/// Returns why a session is missing when sessions are sticky. The session may exist at another replica that is alive,
/// or at any replica while it is unknown which are alive.
pub(super) fn of_sticky(session: &str, cluster: Option<&ClusterView>) -> Missing {
    let is_elsewhere = cluster.is_some_and(|cluster| is_elsewhere(session, cluster));
    if is_elsewhere { Missing::Elsewhere } else { Missing::Unknown }
}

fn is_elsewhere(session: &str, cluster: &ClusterView) -> bool {
    let Some((_, replica)) = session.split_once('-') else { return false };
    let is_named = |id: String| replica.len() == REPLICA_DIGITS && id.starts_with(replica);
    let named = cluster.replicas.iter().find(|known| is_named(known.replica.to_string()));
    match named {
        Some(known) if known.is_me => false,
        Some(known) => known.is_alive || !cluster.hears,
        None => !cluster.hears && replica.len() == REPLICA_DIGITS,
    }
}

/// Returns the result of a request for a session without a record, given the session's [`Opener`] and the time since
/// the request arrived (`asked`): `None` if it is not known yet, `Ok` if the opener has by now written the records of
/// all sessions that it had opened before.
pub(super) fn without_record(opener: Opener, hears: bool, asked: Duration) -> Option<Result<(), Missing>> {
    match opener {
        // The opener itself would have the session.
        Opener::Me => Some(Err(Missing::Unknown)),
        _ if !hears => Some(Err(Missing::Unreadable)),
        Opener::Gone => Some(Err(Missing::Unknown)),
        Opener::Known { silent, has_unwritten } if silent < asked => {
            Some(if has_unwritten { Err(Missing::Unreadable) } else { Ok(()) })
        }
        Opener::Known { silent, .. } if silent.max(asked) > MAX_SILENCE => Some(Err(Missing::Unreadable)),
        Opener::Known { .. } => None,
    }
}

/// Returns whether a text has the form of a session id, of any replica.
pub(super) fn is_id(text: &str) -> bool {
    let is_hexadecimal = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    text.split_once('-').is_some_and(|(random, replica)| {
        random.len() == SESSION_ID_BYTES.saturating_mul(2)
            && replica.len() == REPLICA_DIGITS
            && is_hexadecimal(random)
            && is_hexadecimal(replica)
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use mcp_resource_host::host::{About, ReplicaView, RosterStats};

    use super::*;
    use crate::http::response::rejection_response;

    /// A cluster with this replica, 0, with replica 1, which is alive, and with replica 2, which is missing.
    fn cluster(hears: bool) -> ClusterView {
        // A session id has the beginning of the replica's id.
        let replica = |number: u8, is_alive| ReplicaView {
            replica: format!("{}{}", part(number), "0".repeat(16)).parse().unwrap(),
            is_me: number == 0,
            silent: Duration::ZERO,
            is_alive,
            has_other_config: false,
            has_other_cursor_key: false,
            about: About::default(),
        };
        ClusterView {
            name: "test".to_owned(),
            hears,
            live: NonZeroU32::MIN,
            divisor: NonZeroU32::MIN,
            differing: 0,
            differing_cursor_keys: 0,
            replicas: vec![replica(0, true), replica(1, hears), replica(2, false)],
            stats: RosterStats::default(),
            invalid: 0,
            failed: 0,
        }
    }

    fn part(number: u8) -> String {
        format!("{number:0>16}")
    }

    #[test]
    fn a_session_of_a_replica_that_may_live_is_elsewhere_and_any_other_is_none() {
        let of = |replica: &str| format!("{}-{replica}", "a".repeat(32));
        for (replica, heard, unheard) in [
            (part(0), false, false),
            (part(1), true, true),
            (part(2), false, true),
            (part(3), false, true),
            (String::new(), false, false),
            ("1".to_owned(), false, false),
            (format!("{}0", part(1)), false, false),
        ] {
            assert_eq!(is_elsewhere(&of(&replica), &cluster(true)), heard, "{replica}");
            assert_eq!(is_elsewhere(&of(&replica), &cluster(false)), unheard, "{replica}");
        }
        assert!(!is_elsewhere("", &cluster(false)) && !is_elsewhere(&"a".repeat(32), &cluster(false)));
        assert_eq!(of_sticky(&of(&part(1)), None), Missing::Unknown);
    }

    #[test]
    fn a_session_without_a_record_is_unknown_only_if_the_replica_that_opened_it_says_so() {
        let ms = Duration::from_millis;
        let known = |silent, has_unwritten| Opener::Known { silent: ms(silent), has_unwritten };
        for (opener, hears, asked, answer) in [
            (Opener::Me, true, 0, Some(Err(Missing::Unknown))),
            (Opener::Me, false, 0, Some(Err(Missing::Unknown))),
            (Opener::Gone, true, 0, Some(Err(Missing::Unknown))),
            (Opener::Gone, false, 0, Some(Err(Missing::Unreadable))),
            // The last heartbeat was before the request, so the next one is awaited.
            (known(10, false), true, 0, None),
            (known(900, false), true, 900, None),
            (known(10, false), true, 500, Some(Ok(()))),
            (known(10, true), true, 500, Some(Err(Missing::Unreadable))),
            (known(10, false), false, 500, Some(Err(Missing::Unreadable))),
            // The replica may be cut off.
            (known(2001, false), true, 0, Some(Err(Missing::Unreadable))),
            (known(60_000, false), true, 1000, Some(Err(Missing::Unreadable))),
        ] {
            assert_eq!(without_record(opener, hears, ms(asked)), answer, "{opener:?} {hears} {asked}");
        }
    }

    #[test]
    fn what_may_be_found_by_another_attempt_is_503_and_what_is_none_is_404() {
        for missing in [Missing::Elsewhere, Missing::Unreadable, Missing::Full] {
            let response = rejection_response(missing.rejection(None));
            assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        }
        assert_eq!(rejection_response(Missing::Unknown.rejection(None)).status().as_u16(), 404);
    }

    #[test]
    fn what_no_replica_makes_is_no_id() {
        let (random, replica) = ("0123456789abcdef".repeat(2), "0123456789abcdef");
        assert!(is_id(&format!("{random}-{replica}")));
        for text in [
            random.clone(),
            format!("{random}-"),
            format!("{random}-{replica}0"),
            format!("{random}-{}", "G".repeat(16)),
        ] {
            assert!(!is_id(&text), "{text}");
        }
    }
}
