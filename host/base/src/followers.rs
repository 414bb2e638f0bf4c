//! Followers of a stream of events: each receives the events from its start on.
//!
//! All followers share one ring buffer of [`CAPACITY`] events. A follower that is too slow misses the oldest
//! events, and receives their number. Without followers, an event costs one comparison, and is not created.

use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};

/// The maximum number of events that a follower may be behind.
const CAPACITY: usize = 256;

/// A receiver of the events from its start on.
#[derive(Debug)]
pub struct Follower<T: ?Sized>(Receiver<Arc<T>>);

/// An item that a follower receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed<T: ?Sized> {
    /// An event.
    Event(Arc<T>),
    /// The follower was too slow for this number of events.
    Missed(u64),
}

impl<T: ?Sized> Follower<T> {
    /// Waits for the next event. None when there are no more events.
    ///
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Followed<T>> {
        match self.0.recv().await {
            Ok(event) => Some(Followed::Event(event)),
            Err(RecvError::Lagged(events)) => Some(Followed::Missed(events)),
            Err(RecvError::Closed) => None,
        }
    }
}

/// The followers of a stream of events.
#[derive(Debug)]
pub struct Followers<T: ?Sized>(Sender<Arc<T>>);

impl<T: ?Sized> Default for Followers<T> {
    fn default() -> Self {
        Self(channel(CAPACITY).0)
    }
}

impl<T: ?Sized> Followers<T> {
    /// Adds a follower.
    pub fn add(&self) -> Follower<T> {
        Follower(self.0.subscribe())
    }

    /// Sends an event to all followers. Without followers, the event is not created.
    pub fn send(&self, make: impl FnOnce() -> Arc<T>) {
        if self.0.receiver_count() > 0 {
            // This fails without receivers.
            let _ = self.0.send(make());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_follower_is_told_what_it_missed_and_goes_on_with_the_oldest_event_that_is_left() {
        let followers = Followers::<str>::default();
        followers.send(|| unreachable!("nobody follows"));
        let mut follower = followers.add();
        for number in 0..CAPACITY + 3 {
            followers.send(|| number.to_string().into());
        }
        assert_eq!(follower.next().await, Some(Followed::Missed(3)));
        assert_eq!(follower.next().await, Some(Followed::Event("3".into())));
        drop(followers);
        for _ in 4..CAPACITY + 3 {
            assert!(matches!(follower.next().await, Some(Followed::Event(_))));
        }
        assert_eq!(follower.next().await, None);
    }
}
