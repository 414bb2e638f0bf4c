//! A provider that asks web servers, for tests.
//!
//! | path | reads as |
//! |---|---|
//! | `get?url=…` | what a request there was answered with |
//! | `many?url=…&count=4` | what so many requests there, all under way at once, were answered with |
//!
//! | key beside `url` | sets |
//! |---|---|
//! | `method=POST` | the method |
//! | `header=name:value` | a header; any number of times |
//! | `fill=1000` | a body of so many bytes, which is not announced |
//! | `connect=50`, `first-byte=50`, `pause=50` | a timeout in milliseconds |
//!
//! An answer is JSON: `{ status, headers, length, body, ended }`, where `body` is the beginning of it and `ended` what ended it
//! too early; or `{ error }`.

mod request;
mod response;

use mcp_provider::{Config, Contents, Entry, Failure, Info, Page, Provider, Result, export};
use serde_json::Value;

use crate::request::FetchRequest;

/// Requests at once.
const MAX_REQUESTS: usize = 100;

struct Fetch;

impl Provider for Fetch {
    fn describe() -> Info {
        Info::new("fetch", env!("CARGO_PKG_VERSION")).description("What web servers answer.")
    }

    fn open(_config: &Config) -> Result<Self> {
        Ok(Self)
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        Ok(Page { entries: Vec::new(), next_cursor: None })
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let (what, query) = path.split_once('?').ok_or(Failure::NotFound)?;
        let request = FetchRequest::parse(query).ok_or_else(|| Failure::invalid("expected `url` and known keys"))?;
        let answers: Value = match what {
            "get" => response::to_json(request.send()),
            "many" => {
                let under_way: Vec<_> = (0..request.count.min(MAX_REQUESTS)).map(|_| request.send()).collect();
                under_way.into_iter().map(response::to_json).collect()
            }
            _ => return Err(Failure::NotFound),
        };
        Ok(vec![Contents::text(Entry::new(path, what).mime_type("application/json"), answers.to_string())])
    }
}

export!(Fetch);
