//! Notifications of a channel: `LISTEN` on a connection of its own.
//!
//! The connection is made when a client watches something, beside those of `connections`, and closed when none does. One that is lost
//! is made anew with exponential backoff. What was notified meanwhile is not known, so each new connection counts as a notification.
//! A server that is gone without a word is found by a query every [`HEARTBEAT`].
//!
//! Notifications are only counted: their texts are dropped, and however many there are, one that was not yet acted upon stands for
//! all.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::Pool;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::connector::Connector;
use super::failure::with_cause;
use super::session::Session;
use crate::backoff::Backoff;
use crate::config::grants::ChannelName;
use crate::sandbox::sql::error::QueryError;

/// The time between two queries that find out whether the server still answers.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// The maximum time for the server to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum backoff after a failure.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Listens to the channel of one grant.
pub(in crate::sandbox::sql) struct Listener {
    pool: Pool<Connector>,
    /// `LISTEN "channel"`.
    statement: String,
}

impl Listener {
    /// Listens to that channel of the server to which the pool connects.
    pub(super) fn new(pool: Pool<Connector>, channel: &ChannelName) -> Self {
        let statement = format!("LISTEN \"{}\"", channel.as_str().replace('"', "\"\""));
        Self { pool, statement }
    }

    /// Counts notifications until it is dropped. Failures are passed to `on_failure`.
    pub(in crate::sandbox::sql) async fn run(self, received: Arc<Notify>, on_failure: impl Fn(QueryError)) {
        let mut backoff = Backoff::up_to(MAX_BACKOFF);
        loop {
            match self.listen(&received).await {
                Ok(mut session) => {
                    backoff = Backoff::up_to(MAX_BACKOFF);
                    received.notify_one();
                    on_failure(until_lost(&mut session).await);
                    session.close();
                }
                Err(error) => on_failure(error),
            }
            sleep(backoff.next_delay()).await;
        }
    }

    async fn listen(&self, received: &Arc<Notify>) -> Result<Session, QueryError> {
        let session = self.pool.manager().connect_to_listen(received).await?;
        execute(&session, &self.statement).await?;
        Ok(session)
    }
}

/// Waits until the connection is lost, and returns the reason.
async fn until_lost(session: &mut Session) -> QueryError {
    loop {
        let _ = timeout(HEARTBEAT, session.closed()).await;
        if let Err(error) = execute(session, "SELECT 1").await {
            return error;
        }
    }
}

async fn execute(session: &Session, statement: &str) -> Result<(), QueryError> {
    match timeout(ANSWER_TIMEOUT, session.client.batch_execute(statement)).await {
        Ok(Ok(())) => {
            session.meter.settle();
            Ok(())
        }
        Ok(Err(error)) => Err(QueryError::Unreachable(with_cause(&error))),
        Err(_) => Err(QueryError::Unreachable("the server does not answer".to_owned())),
    }
}
