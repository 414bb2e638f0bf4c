//! The open streams of users, within an overall limit and a fair share for each user.
//!
//! A user has at most [`MAX_OF_USER`] of [`MAX`] streams. When all are open, a new stream replaces the newest stream of
//! the user with the most streams, provided that this user keeps at least as many as the other user then has. So
//! [`MAX`] users can have one stream each, however many some of them opened before.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mcp_host_base::share_limiter::LimitReached;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The maximum number of streams of all users.
pub(super) const MAX: usize = 16;
/// The maximum number of streams of one user.
pub(super) const MAX_OF_USER: usize = 4;

/// The open streams.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct UserStreams(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    /// The streams by number, in the order in which they were opened.
    streams: BTreeMap<u64, (String, CancellationToken)>,
    next: u64,
}

/// An open stream. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct UserStream {
    all: UserStreams,
    number: u64,
    ended: CancellationToken,
}

impl UserStreams {
    /// Opens a stream of a user, by the name of its principal.
    ///
    /// # Errors
    ///
    /// The user has its maximum number of streams, or all streams are open and no user has enough of them to give one
    /// up.
    pub(super) fn open(&self, user: &str) -> Result<UserStream, LimitReached> {
        let mut open = self.0.lock();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (name, _) in open.streams.values() {
            let count = counts.entry(name).or_default();
            *count = count.saturating_add(1);
        }
        let own = counts.get(user).copied().unwrap_or_default();
        if own >= MAX_OF_USER {
            return Err(LimitReached::ClientShare);
        }
        if open.streams.len() >= MAX {
            let most = counts.values().copied().max().unwrap_or_default();
            let has_most = |name: &str| counts.get(name) == Some(&most);
            let newest = open.streams.iter().rev().find(|(_, (name, _))| has_most(name)).map(|(number, _)| *number);
            let replaced = newest.filter(|_| most > own.saturating_add(1));
            let (_, ended) = replaced.and_then(|number| open.streams.remove(&number)).ok_or(LimitReached::Overall)?;
            ended.cancel();
        }
        let (number, ended) = (open.next, CancellationToken::new());
        open.next = number.wrapping_add(1);
        open.streams.insert(number, (user.to_owned(), ended.clone()));
        Ok(UserStream { all: self.clone(), number, ended })
    }
}

impl UserStream {
    /// Waits until a stream of another user replaces this one.
    pub(super) fn replaced(&self) -> impl Future<Output = ()> + Send + use<> {
        self.ended.clone().cancelled_owned()
    }
}

impl Drop for UserStream {
    fn drop(&mut self) {
        self.all.0.lock().streams.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_all(streams: &UserStreams, user: &str) -> Vec<UserStream> {
        std::iter::from_fn(|| streams.open(user).ok()).collect()
    }

    #[test]
    fn each_of_as_many_users_as_there_are_streams_gets_one_whatever_others_have_opened() {
        let streams = UserStreams::default();
        let greedy: Vec<_> = ["a", "b", "c", "d"].iter().map(|user| open_all(&streams, user)).collect();
        assert!(greedy.iter().all(|of_user| of_user.len() == MAX_OF_USER));
        let others: Vec<_> = (4..MAX).map(|number| streams.open(&number.to_string()).unwrap()).collect();
        for of_user in &greedy {
            let left: Vec<_> = of_user.iter().map(|stream| !stream.ended.is_cancelled()).collect();
            assert_eq!(left, [true, false, false, false], "the newest ends first");
        }
        assert!(others.iter().all(|stream| !stream.ended.is_cancelled()));
        assert_eq!(streams.open("one more").err(), Some(LimitReached::Overall));
        assert_eq!(streams.open("a").err(), Some(LimitReached::Overall), "others have no more than it has");
        drop(greedy);
        assert_eq!(streams.0.lock().streams.len(), MAX - 4);
        drop(others);
        assert!(streams.0.lock().streams.is_empty());
    }

    #[test]
    fn a_user_has_its_share_and_takes_nothing_from_who_has_as_few() {
        let streams = UserStreams::default();
        let of_a = open_all(&streams, "a");
        assert_eq!(streams.open("a").err(), Some(LimitReached::ClientShare));
        let others: Vec<_> = ["b", "c", "d"].iter().map(|user| open_all(&streams, user)).collect();
        let of_e = open_all(&streams, "e");
        assert_eq!(of_e.len(), 3, "then each of the five has three or four");
        let ended = of_a.iter().chain(others.iter().flatten()).filter(|stream| stream.ended.is_cancelled()).count();
        assert_eq!(ended, 3);
    }
}
