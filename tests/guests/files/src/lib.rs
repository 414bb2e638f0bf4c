//! A provider that does to files what it is told.
//!
//! The path of a resource is a deed with what it needs: `read?dir=/a&path=b.txt`, `rename?dir=/a&path=b&into=/c&to=d`. What is
//! read is what became of it: `ok` or what there is to tell, or the standard's name of the error. Deeds are done with the
//! functions of `wasi:filesystem` themselves, which let a guest ask for what no library would; [`plain`] does some with
//! Rust's standard library, as other providers do.

mod deeds;
mod hoard;
mod order;
mod plain;

use mcp_provider::{Config, Contents, Entry, Failure, Info, Page, Provider, Result, export};

use self::order::Order;

/// What became of a deed: what there is to tell, or the name of the error.
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
        let order = Order::parse(path)?;
        let done = plain::done(&order).or_else(|| hoard::done(&order)).or_else(|| deeds::done(&order));
        let outcome = done.ok_or(Failure::NotFound)?;
        Ok(vec![Contents::text(Entry::new(path, "outcome"), outcome.unwrap_or_else(|error| error))])
    }
}

export!(Files);
