//! Log lines about the connection to NATS: it was lost, with the reason and the effect on this replica; it is
//! back; JetStream is missing. The operator of the servers can cause any number of events, so each kind of
//! warning is logged at most once per [`INTERVAL`], and texts from a server are truncated and escaped.
//!
//! The reason why no connection can be made may change: a server that restarts refuses connections, and then its
//! certificate turns out to have expired. So up to [`MAX_REASONS`] reasons are logged until there is a connection.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::{Event, Server, ServerAddr};
use mcp_host_base::log_target;
use mcp_host_base::throttle::Throttle;

/// The minimum time between two warnings of one kind.
const INTERVAL: Duration = Duration::from_mins(1);
/// The maximum length of a server's text, in characters.
const MAX_REASON: usize = 200;
/// The maximum number of reasons for one lost connection.
const MAX_REASONS: usize = 4;

/// What a replica does without a connection, for its log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effects {
    /// The behavior until NATS is back.
    meanwhile: &'static str,
    /// The behavior without JetStream.
    without_jetstream: &'static str,
}

impl Effects {
    /// The connection for shared polls, presence and sessions.
    pub(super) const OF_SHARED_POLLS: Self = Self {
        meanwhile: "until it is back, this replica polls providers for itself, keeps its part of the rates, and drops cached responses \
                    of plugins whose polls are shared",
        without_jetstream: "no leases are kept, so each replica polls providers for itself",
    };
    /// The connection for shared buckets of plugins.
    pub(super) const OF_BUCKETS: Self = Self {
        meanwhile: "until it is back, calls of providers on shared buckets fail",
        without_jetstream: "calls of providers on shared buckets fail",
    };
    /// The connection for snapshots of search indexes.
    pub(super) const OF_SNAPSHOTS: Self = Self {
        meanwhile: "until it is back, this replica indexes for itself what it searches",
        without_jetstream: "no search index is shared, so each replica indexes for itself",
    };
}

/// The log lines about one connection.
#[derive(Debug)]
pub(super) struct ConnectionLog {
    /// The servers in the config.
    servers: String,
    effects: Effects,
    state: Mutex<State>,
    lost: Throttle,
    unreachable: Throttle,
    /// Of the second and later reasons for one lost connection.
    other_reasons: Throttle,
    complaints: Throttle,
    jetstream: Throttle,
}

#[derive(Debug, Default)]
struct State {
    /// The last error from a server while there was a connection.
    complaint: Option<String>,
    /// Whether the log has a warning that the connection was lost, or was never made.
    has_warned: bool,
    /// The kind of the last failed attempt to connect.
    failure: Option<String>,
    /// The logged reasons why there is no connection, since the last one.
    reasons: Vec<String>,
    /// Whether the log has an error that JetStream is missing.
    lacks_jetstream: bool,
}

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// The connection was lost.
    Lost(Option<String>),
    /// No connection can be made.
    Unreachable(String),
    /// There is a connection again.
    Back,
    /// A server reported an error for a request.
    Complaint(String),
}

