//! Names of environment variables of a provider.

use std::fmt;
use std::str::FromStr;

use super::error::{Suggest, quote};

/// The name of an environment variable of a provider: not empty, without `=` and control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvName(String);

impl EnvName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is not a name of a variable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a valid variable name", quote(.0))]
pub struct EnvNameError(String);

impl Suggest for EnvNameError {
    fn suggestion(&self, _: &str) -> String {
        "write a name without `=` and control characters, such as `LANG`".into()
    }
}

impl FromStr for EnvName {
    type Err = EnvNameError;

    fn from_str(text: &str) -> Result<Self, EnvNameError> {
        if text.is_empty() || text.contains(|c: char| c == '=' || c.is_control()) {
            return Err(EnvNameError(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for EnvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_a_name_that_can_be_set() {
        assert!("LANG".parse::<EnvName>().is_ok());
        for text in ["", "A=B", "A\0"] {
            assert!(text.parse::<EnvName>().is_err(), "{text:?}");
        }
    }
}
