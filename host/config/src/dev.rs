//! Development of the provider in this directory: `[dev]`, which only `mcp-host dev` uses.
//!
//! | key | meaning |
//! |---|---|
//! | `build` | the shell command that builds the component |
//! | `watch` | the sources: a change to one of them starts a build |

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};

use super::declare::{from_text, table};
use super::diagnostic::{Suggest, quote};
use super::reader::Schema;

/// The maximum length of a command, in bytes: Linux's limit of one argument.
const MAX_COMMAND_LEN: usize = 128 * 1024 - 1;

table! {
    /// Development of the provider in this directory: `[dev]`. Only the command `mcp-host dev` uses it.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Dev as "a table", such as "{ build = \"make\" }" {
        /// The shell command that builds the component, run in the directory of the project. Unless set, it follows
        /// from the kind of the project: for example, `cargo build` with a `Cargo.toml`.
        pub build: Option<BuildCommand>,
        /// The sources: files, directories or globs, relative to the directory of the project. A change of a source
        /// starts a build. The whole directory unless set. Files that `.gitignore` names, hidden files and build output
        /// are not watched.
        pub watch: Vec<WatchPattern>,
    }
}

/// A shell command. It is not blank, has no NUL, and fits into one argument of a program (128 KiB).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildCommand(String);

impl BuildCommand {
    /// Returns the command as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The reason why a text is not a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildCommandError {
    /// The text is blank.
    #[error("the command is empty")]
    Empty,
    /// The text contains a NUL.
    #[error("a command cannot contain a NUL")]
    Nul,
    /// The text is too long for an argument of a program.
    #[error("the command has {0} bytes; at most 131071 are possible")]
    TooLong(usize),
}

impl Suggest for BuildCommandError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::Empty | Self::Nul => {
                format!(
                    "write the command that builds the component, such as `{key} = \"cargo build --target wasm32-wasip2\"`"
                )
            }
            Self::TooLong(_) => format!("move it to a script, and write `{key} = \"./build.sh\"`"),
        }
    }
}

impl FromStr for BuildCommand {
    type Err = BuildCommandError;

    fn from_str(text: &str) -> Result<Self, BuildCommandError> {
        if text.trim().is_empty() {
            return Err(BuildCommandError::Empty);
        }
        if text.contains('\0') {
            return Err(BuildCommandError::Nul);
        }
        if text.len() > MAX_COMMAND_LEN {
            return Err(BuildCommandError::TooLong(text.len()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for BuildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

from_text!(BuildCommand, "a shell command", "\"cargo build --target wasm32-wasip2\"", Schema::pattern(r"\S"));

/// Sources: a path, or a glob with `*`, `**`, `?`, `[…]` or `{…}`. A directory stands for everything below it.
#[derive(Clone, Debug)]
pub struct WatchPattern {
    text: String,
    glob: Option<GlobMatcher>,
}

impl WatchPattern {
    /// Returns the pattern as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern is a glob.
    pub fn is_glob(&self) -> bool {
        self.glob.is_some()
    }

    /// Returns whether the pattern is a glob that matches this path. The path is relative to the directory of the
    /// project.
    pub fn matches(&self, path: &Path) -> bool {
        self.glob.as_ref().is_some_and(|glob| glob.is_match(path))
    }
}

impl PartialEq for WatchPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for WatchPattern {}

/// The reason why a text is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchPatternError {
    /// The text is empty, or contains a control character.
    #[error("{} is not a path", quote(.0))]
    NoPath(String),
    /// The text is not a valid glob.
    #[error("{} is not a glob: {reason}", quote(text))]
    Glob {
        /// The text.
        text: String,
        /// The problem of the glob.
        reason: String,
    },
}

impl Suggest for WatchPatternError {
    fn suggestion(&self, _: &str) -> String {
        "write a file, a directory or a glob, such as `\"src\"` or `\"*.toml\"`".to_owned()
    }
}

impl FromStr for WatchPattern {
    type Err = WatchPatternError;

    fn from_str(text: &str) -> Result<Self, WatchPatternError> {
        if text.is_empty() || text.contains(char::is_control) {
            return Err(WatchPatternError::NoPath(text.to_owned()));
        }
        let glob = match text.contains(['*', '?', '[', '{']) {
            false => None,
            true => {
                let glob = GlobBuilder::new(text.strip_prefix("./").unwrap_or(text)).literal_separator(true).build();
                let reason = |error: &globset::Error| error.kind().to_string();
                let glob =
                    glob.map_err(|error| WatchPatternError::Glob { text: text.to_owned(), reason: reason(&error) })?;
                Some(glob.compile_matcher())
            }
        };
        Ok(Self { text: text.to_owned(), glob })
    }
}

impl fmt::Display for WatchPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

from_text!(WatchPattern, "a path or a glob", "\"src\"", Schema::pattern(r"^[^\u0000-\u001f\u007f-\u009f]+$"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_argument_of_the_shell() {
        assert_eq!("make -j".parse::<BuildCommand>().unwrap().as_str(), "make -j");
        assert_eq!(" \n".parse::<BuildCommand>(), Err(BuildCommandError::Empty));
        assert_eq!("a\0b".parse::<BuildCommand>(), Err(BuildCommandError::Nul));
        let long = "x".repeat(MAX_COMMAND_LEN + 1);
        assert_eq!(long.parse::<BuildCommand>(), Err(BuildCommandError::TooLong(131_072)));
    }

    #[test]
    fn a_pattern_with_a_wildcard_is_a_glob_whose_stars_stay_in_a_segment() {
        for path in ["src", "../wit", "/etc/hosts", "a b"] {
            assert!(!path.parse::<WatchPattern>().unwrap().is_glob(), "{path}");
        }
        let pattern: WatchPattern = "./src/*.{py,pyi}".parse().unwrap();
        let matches = |path: &str| pattern.matches(Path::new(path));
        assert!(pattern.is_glob() && matches("src/app.py") && matches("src/app.pyi"));
        assert!(!matches("src/deep/app.py") && !matches("src/app.js"));
        for wrong in ["", "a\nb", "src/[", "{a"] {
            wrong.parse::<WatchPattern>().unwrap_err();
        }
    }
}
