//! Telemetry: `[telemetry]`, the collector for traces.
//!
//! ```
//! use mcp_host_config::telemetry::Telemetry;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut telemetry = Telemetry::new("http://127.0.0.1:4318".parse()?);
//! telemetry.sample = "0.05".parse()?;
//! assert_eq!(telemetry.traces_url(), "http://127.0.0.1:4318/v1/traces");
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use toml::de::DeValue;

use super::declare::{table, written_as};
use super::diagnostic::{Suggest, quote};
use super::endpoint_url::EndpointUrl;
use super::grants::{CaBundle, CredentialName, CredentialValue, Credentials};
use super::reader::{FromNode, Node, Schema};
use super::secret::Secret;

/// The unit of a ratio: a billionth.
const PARTS: u32 = 1_000_000_000;
/// The default ratio of traced requests: 1 %.
const DEFAULT_PARTS: u32 = 10_000_000;

table! {
    /// The collector for traces: `[telemetry]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Telemetry as "a table with `otlp`", such as "{ otlp = \"http://127.0.0.1:4318\" }" {
        /// The base URL of the OpenTelemetry collector (OTLP/HTTP), such as `http://127.0.0.1:4318`. Traces are sent to
        /// `v1/traces` below it. `http://` is for this machine only.
        #[required]
        #[read(BaseUrl)]
        pub otlp: EndpointUrl,
        /// The part of requests that are traced, 0 to 1, whether or not their clients trace them. 0.01 unless set.
        pub sample: SampleRatio,
        /// Headers that are added to each request to the collector, from a variable or a file.
        #[read(Credentials)]
        pub headers: BTreeMap<CredentialName, Secret<CredentialValue>>,
        /// A PEM file of certificate authorities that are trusted for the collector, in addition to the machine's own.
        pub ca: Option<CaBundle>,
    }
}

impl Telemetry {
    /// A collector at this base URL, with defaults.
    pub fn new(otlp: EndpointUrl) -> Self {
        Self::with_defaults(otlp)
    }

    /// Returns the URL for traces.
    pub fn traces_url(&self) -> String {
        format!("{}/v1/traces", self.otlp.as_str().trim_end_matches('/'))
    }
}

/// The base URL of a collector, without a query.
struct BaseUrl(EndpointUrl);

written_as! {
    BaseUrl as EndpointUrl, such as "\"http://127.0.0.1:4318\"", |node| {
        let url = EndpointUrl::from_node(node)?;
        if url.has_query() || url.path().trim_end_matches('/').ends_with("/v1/traces") {
            let help = format!("write the base URL, which `/v1/traces` is added to: `{} = \"{}\"`", node.key, url.origin());
            node.report_error(format!("{} is not the base URL of a collector", quote(url.as_written())), help);
            return None;
        }
        Some(Self(url))
    }
}

/// A ratio from 0 to 1, in billionths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SampleRatio(u32);

/// A text is not a number from 0 to 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a number from 0 to 1", quote(.0))]
pub struct SampleRatioError(String);

impl SampleRatio {
    /// The whole, in billionths.
    pub const WHOLE: u32 = PARTS;

    /// Returns the ratio in billionths.
    pub fn billionths(self) -> u32 {
        self.0
    }
}

impl Default for SampleRatio {
    fn default() -> Self {
        Self(DEFAULT_PARTS)
    }
}

impl FromStr for SampleRatio {
    type Err = SampleRatioError;

    fn from_str(text: &str) -> Result<Self, SampleRatioError> {
        let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        let ratio: f64 = ratio.ok_or_else(|| SampleRatioError(text.to_owned()))?;
        // The value lies within the range, so the conversion drops only the fraction.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and `PARTS`")]
        let parts = (ratio * f64::from(PARTS)).round() as u32;
        Ok(Self(parts))
    }
}

impl fmt::Display for SampleRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f64::from(self.0) / f64::from(PARTS)).fmt(f)
    }
}

impl fmt::Debug for SampleRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Suggest for SampleRatioError {
    fn suggestion(&self, key: &str) -> String {
        format!("write `{key} = 1` for all requests, `{key} = 0.01` for one in a hundred")
    }
}

impl FromNode for SampleRatio {
    const TYPE_NAME: &'static str = "a number";

    fn example() -> String {
        Self::default().to_string()
    }

    fn schema() -> Schema {
        Schema::number(0, 1).with("default", 0.01)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let (DeValue::Float(_) | DeValue::Integer(_)) = node.value else {
            node.expected_type::<Self>();
            return None;
        };
        match node.source_text().replace('_', "").parse() {
            Ok(ratio) => Some(ratio),
            Err(error) => {
                node.reject(&error);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_a_number_from_0_to_1() {
        for (text, parts) in [("0", 0), ("1", PARTS), ("1.0", PARTS), ("0.01", DEFAULT_PARTS), ("1e-9", 1)] {
            assert_eq!(text.parse::<SampleRatio>().unwrap().billionths(), parts, "{text}");
        }
        for text in ["-0.1", "1.1", "nan", "inf", "", "1%"] {
            assert_eq!(text.parse::<SampleRatio>(), Err(SampleRatioError(text.to_owned())));
        }
        assert_eq!(SampleRatio::default().to_string(), "0.01");
    }

    #[test]
    fn traces_are_sent_below_the_base_url() {
        for (base, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://collector.example.com/otlp/", "https://collector.example.com/otlp/v1/traces"),
        ] {
            assert_eq!(Telemetry::new(base.parse().unwrap()).traces_url(), url);
        }
    }
}
