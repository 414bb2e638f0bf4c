//! Parser of a number with a unit, shared by sizes (`64MiB`), times (`1m 30s`) and rates (`10000/s`).
//!
//! ```text
//! number   = digits [ "." digits ]
//! quantity = number *" " unit
//! ```
//!
//! Arithmetic is on integers, in the smallest unit, and truncates: `1.5GiB` is exactly 1610612736 bytes.
//!
//! Bounded: a number has at most [`MAX_WHOLE_DIGITS`] digits before the decimal point and [`MAX_FRACTION_DIGITS`] after
//! it.

use super::diagnostic::{Suggest, quote};

/// The maximum number of digits before the decimal point.
const MAX_WHOLE_DIGITS: usize = 18;
/// The maximum number of digits after the decimal point.
const MAX_FRACTION_DIGITS: usize = 9;

/// The part of a quantity that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuantityError {
    /// The text does not begin with a number.
    NoNumber,
    /// No unit follows the number.
    NoUnit,
    /// An unknown unit follows the number.
    UnknownUnit,
    /// The number has too many digits, or the result does not fit into 64 bits.
    TooLarge,
}

/// Parses the quantity at the beginning of `text`, and returns it in the smallest unit with the text that follows it.
///
/// `unit` returns the number of smallest units in the unit with this name.
pub(super) fn parse_prefix(text: &str, unit: impl FnOnce(&str) -> Option<u64>) -> Result<(u64, &str), QuantityError> {
    let (whole, rest) = split_while(text, |c| c.is_ascii_digit());
    if whole.is_empty() {
        return Err(QuantityError::NoNumber);
    }
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_while(rest, |c| c.is_ascii_digit()),
        None => ("0", rest),
    };
    if fraction.is_empty() || rest.starts_with('.') {
        return Err(QuantityError::NoNumber);
    }
    let (name, rest) = split_while(rest.trim_start_matches(' '), |c| !c.is_ascii_digit() && !matches!(c, ' ' | '/'));
    if name.is_empty() {
        return Err(QuantityError::NoUnit);
    }
    let unit = unit(name).ok_or(QuantityError::UnknownUnit)?;
    Ok((scale(whole, fraction, unit).ok_or(QuantityError::TooLarge)?, rest))
}

/// Parses `text`, which is one quantity with no text after it.
pub(super) fn parse(text: &str, unit: impl FnOnce(&str) -> Option<u64>) -> Result<u64, QuantityError> {
    match parse_prefix(text, unit)? {
        (value, "") => Ok(value),
        _ => Err(QuantityError::UnknownUnit),
    }
}

