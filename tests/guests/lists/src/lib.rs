//! A provider that receives long lists from the host.
//!
//! | path | receives |
//! |---|---|
//! | `bucket/SIZE` | a value of SIZE bytes, five times, after setting it |
//! | `body/SIZE` | the body of the response to a request for this path below the URL in the config key `url` |
//!
//! Both return the number of bytes.

use std::time::Duration;

use mcp_provider::http::Request;
use mcp_provider::keyvalue::Bucket;
use mcp_provider::{Config, Contents, Entry, Failure, Info, Page, Provider, Result, export};

/// The number of reads of a value.
const READS: usize = 5;

struct Lists {
    url: String,
}

impl Provider for Lists {
    fn describe() -> Info {
        Info::new("lists", env!("CARGO_PKG_VERSION")).description("Receives long lists.")
    }

    fn open(config: &Config) -> Result<Self> {
        Ok(Self { url: config.get("url").unwrap_or_default().to_owned() })
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        Ok(Page::last([]))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let (kind, size) = path.split_once('/').ok_or(Failure::NotFound)?;
        let received = match kind {
            "bucket" => {
                let bucket = Bucket::open("visits")?;
                bucket.set("list", &vec![0; size.parse().map_err(|_| Failure::NotFound)?])?;
                let lengths = (0..READS).map(|_| Ok(bucket.get("list")?.map_or(0, |value| value.len())));
                lengths.sum::<Result<usize>>()?
            }
            "body" => {
                let request = Request::get(format!("{}/{size}", self.url)).timeout(Duration::from_secs(60));
                request.send()?.body.read_to_limit(1 << 30)?.len()
            }
            _ => return Err(Failure::NotFound),
        };
        Ok(vec![Contents::text(Entry::new(path, path), received.to_string())])
    }
}

export!(Lists);
