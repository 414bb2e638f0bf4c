//! The filter of the program's log, which administrators can change temporarily.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mcp_host_base::task;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

/// The filter of the program's log.
pub trait LogFilter: fmt::Debug + Send + Sync + 'static {
    /// The configured filter, which a reload may change.
    fn configured(&self) -> String;

    /// Replaces the configured filter from now on; `None` restores it.
    ///
    /// # Errors
    ///
    /// The text is not a filter. The error says what to write.
    fn set(&self, filter: Option<&str>) -> Result<(), String>;
}

/// A temporary override of the filter. Dropping this leaves the filter as it is.
#[derive(Debug)]
pub(super) struct TemporaryFilter {
    filter: Arc<dyn LogFilter>,
    overrides: Arc<Mutex<Overrides>>,
}

#[derive(Debug, Default)]
struct Overrides {
    /// The number of overrides so far. It keeps the end of an earlier override, which may have waited for the lock,
    /// from ending a later one.
    count: u64,
    current: Option<Override>,
}

/// The filter that replaces the configured one.
#[derive(Debug)]
struct Override {
    filter: String,
    until: SystemTime,
    by: String,
    _end: AbortOnDropHandle<()>,
}

/// The current filter.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CurrentFilter {
    pub(super) filter: String,
    /// The end of the override and the name of the administrator who set it. None if the configured filter is used.
    pub(super) temporary: Option<(SystemTime, String)>,
}

impl TemporaryFilter {
    pub(super) fn new(filter: Arc<dyn LogFilter>) -> Self {
        Self { filter, overrides: Arc::default() }
    }

    /// Uses a filter for `duration`.
    pub(super) fn set(&self, filter: String, duration: Duration, by: &str) -> Result<(), String> {
        let mut overrides = self.overrides.lock();
        self.filter.set(Some(&filter))?;
        let until = SystemTime::now().checked_add(duration).unwrap_or_else(SystemTime::now);
        let number = overrides.count.wrapping_add(1);
        let (this, shared) = (self.filter.clone(), self.overrides.clone());
        let end = AbortOnDropHandle::new(task::spawn(async move {
            tokio::time::sleep(duration).await;
            shared.lock().end(number, &*this);
        }));
        *overrides =
            Overrides { count: number, current: Some(Override { filter, until, by: by.to_owned(), _end: end }) };
        Ok(())
    }

    /// Restores the configured filter.
    pub(super) fn restore(&self) {
        let mut overrides = self.overrides.lock();
        let newest = overrides.count;
        overrides.end(newest, &*self.filter);
    }

    /// Returns the current filter.
    pub(super) fn current(&self) -> CurrentFilter {
        match &self.overrides.lock().current {
            Some(Override { filter, until, by, .. }) => {
                CurrentFilter { filter: filter.clone(), temporary: Some((*until, by.clone())) }
            }
            None => CurrentFilter { filter: self.filter.configured(), temporary: None },
        }
    }
}

impl Overrides {
    /// Ends the override with this number, if it is the newest.
    fn end(&mut self, number: u64, filter: &dyn LogFilter) {
        if number == self.count {
            // This does not fail, because there is no filter text to parse.
            let _ = filter.set(None);
            self.current = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Recorded(Mutex<Vec<Option<String>>>);

    impl LogFilter for Recorded {
        fn configured(&self) -> String {
            "info".to_owned()
        }

        fn set(&self, filter: Option<&str>) -> Result<(), String> {
            if filter == Some("loud") {
                return Err("no filter".to_owned());
            }
            self.0.lock().push(filter.map(str::to_owned));
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_filter_goes_back_after_its_time_and_the_newest_one_counts() {
        let recorded = Arc::new(Recorded::default());
        let filter = TemporaryFilter::new(recorded.clone());
        filter.set("debug".to_owned(), Duration::from_secs(3600), "ada").unwrap();
        let current = filter.current();
        assert_eq!((current.filter.as_str(), current.temporary.unwrap().1.as_str()), ("debug", "ada"));
        filter.set("trace".to_owned(), Duration::from_millis(20), "lucas").unwrap();
        assert!(filter.set("loud".to_owned(), Duration::from_secs(3600), "ada").is_err());
        // The end of the first override comes late.
        filter.overrides.lock().end(1, &*recorded);
        while filter.current().temporary.is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(filter.current(), CurrentFilter { filter: "info".to_owned(), temporary: None });
        assert_eq!(*recorded.0.lock(), [Some("debug".to_owned()), Some("trace".to_owned()), None]);
    }
}