/// Replaces the unit names in a sequence of quantities by the results of `correct`; `None` if the text is not such a
/// sequence, or if a unit cannot be corrected.
pub(super) fn correct_units(text: &str, correct: impl Fn(&str) -> Option<&'static str>) -> Option<String> {
    let mut rest = text.trim();
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (number, behind) = split_while(rest, |c| c.is_ascii_digit() || c == '.');
        let (name, behind) = split_while(behind.trim_start_matches(' '), char::is_alphabetic);
        if number.is_empty() {
            return None;
        }
        parts.push(format!("{number}{}", correct(name)?));
        rest = behind.trim_start_matches([' ', ',']);
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn scale(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    if whole.len() > MAX_WHOLE_DIGITS || fraction.len() > MAX_FRACTION_DIGITS {
        return None;
    }
    let unit = u128::from(unit);
    let denominator = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole = whole.parse::<u128>().ok()?.checked_mul(unit)?;
    let part = fraction.parse::<u128>().ok()?.checked_mul(unit)?.checked_div(denominator)?;
    u64::try_from(whole.checked_add(part)?).ok()
}

fn split_while(text: &str, matches: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at_checked(text.find(|c| !matches(c)).unwrap_or(text.len())).unwrap_or((text, ""))
}

/// A value outside of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not between {min} and {max}", quote(.found))]
pub struct OutOfRange {
    /// The value, in the notation of the config.
    pub found: String,
    /// The minimum.
    pub min: String,
    /// The maximum.
    pub max: String,
}

impl Suggest for OutOfRange {
    fn suggestion(&self, key: &str) -> String {
        format!("set `{key}` to a value from {} to {}", self.min, self.max)
    }
}

/// Declares how a bounded quantity is read, and its `Debug`: its name in messages, its schema, and optionally the error
/// for a number without a unit. The type itself implements `Display` and `FromStr`.
///
/// ```text
/// bounded_value! {
///     Size<const MIN: u64, const DEFAULT: u64, const MAX: u64> as "a size", schema Schema::string(),
///     number |number| Some(Self::no_unit(number))
/// }
/// ```
macro_rules! bounded_value {
    (
        $name:ident<$(const $parameter:ident: $type:ty),*> as $type_name:literal, schema $schema:expr,
        number $number_error:expr $(, advice $advice:expr)?
    ) => {
        impl<$(const $parameter: $type),*> std::fmt::Debug for $name<$($parameter),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl<$(const $parameter: $type),*> $crate::reader::FromNode for $name<$($parameter),*> {
            const TYPE_NAME: &'static str = $type_name;

            fn example() -> String {
                format!("\"{}\"", Self::default())
            }

            $(
                fn advice(node: &$crate::reader::Node<'_>) -> Option<String> {
                    let advice: fn(&$crate::reader::Node<'_>) -> Option<String> = $advice;
                    advice(node)
                }
            )?

            fn schema() -> $crate::reader::Schema {
                $schema.with("default", Self::default().to_string())
            }

            fn from_node(node: &$crate::reader::Node<'_>) -> Option<Self> {
                let number_error: fn(&str) -> Option<<Self as std::str::FromStr>::Err> = $number_error;
                if let Some(error) = node.number().and_then(|number| number_error(&number)) {
                    node.reject(&error);
                    return None;
                }
                node.parse()
            }
        }
    };
}
pub(super) use bounded_value;

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(name: &str) -> Option<u64> {
        (name == "x").then_some(10)
    }

    #[test]
    fn a_quantity_is_a_number_and_a_unit() {
        for (text, value) in [("1x", 10), ("1 x", 10), ("0.5x", 5), ("1.19x", 11), ("0x", 0)] {
            assert_eq!(parse(text, unit), Ok(value), "{text}");
        }
        assert_eq!(parse_prefix("1x 2x", unit), Ok((10, " 2x")));
        assert_eq!(parse_prefix("1x/s", unit), Ok((10, "/s")));
    }

    #[test]
    fn units_are_corrected_where_all_of_them_can_be() {
        let correct = |name: &str| (name == "exes").then_some("x");
        for (text, corrected) in [
            ("1.5 exes", Some("1.5x")),
            (" 1exes, 2 exes", Some("1x 2x")),
            ("1 exes 2", None),
            ("1 wye", None),
            ("exes", None),
            ("1 exes/s", None),
            ("", None),
        ] {
            assert_eq!(correct_units(text, correct).as_deref(), corrected, "{text}");
        }
    }

    #[test]
    fn an_invalid_quantity_is_refused_for_its_own_reason() {
        for (text, error) in [
            ("", QuantityError::NoNumber),
            ("x", QuantityError::NoNumber),
            ("-1x", QuantityError::NoNumber),
            (".5x", QuantityError::NoNumber),
            ("1.x", QuantityError::NoNumber),
            ("1.2.3x", QuantityError::NoNumber),
            ("1", QuantityError::NoUnit),
            ("1.5", QuantityError::NoUnit),
            ("1y", QuantityError::UnknownUnit),
            ("1x2", QuantityError::UnknownUnit),
            ("1000000000000000000x", QuantityError::TooLarge),
            ("999999999999999999999x", QuantityError::TooLarge),
        ] {
            assert_eq!(parse(text, unit), Err(error), "{text}");
        }
    }
}
