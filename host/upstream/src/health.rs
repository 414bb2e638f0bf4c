//! Whether an upstream can be reached: since when not, and why.
//!
//! Every answer says that it can, whatever is in it. A connection that cannot be opened again, the end of a program, and a check
//! ([`Connector::watch`](crate::connection::Connector::watch)) say that it cannot. The beginning of an outage is logged as a warning and its
//! end as information, once in [`LOG_PERIOD`] each, with the number of those in between. An upstream that never was connected to has no
//! outage: it is not loaded.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mcp_host_base::log_target;
use mcp_host_base::throttle::ThrottlePerReason;
use mcp_host_model::provider::Outage;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The time between two lines of the log of one kind.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// What is known of one connection.
#[derive(Debug)]
pub(crate) struct Health {
    name: Arc<str>,
    /// Whose token it has, for messages. None if it is the only one.
    holder: Option<String>,
    state: Mutex<State>,
    lost: Notify,
    log: ThrottlePerReason,
}

#[derive(Debug, Default)]
struct State {
    /// When it answered last; none if it never has.
    answered_at: Option<Instant>,
    outage: Option<Outage>,
    /// Whether the beginning of the outage was logged.
    is_logged: bool,
}

impl Health {
    pub(crate) fn new(name: Arc<str>, holder: Option<String>) -> Self {
        let log = ThrottlePerReason::new(LOG_PERIOD);
        Self { name, holder, state: Mutex::default(), lost: Notify::new(), log }
    }

    /// The server has answered.
    pub(crate) fn answered(&self) {
        let mut state = self.state.lock();
        state.answered_at = Some(Instant::now());
        let Some(Outage { since, .. }) = state.outage.take() else { return };
        let is_logged = std::mem::take(&mut state.is_logged);
        drop(state);
        if let Some(more) = self.log.record("back").filter(|_| is_logged) {
            let (plugin, holder) = (&*self.name, self.holder.as_deref());
            let seconds = since.elapsed().unwrap_or_default().as_secs();
            tracing::info!(target: log_target::PLUGIN, plugin, holder, seconds, more, "the upstream can be reached again");
        }
    }

    /// The server cannot be reached, for that reason.
    pub(crate) fn failed(&self, reason: &str) {
        let mut state = self.state.lock();
        if state.answered_at.is_none() {
            return;
        }
        if let Some(outage) = &mut state.outage {
            reason.clone_into(&mut outage.reason);
            return;
        }
        state.outage = Some(Outage { since: SystemTime::now(), reason: reason.to_owned() });
        if let Some(more) = self.log.record("lost") {
            state.is_logged = true;
            drop(state);
            let (plugin, holder) = (&*self.name, self.holder.as_deref());
            tracing::warn!(target: log_target::PLUGIN, plugin, holder, reason, more, "the upstream cannot be reached any more, and is tried again");
        }
    }

    /// The outage, if there is one.
    pub(crate) fn outage(&self) -> Option<Outage> {
        self.state.lock().outage.clone()
    }

    /// Whether it has ever answered.
    pub(crate) fn is_known(&self) -> bool {
        self.state.lock().answered_at.is_some()
    }

    /// Whether nothing says that it has been reachable for that time.
    pub(crate) fn is_doubtful(&self, time: Duration) -> bool {
        let state = self.state.lock();
        state.outage.is_some() || state.answered_at.is_none_or(|at| at.elapsed() >= time)
    }

    /// A connection was lost.
    pub(crate) fn connection_lost(&self) {
        self.lost.notify_one();
    }

    /// Waits until a connection is lost.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_from_the_first_failure_to_the_next_answer() {
        let health = Health::new("up".into(), None);
        health.failed("it never was there");
        assert_eq!((health.outage(), health.is_known()), (None, false));
        health.answered();
        assert!(health.is_known() && !health.is_doubtful(Duration::from_secs(60)));
        health.failed("refused");
        let first = health.outage().unwrap();
        health.failed("timed out");
        let second = health.outage().unwrap();
        assert_eq!((first.since, second.reason.as_str()), (second.since, "timed out"));
        assert!(health.is_doubtful(Duration::from_secs(60)));
        health.answered();
        assert_eq!(health.outage(), None);
    }
}
