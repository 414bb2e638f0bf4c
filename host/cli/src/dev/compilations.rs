//! Tracks whether the host is compiling a component. Until it has finished, the previous component is served.

use std::path::Path;
use std::time::Instant;

use mcp_host_engine::Progress;
use tokio::sync::watch;

use crate::messages::Messages;

/// The compilations that are running.
#[derive(Clone, Debug)]
pub(super) struct Compilations(watch::Sender<Running>);

/// The number of running compilations, and the start of the first one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Running {
    number: usize,
    since: Option<Instant>,
}

impl Compilations {
    pub(super) fn new() -> Self {
        Self(watch::Sender::default())
    }

    /// Reports a host's progress: a spinner for each component, and this state.
    pub(super) fn progress(&self, messages: &Messages) -> Progress {
        let (messages, compilations) = (messages.clone(), self.clone());
        Progress::new(move |file: &Path, size| (messages.compiling(file, size), compilations.begin()))
    }

    fn begin(&self) -> Guard {
        self.0.send_modify(|running| {
            running.number = running.number.saturating_add(1);
            running.since.get_or_insert_with(Instant::now);
        });
        Guard(self.clone())
    }

    /// The start of the earliest running compilation; `None` if none is running.
    pub(super) fn since(&self) -> Option<Instant> {
        self.0.borrow().since
    }

    /// Subscribes to the start and end of compilations.
    pub(super) fn subscribe(&self) -> watch::Receiver<Running> {
        self.0.subscribe()
    }
}

/// A running compilation, until the guard is dropped.
struct Guard(Compilations);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.send_modify(|running| {
            running.number = running.number.saturating_sub(1);
            if running.number == 0 {
                running.since = None;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiling_lasts_until_the_last_compilation_ends() {
        let compilations = Compilations::new();
        assert!(compilations.since().is_none());
        let first = compilations.begin();
        let since = compilations.since();
        let second = compilations.begin();
        drop(first);
        assert!(since.is_some() && compilations.since() == since);
        drop(second);
        assert!(compilations.since().is_none());
    }
}
