//! The share of one client in a limit: `15/16`.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use crate::diagnostic::{Suggest, quote};
use crate::quantity::bounded_value;
use crate::reader::Schema;

/// The share of a limit that one client may use: `1/64` to `1/1`, the whole limit. The default is `PART/WHOLE`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share<const PART: u16, const WHOLE: u16> {
    part: NonZeroU16,
    whole: NonZeroU16,
}

/// The share of one address, or of one IPv6 network: `15/16` unless set. All clients behind a proxy have one share
/// together.
pub type ClientShare = Share<15, 16>;
/// The share of one authenticated principal: `1/4` unless set.
pub type PrincipalShare = Share<1, 4>;

/// The reason why a text is not a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The text is not two numbers with a slash between them.
    #[error("{} is not a share", quote(.0))]
    NotAShare(String),
    /// The share is less than 1/64.
    #[error("the share {} is less than 1/64", quote(.0))]
    TooSmall(String),
    /// The share is more than 1/1.
    #[error("the share {} is more than the whole", quote(.0))]
    TooLarge(String),
}

/// The denominator of the smallest share.
const MIN_SHARE_DENOMINATOR: u32 = 64;

impl<const PART: u16, const WHOLE: u16> Share<PART, WHOLE> {
    /// Returns the share of this number, rounded up: at least 1 of 1.
    pub fn apply(self, number: usize) -> usize {
        let (part, whole) = (u128::from(self.part.get()), u128::from(self.whole.get()));
        let number = u128::try_from(number).unwrap_or(u128::MAX);
        usize::try_from(number.saturating_mul(part).div_ceil(whole)).unwrap_or(usize::MAX)
    }
}

impl<const PART: u16, const WHOLE: u16> Default for Share<PART, WHOLE> {
    fn default() -> Self {
        const { assert!(0 < PART && PART <= WHOLE, "the default is a share") };
        let number = |number| NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN);
        Self { part: number(PART), whole: number(WHOLE) }
    }
}

impl Suggest for ShareError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::NotAShare(_) => format!("write two whole numbers from 1 to 65535, such as `{key} = \"15/16\"`"),
            Self::TooSmall(_) => {
                format!("set `{key}` to a value from 1/{MIN_SHARE_DENOMINATOR} to 1/1, such as `{key} = \"15/16\"`")
            }
            Self::TooLarge(_) => format!("write the smaller number first; for everything write `{key} = \"1/1\"`"),
        }
    }
}

impl<const PART: u16, const WHOLE: u16> FromStr for Share<PART, WHOLE> {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let numbers = text.split_once('/').and_then(|(part, whole)| {
            Some((part.trim().parse::<NonZeroU16>().ok()?, whole.trim().parse::<NonZeroU16>().ok()?))
        });
        match numbers {
            Some((part, whole))
                if u32::from(part.get()).saturating_mul(MIN_SHARE_DENOMINATOR) < u32::from(whole.get()) =>
            {
                Err(ShareError::TooSmall(text.to_owned()))
            }
            Some((part, whole)) if part <= whole => Ok(Self { part, whole }),
            Some(_) => Err(ShareError::TooLarge(text.to_owned())),
            None => Err(ShareError::NotAShare(text.to_owned())),
        }
    }
}

impl<const PART: u16, const WHOLE: u16> fmt::Display for Share<PART, WHOLE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.whole)
    }
}

bounded_value! {
    Share<const PART: u16, const WHOLE: u16> as "a share",
    schema Schema::pattern(r"^\s*[0-9]+\s*/\s*[0-9]+\s*$"),
    number |_| None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_many_leaves_some_and_one_of_few_is_all() {
        let share = ClientShare::default();
        assert_eq!(share.to_string(), "15/16");
        assert_eq!([1, 2, 15, 16, 17, 32, 1024].map(|number| share.apply(number)), [1, 2, 15, 15, 16, 30, 960]);
        assert_eq!(share.apply(usize::MAX / 2), usize::MAX / 2 / 16 * 15 + 15);
        assert_eq!([1, 4, 5, 1024].map(|number| PrincipalShare::default().apply(number)), [1, 1, 2, 256]);
    }

    #[test]
    fn a_share_is_two_numbers_of_which_the_first_is_not_greater() {
        assert_eq!(" 1 / 2 ".parse::<ClientShare>().unwrap().apply(10), 5);
        assert_eq!("1/1".parse::<ClientShare>().unwrap().apply(10), 10);
        for text in ["", "1", "0/1", "1/0", "-1/2", "1/2/3", "0.5", "50%", "1/65536"] {
            assert_eq!(text.parse::<ClientShare>(), Err(ShareError::NotAShare(text.to_owned())));
        }
        assert!("1/64".parse::<ClientShare>().is_ok());
        assert_eq!("1/65".parse::<ClientShare>(), Err(ShareError::TooSmall("1/65".to_owned())));
        assert_eq!("3/2".parse::<ClientShare>(), Err(ShareError::TooLarge("3/2".to_owned())));
    }
}
