//! Sizes in bytes: `64MiB`, `1.5GiB`, `64MB`.

use std::fmt;
use std::str::FromStr;

use toml::de::DeValue;

use super::diagnostic::{Suggest, quote};
use super::quantity::{self, OutOfRange, QuantityError, bounded_value};
use super::reader::Schema;

/// 1024 bytes.
pub(super) const KIB: u64 = bytesize::KIB;
/// 1024 KiB.
pub(super) const MIB: u64 = bytesize::MIB;
/// 1024 MiB.
pub(super) const GIB: u64 = bytesize::GIB;
/// 1024 GiB.
pub(super) const TIB: u64 = bytesize::TIB;

/// A size, as a regular expression.
pub(super) const PATTERN: &str = r"[0-9]+(\.[0-9]+)? *([kKmMgGtT][iI]?)?[bB]";

/// The names of the units, for messages.
const UNITS: &str = "B, KiB, MiB, GiB, TiB, KB, MB, GB, TB";

/// A number of bytes from `MIN` to `MAX`. The default is `DEFAULT`.
///
/// Written as a number, with or without a decimal fraction, and a unit: `B`, a decimal unit (`KB`, `MB`, `GB`, `TB`:
/// powers of 1000) or a binary unit (`KiB`, `MiB`, `GiB`, `TiB`: powers of 1024). The case of the unit does not matter
/// (`64mb` is `64MB`), and spaces may stand between number and unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size<const MIN: u64, const DEFAULT: u64, const MAX: u64>(u64);

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> Size<MIN, DEFAULT, MAX> {
    /// The number of bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> Default for Size<MIN, DEFAULT, MAX> {
    fn default() -> Self {
        const { assert!(MIN <= DEFAULT && DEFAULT <= MAX, "the default lies within the range") };
        Self(DEFAULT)
    }
}

/// The reason why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// The text does not begin with a number.
    #[error("{} is not a size", quote(.found))]
    NoNumber {
        /// The text.
        found: String,
        /// An example.
        suggestion: String,
    },
    /// The text is a number without a unit.
    #[error("the size `{found}` has no unit")]
    NoUnit {
        /// The text.
        found: String,
        /// The size that the author probably meant, or an example.
        suggestion: String,
    },
    /// The number is followed by an unknown unit.
    #[error("the size {} has an unknown unit", quote(.found))]
    UnknownUnit {
        /// The text.
        found: String,
        /// The size that the author probably meant, or an example.
        suggestion: String,
    },
    /// The size is too small or too large.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}

