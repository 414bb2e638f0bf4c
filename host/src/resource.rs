//! The domain's own types: what a provider's answer is once the host has checked it.
//!
//! They know nothing of WIT, JSON-RPC or any protocol revision. `plugin` makes them out of what a component returns,
//! dropping what is invalid (a priority of 7, a date that is none); `server` writes them as the objects of the revision that
//! the client speaks. Whatever is in one of these types is fit to be shown.

mod annotations;
mod capabilities;
mod completion;
mod contents;
mod entry;
mod error;
mod footprint;
mod listing;
mod template;

pub use annotations::{Annotations, Icon, Priority, Role, Theme, Timestamp};
pub use capabilities::ResourceCapabilities;
pub use completion::{Argument, Completion};
pub use contents::{Body, Contents};
pub use entry::{Entry, Meta};
pub use error::Error;
pub(crate) use footprint::Footprint;
pub use listing::{Listing, MissingPlugin};
pub use template::EntryTemplate;
