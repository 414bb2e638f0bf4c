//! Times as people write them: `2s`, `250ms`, `1m 30s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use toml::de::DeValue;

use super::error::{Suggest, quote};
use super::range::OutOfRange;
use super::reader::{FromNode, Node};

/// A second, in the unit of the bounds of [`BoundedDuration`].
pub(super) const SECOND: u64 = 1000;
/// 60 seconds.
pub(super) const MINUTE: u64 = 60 * SECOND;
/// 60 minutes.
pub(super) const HOUR: u64 = 60 * MINUTE;

/// A time from `MIN` to `MAX` milliseconds. Its default is `DEFAULT` milliseconds.
///
/// Written as a number, with a decimal point if need be, and a unit: `ms`, `s`, `m`, `h`. Several may follow each other:
/// `1m 30s`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundedDuration<const MIN: u64, const DEFAULT: u64, const MAX: u64>(Duration);

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> BoundedDuration<MIN, DEFAULT, MAX> {
    /// How long that is.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> Default for BoundedDuration<MIN, DEFAULT, MAX> {
    fn default() -> Self {
        const { assert!(MIN <= DEFAULT && DEFAULT <= MAX, "the default lies within the range") };
        Self(Duration::from_millis(DEFAULT))
    }
}

/// Why a text is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundedDurationError {
    /// It is not made of numbers and units.
    #[error("{} is not a time", quote(.0))]
    NotATime(String),
    /// It is a number only.
    #[error("the time `{0}` has no unit")]
    NoUnit(String),
    /// What follows the number is no unit.
    #[error("the time {} has an unknown unit", quote(.0))]
    UnknownUnit(String),
    /// It is too short or too long.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}

impl Suggest for BoundedDurationError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::NotATime(_) => format!("write a number and a unit, such as `{key} = \"2s\"`"),
            Self::NoUnit(number) => {
                format!("add a unit (ms, s, m, h) and put it in quotes: `{key} = \"{number}s\"`")
            }
            Self::UnknownUnit(_) => format!("the units are ms, s, m, h: `{key} = \"2s\"`"),
            Self::OutOfRange(error) => error.suggestion(key),
        }
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> TryFrom<Duration> for BoundedDuration<MIN, DEFAULT, MAX> {
    type Error = OutOfRange;

    fn try_from(time: Duration) -> Result<Self, OutOfRange> {
        if (Duration::from_millis(MIN)..=Duration::from_millis(MAX)).contains(&time) {
            Ok(Self(time))
        } else {
            Err(Self::out_of_range(format_duration(time)))
        }
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> BoundedDuration<MIN, DEFAULT, MAX> {
    fn out_of_range(found: String) -> OutOfRange {
        let milliseconds = |bound| format_duration(Duration::from_millis(bound));
        OutOfRange { found, min: milliseconds(MIN), max: milliseconds(MAX) }
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> FromStr for BoundedDuration<MIN, DEFAULT, MAX> {
    type Err = BoundedDurationError;

    fn from_str(text: &str) -> Result<Self, BoundedDurationError> {
        use humantime::DurationError;

        let trimmed = text.trim();
        if !trimmed.is_empty() && trimmed.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return Err(BoundedDurationError::NoUnit(trimmed.to_owned()));
        }
        if !is_summable(trimmed) {
            return Err(Self::out_of_range(text.to_owned()).into());
        }
        match humantime::parse_duration(trimmed) {
            Ok(time) => Self::try_from(time).map_err(|_| Self::out_of_range(trimmed.to_owned()).into()),
            Err(DurationError::UnknownUnit { .. }) => Err(BoundedDurationError::UnknownUnit(text.to_owned())),
            Err(DurationError::NumberOverflow) => Err(Self::out_of_range(trimmed.to_owned()).into()),
            Err(_) => Err(BoundedDurationError::NotATime(text.to_owned())),
        }
    }
}

/// Whether its parts are so small and so few that their sum is a `Duration`. `humantime` panics on some sums that are not.
fn is_summable(text: &str) -> bool {
    const MAX_LEN: usize = 64;
    const MAX_DIGITS: usize = 9;
    text.len() <= MAX_LEN && text.split(|c: char| !c.is_ascii_digit()).all(|digits| digits.len() <= MAX_DIGITS)
}

fn format_duration(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> fmt::Display for BoundedDuration<MIN, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.0))
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> fmt::Debug for BoundedDuration<MIN, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> FromNode for BoundedDuration<MIN, DEFAULT, MAX> {
    const TYPE_NAME: &'static str = "a time";

    fn example() -> String {
        format!("\"{}\"", Self::default())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        if let DeValue::Integer(number) = node.value {
            node.reject(&BoundedDurationError::NoUnit(number.to_string()));
            return None;
        }
        node.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Deadline = BoundedDuration<10, { 5 * SECOND }, { 10 * MINUTE }>;

    fn error(text: &str) -> String {
        text.parse::<Deadline>().unwrap_err().to_string()
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, milliseconds) in
            [("2s", 2000), ("250ms", 250), ("1m", 60_000), ("1.5s", 1500), ("1m 30s", 90_000), (" 2 min ", 120_000)]
        {
            assert_eq!(text.parse::<Deadline>().unwrap().duration(), Duration::from_millis(milliseconds), "{text}");
        }
    }

    #[test]
    fn a_time_is_shown_as_it_would_be_written() {
        assert_eq!(Deadline::default().to_string(), "5s");
        assert_eq!(Deadline::try_from(Duration::from_millis(90_250)).unwrap().to_string(), "1m 30s 250ms");
    }

    #[test]
    fn what_is_no_time_is_refused_for_its_own_reason() {
        assert_eq!(error("2"), "the time `2` has no unit");
        assert_eq!(error("2 parsecs"), "the time `2 parsecs` has an unknown unit");
        assert_eq!(error("soon"), "`soon` is not a time");
        assert_eq!(error(""), "`` is not a time");
        assert_eq!(error("-1s"), "`-1s` is not a time");
        assert_eq!(error("1h"), "`1h` is not between 10ms and 10m");
        assert_eq!(error("1ns"), "`1ns` is not between 10ms and 10m");
    }

    #[test]
    fn a_time_whose_sum_overflows_is_out_of_range() {
        assert_eq!(error("18446744073709551615s 1000ms"), "`18446744073709551615s 1000ms` is not between 10ms and 10m");
        assert!("999999999years ".repeat(70).parse::<Deadline>().is_err());
    }
}
