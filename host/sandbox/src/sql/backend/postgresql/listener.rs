//! Notifications of a channel: `LISTEN` on a separate connection.
//!
//! The connection is opened when the first client watches a resource, and closed with the last one. It does not count
//! towards `connections`. A lost connection is reopened with exponential back-off. Notifications may be lost meanwhile,
//! so each new connection counts as a notification. A query every [`HEARTBEAT`] detects a server that disappeared
//! without closing the connection.
//!
//! Notifications are only counted: their texts are dropped, and all pending ones are merged into one. They are read as
//! fast as they arrive, because a listener that does not read fills the queue that all databases of the server share,
//! until `NOTIFY` fails. So a rate limit bounds the work: a connection with more than [`MAX_NOTIFICATIONS_PER_SECOND`]
//! is closed, and reopened with the same back-off.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::Pool;
use mcp_host_base::backoff::Backoff;
use mcp_host_base::text::with_causes;
use mcp_host_config::grants::ChannelName;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::connector::{Connector, MAX_NOTIFICATIONS_PER_SECOND, Notifications};
use super::session::Session;
use crate::sql::error::QueryError;

/// The interval of queries that check whether the server still answers.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// The maximum time for the server to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum backoff after a failure.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Listens to the channel of one grant.
pub(in crate::sql) struct Listener {
    pool: Pool<Connector>,
    /// `LISTEN "channel"`.
    statement: String,
}

impl Listener {
    /// Creates a listener to this channel of the pool's server.
    pub(super) fn new(pool: Pool<Connector>, channel: &ChannelName) -> Self {
        let statement = format!("LISTEN \"{}\"", channel.as_str().replace('"', "\"\""));
        Self { pool, statement }
    }

    /// Counts notifications until the future is dropped. Failures are passed to `on_failure`.
    pub(in crate::sql) async fn run(self, received: Arc<Notify>, on_failure: impl Fn(QueryError)) {
        let mut backoff = Backoff::up_to(MAX_BACKOFF);
        loop {
            let notifications = Arc::new(Notifications::new(received.clone()));
            match self.listen(&notifications).await {
                Ok(mut session) => {
                    received.notify_one();
                    let began = Instant::now();
                    let error = until_lost(&mut session).await;
                    session.close();
                    // The back-off keeps growing while every new connection is flooded.
                    if !notifications.is_flooded() || began.elapsed() > MAX_BACKOFF {
                        backoff = Backoff::up_to(MAX_BACKOFF);
                    }
                    on_failure(if notifications.is_flooded() { flood() } else { error });
                }
                Err(error) => on_failure(error),
            }
            sleep(backoff.next_delay()).await;
        }
    }

    async fn listen(&self, notifications: &Arc<Notifications>) -> Result<Session, QueryError> {
        let session = self.pool.manager().connect_to_listen(notifications).await?;
        execute(&session, &self.statement).await?;
        Ok(session)
    }
}

/// The error for a connection that was closed because of too many notifications.
fn flood() -> QueryError {
    QueryError::Failed(format!(
        "more than {MAX_NOTIFICATIONS_PER_SECOND} notifications a second arrive on the channel of `listen`; notify less often, \
         or leave `listen` out and set `watch-interval`"
    ))
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
        Ok(Err(error)) => Err(QueryError::Unreachable(with_causes(&error))),
        Err(_) => Err(QueryError::Unreachable("the server does not answer".to_owned())),
    }
}
