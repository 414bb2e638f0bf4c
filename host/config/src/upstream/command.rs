//! `command` of an upstream: an installed program and its arguments.
//!
//! Programs that download what they run are refused: what would run is not known, differs from day to day, and needs the network. The
//! message has the line that installs the package.

use std::path::{Path, PathBuf};

use super::SandboxMode;
use crate::error::quote;
use crate::paths::ExistingFile;
use crate::reader::{FromNode, Node, Schema};

/// The maximum number of arguments.
const MAX_ARGUMENTS: usize = 256;
/// The maximum length of all of them in bytes, which is below what Linux takes.
const MAX_LEN: usize = 64 * 1024;

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamCommand {
    /// The absolute path of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What it may do beside what it is granted.
    pub sandbox: SandboxMode,
}

impl FromNode for UpstreamCommand {
    const TYPE_NAME: &'static str = "a list with a program and its arguments";

    fn example() -> String {
        "[\"/opt/acme/bin/server\", \"--stdio\"]".into()
    }

    fn schema() -> Schema {
        Schema::list(Schema::string()).with("minItems", 1).with("maxItems", MAX_ARGUMENTS.saturating_add(1))
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let items = node.items::<Argument>()?;
        let Some((first, rest)) = items.split_first() else {
            node.report_error("the command is empty", format!("write {}", node.assignment_hint(&Self::example())));
            return None;
        };
        let arguments: Vec<_> =
            rest.iter().filter_map(Argument::from_node).map(|Argument(argument)| argument).collect();
        let program = Argument::from_node(first)?.0;
        if arguments.len() > MAX_ARGUMENTS || arguments.iter().map(String::len).sum::<usize>() > MAX_LEN {
            let message = format!("the command has more than {MAX_ARGUMENTS} arguments, or more than {MAX_LEN} bytes");
            node.report_error(message, "move them to a file that the program reads");
            return None;
        }
        let words: Vec<&str> = [program.as_str()].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        if let Some(fetched) = Fetched::of(&words) {
            let message = format!("{} downloads what it runs", quote(&fetched.launcher));
            first.report_error(message, fetched.help());
            return None;
        }
        if arguments.len() != rest.len() {
            return None;
        }
        Some(Self { program: find_program(first, &program)?, arguments, sandbox: SandboxMode::None })
    }
}

/// A text without NUL, which no argument of a program has.
struct Argument(String);

impl FromNode for Argument {
    const TYPE_NAME: &'static str = "a string";

    fn example() -> String {
        "\"--stdio\"".into()
    }

    fn schema() -> Schema {
        Schema::string()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let text = node.string::<Self>()?;
        if text.contains('\0') {
            node.report_error("an argument of a program cannot contain a NUL", "remove it");
            return None;
        }
        Some(Self(text.to_owned()))
    }
}

/// Returns the path of a program: a name without a slash is looked up in `PATH`.
fn find_program(node: &Node<'_>, written: &str) -> Option<PathBuf> {
    if written.contains('/') || written.is_empty() {
        return ExistingFile::from_node(node).map(|ExistingFile(path)| path);
    }
    let path = node.context.environment.get("PATH").map(std::ffi::OsStr::to_owned).unwrap_or_default();
    let found = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(written));
    let found = found.into_iter().find(|file| file.is_file());
    if found.is_none() {
        let help = "install it, or write the path of the program";
        node.report_machine_error(format!("no directory of `PATH` has a program {}", quote(written)), help);
    }
    found
}

/// What a launcher would download and run.
struct Fetched {
    /// The launcher, as it is written: `npx`, `uv tool run`.
    launcher: String,
    /// The command that installs a package.
    install: &'static str,
    /// The package, if it is plain.
    package: Option<String>,
}

/// Launchers: the words that they are called by, and the command that installs.
const LAUNCHERS: [(&[&str], &str); 11] = [
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
    (&["pipx", "run"], "pipx install"),
];
/// Options of launchers with the package as their value.
const PACKAGE_OPTIONS: [&str; 4] = ["--from", "--package", "-p", "--spec"];

impl Fetched {
    fn of(words: &[&str]) -> Option<Self> {
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

    fn help(&self) -> String {
        let package = self.package.as_deref().unwrap_or("PACKAGE");
        let quotes = if package.contains(['<', '>', '!', '~', '[']) { "'" } else { "" };
        format!(
            "install it once, `{} {quotes}{package}{quotes}`, and write the program that this installs in place of {}",
            self.install,
            quote(&self.launcher)
        )
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
        ] {
            let help = Fetched::of(words).unwrap().help();
            assert!(help.contains(line), "{help}");
        }
        for words in
            [&["node", "npx"][..], &["npm", "run"], &["uv", "run", "x"], &["/opt/acme"], &["pipx", "list"], &[]]
        {
            assert!(Fetched::of(words).is_none(), "{words:?}");
        }
    }
}
