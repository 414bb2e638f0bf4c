//! Rates: calls (`10000/s`, `60/m`) and bytes (`64KiB/m`) per unit of time.

mod byte_rate;

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use governor::Quota;

pub use self::byte_rate::ByteRate;
use super::diagnostic::{Suggest, quote};
use super::quantity::{OutOfRange, bounded_value};
use super::reader::Schema;
use super::size;

/// The unit of time of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Period {
    /// `/s`
    Second,
    /// `/m` or `/min`
    Minute,
    /// `/h`
    Hour,
}

impl Period {
    /// Returns the length of the unit.
    pub fn duration(self) -> Duration {
        Duration::from_secs(self.seconds())
    }

    const fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "m",
            Self::Hour => "h",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "s" => Some(Self::Second),
            "m" | "min" => Some(Self::Minute),
            "h" => Some(Self::Hour),
            _ => None,
        }
    }

    /// The period that the author of an unknown name probably meant.
    fn correct(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        match if name.len() > 1 { name.trim_end_matches('s') } else { &name } {
            "s" | "sec" | "second" => Some(Self::Second),
            "m" | "min" | "minute" => Some(Self::Minute),
            "h" | "hr" | "hour" => Some(Self::Hour),
            _ => None,
        }
    }

    /// The unit with this number of seconds. Const parameters cannot be enums, so [`Rate`] has a number instead.
    const fn of_seconds(seconds: u64) -> Self {
        match seconds {
            1 => Self::Second,
            60 => Self::Minute,
            _ => Self::Hour,
        }
    }
}

/// A number of events per [`Period`], which may all occur at the same time (the burst of a token bucket): at least 1
/// per hour, at most `MAX` in `SECONDS`. The default is `DEFAULT` in `SECONDS`, which is 1, 60 or 3600.
///
/// Written as a whole number, a slash and a unit of time: `10000/s`, `60/m` or `60/min`, `5/h`.
///
/// ```
/// use mcp_host_config::limits::Limits;
/// use mcp_host_config::values::{Period, Rate};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut limits = Limits::default();
/// assert_eq!(limits.rate.to_string(), "10000/s");
/// limits.rate = "600/m".parse()?;
/// assert_eq!(limits.rate, Rate::new(600, Period::Minute)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate<const DEFAULT: u32, const MAX: u32, const SECONDS: u64> {
    count: NonZeroU32,
    period: Period,
}

/// The reason why a text is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// The text is not a number, a slash and a unit.
    #[error("{} is not a rate", quote(.found))]
    NotARate {
        /// The text.
        found: String,
        /// The rate that the author probably meant, or an example.
        suggestion: String,
    },
    /// The text is a number without a unit of time.
    #[error("the rate {} has no unit of time", quote(.found))]
    NoPeriod {
        /// The text without a unit of time.
        found: String,
        /// The text with a unit of time, or an example.
        suggestion: String,
    },
    /// The slash is followed by an unknown unit.
    #[error("the rate {} has an unknown unit of time", quote(.found))]
    UnknownPeriod {
        /// The text.
        found: String,
        /// The rate that the author probably meant, or an example.
        suggestion: String,
    },
    /// The part before the slash is not a size.
    #[error("{error}")]
    Size {
        /// The problem of the size.
        error: size::SizeError,
        /// The rate that the author probably meant.
        suggestion: String,
    },
    /// The rate is too low or too high.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}

/// Corrects a rate in words such as `5 calls per second`.
fn correct_prose(text: &str) -> Option<String> {
    /// More digits than any rate has.
    const MAX_DIGITS: usize = 10;
    let (count, rest) = text.split_once(' ')?;
    let (_, period) = rest.split_once("per ").or_else(|| rest.split_once('/'))?;
    let is_count = count.len() <= MAX_DIGITS && count.bytes().all(|byte| byte.is_ascii_digit());
    Period::correct(period).filter(|_| is_count).map(|period| format!("{count}/{}", period.symbol()))
}

impl Suggest for RateError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::NotARate { suggestion, .. } => {
                format!("write a number and a unit of time, such as `{key} = \"{suggestion}\"`")
            }
            Self::NoPeriod { suggestion, .. } => {
                format!("add a unit of time (/s, /m, /min, /h) and put it in quotes, as in `{key} = \"{suggestion}\"`")
            }
            Self::UnknownPeriod { suggestion, .. } => {
                format!("the units of time are /s, /m, /min, /h, as in `{key} = \"{suggestion}\"`")
            }
            Self::Size { suggestion, .. } => {
                format!("write a size and a unit of time, such as `{key} = \"{suggestion}\"`")
            }
            Self::OutOfRange(error) => error.suggestion(key),
        }
    }
}

impl<const DEFAULT: u32, const MAX: u32, const SECONDS: u64> Rate<DEFAULT, MAX, SECONDS> {
    const PERIOD: Period = Period::of_seconds(SECONDS);

    /// A rate of `count` events per `period`.
    ///
    /// # Errors
    ///
    /// The rate is 0, or higher than the maximum.
    pub fn new(count: u32, period: Period) -> Result<Self, OutOfRange> {
        let out_of_range = || Self::out_of_range(format!("{count}/{}", period.symbol()));
        let count = NonZeroU32::new(count).ok_or_else(out_of_range)?;
        let per_bound_period = u64::from(count.get()).saturating_mul(SECONDS);
        if per_bound_period <= u64::from(MAX).saturating_mul(period.seconds()) {
            Ok(Self { count, period })
        } else {
            Err(out_of_range())
        }
    }

