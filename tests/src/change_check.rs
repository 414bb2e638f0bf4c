//! Compares the updates that clients received with the changes: nothing lost, nothing foreign.
//!
//! A change is an edit of a resource at a moment. A stream is notified of it if it receives an update of the resource
//! at that moment or later: one update may be of several changes. It has to be notified if it was subscribed before the
//! edit, and is open until the bound after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// An edit of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What was edited.
    pub uri: String,
    /// The moment before the edit.
    pub at: Instant,
}

/// What one stream heard while it was open.
#[derive(Clone, Debug)]
pub struct StreamLog {
    /// A name for messages.
    pub name: String,
    /// What it is subscribed to.
    pub subscribed: BTreeSet<String>,
    /// When its subscription was acknowledged.
    pub since: Instant,
    /// When it ended; none while it is open.
    pub until: Option<Instant>,
    /// When it heard updates of which resource, in order.
    pub heard: BTreeMap<String, Vec<Instant>>,
}

/// A change that a stream was not notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The name of the stream.
    pub stream: String,
    /// The change.
    pub change: Change,
}

/// What the comparison finds.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The number of changes.
    pub changes: usize,
    /// The number of updates that streams have heard.
    pub notifications: usize,
    /// The times from a change to the first update, for each stream that was notified, sorted. The key is the scheme of
    /// the resource.
    pub delays: BTreeMap<String, Vec<Duration>>,
    /// The missing notifications.
    pub lost: Vec<Lost>,
    /// Updates of resources that a stream is not subscribed to: the name of the stream, and the resource.
    pub foreign: Vec<(String, String)>,
}

impl StreamLog {
    /// A stream that was acknowledged now.
    pub fn new(name: String, subscribed: BTreeSet<String>) -> Self {
        Self { name, subscribed, since: Instant::now(), until: None, heard: BTreeMap::new() }
    }

    /// It heard an update now.
    pub fn hear(&mut self, uri: &str) {
        self.heard.entry(uri.to_owned()).or_default().push(Instant::now());
    }

    /// Returns when it was notified of a change; `None` if it was not.
    fn told(&self, change: &Change) -> Option<Instant> {
        let heard = self.heard.get(&change.uri)?;
        heard.get(heard.partition_point(|at| *at < change.at)).copied()
    }
}

/// Returns whether each open stream was notified of all changes so far. Changes are in the order of their times.
pub fn are_told<'a>(changes: impl IntoIterator<Item = &'a Change>, streams: &[StreamLog]) -> bool {
    let mut latest = BTreeMap::new();
    for change in changes {
        // An update after the latest edit is one of all edits before it.
        latest.insert(&*change.uri, change);
    }
    streams.iter().filter(|stream| stream.until.is_none()).all(|stream| {
        let mut concerned = stream.subscribed.iter().filter_map(|uri| latest.get(&**uri));
        concerned.all(|change| change.at < stream.since || stream.told(change).is_some())
    })
}

/// Compares what streams heard until `now` with what was changed. Changes are in the order of their times.
pub fn check(changes: &[Change], streams: &[StreamLog], bound: Duration, now: Instant) -> Verdict {
    let mut verdict = Verdict { changes: changes.len(), ..Verdict::default() };
    let mut edits = BTreeMap::<&str, Vec<&Change>>::new();
    for change in changes {
        edits.entry(&change.uri).or_default().push(change);
    }
    for stream in streams {
        verdict.notifications += stream.heard.values().map(Vec::len).sum::<usize>();
        let foreign = stream.heard.keys().filter(|uri| !stream.subscribed.contains(*uri));
        verdict.foreign.extend(foreign.map(|uri| (stream.name.clone(), uri.clone())));
        let edits = stream.subscribed.iter().filter_map(|uri| edits.get(&**uri));
        let concerned = edits.flat_map(|edits| &edits[edits.partition_point(|change| change.at < stream.since)..]);
        for change in concerned {
            match stream.told(change) {
                Some(at) => match verdict.delays.get_mut(scheme(&change.uri)) {
                    Some(delays) => delays.push(at - change.at),
                    None => drop(verdict.delays.insert(scheme(&change.uri).to_owned(), vec![at - change.at])),
                },
                None if change.at + bound <= stream.until.unwrap_or(now) => {
                    verdict.lost.push(Lost { stream: stream.name.clone(), change: Change::clone(change) });
                }
                None => {}
            }
        }
    }
    verdict.delays.values_mut().for_each(|delays| delays.sort());
    verdict
}

