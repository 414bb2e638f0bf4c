//! Integers as in JSON Schema (2020-12, section 6.1.1 of the validation): numbers with a zero fraction, so `5`, `5.0` and `0.5e1` are
//! the same integer. The value is exact, and is computed from the text in linear time.

use std::ops::RangeInclusive;

/// Returns the value of a JSON number, if it is an integer in this range.
pub(super) fn integer(number: &str, range: &RangeInclusive<usize>) -> Option<usize> {
    /// A number of digits that no `usize` reaches.
    const MAX_DIGITS: usize = 20;
    let (is_negative, number) = number.strip_prefix('-').map_or((false, number), |number| (true, number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_matches('0');
    let value = if significant.is_empty() {
        0
    } else {
        // The number of digits before the point, without leading zeros.
        let leading = digits.len().saturating_sub(digits.trim_start_matches('0').len());
        let before_point = i64::try_from(whole.len()).ok()?.checked_sub(i64::try_from(leading).ok()?)?;
        let before_point = usize::try_from(before_point.checked_add(exponent.parse().ok()?)?).ok()?;
        if significant.len() > before_point || before_point > MAX_DIGITS || is_negative {
            return None;
        }
        format!("{significant:0<before_point$}").parse().ok()?
    };
    range.contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_zero_fraction_is_an_integer() {
        for (number, expected) in [
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("5.000000", Some(5)),
            ("1e1", Some(10)),
            ("1E+1", Some(10)),
            ("0.5e1", Some(5)),
            ("50e-1", Some(5)),
            ("100", Some(100)),
            ("0.00100e5", Some(100)),
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-0.0e9999999999999999999", Some(0)),
            ("0.5", None),
            ("1.5", None),
            ("15e-1", None),
            ("-5", None),
            ("101", None),
            ("100.00000000000000000000000001", None),
            ("1e2", Some(100)),
            ("1e3", None),
            ("1e9999999999999999999", None),
            ("1e-9999999999999999999", None),
            ("1e999999999", None),
            ("99999999999999999999999999", None),
            ("true", None),
            ("\"5\"", None),
            ("[5]", None),
        ] {
            assert_eq!(integer(number, &(0..=100)), expected, "{number}");
        }
        assert_eq!(integer(&usize::MAX.to_string(), &(0..=usize::MAX)), Some(usize::MAX));
        assert_eq!(integer("18446744073709551616", &(0..=usize::MAX)), None);
        let (zeros, long) = ("0".repeat(1 << 16), format!("1.{}", "0".repeat(1 << 16)));
        assert_eq!(integer(&format!("0.{zeros}1e{}", (1 << 16) + 1), &(0..=100)), Some(1));
        assert_eq!(integer(&long, &(0..=100)), Some(1));
    }
}
