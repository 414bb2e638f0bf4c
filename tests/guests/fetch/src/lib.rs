//! A provider that sends HTTP requests, for tests.
//!
//! | path | reads as |
//! |---|---|
//! | `get?url=…` | the response to a request |
//! | `many?url=…&count=4` | the responses to `count` concurrent requests |
//!
//! | key in addition to `url` | sets |
//! |---|---|
//! | `method=POST` | the method |
//! | `header=name:value` | a header; repeatable |
//! | `fill=1000` | a body of this many bytes, without `content-length` |
//! | `connect=50`, `first-byte=50`, `pause=50` | a timeout in milliseconds |
//!
//! A response is JSON: `{ status, headers, length, body, ended }`, where `body` is the beginning of the body and
//! `ended` the error that truncated it; or `{ error }`.

mod request;
mod response;

use mcp_provider::{Config, Contents, Entry, Failure, Info, Page, Provider, Result, export};
use serde_json::Value;

use crate::request::FetchRequest;

/// The maximum number of concurrent requests.
const MAX_REQUESTS: usize = 100;

struct Fetch;

impl Provider for Fetch {
    fn describe() -> Info {
        Info::new("fetch", env!("CARGO_PKG_VERSION")).description("Responses of web servers.")
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
