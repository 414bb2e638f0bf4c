//! The guest's commands.

use mcp_provider::{Failure, PathTemplate, Result};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::Descriptor;

/// An action and its arguments. Missing arguments are empty, or zero.
pub(crate) struct Command {
    pub(crate) action: String,
    /// The granted directory of the path.
    pub(crate) dir: String,
    pub(crate) path: String,
    /// The granted directory of the second path, if it differs.
    pub(crate) into: String,
    /// The second path, or the target of a link.
    pub(crate) to: String,
    pub(crate) size: u64,
    pub(crate) at: u64,
    /// Flags of the action.
    pub(crate) flags: String,
}

impl Command {
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let template = PathTemplate::parse("{action}{?dir,path,into,to,size,at,flags}")?;
        let captures = template.matches(path).ok_or(Failure::NotFound)?;
        let text = |name: &str| captures.get(name).unwrap_or_default().to_owned();
        let number = |name: &str| captures.get(name).and_then(|number| number.parse().ok()).unwrap_or(0);
        Ok(Self {
            action: text("action"),
            dir: text("dir"),
            path: text("path"),
            into: text("into"),
            to: text("to"),
            size: number("size"),
            at: number("at"),
            flags: text("flags"),
        })
    }

    pub(crate) fn has_flag(&self, word: &str) -> bool {
        self.flags.split(' ').any(|said| said == word)
    }

    pub(crate) fn dir(&self) -> std::result::Result<Descriptor, String> {
        granted(&self.dir)
    }

    pub(crate) fn to_dir(&self) -> std::result::Result<Descriptor, String> {
        granted(if self.into.is_empty() { &self.dir } else { &self.into })
    }
}

fn granted(path: &str) -> std::result::Result<Descriptor, String> {
    let found = get_directories().into_iter().find(|(_, name)| name == path);
    found.map(|(dir, _)| dir).ok_or_else(|| "no such grant".to_owned())
}
