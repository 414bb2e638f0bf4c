//! Repeated warnings of one plugin.
//!
//! A provider has no state between calls, so it repeats a warning about a file in every call. A plugin with subscribers
//! is polled every two seconds. A warning that equals one of the last [`MAX_WARNINGS`] is logged once per
//! [`REPEAT_INTERVAL`], with the number of occurrences. Warnings are compared by a hash; if two have the same hash, the
//! second one is throttled as a repetition.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use parking_lot::Mutex;

use mcp_host_base::throttle::Throttle;

/// The minimum interval between two lines of the same warning.
const REPEAT_INTERVAL: Duration = Duration::from_mins(5);
/// The maximum number of remembered warnings.
const MAX_WARNINGS: usize = 64;

/// The last warnings of one plugin.
#[derive(Debug, Default)]
pub(super) struct Repeats(Mutex<VecDeque<(u64, Throttle)>>);

impl Repeats {
    /// Records a warning. If it is due to be logged, returns the number of occurrences since it was last logged.
    pub(super) fn record(&self, context: &str, warning: &str) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        (context, warning).hash(&mut hasher);
        let hash = hasher.finish();
        let mut last = self.0.lock();
        if !last.iter().any(|(known, _)| *known == hash) {
            if last.len() >= MAX_WARNINGS {
                last.pop_front();
            }
            last.push_back((hash, Throttle::new(REPEAT_INTERVAL)));
        }
        let (_, throttle) = last.iter().find(|(known, _)| *known == hash)?;
        throttle.record().map(|suppressed| suppressed.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_that_repeats_is_logged_once_until_many_others_came() {
        let repeats = Repeats::default();
        assert_eq!(
            [repeats.record("", "a"), repeats.record("", "a"), repeats.record("x", "a")],
            [Some(1), None, Some(1)]
        );
        for number in 0..MAX_WARNINGS {
            assert_eq!(repeats.record("", &number.to_string()), Some(1));
        }
        assert_eq!(repeats.record("", "a"), Some(1));
    }
}
