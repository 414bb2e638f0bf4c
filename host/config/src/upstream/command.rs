//! `command` of an upstream: an installed program and its arguments.
//!
//! Programs that download what they run are refused (module [`fetched`](super::fetched)).

use std::path::PathBuf;

use super::{FetchedProgram, SandboxMode};
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
    /// What confines it.
    pub sandbox: SandboxMode,
    /// The user that it has if the host is root. `nobody` unless set, or root without a sandbox.
    pub user: Option<String>,
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
        if let Some(fetched) = FetchedProgram::of(&words) {
            first.report_error(fetched.to_string(), fetched.help());
            return None;
        }
        if arguments.len() != rest.len() {
            return None;
        }
        Some(Self { program: find_program(first, &program)?, arguments, sandbox: SandboxMode::Full, user: None })
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
