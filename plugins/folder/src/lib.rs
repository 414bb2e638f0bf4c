//! A folder on disk, for providers that serve files.
//!
//! The code shared by providers of files: the visibility of items ([`Rules`]), lookup by names ([`Folder::find`]),
//! sorted walks that can be resumed at a position ([`Walk`]), pagination of listings ([`listing`]), completion of paths
//! ([`complete`]), change tokens ([`changes`]) and the encoding of text ([`encoding`]).
//!
//! Nothing is cached between calls, and no function holds more names in memory than a page needs.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows must fail"))]

pub mod changes;
mod complete;
mod disk;
pub mod encoding;
#[cfg(feature = "fixture")]
pub mod fixture;
pub mod listing;
mod rules;
mod survey;
mod tree;
mod walk;

pub use complete::{complete, template_value};
pub use disk::OpenFile;
pub use rules::{DotNames, Rules, is_hidden};
pub use tree::{Folder, Found, Item, ItemKind, last_name};
pub use walk::{Walk, WalkBudget};
