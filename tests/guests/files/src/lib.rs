//! A provider that does to files what it is told.
//!
//! The path of a resource is an action with what it needs: `read?dir=/a&path=b.txt`, `rename?dir=/a&path=b&into=/c&to=d`. What is
//! read is what became of it: `ok` or what there is to tell, or the standard's name of the error. Actions are done with the
//! functions of `wasi:filesystem` themselves, which let a guest ask for what no library would; [`std_fs`] does some with
//! Rust's standard library, as other providers do.

mod actions;
mod command;
mod exhaust;
mod std_fs;

use mcp_provider::{Config, Contents, Entry, Failure, Info, Page, Provider, Result, export};

use self::command::Command;

/// What became of an action: what there is to tell, or the name of the error.
type Outcome = std::result::Result<String, String>;

struct Files;

impl Provider for Files {
    fn describe() -> Info {
        Info::new("files", env!("CARGO_PKG_VERSION")).description("Does to files what it is told.")
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
