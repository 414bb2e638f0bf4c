//! Registry of the sessions that transports serve, for administrators.
//!
//! A transport [opens](Host::open_session) a session, and holds the guard while it serves the session. The transport
//! limits the number of sessions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::Host;
use crate::audit::SessionHash;

/// The data that a transport provides about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// The name of the principal that opened it.
    pub principal: String,
    /// The hash of its id; none for a session over stdio, which has no id.
    pub hash: Option<SessionHash>,
    /// The revision of the protocol.
    pub revision: &'static str,
    /// When it was opened.
    pub opened: SystemTime,
}

/// The sessions of all transports, in the order in which they were opened.
#[derive(Debug, Default)]
pub(super) struct SessionRegistry(Mutex<Sessions>);

#[derive(Debug, Default)]
struct Sessions {
    last: u64,
    by_number: BTreeMap<u64, SessionInfo>,
}

/// A session that is registered until this guard is dropped.
#[derive(Debug)]
pub struct OpenSession {
    registry: Arc<SessionRegistry>,
    number: u64,
}

impl Host {
    /// Registers a session of a transport.
    pub fn open_session(&self, session: SessionInfo) -> OpenSession {
        let mut sessions = self.sessions.0.lock();
        sessions.last = sessions.last.saturating_add(1);
        let number = sessions.last;
        sessions.by_number.insert(number, session);
        OpenSession { registry: self.sessions.clone(), number }
    }

    /// Returns the sessions of all transports with their numbers, in the order in which they were opened: the first
    /// `limit` with a number greater than `after`.
    pub fn sessions(&self, after: u64, limit: usize) -> Vec<(u64, SessionInfo)> {
        let sessions = self.sessions.0.lock();
        let later = sessions.by_number.range((Bound::Excluded(after), Bound::Unbounded));
        later.take(limit).map(|(number, session)| (*number, session.clone())).collect()
    }

    /// Returns the number of sessions of all transports.
    pub fn session_count(&self) -> usize {
        self.sessions.0.lock().by_number.len()
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.registry.0.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::Config;

    #[tokio::test]
    async fn sessions_are_listed_by_pages_until_they_end() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::builder(Config::new()).cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
        let host = host.start().await.unwrap();
        let session = |principal: &str| SessionInfo {
            principal: principal.to_owned(),
            hash: Some(SessionHash::new(principal)),
            revision: "2025-11-25",
            opened: SystemTime::now(),
        };
        let open: Vec<_> = ["a", "b", "c"].into_iter().map(|principal| host.open_session(session(principal))).collect();
        let page = |after, limit| -> Vec<_> {
            host.sessions(after, limit).into_iter().map(|(number, session)| (number, session.principal)).collect()
        };
        assert_eq!(page(0, 2), [(1, "a".to_owned()), (2, "b".to_owned())]);
        assert_eq!(page(2, 2), [(3, "c".to_owned())]);
        drop(open);
        assert_eq!((page(0, 2), host.session_count()), (vec![], 0));
    }
}