impl Suggest for SizeError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::NoNumber { suggestion, .. } => {
                format!("write a number and a unit, such as `{key} = \"{suggestion}\"`")
            }
            Self::NoUnit { suggestion, .. } => {
                format!("add a unit ({UNITS}) and put it in quotes, as in `{key} = \"{suggestion}\"`")
            }
            Self::UnknownUnit { suggestion, .. } => format!("the units are {UNITS}, as in `{key} = \"{suggestion}\"`"),
            Self::OutOfRange(error) => error.suggestion(key),
        }
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> TryFrom<u64> for Size<MIN, DEFAULT, MAX> {
    type Error = OutOfRange;

    fn try_from(bytes: u64) -> Result<Self, OutOfRange> {
        if (MIN..=MAX).contains(&bytes) { Ok(Self(bytes)) } else { Err(Self::out_of_range(format_bytes(bytes))) }
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> Size<MIN, DEFAULT, MAX> {
    fn out_of_range(found: String) -> OutOfRange {
        OutOfRange { found, min: format_bytes(MIN), max: format_bytes(MAX) }
    }

    /// The error for a number without a unit. Suggests the first usual unit that puts the number within the range: 64
    /// are MiB, 67108864 are bytes.
    fn no_unit(found: &str) -> SizeError {
        let default = Self::default().to_string();
        let of_default = default.trim_start_matches(|c: char| c.is_ascii_digit());
        let units = ["MiB", of_default, "B", "KiB", "GiB", "TiB"];
        let suggestion = units.iter().map(|unit| format!("{found}{unit}")).find(|size| Self::is_valid(size));
        SizeError::NoUnit { found: found.to_owned(), suggestion: suggestion.unwrap_or(default) }
    }

    fn unknown_unit(found: &str) -> SizeError {
        let suggestion = quantity::correct_units(found, correct_unit).filter(|size| Self::is_valid(size));
        let suggestion = suggestion.unwrap_or_else(|| Self::default().to_string());
        SizeError::UnknownUnit { found: found.to_owned(), suggestion }
    }

    fn is_valid(text: &str) -> bool {
        quantity::parse(text, unit).is_ok_and(|bytes| (MIN..=MAX).contains(&bytes))
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> FromStr for Size<MIN, DEFAULT, MAX> {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let trimmed = text.trim();
        match quantity::parse(trimmed, unit) {
            Ok(bytes) => Self::try_from(bytes).map_err(|_| Self::out_of_range(trimmed.to_owned()).into()),
            Err(QuantityError::NoNumber) => {
                Err(SizeError::NoNumber { found: text.to_owned(), suggestion: Self::default().to_string() })
            }
            Err(QuantityError::NoUnit) => Err(Self::no_unit(trimmed)),
            Err(QuantityError::UnknownUnit) => Err(Self::unknown_unit(text)),
            Err(QuantityError::TooLarge) => Err(Self::out_of_range(trimmed.to_owned()).into()),
        }
    }
}

/// The bytes of the unit with this name, in any case. A bare `M` is not a unit, because it may be decimal or binary.
pub(super) fn unit(name: &str) -> Option<u64> {
    match name.to_ascii_lowercase().as_str() {
        "b" => Some(1),
        "kb" => Some(bytesize::KB),
        "mb" => Some(bytesize::MB),
        "gb" => Some(bytesize::GB),
        "tb" => Some(bytesize::TB),
        "kib" => Some(KIB),
        "mib" => Some(MIB),
        "gib" => Some(GIB),
        "tib" => Some(TIB),
        _ => None,
    }
}

/// The unit that the author of an unknown name probably meant.
pub(super) fn correct_unit(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    match name.trim_end_matches('s') {
        "b" | "byte" => Some("B"),
        "k" | "ki" | "kib" | "kibibyte" => Some("KiB"),
        "m" | "mi" | "mib" | "meg" | "mebibyte" => Some("MiB"),
        "g" | "gi" | "gib" | "gig" | "gibibyte" => Some("GiB"),
        "t" | "ti" | "tib" | "tebibyte" => Some("TiB"),
        "kb" | "kilobyte" => Some("KB"),
        "mb" | "megabyte" => Some("MB"),
        "gb" | "gigabyte" => Some("GB"),
        "tb" | "terabyte" => Some("TB"),
        _ => None,
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> fmt::Display for Size<MIN, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_bytes(self.0))
    }
}

/// The shortest exact notation of a size.
pub(super) fn format_bytes(bytes: u64) -> String {
    [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")]
        .into_iter()
        .filter(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit))
        .find_map(|(unit, name)| Some(format!("{}{name}", bytes.checked_div(unit)?)))
        .unwrap_or_else(|| format!("{bytes}B"))
}

bounded_value! {
    Size<const MIN: u64, const DEFAULT: u64, const MAX: u64> as "a size",
    schema Schema::pattern(&format!("^\\s*{PATTERN}\\s*$")),
    number |number| Some(Self::no_unit(number)),
    // `false` means zero bytes.
    advice |node| {
        let is_off = MIN == 0 && matches!(node.value, DeValue::Boolean(false));
        is_off.then(|| format!("write {}", node.assignment_hint("\"0B\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Memory = Size<MIB, { 64 * MIB }, { 4 * GIB }>;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("64MiB", 64 * MIB),
            ("1.5GiB", 3 * GIB / 2),
            ("64MB", 64_000_000),
            ("64 MiB", 64 * MIB),
            (" 2gib ", 2 * GIB),
            ("64mb", 64_000_000),
            ("0.001TiB", TIB / 1000),
            ("1048576B", MIB),
        ] {
            assert_eq!(text.parse::<Memory>().unwrap().bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn a_size_is_shown_as_it_would_be_written() {
        assert_eq!(Memory::default().to_string(), "64MiB");
        assert_eq!(Memory::try_from(4 * GIB).unwrap().to_string(), "4GiB");
        assert_eq!(Memory::try_from(MIB + 1).unwrap().to_string(), "1048577B");
        assert_eq!(Size::<0, 0, 1>::default().to_string(), "0B");
    }
}
