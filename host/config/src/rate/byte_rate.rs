//! Sizes per unit of time: `64KiB/m`.

use std::fmt;
use std::str::FromStr;

use super::{Period, RateError};
use crate::quantity::{self, OutOfRange, QuantityError, bounded_value};
use crate::reader::Schema;
use crate::size;

/// A number of bytes per minute from `MIN` to `MAX`. The burst is one minute's worth. The default is `DEFAULT`.
///
/// Written as a [size](crate::size::Size), a slash and a unit of time: `64KiB/m`. A rate in another unit of time is the
/// same rate per minute: `1KiB/s` is `60KiB/m`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate<const MIN: u64, const DEFAULT: u64, const MAX: u64>(u64);

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> ByteRate<MIN, DEFAULT, MAX> {
    /// A rate of `bytes` per `period`.
    ///
    /// # Errors
    ///
    /// The rate is lower than the minimum or higher than the maximum.
    pub fn new(bytes: u64, period: Period) -> Result<Self, OutOfRange> {
        let per_minute = bytes.saturating_mul(60).checked_div(period.seconds()).unwrap_or_default();
        if (MIN..=MAX).contains(&per_minute) {
            Ok(Self(per_minute))
        } else {
            Err(Self::out_of_range(format!("{}/{}", size::format_bytes(bytes), period.symbol())))
        }
    }

    /// Returns the number of bytes in a minute, which is also the largest burst.
    pub fn bytes_per_minute(self) -> u64 {
        self.0
    }

    fn out_of_range(found: String) -> OutOfRange {
        let per_minute = |bytes| format!("{}/m", size::format_bytes(bytes));
        OutOfRange { found, min: per_minute(MIN), max: per_minute(MAX) }
    }

    /// The error for a size without a unit. Suggests the first usual unit that puts the rate within the range.
    fn no_unit(written: &str, period: Option<&str>) -> RateError {
        let sizes = ["KiB", "MiB", "B", "GiB"].map(|unit| format!("{written}{unit}"));
        let suggestion = Self::first_valid(sizes, period);
        let of_size = suggestion.split('/').next().unwrap_or_default().to_owned();
        let error = size::SizeError::NoUnit { found: written.to_owned(), suggestion: of_size };
        RateError::Size { error, suggestion }
    }

    fn unknown_unit(written: &str, period: Option<&str>) -> RateError {
        let suggestion = Self::first_valid(quantity::correct_units(written, size::correct_unit), period);
        let of_size = suggestion.split('/').next().unwrap_or_default().to_owned();
        let error = size::SizeError::UnknownUnit { found: written.to_owned(), suggestion: of_size };
        RateError::Size { error, suggestion }
    }

    /// The first of these sizes that is within the range per period, or the default rate.
    fn first_valid(sizes: impl IntoIterator<Item = String>, period: Option<&str>) -> String {
        let period = period.and_then(|period| Period::parse(period).or_else(|| Period::correct(period)));
        let period = period.unwrap_or(Period::Minute);
        let is_valid =
            |size: &String| quantity::parse(size, size::unit).is_ok_and(|bytes| Self::new(bytes, period).is_ok());
        let size = sizes.into_iter().find(is_valid);
        size.map_or_else(|| Self::default().to_string(), |size| format!("{size}/{}", period.symbol()))
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> Default for ByteRate<MIN, DEFAULT, MAX> {
    fn default() -> Self {
        const { assert!(MIN <= DEFAULT && DEFAULT <= MAX, "the default lies within the range") };
        Self(DEFAULT)
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> FromStr for ByteRate<MIN, DEFAULT, MAX> {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let trimmed = text.trim();
        let (written, period) = match trimmed.split_once('/') {
            Some((written, period)) => (written.trim_end_matches(' '), Some(period.trim_start_matches(' '))),
            None => (trimmed, None),
        };
        let bytes = match quantity::parse(written, size::unit) {
            Ok(bytes) => bytes,
            Err(QuantityError::NoNumber) => {
                return Err(RateError::NotARate { found: text.to_owned(), suggestion: Self::default().to_string() });
            }
            Err(QuantityError::NoUnit) => return Err(Self::no_unit(written, period)),
            Err(QuantityError::UnknownUnit) => return Err(Self::unknown_unit(written, period)),
            Err(QuantityError::TooLarge) => return Err(Self::out_of_range(trimmed.to_owned()).into()),
        };
        let Some(period) = period else {
            let suggestion = Self::first_valid(Some(written.to_owned()), None);
            return Err(RateError::NoPeriod { found: trimmed.to_owned(), suggestion });
        };
        let Some(period) = Period::parse(period) else {
            let meant = Period::correct(period).map(|_| written.to_owned());
            let suggestion = Self::first_valid(meant, Some(period));
            return Err(RateError::UnknownPeriod { found: text.to_owned(), suggestion });
        };
        Self::new(bytes, period).map_err(|_| Self::out_of_range(trimmed.to_owned()).into())
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> fmt::Display for ByteRate<MIN, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/m", size::format_bytes(self.0))
    }
}

bounded_value! {
    ByteRate<const MIN: u64, const DEFAULT: u64, const MAX: u64> as "a size per unit of time",
    schema Schema::pattern(&format!(r"^\s*{} */ *(s|m|min|h)\s*$", size::PATTERN)),
    number |number| Some(Self::no_unit(number, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Log = ByteRate<1024, 65_536, 16_777_216>;

    #[test]
    fn a_byte_rate_is_a_size_and_a_unit_of_time() {
        assert_eq!(Log::default().to_string(), "64KiB/m");
        for (text, bytes) in [("1KiB/m", 1024), ("1KiB/s", 61_440), ("1.5 MiB / min", 1_572_864), ("60KiB/h", 1024)] {
            assert_eq!(text.parse::<Log>().unwrap().bytes_per_minute(), bytes, "{text}");
        }
    }
}
