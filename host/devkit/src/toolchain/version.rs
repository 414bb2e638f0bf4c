//! Versions in the output of programs and package managers.

use std::fmt;

/// A major and a minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor) = self;
        if *minor == 0 { major.fmt(f) } else { write!(f, "{major}.{minor}") }
    }
}

/// Returns the first version in a text, as written and as numbers: `19.1.7` in `Debian clang version 19.1.7 (3)`.
pub(super) fn find(text: &str) -> Option<(&str, Version)> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    // A version may follow letters: `go1.26.6`, `v20.1.0`.
    text.split(|c| !is_part(c)).find_map(|word| {
        let word = word.trim_matches('.');
        let mut numbers = word.split('.').map(|number| number.parse().ok());
        Some((word, Version(numbers.next()??, numbers.next()??)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_programs_say_of_themselves() {
        for (said, text, version) in [
            ("cargo 1.95.0 (f2d3ce0bd 2026-03-21)", "1.95.0", Version(1, 95)),
            ("go version go1.26.6 linux/amd64", "1.26.6", Version(1, 26)),
            ("v20.20.2\n", "20.20.2", Version(20, 20)),
            ("Python 3.11.7", "3.11.7", Version(3, 11)),
            ("Debian clang version 19.1.7 (3~deb12u1)\nTarget: x86_64-pc-linux-gnu", "19.1.7", Version(19, 1)),
            ("GNU Make 4.3\nBuilt for x86_64-pc-linux-gnu", "4.3", Version(4, 3)),
            ("1:19.1.7-3~deb12u1", "19.1.7", Version(19, 1)),
        ] {
            assert_eq!(find(said), Some((text, version)), "{said}");
        }
        assert_eq!(find("unknown"), None);
        assert_eq!(find("99999999999.1"), None);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(Version(1, 100) > Version(1, 95) && Version(2, 0) > Version(1, 100));
    }
}
