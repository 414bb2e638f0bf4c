//! `command` of an upstream: an installed program and its arguments.
//!
//! Programs that download the code they run are refused (module [`fetched`](super::fetched)).
//!
//! A program starts in `/`, so relative paths in its arguments start there. Only the script of an interpreter is
//! resolved like other paths of the config: `["python3", "server.py"]` is the file beside the config. The meaning of
//! other arguments is unknown; an argument with the path of a file beside the config causes a
//! [warning](crate::Warning::RelativeArgument).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_host_base::escape::is_unsafe;

use super::{FetchedProgram, SandboxMode};
use crate::diagnostic::quote;
use crate::paths::ExistingFile;
use crate::reader::{FromNode, Node, Schema};

/// The maximum number of arguments.
const MAX_ARGUMENTS: usize = 256;
/// The maximum total length of the arguments in bytes, which is below Linux's limit.
const MAX_LEN: usize = 64 * 1024;

/// A program and its arguments. `Debug` omits the hidden files and the grants of others.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamCommand {
    /// The absolute path of the program.
    pub program: PathBuf,
    /// The program's arguments.
    pub arguments: Vec<String>,
    /// The program's confinement.
    pub sandbox: SandboxMode,
    /// The program's user if the host is root. `nobody` unless set, or root without a sandbox.
    pub user: Option<String>,
    /// The absolute paths of the files and directories that the sandbox hides from the program in the directories of
    /// its own files. [`Config::load`](crate::Config::load) sets them: the config, the files with secrets, the
    /// directories of the server, the audit log and the socket of the administration listener. An application that
    /// gives its host other directories adds these.
    pub hidden: Arc<BTreeSet<PathBuf>>,
    /// The absolute path of the audit log. It is one of the hidden files, and files whose names begin with its name are
    /// hidden, too: log rotation renames it.
    pub hidden_log: Option<PathBuf>,
    /// The absolute paths of the directories and SQLite files that all plugins and programs of the config are granted.
    /// The sandbox hides those of others in the same way. [`Config::load`](crate::Config::load) sets them; an application
    /// that adds plugins adds theirs.
    pub granted: Arc<BTreeSet<PathBuf>>,
    /// The absolute paths of the directories that plugins and programs of the config may write to. The program does not
    /// start if its own files are there. They are set like `granted`.
    pub writable: Arc<BTreeSet<PathBuf>>,
}

impl fmt::Debug for UpstreamCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key of a search index and the digest of a config have this text, and must not depend on the machine.
        let Self { program, arguments, sandbox, user, hidden: _, hidden_log: _, granted: _, writable: _ } = self;
        f.debug_struct("UpstreamCommand")
            .field("program", program)
            .field("arguments", arguments)
            .field("sandbox", sandbox)
            .field("user", user)
            .finish()
    }
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
        if let Some(words) = node.value.as_str().and_then(words) {
            let list = format!("[{}]", words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", "));
            node.expected_type_with::<Self>(Some(format!(
                "write each argument for itself: {}",
                node.assignment_hint(&list)
            )));
            return None;
        }
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
        let program = find_program(first, &program)?;
        let mut arguments = arguments;
        if let Some(at) = script(&program, &arguments)
            && let (Some(node), Some(argument)) = (rest.get(at), arguments.get_mut(at))
            && (node.context.base_dir.join(&*argument).exists() || !Path::new("/").join(&*argument).is_file())
        {
            let ExistingFile(path) = ExistingFile::from_node(node)?;
            *argument = path.to_str().map_or_else(|| argument.clone(), str::to_owned);
        }
        Some(Self {
            program,
            arguments,
            sandbox: SandboxMode::Full,
            user: None,
            hidden: Arc::default(),
            hidden_log: None,
            granted: Arc::default(),
            writable: Arc::default(),
        })
    }
}

/// Returns the words of a command line of several words without quotes.
fn words(line: &str) -> Option<Vec<&str>> {
    /// The maximum length of a command line in a message, in bytes.
    const MAX_LINE: usize = 200;
    let is_plain = line.len() <= MAX_LINE && !line.contains(['"', '\'', '\\']) && !line.contains(is_unsafe);
    let words: Vec<_> = line.split_whitespace().collect();
    (is_plain && words.len() > 1).then_some(words)
}

/// The name prefixes of programs that run a script.
const INTERPRETERS: [&str; 10] = ["python", "pypy", "node", "nodejs", "ruby", "perl", "php", "bun", "sh", "bash"];

/// The file name suffixes of scripts.
const SCRIPTS: [&str; 10] = [".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".sh", ".pyz"];

/// The index of the argument with the script that a program runs, if its path is relative: the first argument that is
/// not an option and has a script's suffix. After an option with code or a module (`-m`, `-c`) there is no script.
fn script(program: &Path, arguments: &[String]) -> Option<usize> {
    if !is_interpreter(program) {
        return None;
    }
    let at = arguments.iter().position(|argument| !argument.starts_with('-'))?;
    // One-letter options can be combined: `bash -lc`.
    let runs_text = |option: &String| match option.strip_prefix("--") {
        Some(long) => matches!(long, "eval" | "print"),
        None => option.ends_with(['c', 'e', 'm', 'p', 'r']),
    };
    let argument = arguments.get(at)?;
    let is_script = !argument.starts_with('/')
        && !argument.contains(char::is_whitespace)
        && SCRIPTS.iter().any(|ending| argument.ends_with(ending));
    (is_script && !arguments.iter().take(at).any(runs_text)).then_some(at)
}

/// Returns whether a program is one of [`INTERPRETERS`], in any version: `python3.12`.
fn is_interpreter(program: &Path) -> bool {
    let Some(name) = program.file_name().and_then(OsStr::to_str) else { return false };
    let is_version = |version: &str| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    INTERPRETERS.iter().any(|interpreter| name.strip_prefix(*interpreter).is_some_and(is_version))
}

impl UpstreamCommand {
    /// The program, and the script that it runs if it is an interpreter.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let argument = self.arguments.iter().find(|argument| !argument.starts_with('-')).map(PathBuf::from);
        let script = argument.filter(|path| is_interpreter(&self.program) && path.is_absolute() && path.is_file());
        [self.program.clone()].into_iter().chain(script)
    }

    /// The arguments that are relative paths of files or directories below `dir`, each with its full path.
    pub(crate) fn relative_arguments<'a>(&'a self, dir: &Path) -> impl Iterator<Item = (&'a str, PathBuf)> {
        let words = self.arguments.iter().map(String::as_str);
        let relative = words
            .filter(|word| (word.starts_with("./") || word.contains(['/', '.'])) && !word.starts_with(['/', '-', '~']));
        relative.filter_map(move |word| {
            let path = dir.join(word.strip_prefix("./").unwrap_or(word));
            path.exists().then_some((word, path))
        })
    }
}

/// A text without NUL: arguments of programs cannot contain it.
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
    let path = node.context.environment.get("PATH").map(OsStr::to_owned).unwrap_or_default();
    let found = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(written));
    let found = found.into_iter().find(|file| file.is_file());
    if found.is_none() {
        let help = "install it, or write the path of the program";
        node.report_machine_error(format!("no directory of `PATH` has a program {}", quote(written)), help);
    }
    found
}
