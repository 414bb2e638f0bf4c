//! Times: `2s`, `250ms`, `1m 30s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::diagnostic::{Suggest, quote};
use super::quantity::{self, OutOfRange, QuantityError, bounded_value};
use super::reader::Schema;

/// A second, in the unit of the bounds of [`BoundedDuration`].
pub(super) const SECOND: u64 = 1000;
/// 60 seconds.
pub(super) const MINUTE: u64 = 60 * SECOND;
/// 60 minutes.
pub(super) const HOUR: u64 = 60 * MINUTE;
/// 24 hours.
pub(super) const DAY: u64 = 24 * HOUR;

/// A time, as a regular expression.
const PATTERN: &str = r"^\s*([0-9]+(\.[0-9]+)? *(ms|s|min|m|h|d) *)+\s*$";

/// The names of the units, for messages.
const UNITS: &str = "ms, s, m, min, h, d";

/// A time from `MIN` to `MAX` milliseconds. The default is `DEFAULT` milliseconds.
///
/// Written as a number, with or without a decimal fraction, and a unit: `ms`, `s`, `m` or `min`, `h`, `d`. Spaces may
/// stand between number and unit. Several quantities are added: `1m 30s`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundedDuration<const MIN: u64, const DEFAULT: u64, const MAX: u64>(Duration);

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> BoundedDuration<MIN, DEFAULT, MAX> {
    /// Returns the time.
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

/// The reason why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BoundedDurationError {
    /// The text is not a sequence of numbers with units.
    #[error("{} is not a time", quote(.0))]
    NotATime(String),
    /// The text is a number without a unit.
    #[error("the time `{found}` has no unit")]
    NoUnit {
        /// The text.
        found: String,
        /// The time that the author probably meant, or an example.
        suggestion: String,
    },
    /// A number is followed by an unknown unit.
    #[error("the time {} has an unknown unit", quote(.found))]
    UnknownUnit {
        /// The text.
        found: String,
        /// The time that the author probably meant, or an example.
        suggestion: String,
    },
    /// The time is too short or too long.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}

impl Suggest for BoundedDurationError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::NotATime(_) => format!("write a number and a unit, such as `{key} = \"2s\"`"),
            Self::NoUnit { suggestion, .. } => {
                format!("add a unit ({UNITS}) and put it in quotes, as in `{key} = \"{suggestion}\"`")
            }
            Self::UnknownUnit { suggestion, .. } => format!("the units are {UNITS}, as in `{key} = \"{suggestion}\"`"),
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

    /// The error for a number without a unit. Suggests the first usual unit that puts the number within the range: 10
    /// are seconds, 30000 are milliseconds.
    fn no_unit(found: &str) -> BoundedDurationError {
        let units = ["s", "ms", "m", "h", "d"];
        let suggestion = units.iter().map(|unit| format!("{found}{unit}")).find(|time| Self::is_valid(time));
        let suggestion = suggestion.unwrap_or_else(|| Self::default().to_string());
        BoundedDurationError::NoUnit { found: found.to_owned(), suggestion }
    }

    fn unknown_unit(found: &str) -> BoundedDurationError {
        let suggestion = quantity::correct_units(found, correct_unit).filter(|time| Self::is_valid(time));
        let suggestion = suggestion.unwrap_or_else(|| Self::default().to_string());
        BoundedDurationError::UnknownUnit { found: found.to_owned(), suggestion }
    }

    fn is_valid(text: &str) -> bool {
        parse_nanoseconds(text).is_ok_and(|nanoseconds| Self::try_from(Duration::from_nanos(nanoseconds)).is_ok())
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> FromStr for BoundedDuration<MIN, DEFAULT, MAX> {
    type Err = BoundedDurationError;

    fn from_str(text: &str) -> Result<Self, BoundedDurationError> {
        let trimmed = text.trim();
        match parse_nanoseconds(trimmed) {
            Ok(nanoseconds) => Self::try_from(Duration::from_nanos(nanoseconds))
                .map_err(|_| Self::out_of_range(trimmed.to_owned()).into()),
            Err(QuantityError::NoNumber) => Err(BoundedDurationError::NotATime(text.to_owned())),
            Err(QuantityError::NoUnit) => Err(Self::no_unit(trimmed)),
            Err(QuantityError::UnknownUnit) => Err(Self::unknown_unit(text)),
            Err(QuantityError::TooLarge) => Err(Self::out_of_range(trimmed.to_owned()).into()),
        }
    }
}

/// The sum of one or more quantities.
fn parse_nanoseconds(text: &str) -> Result<u64, QuantityError> {
    let (mut sum, mut rest) = quantity::parse_prefix(text, unit)?;
    while !rest.is_empty() {
        let (nanoseconds, behind) = quantity::parse_prefix(rest.trim_start_matches(' '), unit)?;
        sum = sum.checked_add(nanoseconds).ok_or(QuantityError::TooLarge)?;
        rest = behind;
    }
    Ok(sum)
}

/// The nanoseconds of the unit with this name.
fn unit(name: &str) -> Option<u64> {
    const MILLISECOND: u64 = 1_000_000;
    match name {
        "ms" => Some(MILLISECOND),
        "s" => SECOND.checked_mul(MILLISECOND),
        "m" | "min" => MINUTE.checked_mul(MILLISECOND),
        "h" => HOUR.checked_mul(MILLISECOND),
        "d" => DAY.checked_mul(MILLISECOND),
        _ => None,
    }
}

/// The unit that the author of an unknown name probably meant.
fn correct_unit(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    match if name.len() > 2 { name.trim_end_matches('s') } else { &name } {
        "ms" | "msec" | "milli" | "millisecond" => Some("ms"),
        "s" | "sec" | "second" => Some("s"),
        "m" | "min" | "minute" => Some("m"),
        "h" | "hr" | "hour" => Some("h"),
        "d" | "day" => Some("d"),
        _ => None,
    }
}

/// Formats a time in the units that the parser accepts.
fn format_duration(time: Duration) -> String {
    let mut rest = time.as_nanos();
    let mut parts = Vec::new();
    for (name, milliseconds) in [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)] {
        let unit = u128::from(milliseconds).saturating_mul(1_000_000);
        let count = rest.checked_div(unit).unwrap_or_default();
        rest = rest.checked_rem(unit).unwrap_or_default();
        if count > 0 {
            parts.push(format!("{count}{name}"));
        }
    }
    match (rest.div_euclid(1_000_000), rest.rem_euclid(1_000_000)) {
        (0, 0) if parts.is_empty() => parts.push("0s".to_owned()),
        (0, 0) => {}
        (milliseconds, 0) => parts.push(format!("{milliseconds}ms")),
        (milliseconds, nanoseconds) => {
            let fraction = format!("{nanoseconds:06}");
            parts.push(format!("{milliseconds}.{}ms", fraction.trim_end_matches('0')));
        }
    }
    parts.join(" ")
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> fmt::Display for BoundedDuration<MIN, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.0))
    }
}

