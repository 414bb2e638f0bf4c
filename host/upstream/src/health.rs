//! The reachability of an upstream; during an outage, its start and its reason.
//!
//! Every answer shows that the server is reachable, whatever its content. A failed attempt to connect again, the end of
//! a program, a failed check ([`Connector::watch`](crate::connection::Connector::watch)), and a connection that the
//! host ended because the server sent too much ([`guard`](crate::guard)) show that it is not. The start of an outage is
//! logged as a warning and its end as information, each at most once per [`LOG_PERIOD`], with the number of suppressed
//! lines. An upstream that was never connected has no outage: it is not loaded.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mcp_host_base::log_target;
use mcp_host_base::throttle::ThrottlePerReason;
use mcp_host_model::provider::Outage;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The minimum time between two log lines of one kind.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The health of one connection.
#[derive(Debug)]
pub(crate) struct Health {
    name: Arc<str>,
    /// The holder of the connection's token, for messages; none if there is only one connection.
    holder: Option<String>,
    state: Mutex<State>,
    lost: Notify,
    log: ThrottlePerReason,
}

#[derive(Debug, Default)]
struct State {
    /// The time of the last answer; none before the first.
    answered_at: Option<Instant>,
    outage: Option<Outage>,
    /// Whether the start of the outage was logged.
    is_logged: bool,
}

impl State {
    /// Begins an outage, or changes the reason of the current one. Returns whether it begins.
    fn begin_outage(&mut self, reason: &str) -> bool {
        if let Some(outage) = &mut self.outage {
            reason.clone_into(&mut outage.reason);
            return false;
        }
        if self.answered_at.is_none() {
            return false;
        }
        self.outage = Some(Outage { since: SystemTime::now(), reason: reason.to_owned() });
        true
    }
}

impl Health {
    pub(crate) fn new(name: Arc<str>, holder: Option<String>) -> Self {
        let log = ThrottlePerReason::new(LOG_PERIOD);
        Self { name, holder, state: Mutex::default(), lost: Notify::new(), log }
    }

    /// Records that the server has answered.
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

    /// Records that the server cannot be reached, for this reason.
    pub(crate) fn failed(&self, reason: &str) {
        let mut state = self.state.lock();
        if !state.begin_outage(reason) {
            return;
        }
        if let Some(more) = self.log.record("lost") {
            state.is_logged = true;
            drop(state);
            let (plugin, holder) = (&*self.name, self.holder.as_deref());
            tracing::warn!(target: log_target::PLUGIN, plugin, holder, reason, more, "the upstream cannot be reached any more, and is tried again");
        }
    }

    /// Records that the host ended the connection, because the server sent too much, with this reason.
    pub(crate) fn exceeded(&self, reason: &str) {
        let logged = self.log.record("excess");
        let mut state = self.state.lock();
        if state.begin_outage(reason) {
            state.is_logged = logged.is_some();
        }
        drop(state);
        if let Some(more) = logged {
            let (plugin, holder) = (&*self.name, self.holder.as_deref());
            tracing::warn!(
                target: log_target::PLUGIN, plugin, holder, reason, more,
                "the connection to the upstream was ended, and is opened again with back-off; correct the server, or remove the upstream"
            );
        }
    }

    /// Returns the outage, if there is one.
    pub(crate) fn outage(&self) -> Option<Outage> {
        self.state.lock().outage.clone()
    }

    /// Returns whether the server has ever answered.
    pub(crate) fn is_known(&self) -> bool {
        self.state.lock().answered_at.is_some()
    }

    /// Returns whether there is an outage, or no answer within this time.
    pub(crate) fn is_doubtful(&self, time: Duration) -> bool {
        let state = self.state.lock();
        state.outage.is_some() || state.answered_at.is_none_or(|at| at.elapsed() >= time)
    }

    /// Records that a connection was lost.
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
        health.exceeded("too many bytes");
        assert_eq!(health.outage().unwrap().reason, "too many bytes");
    }
}
