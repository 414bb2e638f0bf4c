//! The name of a project, which is valid as a package name in every language, as the name of a plugin and as a URI
//! scheme.

/// A package name: at most [`MAX_LEN`](Self::MAX_LEN) of `a`–`z`, `0`–`9` and `-`, beginning with a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageName(String);

/// The error for a text that cannot be turned into a package name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text has no characters that are valid in a package name.
    #[error("no package name can be made of `{found}`: expected at least one of a-z and 0-9")]
    Empty {
        /// The text.
        found: String,
    },
}

/// Names that a compiler or a package manager rejects: keywords and built-in crates of Rust, and dependencies of
/// templates.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "componentize-qjs",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "esbuild",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mcp-host-provider",
    "mcp-provider",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "tempfile",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typescript",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

impl PackageName {
    /// The maximum length, as for a plugin's name.
    const MAX_LEN: usize = 64;

    /// Turns any text into a name: letters in lower case, and `-` for all invalid characters.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let lower = text.to_ascii_lowercase();
        let words: Vec<_> = lower.split(|c| !is_plain(c)).filter(|word| !word.is_empty()).collect();
        let mut name = words.join("-");
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            name = format!("provider-{name}");
        }
        if RESERVED.contains(&name.as_str()) {
            name += "-provider";
        }
        name.truncate(Self::MAX_LEN);
        let name = name.trim_end_matches('-');
        if name.is_empty() { Err(NameError::Empty { found: text.to_owned() }) } else { Ok(Self(name.to_owned())) }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_of_whatever_a_directory_is_called() {
        for (text, name) in [
            ("notes", "notes"),
            ("My Notes", "my-notes"),
            ("--a__b..c--", "a-b-c"),
            ("Büro", "b-ro"),
            ("2048", "provider-2048"),
            ("async", "async-provider"),
            ("mcp-provider", "mcp-provider-provider"),
        ] {
            assert_eq!(PackageName::new(text).unwrap().as_str(), name);
        }
        let long = PackageName::new(&format!("{}-b", "a".repeat(63))).unwrap();
        assert_eq!(long.as_str(), "a".repeat(63));
    }

    #[test]
    fn a_text_without_letters_and_digits_is_refused() {
        for text in ["", "---", "花子"] {
            assert_eq!(PackageName::new(text), Err(NameError::Empty { found: text.to_owned() }));
        }
    }

    #[test]
    fn every_name_is_a_plugin_name_and_its_mount_is_valid() {
        for text in ["http", "file", "a", "2048", "My Notes"] {
            let name = PackageName::new(text).unwrap();
            format!("{}:///", name.as_str()).parse::<mcp_host_model::uri::Mount>().unwrap();
        }
    }
}
