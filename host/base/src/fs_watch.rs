//! Watching the file system for changes, by the operating system's events (crate `notify`).
//!
//! | type | watches | used for |
//! |---|---|---|
//! | [`FileWatcher`] | single files, wherever their paths lead through links | the config, components, secrets in files |
//! | [`DirectoryWatcher`] | whole trees | granted directories |
//!
//! Both work on [`EventSource`], which asks for events of changes only, not of opens and reads. Neither promises an event for each change: both tell only
//! that it is worth looking.

mod directories;
mod event_source;
mod file_state;
mod files;
mod links;

pub use self::directories::DirectoryWatcher;
pub use self::event_source::{Depth, EventSource};
pub use self::file_state::FileState;
pub use self::files::FileWatcher;