    /// Returns the number of events in [`period`](Self::period), which is also the largest burst.
    pub fn count(self) -> NonZeroU32 {
        self.count
    }

    /// Returns the unit of time.
    pub fn period(self) -> Period {
        self.period
    }

    /// Returns the quota of a rate limiter with this number of events per unit of time of this rate.
    pub fn quota_of(self, count: NonZeroU32) -> Quota {
        Self { count, ..self }.quota()
    }

    /// Returns the quota of a rate limiter with this rate.
    pub fn quota(self) -> Quota {
        match self.period {
            Period::Second => Quota::per_second(self.count),
            Period::Minute => Quota::per_minute(self.count),
            Period::Hour => Quota::per_hour(self.count),
        }
    }

    fn out_of_range(found: String) -> OutOfRange {
        OutOfRange { found, min: "1/h".to_owned(), max: format!("{MAX}/{}", Self::PERIOD.symbol()) }
    }

    fn no_period(found: &str) -> RateError {
        let suggestion = Self::valid_or_default(Some(format!("{found}/{}", Self::PERIOD.symbol())));
        RateError::NoPeriod { found: found.to_owned(), suggestion }
    }

    /// The correction if it is a rate within the range, or the default.
    fn valid_or_default(correction: Option<String>) -> String {
        let valid = correction.filter(|correction| correction.parse::<Self>().is_ok());
        valid.unwrap_or_else(|| Self::default().to_string())
    }
}

impl<const DEFAULT: u32, const MAX: u32, const SECONDS: u64> Default for Rate<DEFAULT, MAX, SECONDS> {
    fn default() -> Self {
        const {
            assert!(1 <= DEFAULT && DEFAULT <= MAX, "the default lies within the range");
            assert!(matches!(SECONDS, 1 | 60 | 3600), "the unit is a second, a minute or an hour");
        }
        Self { count: NonZeroU32::new(DEFAULT).unwrap_or(NonZeroU32::MIN), period: Self::PERIOD }
    }
}

impl<const DEFAULT: u32, const MAX: u32, const SECONDS: u64> FromStr for Rate<DEFAULT, MAX, SECONDS> {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let trimmed = text.trim();
        let (count, period) = match trimmed.split_once('/') {
            Some((count, period)) => (count.trim_end_matches(' '), Some(period.trim_start_matches(' '))),
            None => (trimmed, None),
        };
        if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
            let suggestion = Self::valid_or_default(correct_prose(trimmed));
            return Err(RateError::NotARate { found: text.to_owned(), suggestion });
        }
        let period = period.ok_or_else(|| Self::no_period(trimmed))?;
        let period = Period::parse(period).ok_or_else(|| RateError::UnknownPeriod {
            found: text.to_owned(),
            suggestion: Self::valid_or_default(
                Period::correct(period).map(|period| format!("{count}/{}", period.symbol())),
            ),
        })?;
        let out_of_range = || Self::out_of_range(trimmed.to_owned());
        Ok(count.parse().map_or_else(|_| Err(out_of_range()), |count| Self::new(count, period))?)
    }
}

impl<const DEFAULT: u32, const MAX: u32, const SECONDS: u64> fmt::Display for Rate<DEFAULT, MAX, SECONDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.period.symbol())
    }
}

bounded_value! {
    Rate<const DEFAULT: u32, const MAX: u32, const SECONDS: u64> as "a rate",
    schema Schema::pattern(r"^\s*[0-9]+ */ *(s|m|min|h)\s*$"),
    number |number| (!number.contains('.')).then(|| Self::no_period(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Calls = Rate<10_000, 1_000_000, 1>;
    type Requests = Rate<60, 100_000, 60>;

    #[test]
    fn a_rate_is_a_number_and_a_unit_of_time() {
        assert_eq!((Calls::default().to_string(), Requests::default().to_string()), ("10000/s".into(), "60/m".into()));
        for (text, count, period) in [
            ("10000/s", 10_000, Period::Second),
            ("1/h", 1, Period::Hour),
            ("60/min", 60, Period::Minute),
            (" 60 / m ", 60, Period::Minute),
            ("3600000000/h", 3_600_000_000, Period::Hour),
        ] {
            let rate: Calls = text.parse().unwrap();
            assert_eq!((rate.count().get(), rate.period()), (count, period), "{text}");
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }

    #[test]
    fn a_rate_is_within_its_bounds_in_every_unit_of_time() {
        assert!("1000000/s".parse::<Calls>().is_ok() && "60000000/m".parse::<Calls>().is_ok());
        assert!("1666/s".parse::<Requests>().is_ok());
        assert!("1667/s".parse::<Requests>().is_err());
    }

    #[test]
    fn the_quota_of_a_rate_has_a_burst_of_its_count() {
        let quota = "3600000000/h".parse::<Calls>().unwrap().quota();
        assert_eq!((quota.burst_size().get(), quota.replenish_interval()), (3_600_000_000, Duration::from_micros(1)));
        assert_eq!("600/m".parse::<Calls>().unwrap().quota().replenish_interval(), Duration::from_millis(100));
    }
}
