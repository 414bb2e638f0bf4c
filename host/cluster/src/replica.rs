//! The identity of a replica: a random number that each process generates, so a restarted process is another replica.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A replica: 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReplicaId(u128);

/// A text that is not the identity of a replica.
#[derive(Debug, thiserror::Error)]
#[error("a replica is named by 32 hexadecimal digits")]
pub struct ReplicaIdError;

impl ReplicaId {
    /// The replica with this number.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// Returns the range of the identities whose first 16 digits are this number.
    pub(crate) fn with_first_digits(digits: u64) -> RangeInclusive<Self> {
        let first = u128::from(digits).wrapping_shl(64);
        Self(first)..=Self(first | u128::from(u64::MAX))
    }

    /// Returns a new, random identity.
    pub fn random() -> Self {
        Self(fastrand::u128(..))
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for ReplicaId {
    type Err = ReplicaIdError;

    fn from_str(text: &str) -> Result<Self, ReplicaIdError> {
        let is_canonical = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = is_canonical.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or(ReplicaIdError)
    }
}

impl TryFrom<String> for ReplicaId {
    type Error = ReplicaIdError;

    fn try_from(text: String) -> Result<Self, ReplicaIdError> {
        text.parse()
    }
}

impl From<ReplicaId> for String {
    fn from(replica: ReplicaId) -> Self {
        replica.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_with_the_same_first_digits_are_a_range() {
        let range = ReplicaId::with_first_digits(0xab);
        for (text, is_in) in [
            ("00000000000000ab0000000000000000", true),
            ("00000000000000abffffffffffffffff", true),
            ("00000000000000aaffffffffffffffff", false),
            ("00000000000000ac0000000000000000", false),
        ] {
            assert_eq!(range.contains(&text.parse::<ReplicaId>().unwrap()), is_in, "{text}");
        }
    }

    #[test]
    fn a_replica_is_read_as_it_is_written_and_nothing_else_is_one() {
        for replica in [ReplicaId::new(0), ReplicaId::new(u128::MAX), ReplicaId::random()] {
            assert_eq!(replica.to_string().parse::<ReplicaId>().unwrap(), replica);
        }
        for text in ["", "1", &"g".repeat(32), &"F".repeat(32), &"0".repeat(33), &"+".repeat(32)] {
            assert!(text.parse::<ReplicaId>().is_err(), "{text}");
        }
    }
}
