//! Programs that download the code they run: `npx`, `uvx` and similar ones.
//!
//! Such a program is refused as the command of an upstream: its code is unknown, may change any day, and needs the
//! network. The message has the command that installs the package.

use std::fmt;
use std::path::Path;

use crate::diagnostic::quote;

/// A command that would download the code it runs. `Display` is the problem, [`help`](Self::help) the correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedProgram {
    /// The launcher, as it is written: `npx`, `uv tool run`.
    launcher: String,
    /// The command that installs a package.
    install: &'static str,
    /// The name of the package, if it is plain.
    package: Option<String>,
}

/// The command that installs the packages of a project.
const SYNC: &str = "uv sync";
/// Launchers: the words of their command, and the command that installs packages.
const LAUNCHERS: [(&[&str], &str); 12] = [
    (&["npx"], "npm install --global"),
    (&["npm", "exec"], "npm install --global"),
    (&["npm", "x"], "npm install --global"),
    (&["pnpx"], "pnpm add --global"),
    (&["pnpm", "dlx"], "pnpm add --global"),
    (&["yarn", "dlx"], "npm install --global"),
    (&["bunx"], "bun add --global"),
    (&["bun", "x"], "bun add --global"),
    (&["uvx"], "uv tool install"),
    (&["uv", "tool", "run"], "uv tool install"),
    (&["uv", "run"], SYNC),
    (&["pipx", "run"], "pipx install"),
];
/// Options of launchers with the package as their value.
const PACKAGE_OPTIONS: [&str; 4] = ["--from", "--package", "-p", "--spec"];

impl FetchedProgram {
    /// The download that a program and its arguments would cause; `None` if there is none.
    pub fn of(words: &[&str]) -> Option<Self> {
        let program = Path::new(words.first()?).file_name()?.to_str()?;
        let is_launcher = |(names, _): &&(&[&str], &str)| {
            let (first, others) = names.split_first().unwrap_or((&"", &[]));
            *first == program && words.get(1..names.len()).is_some_and(|given| given == others)
        };
        let (names, install) = LAUNCHERS.iter().find(is_launcher)?;
        let rest = words.get(names.len()..).unwrap_or_default();
        let of_option = rest.iter().enumerate().find_map(|(index, word)| {
            let assigned = word.split_once('=').filter(|(option, _)| PACKAGE_OPTIONS.contains(option));
            let next = || rest.get(index.saturating_add(1)).filter(|_| PACKAGE_OPTIONS.contains(word)).copied();
            assigned.map(|(_, package)| package).or_else(next)
        });
        let package = of_option.or_else(|| rest.iter().copied().find(|word| !word.starts_with('-')));
        let is_plain = |package: &&str| {
            package.chars().all(|c| c.is_ascii_alphanumeric() || "@/._=<>~!+-[]:".contains(c)) && !package.is_empty()
        };
        Some(Self { launcher: names.join(" "), install, package: package.filter(is_plain).map(str::to_owned) })
    }

    /// The command that installs the package, and the correction.
    pub fn help(&self) -> String {
        if self.install == SYNC {
            return format!(
                "install its packages once, `{SYNC}`, and write the program that this installs, in `.venv/bin`"
            );
        }
        let package = self.package.as_deref().unwrap_or("PACKAGE");
        let quotes = if package.contains(['<', '>', '!', '~', '[']) { "'" } else { "" };
        format!(
            "install it once, `{} {quotes}{package}{quotes}`, and write the program that this installs in place of {}",
            self.install,
            quote(&self.launcher)
        )
    }
}

impl fmt::Display for FetchedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} downloads what it runs", quote(&self.launcher))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_downloads_a_package_is_known_with_the_line_that_installs_it() {
        for (words, line) in [
            (&["npx", "-y", "@acme/server"][..], "`npm install --global @acme/server`"),
            (&["/usr/bin/npx", "--package=@acme/server@1.2", "acme"], "`npm install --global @acme/server@1.2`"),
            (&["npm", "exec", "--", "acme"], "`npm install --global acme`"),
            (&["uvx", "--from", "acme-mcp>=2", "acme"], "`uv tool install 'acme-mcp>=2'`"),
            (&["uv", "tool", "run", "acme"], "`uv tool install acme`"),
            (&["pipx", "run", "acme"], "`pipx install acme`"),
            (&["bunx", "a b; rm"], "`bun add --global PACKAGE`"),
            (&["pnpm", "dlx"], "`pnpm add --global PACKAGE`"),
            (&["uv", "run", "server.py"], "`uv sync`"),
        ] {
            let help = FetchedProgram::of(words).unwrap().help();
            assert!(help.contains(line), "{help}");
        }
        for words in [&["node", "npx"][..], &["npm", "run"], &["/opt/acme"], &["pipx", "list"], &[]] {
            assert!(FetchedProgram::of(words).is_none(), "{words:?}");
        }
    }
}
