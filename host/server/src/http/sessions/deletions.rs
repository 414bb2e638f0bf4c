//! Deletions of the records of shared sessions that have ended at the replica that opened them.
//!
//! A deletion is retried until it succeeds or the record has expired. Its permit is acquired before the session ends,
//! so the number of a client's sessions whose records are not deleted yet is at most [`PER_SESSION`] times its share of
//! sessions. At this limit, none of the client's sessions with a record is evicted for another one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::share_limiter::{LimitReached, ShareLimiter, ShareLimits, SharePermit};
use mcp_host_base::task;
use mcp_resource_host::host::SessionKey;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::shared::SharedCopy;
use super::stored::StoredSession;
use super::{Missing, Sessions};
use crate::client_id::ClientId;

/// The number of deletions that may wait for each session that there may be. When NATS fails, all sessions may have a
/// record, and so may the first ones that are opened then, whose writes may have arrived. Later ones have none, and
/// make room without a deletion.
const PER_SESSION: usize = 2;

/// The deletions that have not succeeded yet.
#[derive(Default)]
pub(super) struct Deletions {
    by_key: Mutex<BTreeMap<SessionKey, Deletion>>,
    /// The number of deletions of each client.
    limiter: ShareLimiter<ClientId>,
}

struct Deletion {
    /// The client that the request is made for.
    client: Arc<str>,
    /// The time at which the record has expired.
    until: Instant,
    /// Whether an attempt is in progress.
    is_tried: bool,
    /// Counts the deletion for the client that opened the session.
    _permit: SharePermit<ClientId>,
}

impl Deletions {
    /// Acquires the permit for the deletion of a record of this client.
    fn permit(&self, client: &ClientId, max: ShareLimits) -> Result<SharePermit<ClientId>, LimitReached> {
        self.limiter.acquire(client, max)
    }

    fn add(&self, key: SessionKey, client: Arc<str>, lifetime: Duration, permit: SharePermit<ClientId>) {
        let now = Instant::now();
        let until = now.checked_add(lifetime).unwrap_or(now);
        self.by_key.lock().insert(key, Deletion { client, until, is_tried: false, _permit: permit });
    }

    fn remove(&self, key: &SessionKey) {
        self.by_key.lock().remove(key);
    }

    /// Returns whether the record of this session is being deleted.
    pub(super) fn contains(&self, key: &SessionKey) -> bool {
        self.by_key.lock().contains_key(key)
    }

    /// Returns the records that have not expired and are not being deleted now, each with the client that the deletion
    /// is made for. Each attempt must be followed by [`tried`](Self::tried).
    pub(super) fn due(&self) -> Vec<(SessionKey, Arc<str>)> {
        let mut by_key = self.by_key.lock();
        by_key.retain(|_, deletion| deletion.until > Instant::now());
        let due = by_key.iter_mut().filter(|(_, deletion)| !deletion.is_tried);
        let due = due.map(|(key, deletion)| {
            deletion.is_tried = true;
            (key.clone(), deletion.client.clone())
        });
        due.collect()
    }

    /// An attempt has ended: if the record was not deleted, it is due again.
    pub(super) fn tried(&self, key: &SessionKey) {
        if let Some(deletion) = self.by_key.lock().get_mut(key) {
            deletion.is_tried = false;
        }
    }
}

impl Sessions {
    /// Deletes the record of a session. If that fails for a session that was opened here, it is retried later.
    pub(super) async fn delete(&self, session: &StoredSession) -> Result<(), Missing> {
        let Some(shared) = session.shared.as_ref().filter(|shared| shared.may_be_stored()) else { return Ok(()) };
        if shared.delete().await.is_ok() {
            self.host.session_changed(shared.key().clone());
            return Ok(());
        }
        match self.permit_deletion(session) {
            Ok(Some(permit)) => {
                self.queue_deletion(shared, permit);
                Ok(())
            }
            Ok(None) | Err(_) => Err(Missing::Unreadable),
        }
    }

    /// Acquires the permit to delete the record of a session, within the share of its client. None if there is no
    /// record, or if the session was opened at another replica.
    pub(super) fn permit_deletion(
        &self,
        session: &StoredSession,
    ) -> Result<Option<SharePermit<ClientId>>, LimitReached> {
        let is_deleted = session.shared.as_ref().is_some_and(|shared| shared.is_home && shared.may_be_stored());
        let Some(replication) = self.replication.as_ref().filter(|_| is_deleted) else { return Ok(None) };
        let config = self.host.config();
        let limits = &config.http.limits;
        let max = session.client.share_limits(limits.sessions.get().saturating_mul(PER_SESSION), limits);
        replication.deletions.permit(&session.client, max).map(Some)
    }

    fn queue_deletion(&self, shared: &SharedCopy, permit: SharePermit<ClientId>) {
        if let Some(replication) = &self.replication {
            replication.deletions.add(shared.key().clone(), shared.client().clone(), self.lifetime(), permit);
        }
    }

    /// Deletes the record of a session that has ended here, with its permit. Without a permit the deletion is not
    /// retried.
    pub(super) fn delete_in_background(
        self: &Arc<Self>,
        session: &Arc<StoredSession>,
        permit: Option<SharePermit<ClientId>>,
    ) {
        let Some(shared) = session.shared.as_ref().filter(|shared| shared.may_be_stored()) else { return };
        if let Some(permit) = permit {
            self.queue_deletion(shared, permit);
        }
        let (sessions, client, key) = (self.clone(), shared.client().clone(), shared.key().clone());
        task::spawn(async move { sessions.try_deletion(&client, key).await });
    }

    /// Tries to delete a record.
    pub(super) async fn try_deletion(&self, client: &Arc<str>, key: SessionKey) {
        let Some(replication) = &self.replication else { return };
        if replication.store().delete(client, &key).await.is_ok() {
            replication.deletions.remove(&key);
            self.host.session_changed(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn deletions_of_a_client_wait_within_its_share_until_they_are_made_or_the_record_has_expired() {
        let deletions = Deletions::default();
        let [ada, bob] = ["192.0.2.1", "192.0.2.2"].map(|address| ClientId::from_address(address.parse().unwrap()));
        let max = ShareLimits { client: 2, overall: 3 };
        let keys = ["a", "b", "c"].map(SessionKey::of);
        let lifetimes = [Duration::from_mins(1), Duration::ZERO];
        for (key, lifetime) in keys.iter().zip(lifetimes) {
            let permit = deletions.permit(&ada, max).unwrap();
            deletions.add(key.clone(), "ada".into(), lifetime, permit);
        }
        assert_eq!(deletions.permit(&ada, max).err(), Some(LimitReached::ClientShare));
        deletions.add(keys[2].clone(), "bob".into(), Duration::from_mins(1), deletions.permit(&bob, max).unwrap());
        assert!(keys.iter().all(|key| deletions.contains(key)));
        let due: Vec<_> = deletions.due().into_iter().map(|(key, _)| key).collect();
        assert_eq!(due.len(), 2);
        assert!(due.contains(&keys[0]) && due.contains(&keys[2]) && !deletions.contains(&keys[1]), "it has expired");
        deletions.remove(&keys[0]);
        assert!(!deletions.contains(&keys[0]));
        let _both = [deletions.permit(&ada, max).unwrap(), deletions.permit(&ada, max).unwrap()];
    }
}
