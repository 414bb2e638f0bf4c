//! The visibility rules: which files are served.
//!
//! Three groups are hidden by default: names that begin with a dot; files of environment variables (`.env`,
//! `.env.local`, `prod.env`, `.envrc`, and copies such as `prod.env~`, in any case); and ignored items. The latter
//! follow git's rules, in `.ignore`, `.gitignore` and `.git/info/exclude` of the folder and of the folders above it,
//! matched by the crate `ignore`. A hidden item is neither listed nor read. `.git` is never served.
//!
//! A folder is unreadable if a file of ignore rules in it cannot be read, or exceeds [`MAX_RULES`] together with the
//! rules of the folders above. Serving items that may be ignored would be worse, and compiled rules take up to two
//! hundred times their size in memory.

use crate::settings::Shown;
use folder::{Folder, Rules, is_hidden, last_name};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use mcp_provider::{Failure, Result, log};
use std::rc::Rc;

/// The maximum size of the ignore rules that apply in one folder, in bytes.
const MAX_RULES: usize = 64 * 1024;

/// The files of ignore rules, by precedence.
const RULES_FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// The rules in one folder.
#[derive(Debug)]
pub(crate) struct Visibility {
    shown: Shown,
    /// The rules of the folder above.
    parent: Option<Rc<Visibility>>,
    /// The matchers of the folder's own rule files, in the order of [`RULES_FILES`]; `None` for missing files.
    matchers: [Option<Gitignore>; 3],
    /// The total size of the rules that apply, in bytes.
    size: usize,
}

impl Visibility {
    /// Returns the rules above the root folder: nothing is ignored.
    pub(crate) fn new(shown: Shown) -> Self {
        Self { shown, parent: None, matchers: [None, None, None], size: 0 }
    }

    /// Returns whether the rules other than ignore rules allow a name.
    fn allows(&self, name: &str) -> bool {
        if name == ".git" {
            return false;
        }
        if is_env_file(name) {
            return self.shown.env_files;
        }
        self.shown.dotfiles || !is_hidden(name)
    }

    fn is_ignored(&self, names: &str, is_folder: bool) -> bool {
        // All `.ignore` files take precedence over all `.gitignore` files; among files of one kind, inner ones over
        // outer ones.
        (0..RULES_FILES.len()).find_map(|kind| self.decision(kind, names, is_folder)).unwrap_or_default()
    }

    /// Returns whether the files of one kind ignore an item; `None` if no rule matches.
    fn decision(&self, kind: usize, names: &str, is_folder: bool) -> Option<bool> {
        let mut level = Some(self);
        while let Some(rules) = level {
            if let Some(Some(matcher)) = rules.matchers.get(kind) {
                let matched = matcher.matched(names, is_folder);
                if !matched.is_none() {
                    return Some(matched.is_ignore());
                }
            }
            level = rules.parent.as_deref();
        }
        None
    }
}

impl Rules for Visibility {
    fn enter(self: Rc<Self>, folder: &Folder, names: &str) -> Result<Rc<dyn Rules>> {
        let mut matchers = [None, None, None];
        let mut size = self.size;
        if !self.shown.ignored {
            for (matcher, file) in matchers.iter_mut().zip(RULES_FILES) {
                let file = if names.is_empty() { file.to_owned() } else { format!("{names}/{file}") };
                if let Some(rules) = folder.read_rules(&file, MAX_RULES.saturating_sub(size))? {
                    size = size.saturating_add(rules.len());
                    *matcher = Some(parse(names, &file, &rules)?);
                }
            }
        }
        if matchers.iter().all(Option::is_none) && self.parent.is_some() {
            return Ok(self);
        }
        Ok(Rc::new(Self { shown: self.shown, parent: Some(self), matchers, size }))
    }

    fn shows(&self, names: &str, is_folder: bool) -> bool {
        self.allows(last_name(names)) && (self.shown.ignored || !self.is_ignored(names, is_folder))
    }
}

/// Returns whether the name of a file is typical of environment variables.
fn is_env_file(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let rest = name.strip_prefix(".env").map(|rest| rest.strip_prefix("rc").unwrap_or(rest));
    // A suffix names the environment, or marks a copy: `.env-prod`, `prod.env.bak`, `.envrc~`.
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
        || name.ends_with(".env")
        || name.ends_with(".env~")
        || name.contains(".env.")
}

/// Compiles rules. An invalid pattern matches nothing, as in git.
fn parse(folder: &str, file: &str, rules: &[u8]) -> Result<Gitignore> {
    let mut builder = GitignoreBuilder::new(folder);
    // A pattern with an unclosed character class is invalid.
    builder.allow_unclosed_class(false);
    let rules = rules.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rules);
    for line in String::from_utf8_lossy(rules).split('\n') {
        let Some(line) = pattern(line) else { continue };
        if let Err(error) = builder.add_line(None, &line) {
            log::debug!("{file:?}: {error}");
        }
    }
    builder.build().map_err(|error| Failure::internal(format!("{file:?}: {error}")))
}

/// Returns the pattern in a line as git interprets it; `None` if it is empty. The matcher differs in three points: it
/// removes escaped trailing spaces if others follow, an empty pattern matches everything, and it does not know the
/// names of character classes.
fn pattern(line: &str) -> Option<String> {
    let mut line = line.strip_suffix('\r').unwrap_or(line);
    while let Some(shorter) = line.strip_suffix(' ') {
        let escapes = shorter.bytes().rev().take_while(|byte| *byte == b'\\').count();
        if escapes.checked_rem(2) == Some(1) {
            break;
        }
        line = shorter;
    }
    let bare = line.strip_prefix('!').unwrap_or(line);
    if bare.trim_matches('/').is_empty() {
        return None;
    }
    const CLASSES: [(&str, &str); 8] = [
        ("[:alnum:]", "a-zA-Z0-9"),
        ("[:alpha:]", "a-zA-Z"),
        ("[:blank:]", " \t"),
        ("[:digit:]", "0-9"),
        ("[:lower:]", "a-z"),
        ("[:space:]", " \t\r\x0b\x0c"),
        ("[:upper:]", "A-Z"),
        ("[:xdigit:]", "0-9a-fA-F"),
    ];
    Some(CLASSES.iter().fold(line.to_owned(), |line, (name, members)| line.replace(name, members)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_environment_variables_are_told_by_their_names() {
        for name in [
            ".env",
            ".env.local",
            ".envrc",
            "prod.env",
            ".ENV",
            ".Envrc",
            ".env~",
            ".env-prod",
            ".env_prod",
            "PROD.ENV",
            "prod.env.local",
            "prod.env~",
            "prod.env.bak",
            ".envrc.bak",
        ] {
            assert!(is_env_file(name), "{name}");
        }
        for name in ["env", "environment.md", ".environment", "dotenv.rs"] {
            assert!(!is_env_file(name), "{name}");
        }
    }

    #[test]
    fn a_switch_shows_what_it_names_and_nothing_else() {
        let names = ["a.md", ".hidden", ".env", "prod.env", ".git"];
        let shown = |shown: Shown| names.map(|name| Visibility::new(shown).shows(name, false));
        assert_eq!(shown(Shown::default()), [true, false, false, false, false]);
        assert_eq!(shown(Shown { dotfiles: true, ..Shown::default() }), [true, true, false, false, false]);
        assert_eq!(shown(Shown { env_files: true, ..Shown::default() }), [true, false, true, true, false]);
    }
}
