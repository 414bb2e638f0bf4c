//! Durations in PromQL's notation: `90s`, `1h30m`, `7d`; a bare number is seconds.

use std::time::Duration;

/// The units in milliseconds, longest first. Each occurs at most once in a duration, in this order.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// The longest duration.
const MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The expected form of a duration, for messages.
pub(crate) const EXPECTED: &str = "a duration such as `90s`, `1h30m` or `7d`";

/// Parses a duration of at least a millisecond and at most 100 years.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let duration = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        Duration::from_secs(text.parse().ok()?)
    } else {
        with_units(text)?
    };
    (Duration::from_millis(1)..=MAX).contains(&duration).then_some(duration)
}

fn with_units(text: &str) -> Option<Duration> {
    let (mut rest, mut millis, mut units) = (text, 0_u64, UNITS.iter());
    while !rest.is_empty() {
        let (number, after) = rest.split_at_checked(rest.find(|c: char| !c.is_ascii_digit())?)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let (_, factor) = units.find(|(name, _)| *name == unit)?;
        millis = number.parse::<u64>().ok()?.checked_mul(*factor)?.checked_add(millis)?;
        rest = after;
    }
    Some(Duration::from_millis(millis))
}

/// Formats a duration without the units of years and weeks: `1d12h`.
pub(crate) fn format(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, factor) in UNITS.iter().skip(2) {
        let (whole, rest) = (millis.checked_div(*factor), millis.checked_rem(*factor));
        if let Some(whole) = whole.filter(|whole| *whole > 0) {
            text.push_str(&format!("{whole}{unit}"));
            millis = rest.unwrap_or_default();
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_duration_is_written_as_in_promql() {
        for (text, millis) in [
            ("90", 90_000),
            ("15s", 15_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("1w", 604_800_000),
            ("1y", 31_536_000_000),
            ("1m500ms", 60_500),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "0", "0s", "s", "1", "1x", "30m1h", "1h1h", "-1h", "1.5h", " 1h", "1h ", "101y", "1０s", "9e9"]
        {
            assert_eq!(parse(text).is_some(), text == "1", "{text}");
        }
        assert_eq!(parse("99999999999999999999s"), None);
    }

    proptest! {
        #[test]
        fn a_duration_comes_back_from_its_text(millis in 1..3_153_600_000_000_u64) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&format(duration)), Some(duration));
        }

        #[test]
        fn no_text_breaks_the_parser(text in "[0-9a-z.]{0,30}") {
            let _ = parse(&text);
        }
    }
}