impl ConnectionLog {
    pub(super) fn new(servers: &[ServerAddr], effects: Effects) -> Self {
        let address = |server: &ServerAddr| format!("{}:{}", server.host(), server.port());
        Self {
            servers: servers.iter().map(address).collect::<Vec<_>>().join(", "),
            effects,
            state: Mutex::default(),
            lost: Throttle::new(INTERVAL),
            unreachable: Throttle::new(INTERVAL),
            other_reasons: Throttle::new(INTERVAL),
            complaints: Throttle::new(INTERVAL),
            jetstream: Throttle::new(INTERVAL),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles an event of the connection.
    pub(super) fn heard(&self, event: &Event) {
        match self.next(event) {
            Some(line) => self.write(line),
            None => tracing::debug!(target: log_target::CLUSTER, servers = self.servers, "NATS: {event}"),
        }
    }

    /// Handles the begin of a round of attempts to connect to these servers, which have the errors of the earlier
    /// rounds.
    pub(super) fn retries(&self, servers: &[Server]) {
        if let Some(line) = self.next_round(servers) {
            self.write(line);
        }
    }

    fn write(&self, line: Line) {
        let (servers, meanwhile) = (&self.servers, self.effects.meanwhile);
        match line {
            Line::Lost(reason) => {
                let reason = reason.as_deref().unwrap_or("it was closed");
                tracing::warn!(target: log_target::CLUSTER, servers, "the connection to NATS is lost ({reason}): {meanwhile}");
            }
            Line::Unreachable(reason) => {
                tracing::warn!(target: log_target::CLUSTER, servers, "NATS cannot be reached ({reason}), which is tried again: {meanwhile}");
            }
            Line::Back => tracing::info!(target: log_target::CLUSTER, servers, "NATS is connected"),
            Line::Complaint(reason) => {
                tracing::warn!(target: log_target::CLUSTER, servers, "NATS denies a permission: {reason}. docs/cluster.md lists the permissions that a replica needs");
            }
        }
    }

    fn next(&self, event: &Event) -> Option<Line> {
        let mut state = self.state();
        match event {
            Event::Connected => {
                (state.complaint, state.failure) = (None, None);
                state.reasons.clear();
                std::mem::take(&mut state.has_warned).then_some(Line::Back)
            }
            Event::Disconnected => {
                let reason = state.complaint.take();
                self.lost.record()?;
                state.has_warned = true;
                Some(Line::Lost(reason))
            }
            // An attempt to connect has failed. The event has only the kind of the error: the next round has the error.
            Event::ClientError(error) => {
                state.failure = Some(quoted(&error.to_string()));
                None
            }
            Event::ServerError(error) => {
                let complaint = quoted(&error.to_string());
                state.complaint = Some(complaint.clone());
                self.complaints.record()?;
                Some(Line::Complaint(complaint))
            }
            Event::LameDuckMode | Event::Draining | Event::Closed | Event::SlowConsumer(_) => None,
        }
    }

    fn next_round(&self, servers: &[Server]) -> Option<Line> {
        let mut state = self.state();
        let errors: BTreeSet<_> = servers.iter().filter_map(|server| server.last_error.as_deref()).collect();
        let reason = match errors.is_empty() {
            true => state.failure.clone()?,
            false => quoted(&errors.into_iter().collect::<Vec<_>>().join("; ")),
        };
        if state.reasons.len() >= MAX_REASONS || state.reasons.contains(&reason) {
            return None;
        }
        let throttle = if state.reasons.is_empty() { &self.unreachable } else { &self.other_reasons };
        throttle.record()?;
        state.has_warned = true;
        state.reasons.push(reason.clone());
        Some(Line::Unreachable(reason))
    }

    /// Logs that the servers have no JetStream for the account of this replica.
    pub(super) fn no_jetstream(&self, reason: &str) {
        self.state().lacks_jetstream = true;
        if self.jetstream.record().is_some() {
            let (servers, reason, effect) = (&self.servers, quoted(reason), self.effects.without_jetstream);
            tracing::error!(
                target: log_target::CLUSTER, servers,
                "NATS has no JetStream for this replica ({reason}): {effect}. Start the servers with JetStream (`--jetstream`), and enable \
                 it for the account"
            );
        }
    }

    /// Records a response of JetStream.
    pub(super) fn has_jetstream(&self) {
        if std::mem::take(&mut self.state().lacks_jetstream) {
            tracing::info!(target: log_target::CLUSTER, servers = self.servers, "JetStream of NATS answers");
        }
    }
}

/// Formats a server's text for the log.
pub(super) fn quoted(text: &str) -> String {
    text.strip_prefix("nats: ").unwrap_or(text).chars().take(MAX_REASON).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use async_nats::{ClientError, ServerError};

    use super::*;

    fn log() -> ConnectionLog {
        let servers = ["nats://127.0.0.1:4222", "tls://n2.example:4223"].map(|url| url.parse().unwrap());
        ConnectionLog::new(&servers, Effects::OF_SHARED_POLLS)
    }

    fn failed(kind: &str) -> Event {
        Event::ClientError(ClientError::Other(kind.to_owned()))
    }

    /// A server, with the error of the last attempt to connect to it.
    fn server(last_error: Option<&str>) -> [Server; 1] {
        let addr = "tls://n2.example:4223".parse().unwrap();
        let last_error = last_error.map(str::to_owned);
        [Server { addr, failed_attempts: 1, did_connect: true, is_discovered: false, last_error }]
    }

    fn unreachable(reason: &str) -> Option<Line> {
        Some(Line::Unreachable(reason.to_owned()))
    }

    #[test]
    fn a_connection_that_is_lost_is_warned_of_with_the_reason_and_that_it_is_back_is_said() {
        let log = log();
        assert_eq!(log.servers, "127.0.0.1:4222, n2.example:4223");
        assert_eq!(log.next(&Event::Connected), None, "nobody was worried");
        let complaint = Event::ServerError(ServerError::Other("stale\nconnection".to_owned()));
        assert!(matches!(log.next(&complaint), Some(Line::Complaint(reason)) if reason.contains("stale\\nconnection")));
        assert!(matches!(log.next(&Event::Disconnected), Some(Line::Lost(Some(reason))) if reason.contains("stale")));
        assert_eq!(log.next_round(&server(None)), None, "nothing has failed yet");
        for round in 0..1000 {
            assert_eq!(log.next(&failed("IO error")), None);
            let line = log.next_round(&server(Some("IO error: refused")));
            assert_eq!(line, if round == 0 { unreachable("IO error: refused") } else { None });
        }
        assert_eq!(log.next(&Event::Connected), Some(Line::Back));
    }

    #[test]
    fn another_reason_why_there_is_no_connection_is_warned_of_and_not_more_than_a_few() {
        let log = log();
        assert_eq!(log.next(&Event::Disconnected), Some(Line::Lost(None)));
        assert_eq!(log.next_round(&server(Some("refused"))), unreachable("refused"));
        assert_eq!(log.next_round(&server(Some("expired 1 s ago"))), unreachable("expired 1 s ago"));
        for reason in ["refused", "expired 1 s ago", "expired 2 s ago"] {
            assert_eq!(log.next_round(&server(Some(reason))), None, "{reason}");
        }
        let log = ConnectionLog { other_reasons: Throttle::new(Duration::ZERO), ..self::log() };
        let lines = (0..1000).filter_map(|number| log.next_round(&server(Some(&number.to_string()))));
        assert_eq!(lines.count(), MAX_REASONS);
    }

    #[test]
    fn a_connection_that_comes_and_goes_is_warned_of_once_in_the_interval() {
        let log = log();
        let refused = server(Some("refused"));
        assert_eq!(log.next(&Event::Disconnected), Some(Line::Lost(None)));
        assert_eq!(log.next_round(&refused), unreachable("refused"));
        assert_eq!(log.next(&Event::Connected), Some(Line::Back));
        for _ in 0..1000 {
            let complaint = Event::ServerError(ServerError::Other("x".repeat(100_000)));
            let long = server(Some(&complaint.to_string()));
            let lines = [
                log.next(&Event::Disconnected),
                log.next_round(&refused),
                log.next_round(&long),
                log.next(&Event::Connected),
                log.next(&complaint),
            ];
            assert!(lines[..4].iter().all(Option::is_none), "{lines:?}");
            assert!(
                lines[4].as_ref().is_none_or(|line| matches!(line, Line::Complaint(text) if text.len() <= MAX_REASON))
            );
        }
    }

    #[test]
    fn a_server_that_was_never_there_is_warned_of_with_the_kind_of_error_if_nothing_else_is_known() {
        let log = log();
        assert_eq!(log.next(&failed("DNS error")), None);
        assert_eq!(log.next_round(&server(None)), unreachable("DNS error"));
        assert_eq!(log.next_round(&server(None)), None);
        assert_eq!(log.next(&Event::Connected), Some(Line::Back));
    }

    #[test]
    fn an_error_of_a_server_is_cut() {
        let line = log().next_round(&server(Some(&"x".repeat(100_000))));
        assert!(matches!(line, Some(Line::Unreachable(text)) if text.len() == MAX_REASON));
    }
}
