//! Who asks.

use std::fmt;

use crate::config::{ANONYMOUS, LOCAL};

/// Who asks: whoever started the host, or what a client over HTTP is known as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    name: &'static str,
}

impl Principal {
    /// Every name that a principal can have.
    pub(super) const NAMES: [&'static str; 2] = [LOCAL, ANONYMOUS];

    /// Whoever started the host: a client over stdio, the command line, an embedding application.
    pub const LOCAL: Self = Self { name: LOCAL };
    /// A client over HTTP of whom nothing is known but that it is on this machine.
    pub const ANONYMOUS: Self = Self { name: ANONYMOUS };

    /// The principal of that name, as rules and `--as` name it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|known| **known == name).map(|name| Self { name })
    }

    /// Its name, as rules name it.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
