//! The events of a simulated world, in the order of their times.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::member::Time;

/// The events that have not happened yet. Events of the same time happen in the order in which they were added.
pub(super) struct Queue<E> {
    events: BinaryHeap<Reverse<Scheduled<E>>>,
    next: u64,
}

struct Scheduled<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(super) fn new() -> Self {
        Self { events: BinaryHeap::new(), next: 0 }
    }

    pub(super) fn add(&mut self, at: Time, event: E) {
        self.events.push(Reverse(Scheduled { at, number: self.next, event }));
        self.next += 1;
    }

    /// Takes the next event, and its time.
    pub(super) fn take(&mut self) -> Option<(Time, E)> {
        self.events.pop().map(|Reverse(Scheduled { at, event, .. })| (at, event))
    }
}

impl<E> PartialEq for Scheduled<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Scheduled<E> {}

impl<E> PartialOrd for Scheduled<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Scheduled<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
