//! The domain types: a provider's answers after validation by the host.
//!
//! They are independent of WIT, JSON-RPC and any protocol revision. `plugin` creates them from a component's results
//! and drops invalid parts (a priority of 7, a malformed date); `server` encodes them as the objects of the client's
//! protocol revision. Every value of these types is valid for clients.

mod annotations;
mod capabilities;
mod completion;
mod contents;
mod entry;
mod error;
mod footprint;
mod listing;
mod notice;
mod template;

pub use annotations::{Annotations, Priority, ResourceIcon, Role, Theme, Timestamp};
pub use capabilities::ResourceCapabilities;
pub use completion::{Argument, Completion};
pub use contents::{ResourceBody, ResourceContents};
pub use entry::{Meta, Resource};
pub use error::Error;
pub use footprint::Footprint;
pub use listing::{Listing, MissingPlugin};
pub use notice::{NOTICES_META_KEY, Notice, NoticeKind};
pub use template::ResourceTemplate;

fn prefixed_title(plugin_title: &str, title: Option<&str>, name: &str) -> String {
    format!("{plugin_title}: {}", title.unwrap_or(name))
}
