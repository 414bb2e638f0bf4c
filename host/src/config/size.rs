//! Sizes as people write them: `64MiB`, `1.5GiB`, `64MB`.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use toml::de::DeValue;

use super::error::{Suggest, quote};
use super::range::OutOfRange;
use super::reader::{FromNode, Node};

/// 1024 bytes.
pub(super) const KIB: u64 = bytesize::KIB;
/// 1024 KiB.
pub(super) const MIB: u64 = bytesize::MIB;
/// 1024 MiB.
pub(super) const GIB: u64 = bytesize::GIB;

/// A number of bytes from `MIN` to `MAX`. Its default is `DEFAULT`.
///
/// Written as a number, with a decimal point if need be, and a unit: `B`, the decimal `KB`, `MB`, `GB` (1000 each) or the
/// binary `KiB`, `MiB`, `GiB` (1024 each), in any case.
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

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It does not begin with a number.
    #[error("{} is not a size", quote(.0))]
    NoNumber(String),
    /// It is a number only.
    #[error("the size `{0}` has no unit")]
    NoUnit(String),
    /// What follows the number is no unit.
    #[error("the size {} has an unknown unit", quote(.0))]
    UnknownUnit(String),
    /// It is too small or too large.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}

impl Suggest for SizeError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::NoNumber(_) => format!("write a number and a unit, such as `{key} = \"64MiB\"`"),
            Self::NoUnit(number) => {
                format!("add a unit (B, KiB, MiB, GiB, KB, MB, GB) and put it in quotes: `{key} = \"{number}MiB\"`")
            }
            Self::UnknownUnit(_) => format!("the units are B, KiB, MiB, GiB, KB, MB, GB: `{key} = \"64MiB\"`"),
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
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> FromStr for Size<MIN, DEFAULT, MAX> {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let trimmed = text.trim();
        let unit = trimmed.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if unit.len() == trimmed.len() {
            return Err(SizeError::NoNumber(text.to_owned()));
        }
        if unit.is_empty() {
            return Err(SizeError::NoUnit(trimmed.to_owned()));
        }
        // A bare `M` is decimal to some and binary to others.
        if !unit.ends_with(['b', 'B']) || unit.trim_start().parse::<bytesize::Unit>().is_err() {
            return Err(SizeError::UnknownUnit(text.to_owned()));
        }
        let size: ByteSize = trimmed.parse().map_err(|_| SizeError::NoNumber(text.to_owned()))?;
        Self::try_from(size.as_u64()).map_err(|_| Self::out_of_range(trimmed.to_owned()).into())
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> fmt::Display for Size<MIN, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_bytes(self.0))
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> fmt::Debug for Size<MIN, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The shortest way to write it exactly.
fn format_bytes(bytes: u64) -> String {
    [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")]
        .into_iter()
        .filter(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit))
        .find_map(|(unit, name)| Some(format!("{}{name}", bytes.checked_div(unit)?)))
        .unwrap_or_else(|| format!("{bytes}B"))
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> FromNode for Size<MIN, DEFAULT, MAX> {
    const TYPE_NAME: &'static str = "a size";

    fn example() -> String {
        format!("\"{}\"", Self::default())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        if let DeValue::Integer(number) = node.value {
            node.reject(&SizeError::NoUnit(number.to_string()));
            return None;
        }
        node.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Memory = Size<MIB, { 64 * MIB }, { 4 * GIB }>;

    fn error(text: &str) -> String {
        text.parse::<Memory>().unwrap_err().to_string()
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("64MiB", 64 * MIB),
            ("1.5GiB", 3 * GIB / 2),
            ("64MB", 64_000_000),
            ("64 MiB", 64 * MIB),
            (" 2gib ", 2 * GIB),
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

    #[test]
    fn what_is_no_size_is_refused_for_its_own_reason() {
        assert_eq!(error("64"), "the size `64` has no unit");
        assert_eq!(error("64M"), "the size `64M` has an unknown unit");
        assert_eq!(error("64 parsecs"), "the size `64 parsecs` has an unknown unit");
        assert_eq!(error("much"), "`much` is not a size");
        assert_eq!(error(""), "`` is not a size");
        assert_eq!(error("-1MiB"), "`-1MiB` is not a size");
        assert_eq!(error("1.2.3MiB"), "`1.2.3MiB` is not a size");
        assert_eq!(error("6４MiB"), "the size `6４MiB` has an unknown unit");
        assert_eq!(error("1KiB"), "`1KiB` is not between 1MiB and 4GiB");
        assert_eq!(error("99999999999999999999EiB"), "`99999999999999999999EiB` is not between 1MiB and 4GiB");
    }
}
