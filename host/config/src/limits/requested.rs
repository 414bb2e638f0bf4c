//! Limits that a provider may ask for: the least that it works with, by the key that has it below `limits`.
//!
//! Each is written as the config writes the limit, and lies within the range that the config allows. Asking changes no
//! limit.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use super::{Cpu, Deadline, HttpBody, HttpRate, HttpTimeout, Limits, Memory, PrepareCpu, ResponseSize};
use crate::duration::BoundedDuration;
use crate::rate::Rate;
use crate::size::Size;

/// A quantity that can be compared with another one of the same key.
trait Quantity: fmt::Display {
    /// Returns the number of bytes, nanoseconds, or events in an hour.
    fn amount(&self) -> u128;
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> Quantity for Size<MIN, DEFAULT, MAX> {
    fn amount(&self) -> u128 {
        self.bytes().into()
    }
}

impl<const MIN: u64, const DEFAULT: u64, const MAX: u64> Quantity for BoundedDuration<MIN, DEFAULT, MAX> {
    fn amount(&self) -> u128 {
        self.duration().as_nanos()
    }
}

impl<const DEFAULT: u32, const MAX: u32, const SECONDS: u64> Quantity for Rate<DEFAULT, MAX, SECONDS> {
    fn amount(&self) -> u128 {
        let periods = 3600_u64.checked_div(self.period().duration().as_secs()).unwrap_or_default();
        u128::from(self.count().get()).saturating_mul(periods.into())
    }
}

/// Declares the limits: the variant, the key, the type, and where [`Limits`] have it.
macro_rules! limit_keys {
    ($($(#[$doc:meta])* $variant:ident, $key:literal, $quantity:ty, |$limits:ident| $of:expr;)*) => {
        /// A limit that a provider may ask for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum LimitKey {
            $($(#[$doc])* $variant,)*
        }

        impl LimitKey {
            /// All of them, in the order in which the config documents them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the key below `limits`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $key,)*
                }
            }

            /// Reads a quantity as the config writes it.
            ///
            /// # Errors
            ///
            /// The text is not a quantity of this limit; the error has the reason.
            pub fn parse(self, text: &str) -> Result<LimitAmount, String> {
                match self {
                    $(Self::$variant => {
                        text.parse::<$quantity>().map(LimitAmount::of).map_err(|error| error.to_string())
                    })*
                }
            }

            /// Returns what limits have; none if nothing is allowed at all, as preparations without `limits.prepare`.
            pub fn of(self, limits: &Limits) -> Option<LimitAmount> {
                match self {
                    $(Self::$variant => {
                        let $limits = limits;
                        let quantity: Option<$quantity> = $of;
                        quantity.map(LimitAmount::of)
                    })*
                }
            }
        }
    };
}

limit_keys! {
    /// The memory of all calls in flight.
    Memory, "memory", Memory, |limits| Some(limits.memory);
    /// The CPU time of one call.
    Cpu, "cpu", Cpu, |limits| Some(limits.cpu);
    /// The wall-clock time of one call.
    Deadline, "deadline", Deadline, |limits| Some(limits.deadline);
    /// The size of one response.
    ResponseSize, "response-size", ResponseSize, |limits| Some(limits.response_size);
    /// The rate of HTTP requests.
    HttpRate, "http.rate", HttpRate, |limits| Some(limits.http.rate);
    /// The size of the body of one HTTP message.
    HttpBody, "http.body", HttpBody, |limits| Some(limits.http.body);
    /// The wall-clock time of one HTTP exchange.
    HttpTimeout, "http.timeout", HttpTimeout, |limits| Some(limits.http.timeout);
    /// The CPU time of one preparation.
    PrepareCpu, "prepare.cpu", PrepareCpu, |limits| limits.prepare.as_ref().map(|prepare| prepare.cpu);
    /// The memory of a call that prepares.
    PrepareMemory, "prepare.memory", Memory, |limits| limits.prepare.as_ref().map(|prepare| prepare.memory);
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not the key of a limit that providers can request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown limit {}, expected one of {}",
    crate::diagnostic::quote(.0),
    LimitKey::ALL.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
)]
pub struct LimitKeyError(String);

impl FromStr for LimitKey {
    type Err = LimitKeyError;

    fn from_str(text: &str) -> Result<Self, LimitKeyError> {
        Self::ALL.iter().copied().find(|key| key.name() == text).ok_or_else(|| LimitKeyError(text.to_owned()))
    }
}

/// A quantity of a limit. It is compared with others of the same [`LimitKey`]; `Display` is the shortest way to write
/// it.
#[derive(Clone, Debug)]
pub struct LimitAmount {
    amount: u128,
    text: String,
}

impl LimitAmount {
    fn of<Q: Quantity>(quantity: Q) -> Self {
        Self { amount: quantity.amount(), text: quantity.to_string() }
    }
}

impl fmt::Display for LimitAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// `60/m` and `1/s` are the same.
impl PartialEq for LimitAmount {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for LimitAmount {}

impl Hash for LimitAmount {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.amount.hash(state);
    }
}

impl PartialOrd for LimitAmount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LimitAmount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PrepareLimits;

    #[test]
    fn each_key_is_one_of_the_config_and_reads_what_it_shows() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.wasm"), "").unwrap();
        let limits = Limits { prepare: Some(PrepareLimits::default()), ..Limits::default() };
        for key in LimitKey::ALL {
            let default = key.of(&limits).unwrap();
            assert_eq!(key.parse(&default.to_string()).unwrap(), default, "{key}");
            assert_eq!(key.name().parse::<LimitKey>().unwrap(), *key);
            let config = format!(
                "[[plugin]]\nname = \"a\"\ncomponent = \"a.wasm\"\nmount = \"a:///\"\nlimits.{key} = \"{default}\"\n"
            );
            let parsed =
                crate::Config::parse_in(&config, &dir.path().join("mcp-host.toml"), &crate::Environment::empty());
            let of_config = parsed.ok().and_then(|config| key.of(&config.plugins.first()?.limits));
            assert_eq!(of_config, Some(default), "{config}");
        }
        assert_eq!(LimitKey::PrepareCpu.of(&Limits::default()), None);
        let error = "cpus".parse::<LimitKey>().unwrap_err().to_string();
        assert!(error.starts_with("unknown limit `cpus`, expected one of `memory`, `cpu`"), "{error}");
    }

    #[test]
    fn quantities_are_compared_in_any_unit_and_bounded_as_in_the_config() {
        for (key, less, more) in [
            (LimitKey::Memory, "64MB", "64MiB"),
            (LimitKey::Cpu, "900ms", "1s"),
            (LimitKey::PrepareCpu, "1m", "1m 1s"),
            (LimitKey::HttpRate, "59/m", "1/s"),
        ] {
            assert!(key.parse(less).unwrap() < key.parse(more).unwrap(), "{key}");
        }
        assert_eq!(LimitKey::HttpRate.parse("60/m"), LimitKey::HttpRate.parse("1/s"));
        for (key, text) in
            [(LimitKey::Memory, "64"), (LimitKey::Memory, "1TiB"), (LimitKey::Cpu, "1h"), (LimitKey::HttpRate, "1")]
        {
            assert!(key.parse(text).is_err(), "{key} {text}");
        }
    }
}