fn scheme(uri: &str) -> &str {
    uri.split(':').next().unwrap_or(uri)
}

impl Verdict {
    /// The number of changes that streams were notified of.
    pub fn told(&self) -> usize {
        self.delays.values().map(Vec::len).sum()
    }

    /// The time within which that part of the changes, from 0 to 1, of resources of that scheme was notified.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    pub fn delay(&self, scheme: &str, part: f64) -> Duration {
        let delays = self.delays.get(scheme).map(Vec::as_slice).unwrap_or_default();
        let index = (delays.len().saturating_sub(1) as f64 * part) as usize;
        delays.get(index).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(began: Instant, uris: &[&str]) -> StreamLog {
        let subscribed = uris.iter().map(|uri| (*uri).to_owned()).collect();
        StreamLog { since: began, ..StreamLog::new("s".to_owned(), subscribed) }
    }

    #[test]
    fn a_change_that_no_update_follows_is_lost_and_other_updates_do_not_count() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let change = |uri: &str, seconds: u32| Change { uri: uri.to_owned(), at: began + second * seconds };
        let changes = [change("a", 1), change("b", 2), change("a", 3)];
        let mut log = stream(began, &["a", "b"]);
        log.heard.insert("a".to_owned(), vec![began + second, began + second * 4]);
        let lost = |log: &StreamLog, end: u32| {
            let verdict = check(&changes, std::slice::from_ref(log), second * 5, began + second * end);
            verdict.lost.into_iter().map(|lost| lost.change).collect::<Vec<_>>()
        };
        assert_eq!(lost(&log, 10), [change("b", 2)]);
        assert_eq!(lost(&log, 6), [], "there is still time");
        // An update before the change is none of it.
        log.heard.insert("b".to_owned(), vec![began + second]);
        assert_eq!(lost(&log, 10), [change("b", 2)]);
        log.heard.insert("b".to_owned(), vec![began + second * 9]);
        assert_eq!(lost(&log, 10), []);
        // One update may be of several changes.
        log.heard.insert("a".to_owned(), vec![began + second * 3]);
        assert_eq!(lost(&log, 10), []);
    }

    #[test]
    fn all_are_told_when_each_open_stream_has_an_update_after_the_latest_edit_of_each_resource() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let change = |uri: &str, seconds: u32| Change { uri: uri.to_owned(), at: began + second * seconds };
        let changes = [change("a", 1), change("b", 2), change("a", 3)];
        let mut log = stream(began, &["a", "b"]);
        let are_told = |log: &StreamLog| super::are_told(&changes, std::slice::from_ref(log));
        log.heard.insert("b".to_owned(), vec![began + second * 2]);
        log.heard.insert("a".to_owned(), vec![began + second * 2]);
        assert!(!are_told(&log), "there was another edit");
        assert!(are_told(&StreamLog { until: Some(began + second * 3), ..log.clone() }), "it has ended");
        assert!(are_told(&StreamLog { since: began + second * 4, ..log.clone() }), "it was subscribed later");
        log.heard.insert("a".to_owned(), vec![began + second * 4]);
        assert!(are_told(&log));
    }

    #[test]
    fn a_stream_has_to_be_told_while_it_is_subscribed_and_of_nothing_else() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let changes = [Change { uri: "a".to_owned(), at: began + second }];
        let verdict = |log: StreamLog| check(&changes, &[log], second, began + second * 9);
        let late = StreamLog { since: began + second * 2, ..stream(began, &["a"]) };
        assert!(verdict(late).lost.is_empty(), "it was subscribed later");
        let ended = StreamLog { until: Some(began + second), ..stream(began, &["a"]) };
        assert!(verdict(ended).lost.is_empty(), "it ended before it had to be told");
        assert_eq!(verdict(stream(began, &["a"])).lost.len(), 1);
        let mut told = stream(began, &["a"]);
        told.heard.insert("a".to_owned(), vec![began + second * 3]);
        told.heard.insert("secret".to_owned(), vec![began]);
        let verdict = verdict(told);
        assert_eq!(verdict.foreign, [("s".to_owned(), "secret".to_owned())]);
        assert_eq!((verdict.lost.len(), verdict.notifications, verdict.delay("a", 1.0)), (0, 2, second * 2));
    }
}
