//! Hints for the use and display of a resource.

use std::fmt;
use std::hash::{Hash, Hasher};

use iri_string::types::UriStr;

/// Hints for clients (MCP 2025-06-18, "Annotations").
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct Annotations {
    /// The intended audience; empty if not specified.
    pub audience: Vec<Role>,
    /// The importance of the resource.
    pub priority: Option<Priority>,
    /// The time of the last change.
    pub last_modified: Option<Timestamp>,
}

impl Annotations {
    /// Returns whether no hint is set.
    pub fn is_empty(&self) -> bool {
        self.audience.is_empty() && self.priority.is_none() && self.last_modified.is_none()
    }
}

/// The audience of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A person.
    User,
    /// A model.
    Assistant,
}

/// The importance of a resource: a number from 0.0, entirely optional, to 1.0, effectively required.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priority(f64);

impl Priority {
    /// Creates a priority, or returns `None` if the value is out of range.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// Returns the value, from 0.0 to 1.0.
    pub fn value(self) -> f64 {
        self.0
    }
}

/// Hashes both zeros alike, because they are equal. There is no NaN.
impl Hash for Priority {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 + 0.0).to_bits().hash(state);
    }
}

/// A point in time as an RFC 3339 timestamp, in the provider's spelling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Timestamp(String);

impl Timestamp {
    /// Parses a timestamp: a date, a time and an offset from UTC (RFC 3339, section 5.6). Returns `None` if the text is
    /// invalid.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        Self::try_new(text.into()).ok()
    }

    /// Parses a timestamp, or returns the text if it is invalid.
    pub fn try_new(text: String) -> Result<Self, String> {
        // The grammar is checked here, because jiff accepts more than RFC 3339, and clients may not: time zones
        // in brackets, years of six digits, offsets of 25 hours. jiff checks that the day exists.
        let is_valid = is_date_time(text.as_bytes()) && text.parse::<jiff::Timestamp>().is_ok();
        if is_valid { Ok(Self(text)) } else { Err(text) }
    }

    /// Returns the timestamp as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The maximum length of a timestamp in bytes, with nine fraction digits, the maximum that is parsed.
const MAX_TIMESTAMP_LEN: usize = "2025-01-12T15:00:58.123456789+09:00".len();

/// Checks the syntax of `date-time` (RFC 3339, section 5.6), except for the number of days in each month.
fn is_date_time(text: &[u8]) -> bool {
    let Some((date_time, rest)) = text.split_first_chunk::<19>().filter(|_| text.len() <= MAX_TIMESTAMP_LEN) else {
        return false;
    };
    let (fraction, offset) = match rest.strip_prefix(b".") {
        Some(rest) => rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_digit()).count()),
        None => (b"0".as_slice(), rest),
    };
    let is_offset = match offset {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', time @ ..] => {
            matches_pattern(time, b"00:00") && time < b"24:00".as_slice() && time.get(3) < Some(&b'6')
        }
        _ => false,
    };
    let date_time = date_time.map(|byte| byte.to_ascii_uppercase());
    matches_pattern(&date_time, b"0000-00-00T00:00:00") && !fraction.is_empty() && is_offset
}

/// Returns whether a text has a digit for each `0` of the pattern, and equals the pattern elsewhere.
fn matches_pattern(text: &[u8], pattern: &[u8]) -> bool {
    let fits = |(found, wanted): (&u8, &u8)| if *wanted == b'0' { found.is_ascii_digit() } else { found == wanted };
    text.len() == pattern.len() && text.iter().zip(pattern).all(fits)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An icon for a resource (MCP 2025-11-25, "Icons").
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceIcon {
    src: String,
    /// The MIME type, if the URI does not imply it.
    pub mime_type: Option<String>,
    /// The sizes for which the icon is suitable, each as `48x48` or `any`; empty means any.
    pub sizes: Vec<String>,
    /// The background for which the icon is designed; `None` means any.
    pub theme: Option<Theme>,
}

impl ResourceIcon {
    /// Creates an icon from a URI that clients can safely load: `https:` or `data:`. Returns `None` for other
    /// URIs.
    pub fn new(src: impl Into<String>) -> Option<Self> {
        Self::try_new(src.into()).ok()
    }

    /// Creates an icon from a URI that clients can safely load, or returns the text.
    pub fn try_new(src: String) -> Result<Self, String> {
        let is_loadable = UriStr::new(&src).is_ok_and(|uri| {
            let scheme = uri.scheme_str();
            scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("data")
        });
        if is_loadable { Ok(Self { src, mime_type: None, sizes: Vec::new(), theme: None }) } else { Err(src) }
    }

    /// Returns the icon's `https:` or `data:` URI.
    pub fn src(&self) -> &str {
        &self.src
    }
}

/// The background for which an icon is designed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Theme {
    /// A light background.
    Light,
    /// A dark background.
    Dark,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_lies_between_zero_and_one() {
        assert_eq!(Priority::new(0.0).map(Priority::value), Some(0.0));
        assert_eq!(Priority::new(1.0).map(Priority::value), Some(1.0));
        for value in [-0.1, 1.1, 7.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Priority::new(value), None, "{value}");
        }
    }

    #[test]
    fn a_timestamp_is_a_date_a_time_and_an_offset() {
        for text in [
            "2025-01-12T15:00:58Z",
            "2025-01-12t15:00:58z",
            "2025-01-12T15:00:58.25+09:00",
            "2025-01-12T15:00:58.123456789-23:59",
            "0000-01-01T00:00:00Z",
            "2024-02-29T23:59:60Z",
        ] {
            assert_eq!(Timestamp::new(text).as_ref().map(Timestamp::as_str), Some(text));
        }
        for text in [
            "",
            "yesterday",
            "2025-01-12",
            "2025-01-12T15:00:58",
            "2025-13-12T15:00:58Z",
            "2025-02-29T15:00:58Z",
            "2025-01-12T24:00:00Z",
            "2025-01-12T15:00:58Z[UTC]",
            "2025-01-12 15:00:58Z",
            "2025-01-12T15:00Z",
            "20250112T150058Z",
            "2025-01-12T15:00:58.Z",
            "2025-01-12T15:00:58,5Z",
            "2025-01-12T15:00:58.1234567890Z",
            "+002025-01-12T15:00:58Z",
            "0000-01-01T00:00:00+25:59",
            "2025-01-12T15:00:58+24:00",
            "2025-01-12T15:00:58+09:60",
            "2025-01-12T15:00:58+0900",
            "2025-01-12T15:00:58+09",
            "2025-01-12T15:00:58+09:00:00",
        ] {
            assert_eq!(Timestamp::new(text), None, "{text}");
        }
    }

    #[test]
    fn an_icon_is_loaded_over_https_or_from_the_uri_itself() {
        assert!(ResourceIcon::new("https://example.com/icon.png").is_some());
        assert!(ResourceIcon::new("data:image/png;base64,AAAA").is_some());
        for src in
            ["http://example.com/icon.png", "javascript:alert(1)", "file:///etc/passwd", "icon.png", "https://a b"]
        {
            assert_eq!(ResourceIcon::new(src), None, "{src}");
        }
    }
}
