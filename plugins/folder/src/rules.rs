//! Which items of a folder are visible.

use mcp_provider::Result;
use std::fmt::Debug;
use std::rc::Rc;

use crate::Folder;

/// The rules that apply inside of one folder: which of its direct children are visible.
///
/// A child of an invisible folder is invisible, too, whatever the rules inside of that folder say. A link is visible if
/// both its own name and its target are.
pub trait Rules: Debug {
    /// Returns the rules inside of a folder; `self` are those of its parent. For the root folder, whose names are
    /// empty, `self` are the rules that [`Folder::open`] was given.
    ///
    /// # Errors
    ///
    /// A failure makes the folder unreadable: it is skipped in listings.
    fn enter(self: Rc<Self>, folder: &Folder, names: &str) -> Result<Rc<dyn Rules>>;

    /// Returns whether a child, by its names from the root, is visible. Links are not folders.
    fn shows(&self, names: &str, is_folder: bool) -> bool;
}

/// Rules by which every name is visible that does not start with a dot.
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
