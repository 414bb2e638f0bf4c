//! Followers of the audit log: each receives the lines that are queued from then on, whether or not they can be written.
//!
//! All followers share one ring buffer of [`CAPACITY`] lines. A follower that is slower than the log misses the oldest lines, and receives
//! their number. Without followers a line costs one comparison.

use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};

/// The number of lines that a follower may be behind.
const CAPACITY: usize = 256;

/// The lines of the audit log from now on ([`Host::follow_audit`](crate::host::Host::follow_audit)).
#[derive(Debug)]
pub struct AuditFollower(Receiver<Arc<str>>);

/// What a follower receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowedAudit {
    /// A line: a JSON object, without the end of the line.
    Line(Arc<str>),
    /// This number of lines came faster than the follower took them.
    Missed(u64),
}

impl AuditFollower {
    /// Waits for the next line. None when the host has ended.
    ///
    /// This is cancel safe.
    pub async fn next(&mut self) -> Option<FollowedAudit> {
        match self.0.recv().await {
            Ok(line) => Some(FollowedAudit::Line(line)),
            Err(RecvError::Lagged(lines)) => Some(FollowedAudit::Missed(lines)),
            Err(RecvError::Closed) => None,
        }
    }
}

/// The followers of a log.
#[derive(Debug)]
pub(super) struct Followers(Sender<Arc<str>>);

impl Default for Followers {
    fn default() -> Self {
        Self(channel(CAPACITY).0)
    }
}

impl Followers {
    /// Adds a follower.
    pub(super) fn add(&self) -> AuditFollower {
        AuditFollower(self.0.subscribe())
    }

    /// Sends a line to all of them.
    pub(super) fn send(&self, line: &[u8]) {
        if self.0.receiver_count() > 0 {
            // It fails without receivers.
            let _ = self.0.send(String::from_utf8_lossy(line).trim_end().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_follower_is_told_what_it_missed_and_goes_on_with_the_oldest_line_that_is_left() {
        let followers = Followers::default();
        followers.send(b"nobody\n");
        let mut follower = followers.add();
        for number in 0..CAPACITY + 3 {
            followers.send(format!("{number}\n").as_bytes());
        }
        assert_eq!(follower.next().await, Some(FollowedAudit::Missed(3)));
        assert_eq!(follower.next().await, Some(FollowedAudit::Line("3".into())));
        drop(followers);
        for _ in 4..CAPACITY + 3 {
            assert!(matches!(follower.next().await, Some(FollowedAudit::Line(_))));
        }
        assert_eq!(follower.next().await, None);
    }
}
