//! What the guest is told to do.

use mcp_provider::{Failure, PathTemplate, Result};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::Descriptor;

/// A deed, and what it needs. What is not said is empty, or nought.
pub(crate) struct Order {
    pub(crate) deed: String,
    /// The granted directory to begin from.
    pub(crate) dir: String,
    pub(crate) path: String,
    /// The granted directory of the second place, if it is another one.
    pub(crate) into: String,
    /// The second place, or what a link says.
    pub(crate) to: String,
    pub(crate) size: u64,
    pub(crate) at: u64,
    /// Words that say how.
    pub(crate) how: String,
}

impl Order {
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let template = PathTemplate::parse("{deed}{?dir,path,into,to,size,at,how}")?;
        let captures = template.matches(path).ok_or(Failure::NotFound)?;
        let text = |name: &str| captures.get(name).unwrap_or_default().to_owned();
        let number = |name: &str| captures.get(name).and_then(|number| number.parse().ok()).unwrap_or(0);
        Ok(Self {
            deed: text("deed"),
            dir: text("dir"),
            path: text("path"),
            into: text("into"),
            to: text("to"),
            size: number("size"),
            at: number("at"),
            how: text("how"),
        })
    }

    pub(crate) fn says(&self, word: &str) -> bool {
        self.how.split(' ').any(|said| said == word)
    }

    pub(crate) fn dir(&self) -> std::result::Result<Descriptor, String> {
        granted(&self.dir)
    }

    pub(crate) fn into_dir(&self) -> std::result::Result<Descriptor, String> {
        granted(if self.into.is_empty() { &self.dir } else { &self.into })
    }
}

fn granted(path: &str) -> std::result::Result<Descriptor, String> {
    let found = get_directories().into_iter().find(|(_, name)| name == path);
    found.map(|(dir, _)| dir).ok_or_else(|| "no such grant".to_owned())
}
