//! The visibility of items in a folder.

use mcp_provider::Result;
use std::fmt::Debug;
use std::rc::Rc;

use crate::Folder;

/// The rules in one folder: which of its direct children are visible.
///
/// Every child of an invisible folder is invisible, whatever the rules in that folder are. A link is visible if both
/// its own name and its target are visible.
pub trait Rules: Debug {
    /// Returns the rules in a folder; `self` are the rules of its parent. For the root folder, whose names are empty,
    /// `self` are the rules passed to [`Folder::open`].
    ///
    /// # Errors
    ///
    /// A failure makes the folder unreadable: it is skipped in listings.
    fn enter(self: Rc<Self>, folder: &Folder, names: &str) -> Result<Rc<dyn Rules>>;

    /// Returns whether a child, by its names from the root, is visible. Links are not folders.
    fn shows(&self, names: &str, is_folder: bool) -> bool;
}

/// The rules that hide every name that starts with a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DotNames;

impl Rules for DotNames {
    fn enter(self: Rc<Self>, _: &Folder, _: &str) -> Result<Rc<dyn Rules>> {
        Ok(self)
    }

    fn shows(&self, names: &str, _: bool) -> bool {
        !is_hidden(crate::last_name(names))
    }
}

/// Returns whether a name is hidden by convention: it starts with a dot.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}
