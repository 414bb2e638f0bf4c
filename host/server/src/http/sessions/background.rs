//! Background tasks of [shared sessions](super::replicated): records are written when they are due, and the notices of
//! other replicas are followed.
//!
//! Records are due when a change waits to be written, and each third of the idle timeout while the session is in use: a
//! write renews the time to live of a record. A notice marks the copy of a session as doubtful. The record of a
//! doubtful copy is read at its next request, or at once if its event stream is here, or if it was opened here.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_resource_host::host::{SessionChange, SessionKey};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::Sessions;
use super::replicated::shared;
use super::shared::{ShareError, SharedCopy};
use super::stored::StoredSession;

/// The minimum interval between two reads of one record because of notices.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// The minimum interval between two reads of all records because notices may have been missed.
const SWEEP_PAUSE: Duration = Duration::from_secs(10);
/// The number of records that one task reads or writes concurrently.
const CONCURRENCY: usize = 16;
impl Sessions {
    /// Writes records that are due, retries deletions, rereads doubtful records of sessions with an event stream, and
    /// removes the charge of subscriptions that were made here meanwhile.
    pub(super) fn write_due(self: &Arc<Self>) {
        let Some(replication) = self.replication.as_ref().filter(|_| self.host.hears_cluster()) else { return };
        let interval = self.interval();
        let is_due = |session: &&Arc<StoredSession>| {
            shared(session).is_some_and(|shared| {
                (shared.is_due(session.used(), interval) || shared.is_doubtful() && session.has_stream().0)
                    && shared.begin_task()
            })
        };
        let is_charged = |session: &&Arc<StoredSession>| session.elsewhere.lock().is_some();
        let (due, charged): (Vec<_>, Vec<_>) = {
            let all = self.lock();
            (all.values().filter(is_due).cloned().collect(), all.values().filter(is_charged).cloned().collect())
        };
        let deletions = replication.deletions.due();
        if due.is_empty() && charged.is_empty() && deletions.is_empty() {
            return;
        }
        let sessions = self.clone();
        task::spawn(async move {
            let writing = stream::iter(due).for_each_concurrent(CONCURRENCY, async |session| {
                sessions.write(&session).await;
                if let Some(shared) = shared(&session) {
                    shared.end_task();
                }
            });
            writing.await;
            for session in charged {
                if let Some(shared) = shared(&session) {
                    // The charge only decreases: an increase was charged when the record was read.
                    let _ = sessions.charge(&session, shared);
                }
            }
            let deleting = stream::iter(deletions).for_each_concurrent(CONCURRENCY, async |(key, client)| {
                sessions.try_deletion(&client, key.clone()).await;
                if let Some(replication) = &sessions.replication {
                    replication.deletions.tried(&key);
                }
            });
            deleting.await;
        });
    }

    async fn write(self: &Arc<Self>, session: &Arc<StoredSession>) {
        let Some(shared) = shared(session) else { return };
        let _ = self.refresh(session).await;
        if !shared.is_due(session.used(), self.interval()) {
            return;
        }
        let has_changes = shared.has_changes();
        match shared.keep(self.lifetime()).await {
            Ok(()) if has_changes => self.host.session_changed(shared.key().clone()),
            Err(ShareError::Ended) => self.forget(session),
            // Two replicas that could not reach each other have together made too many changes.
            Err(ShareError::TooLarge) if has_changes => {
                tracing::warn!(
                    target: log_target::SERVER, session = &*session.id,
                    "session ended: its subscriptions at all replicas together are more than a session may have"
                );
                self.end_over_limit(session);
            }
            // The write is retried.
            _ => {}
        }
    }

    /// Follows the notices of other replicas about records, from now on.
    pub(super) fn follow(self: &Arc<Self>) {
        let Some(replication) = &self.replication else { return };
        replication.follower.get_or_init(|| {
            let changes = replication.store().changes();
            AbortOnDropHandle::new(task::spawn(follow(Arc::downgrade(self), changes)))
        });
    }

    /// Handles the notice that another replica has written this record.
    fn heard(self: &Arc<Self>, key: &SessionKey) {
        let session = self.replication.as_ref().and_then(|replication| replication.get(key));
        let Some((session, copy)) = session.as_ref().and_then(|session| Some((session, shared(session)?))) else {
            return;
        };
        copy.doubt();
        // The replica that opened the session charges its subscriptions at other replicas.
        if (session.has_stream().0 || copy.is_home) && copy.begin_task() {
            let (sessions, session) = (self.clone(), session.clone());
            task::spawn(async move {
                let Some(copy) = shared(&session) else { return };
                while sessions.refresh(&session).await.is_ok() {
                    sleep(MIN_PAUSE).await;
                    if !copy.is_doubtful() {
                        break;
                    }
                }
                copy.end_task();
            });
        }
    }

    /// Marks all records as doubtful, because any may have been written.
    fn doubt_all(&self) {
        self.lock().values().filter_map(|session| shared(session)).for_each(SharedCopy::doubt);
    }

    /// Reads the records of all sessions with an event stream.
    async fn refresh_all(self: Arc<Self>) {
        let with_stream = |session: &&Arc<StoredSession>| session.has_stream().0;
        let all: Vec<_> = self.lock().values().filter(with_stream).cloned().collect();
        let refreshing = stream::iter(all).for_each_concurrent(CONCURRENCY, async |session| {
            let Some(copy) = shared(&session).filter(|copy| copy.begin_task()) else { return };
            let _ = self.refresh(&session).await;
            copy.end_task();
        });
        refreshing.await;
    }
}

async fn follow(all: Weak<Sessions>, mut changes: Receiver<SessionChange>) {
    let (mut swept, mut sweep_at) = (None::<Instant>, None);
    loop {
        let sweep = async {
            match sweep_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            change = changes.recv() => {
                let Some(sessions) = all.upgrade() else { return };
                match change {
                    Ok(SessionChange::One(key)) => sessions.heard(&key),
                    Ok(SessionChange::Any) | Err(RecvError::Lagged(_)) => {
                        sessions.doubt_all();
                        let earliest = swept.and_then(|swept| swept.checked_add(SWEEP_PAUSE));
                        sweep_at.get_or_insert_with(|| earliest.unwrap_or_else(Instant::now));
                    }
                    Err(RecvError::Closed) => return,
                }
            }
            () = sweep => {
                let Some(sessions) = all.upgrade() else { return };
                (swept, sweep_at) = (Some(Instant::now()), None);
                task::spawn(sessions.refresh_all());
            }
        }
    }
}