bounded_value! {
    BoundedDuration<const MIN: u64, const DEFAULT: u64, const MAX: u64> as "a time", schema Schema::pattern(PATTERN),
    number |number| Some(Self::no_unit(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Deadline = BoundedDuration<10, { 5 * SECOND }, { 10 * MINUTE }>;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, milliseconds) in [
            ("2s", 2000),
            ("250ms", 250),
            ("1m", 60_000),
            ("1.5s", 1500),
            ("1m 30s", 90_000),
            (" 2 min ", 120_000),
            ("1m30s", 90_000),
            ("0.1h", 360_000),
        ] {
            assert_eq!(text.parse::<Deadline>().unwrap().duration(), Duration::from_millis(milliseconds), "{text}");
        }
    }

    #[test]
    fn a_time_is_shown_as_it_would_be_written() {
        assert_eq!(Deadline::default().to_string(), "5s");
        assert_eq!(Deadline::try_from(Duration::from_millis(90_250)).unwrap().to_string(), "1m 30s 250ms");
        assert_eq!(format_duration(Duration::ZERO), "0s");
        assert_eq!(format_duration(Duration::from_millis(30 * DAY)), "30d");
        assert_eq!(format_duration(Duration::from_millis(DAY + HOUR + 1)), "1d 1h 1ms");
        assert_eq!(format_duration(Duration::from_micros(1_050)), "1.05ms");
    }

    #[test]
    fn a_time_of_many_parts_is_out_of_range_and_not_too_much() {
        assert!(matches!("999999999d ".repeat(70).parse::<Deadline>(), Err(BoundedDurationError::OutOfRange(_))));
    }
}
