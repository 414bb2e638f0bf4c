//! `poll = true`: what an upstream cannot notify of is read again, and compared by its digest.
//!
//! A resource is read again when the host asks and its time to live is over. The first reading is the state to compare with.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// The longest time to live that delays a reading.
const MAX_TTL: Duration = Duration::from_secs(3600);

/// What was read of each watched resource.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    by_key: HashMap<String, Reading>,
}

#[derive(Debug)]
struct Reading {
    digest: [u8; 32],
    due: Instant,
    asked_at: Instant,
}

impl Readings {
    /// Returns those of the keys that are to be read, and forgets what was not asked for during `idle`.
    pub(crate) fn due<'a>(&mut self, keys: impl Iterator<Item = &'a str>, now: Instant, idle: Duration) -> Vec<String> {
        let mut due = Vec::new();
        for key in keys {
            match self.by_key.get_mut(key) {
                Some(reading) => {
                    reading.asked_at = now;
                    if reading.due <= now {
                        due.push(key.to_owned());
                    }
                }
                None => due.push(key.to_owned()),
            }
        }
        self.by_key.retain(|_, reading| now.saturating_duration_since(reading.asked_at) < idle);
        due
    }

    /// Records what was read. Returns whether it is something else than before.
    pub(crate) fn record(&mut self, key: &str, content: &[u8], ttl: Option<Duration>, now: Instant) -> bool {
        let digest = Sha256::digest(content).into();
        let due = now.checked_add(ttl.unwrap_or_default().min(MAX_TTL)).unwrap_or(now);
        let reading = Reading { digest, due, asked_at: now };
        self.by_key.insert(key.to_owned(), reading).is_some_and(|before| before.digest != digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    #[test]
    fn a_resource_is_read_again_when_its_time_to_live_is_over() {
        let (mut readings, start) = (Readings::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(readings.due(["a"].into_iter(), start, IDLE), ["a"]);
        assert!(
            !readings.record("a", b"1", Some(Duration::from_secs(10)), start),
            "the first is compared with nothing"
        );
        assert!(readings.due(["a"].into_iter(), after(9), IDLE).is_empty());
        assert_eq!(readings.due(["a"].into_iter(), after(10), IDLE), ["a"]);
        assert!(!readings.record("a", b"1", None, after(10)));
        assert!(readings.record("a", b"2", None, after(11)));
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let (mut readings, start) = (Readings::default(), Instant::now());
        readings.record("a", b"1", None, start);
        readings.due(["b"].into_iter(), start + IDLE, IDLE);
        assert!(!readings.record("a", b"2", None, start + IDLE));
    }
}
