//! A provider that runs file system actions on request.
//!
//! The path of a resource is an action with its arguments: `read?dir=/a&path=b.txt`,
//! `rename?dir=/a&path=b&into=/c&to=d`. The content is the result: `ok` or the data, or the standard's name of the
//! error. Actions call the functions of `wasi:filesystem` directly, which allows arguments that no library would pass.
//! [`std_fs`] runs some of them with Rust's standard library, as other providers do.

mod actions;
mod command;
mod exhaust;
mod std_fs;

use mcp_provider::{Config, Contents, Entry, Failure, Info, Page, Provider, Result, export};

use self::command::Command;

/// The result of an action: its data, or the name of the error.
type Outcome = std::result::Result<String, String>;

struct Files;

impl Provider for Files {
    fn describe() -> Info {
        Info::new("files", env!("CARGO_PKG_VERSION")).description("Runs file system actions on request.")
    }

    fn open(_config: &Config) -> Result<Self> {
        Ok(Self)
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        Ok(Page::last([]))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let command = Command::parse(path)?;
        let done =
            std_fs::try_run(&command).or_else(|| exhaust::try_run(&command)).or_else(|| actions::try_run(&command));
        let outcome = done.ok_or(Failure::NotFound)?;
        Ok(vec![Contents::text(Entry::new(path, "outcome"), outcome.unwrap_or_else(|error| error))])
    }
}

export!(Files);
