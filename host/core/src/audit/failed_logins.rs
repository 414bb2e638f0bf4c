//! Failed logins: requests and TLS handshakes whose credentials are not accepted.
//!
//! Any client can cause failed logins, so their lines are bounded. In a window of [`WINDOW`], the first failure of each
//! client for each reason is written immediately. Further failures are counted, and are written as one line with their
//! number when the window ends. Beyond [`MAX_CLIENTS`] pairs of client and reason in a window, all other failures are
//! counted together, in one line without a client. So there are at most 33 lines a minute of some 300 bytes each: 14 MB
//! a day.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mcp_host_base::text::prefix;
use parking_lot::Mutex;
use serde::Serialize;

use super::line;

/// The length of a window.
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// The maximum number of pairs of client and reason that are counted separately in a window.
const MAX_CLIENTS: usize = 16;
/// The maximum length of a client's name in a line, in bytes.
const MAX_CLIENT: usize = 128;

/// The failures of the current window.
#[derive(Debug, Default)]
pub(super) struct FailedLogins(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    /// When the window began; none before the first failure.
    began: Option<Instant>,
    /// The numbers of failures that have no line of their own.
    counted: HashMap<(String, &'static str), u64>,
    /// The number of failures of all other clients.
    others: u64,
}

/// The result of recording a failure.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// The members of the lines that the caller must queue.
    pub(super) lines: Vec<Vec<u8>>,
    /// Whether a window has begun. Its end has lines, too.
    pub(super) has_begun: bool,
}

/// The members of a line.
#[derive(Serialize)]
struct Members<'a> {
    operation: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    outcome: &'static str,
    count: u64,
}

impl FailedLogins {
    /// Records a failure of this client.
    pub(super) fn record(&self, client: &str, reason: &'static str) -> Recorded {
        self.record_at(client, reason, Instant::now())
    }

    fn record_at(&self, client: &str, reason: &'static str, now: Instant) -> Recorded {
        let mut window = self.0.lock();
        let mut recorded = Recorded::default();
        if window.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW) {
            recorded.lines = window.end();
            window.began = Some(now);
            recorded.has_begun = true;
        }
        let is_full = window.counted.len() >= MAX_CLIENTS;
        match window.counted.get_mut(&(prefix(client, MAX_CLIENT).to_owned(), reason)) {
            Some(count) => *count = count.saturating_add(1),
            None if is_full => window.others = window.others.saturating_add(1),
            None => {
                let client = prefix(client, MAX_CLIENT).to_owned();
                recorded.lines.push(encode(Some(&client), Some(reason), 1));
                window.counted.insert((client, reason), 0);
            }
        }
        recorded
    }

    /// Ends the window. Returns the members of the lines about the counted failures.
    pub(super) fn end_window(&self) -> Vec<Vec<u8>> {
        self.0.lock().end()
    }
}

impl Window {
    fn end(&mut self) -> Vec<Vec<u8>> {
        let Self { counted, others, .. } = std::mem::take(self);
        let mut counted: Vec<_> = counted.into_iter().filter(|(_, count)| *count > 0).collect();
        counted.sort_unstable();
        let mut lines: Vec<_> =
            counted.iter().map(|((client, reason), count)| encode(Some(client), Some(reason), *count)).collect();
        if others > 0 {
            lines.push(encode(None, None, others));
        }
        lines
    }
}

fn encode(client: Option<&str>, reason: Option<&'static str>, count: u64) -> Vec<u8> {
    line::encode(&Members { operation: "authenticate", client, reason, outcome: "refused", count })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn values(lines: Vec<Vec<u8>>) -> Vec<Value> {
        let value = |line: Vec<u8>| {
            let text = String::from_utf8(line).unwrap();
            let line: Value = serde_json::from_str(&format!("{{{}", text.strip_prefix(',').unwrap())).unwrap();
            json!([line["client"], line["reason"], line["count"]])
        };
        lines.into_iter().map(value).collect()
    }

    #[test]
    fn the_first_failure_has_a_line_at_once_and_the_others_have_their_number_at_the_end() {
        let (logins, now) = (FailedLogins::default(), Instant::now());
        let record = |client: &str, reason, at| {
            let recorded = logins.record_at(client, reason, at);
            (values(recorded.lines), recorded.has_begun)
        };
        assert_eq!(record("192.0.2.1", "token", now), (vec![json!(["192.0.2.1", "token", 1])], true));
        assert_eq!(record("192.0.2.1", "token", now), (vec![], false));
        assert_eq!(record("192.0.2.1", "expired", now), (vec![json!(["192.0.2.1", "expired", 1])], false));
        assert_eq!(record("192.0.2.1", "token", now), (vec![], false));
        let next = record("192.0.2.2", "token", now + WINDOW);
        assert_eq!(next, (vec![json!(["192.0.2.1", "token", 2]), json!(["192.0.2.2", "token", 1])], true));
        assert_eq!(values(logins.end_window()), [] as [Value; 0]);
    }

    #[test]
    fn many_addresses_have_a_bounded_number_of_lines_and_none_is_forgotten() {
        let (logins, now) = (FailedLogins::default(), Instant::now());
        let mut lines = Vec::new();
        for _ in 0..3 {
            for number in 0..10_000 {
                lines.extend(logins.record_at(&format!("192.0.2.{number}"), "token", now).lines);
            }
        }
        lines.extend(logins.end_window());
        let found = values(lines);
        assert_eq!(found.len(), 2 * MAX_CLIENTS + 1);
        assert_eq!(found.iter().map(|line| line[2].as_u64().unwrap()).sum::<u64>(), 30_000);
        assert_eq!(found.last(), Some(&json!([null, null, 3 * (10_000 - MAX_CLIENTS)])));
    }
}
