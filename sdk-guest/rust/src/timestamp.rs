//! RFC 3339 timestamps, the format that the contract requires.

use std::fmt;
use std::time::SystemTime;

/// An RFC 3339 timestamp: `2025-01-12T15:00:58Z`.
///
/// Created from a [`SystemTime`] (such as a file's modification time; in UTC, truncated to seconds) or from text,
/// which is passed through unchecked: the host drops invalid timestamps.
///
/// ```
/// use mcp_provider::Timestamp;
/// use std::time::{Duration, SystemTime};
///
/// let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_736_694_058);
/// assert_eq!(Timestamp::from(time).as_str(), "2025-01-12T15:00:58Z");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timestamp(String);

impl Timestamp {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Converts into the text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Timestamp {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Timestamp {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Rounds down to seconds. A time beyond the years that RFC 3339 can represent is clamped to the last one.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let seconds = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            Err(before) => {
                let before = before.duration();
                let part = i64::from(before.subsec_nanos() > 0);
                i64::try_from(before.as_secs()).map_or(i64::MIN, |whole| whole.saturating_neg().saturating_sub(part))
            }
        };
        let seconds = seconds.clamp(YEAR_0, jiff::Timestamp::MAX.as_second());
        Self(jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string())
    }
}

/// The first second of year 0, the first year that RFC 3339 can represent with four digits.
const YEAR_0: i64 = -62_167_219_200;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn a_time_is_written_in_utc_to_the_second() {
        let time = at(1_736_694_058) + Duration::from_millis(900);
        assert_eq!(Timestamp::from(time).as_str(), "2025-01-12T15:00:58Z");
    }

    #[test]
    fn a_time_before_the_epoch_is_rounded_down_like_any_other() {
        let time = SystemTime::UNIX_EPOCH - Duration::from_millis(100);
        assert_eq!(Timestamp::from(time).as_str(), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn a_time_beyond_four_digits_of_year_stays_a_timestamp() {
        assert!(Timestamp::from(at(300_000_000_000)).as_str().starts_with("9999-12-"));
    }

    #[test]
    fn text_is_taken_as_it_stands() {
        assert_eq!(Timestamp::from("2025-01-12T15:00:58+09:00").to_string(), "2025-01-12T15:00:58+09:00");
    }
}
