//! Whole numbers with bounds: `concurrency = 8`, `page-size = 1000`.

use std::fmt;

use toml::de::DeValue;

use super::quantity::OutOfRange;
use super::reader::{FromNode, Node, Schema};

/// A whole number from `MIN` to `MAX`. The default is `DEFAULT`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count<const MIN: usize, const DEFAULT: usize, const MAX: usize>(usize);

impl<const MIN: usize, const DEFAULT: usize, const MAX: usize> Count<MIN, DEFAULT, MAX> {
    /// Returns the number.
    pub fn get(self) -> usize {
        self.0
    }
}

impl<const MIN: usize, const DEFAULT: usize, const MAX: usize> Default for Count<MIN, DEFAULT, MAX> {
    fn default() -> Self {
        const { assert!(MIN <= DEFAULT && DEFAULT <= MAX, "the default lies within the range") };
        Self(DEFAULT)
    }
}

impl<const MIN: usize, const DEFAULT: usize, const MAX: usize> TryFrom<usize> for Count<MIN, DEFAULT, MAX> {
    type Error = OutOfRange;

    fn try_from(count: usize) -> Result<Self, OutOfRange> {
        if (MIN..=MAX).contains(&count) { Ok(Self(count)) } else { Err(Self::out_of_range(count.to_string())) }
    }
}

impl<const MIN: usize, const DEFAULT: usize, const MAX: usize> Count<MIN, DEFAULT, MAX> {
    fn out_of_range(found: String) -> OutOfRange {
        OutOfRange { found, min: MIN.to_string(), max: MAX.to_string() }
    }
}

impl<const MIN: usize, const DEFAULT: usize, const MAX: usize> fmt::Display for Count<MIN, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MIN: usize, const DEFAULT: usize, const MAX: usize> fmt::Debug for Count<MIN, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const MIN: usize, const DEFAULT: usize, const MAX: usize> FromNode for Count<MIN, DEFAULT, MAX> {
    const TYPE_NAME: &'static str = "a whole number";

    fn example() -> String {
        Self::default().to_string()
    }

    fn advice(node: &Node<'_>) -> Option<String> {
        let written = match node.value {
            DeValue::String(text) => text.trim().to_owned(),
            _ => node.number()?,
        };
        let whole = match written.split_once('.') {
            Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole,
            _ => &written,
        };
        let count = Self::try_from(whole.parse::<usize>().ok()?).ok()?;
        Some(format!("write {}", node.assignment_hint(&count.to_string())))
    }

    fn schema() -> Schema {
        Schema::integer(MIN, MAX).with("default", DEFAULT)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let DeValue::Integer(written) = node.value else {
            node.expected_type::<Self>();
            return None;
        };
        let count = usize::from_str_radix(written.as_str(), written.radix());
        let error = match count.map(Self::try_from) {
            Ok(Ok(count)) => return Some(count),
            Ok(Err(error)) => error,
            Err(_) => Self::out_of_range(written.to_string()),
        };
        node.reject(&error);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Concurrency = Count<1, 8, 64>;

    #[test]
    fn a_count_lies_within_its_range() {
        assert_eq!(Concurrency::default().get(), 8);
        assert_eq!(Concurrency::try_from(64).unwrap().get(), 64);
        assert!(Concurrency::try_from(0).is_err() && Concurrency::try_from(65).is_err());
    }
}
