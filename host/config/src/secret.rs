//! Secret values, and their sources: `{ env = "NAME" }` or `{ file = "PATH" }`.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use mcp_host_base::regular_file;
use zeroize::{Zeroize, Zeroizing};

use super::declare::{table, written_as};
use super::diagnostic::{Diagnostic, quote};
use super::paths::{ExistingFile, permission_help};
use super::reader::{FromNode, Keys, Node, Schema, Table};

/// The maximum size of a file with a value, in bytes.
const MAX_FILE_SIZE: usize = 64 * 1024;

/// A value that neither `Debug` nor any message shows, and whose memory is zeroized on drop.
///
/// Values are comparable, because a reload must detect changes of a plugin's config.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T: Zeroize> {
    value: Zeroizing<T>,
    is_written: bool,
}

impl<T: Zeroize> Secret<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self { value: Zeroizing::new(value), is_written: false }
    }

    /// Wraps a value that is in the config itself, with a name that does not suggest a secret.
    pub(super) fn written(value: T) -> Self {
        Self { value: Zeroizing::new(value), is_written: true }
    }

    /// Whether the value is a secret: it comes from a variable or a file, or its name suggests a secret.
    pub(super) fn is_confidential(&self) -> bool {
        !self.is_written
    }

    /// Returns the value.
    pub fn expose(&self) -> &T {
        &self.value
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A value that is read from a variable or a file.
pub(super) struct SecretSource(pub(super) Zeroizing<String>);

table! {
    struct SecretKeys {
        /// The environment variable of the host that has the value. It must be set.
        env: Option<Variable>,
        /// The file that has the value: UTF-8, at most 64 KiB. A line break at its end is not part of the value.
        file: Option<ValueFile>,
    }
}

impl FromNode for SecretSource {
    const TYPE_NAME: &'static str = "a table with `env` or `file`";

    fn example() -> String {
        "{ env = \"MY_TOKEN\" }".into()
    }

    fn schema() -> Schema {
        Table::describe::<SecretKeys>().with("minProperties", 1).with("maxProperties", 1)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let value = Self::read_public(node)?;
        let file = node.entries::<Self>()?.into_iter().find(|entry| entry.key == "file");
        if let Some(ExistingFile(path)) = file.and_then(|file| ExistingFile::from_node(&file)) {
            node.context.add_secret_file(path);
        }
        Some(value)
    }
}

impl SecretSource {
    /// Reads a value that is not a secret.
    pub(super) fn read_public(node: &Node<'_>) -> Option<Self> {
        if !node.value.is_table() {
            // The value in place of a table is probably the secret itself, so its line is not shown.
            let message = format!("`{}` must be {}", node.key, Self::TYPE_NAME);
            let help = format!("write {}: secrets are not in the config", node.assignment_hint(&Self::example()));
            node.context.report(Diagnostic::new(message, help).at(node.span.clone()).redacted());
            return None;
        }
        node.table::<Self>(|table| {
            let SecretKeys { env, file } = SecretKeys::read(table)?;
            if table.has("env") == table.has("file") {
                let found = if table.has("file") { "both `env` and `file`" } else { "neither `env` nor `file`" };
                table.report_error(format!("`{}` has {found}", table.path()), "write one of `env` and `file`");
            }
            env.map(|Variable(value)| Self(value)).or(file.map(|ValueFile(value)| Self(value)))
        })
    }
}

/// A secret text, from a variable or a file.
pub(super) struct SecretText(pub(super) Secret<String>);

written_as! {
    SecretText as SecretSource, |node| Some(Self(Secret::new(SecretSource::from_node(node)?.0.to_string())))
}

/// The value of an environment variable of the host.
struct Variable(Zeroizing<String>);

impl FromNode for Variable {
    const TYPE_NAME: &'static str = "the name of a variable";

    fn example() -> String {
        "\"MY_TOKEN\"".into()
    }

    fn schema() -> Schema {
        Schema::string()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let name = node.string::<Self>()?;
        let (message, help) = match node.context.environment.get(name).map(|value| value.to_str()) {
            Some(Some(value)) => return Some(Self(Zeroizing::new(value.to_owned()))),
            Some(None) => ("is not UTF-8", "set it to a text"),
            None => ("is not set", "set it where the host is started, or correct the name"),
        };
        node.report_machine_error(format!("the variable {} {message}", quote(name)), help);
        None
    }
}

/// The contents of a file, without the line break at its end.
struct ValueFile(Zeroizing<String>);

written_as! {
    ValueFile as ExistingFile, such as "\"token.txt\"", |node| {
        let path = ExistingFile::from_node(node)?.0;
        let (message, help) = match read(&path) {
            Ok(Some(text)) => return Some(Self(Zeroizing::new(trim_newline(&text).to_owned()))),
            Ok(None) => (
                format!("the file has more than {MAX_FILE_SIZE} bytes"),
                "write the path of a file that holds the value only",
            ),
            Err(error) => {
                (format!("the file cannot be read: {error}"), "write the path of a text file that the host may read")
            }
        };
        node.report_machine_error(message, permission_help(&path).unwrap_or_else(|| help.to_owned()));
        None
    }
}

/// Returns the text of a file; `None` if it is too long.
fn read(path: &Path) -> io::Result<Option<Zeroizing<String>>> {
    let bytes = Zeroizing::new(regular_file::read(path, MAX_FILE_SIZE)?);
    if bytes.len() > MAX_FILE_SIZE {
        return Ok(None);
    }
    let text = str::from_utf8(&bytes).map(|text| Zeroizing::new(text.to_owned()));
    text.map(Some).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

fn trim_newline(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_seen() {
        assert_eq!(format!("{:?}", Secret::new("hunter2".to_owned())), "Secret(…)");
    }

    #[test]
    fn one_line_break_at_the_end_is_not_part_of_a_value() {
        assert_eq!(trim_newline("a\n"), "a");
        assert_eq!(trim_newline("a\r\n"), "a");
        assert_eq!(trim_newline("a\n\n"), "a\n");
        assert_eq!(trim_newline("a"), "a");
    }
}
