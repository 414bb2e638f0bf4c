//! The visibility rule: files of a known format are served.
//!
//! A name that begins with a dot is served only if it is a file of a known format, such as `.env`. Directories with
//! such a name are hidden, with everything in them.

use crate::format::Formats;
use folder::{Folder, Rules, is_hidden, last_name};
use mcp_provider::Result;
use std::rc::Rc;

/// The rules in every folder.
#[derive(Debug)]
pub(crate) struct Visibility {
    formats: Formats,
}

impl Visibility {
    /// Returns the rules for files of these formats.
    pub(crate) fn new(formats: Formats) -> Self {
        Self { formats }
    }
}

impl Rules for Visibility {
    fn enter(self: Rc<Self>, _: &Folder, _: &str) -> Result<Rc<dyn Rules>> {
        Ok(self)
    }

    fn shows(&self, names: &str, is_folder: bool) -> bool {
        let name = last_name(names);
        if is_folder { !is_hidden(name) } else { self.formats.of(name).is_some() }
    }
}
