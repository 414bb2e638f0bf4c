//! A provider that misbehaves on demand.
//!
//! Reading the path `trap` traps, reading `loop` loops, and so on for every name in [`deeds::NAMES`]. The config key `list`
//! says what listing does: one of those, or one of the pages of [`pages`]. The rest is well-behaved:
//!
//! | path | reads as |
//! |---|---|
//! | `good` | `good` |
//! | `echo/…` | the path as it came |
//! | `slow?ms=300` | `slow`, after so many milliseconds |

mod deeds;
mod pages;

use std::time::Duration;

use mcp_provider::{
    Config, Contents, Entry, Failure, Info, Page, PathTemplate, Provider, Result, Template, export, log,
};

struct Unruly {
    list: Option<String>,
    /// How many entries the page `many` has.
    count: usize,
}

impl Provider for Unruly {
    fn describe() -> Info {
        Info::new("unruly", env!("CARGO_PKG_VERSION")).description("Misbehaves on demand.")
    }

    fn open(config: &Config) -> Result<Self> {
        Ok(Self { list: config.get("list").map(str::to_owned), count: config.parse("count")?.unwrap_or(0) })
    }

    fn list(&self, _parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let Some(list) = &self.list else {
            return Ok(Page::last(["good"].into_iter().chain(deeds::NAMES).map(|name| Entry::new(name, name))));
        };
        match pages::page(list, self.count, cursor, limit) {
            Some(page) => page,
            None => deeds::commit(list).map(|()| Page::last([Entry::new("good", "good")])),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        if path.starts_with("echo/") {
            return Ok(vec![Contents::text(Entry::new(path, "echo"), path)]);
        }
        if let Some(captures) = PathTemplate::parse("slow{?ms}")?.matches(path) {
            let ms = captures.get("ms").and_then(|ms| ms.parse().ok()).unwrap_or(0);
            // Whoever waits for this line knows that the read is under way.
            log::info!("a slow read has begun: {path}");
            std::thread::sleep(Duration::from_millis(ms));
            return Ok(vec![Contents::text(Entry::new(path, "slow"), "slow")]);
        }
        match path {
            "foreign" => Ok(vec![Contents::text(Entry::new("../../elsewhere", "foreign"), "not yours")]),
            "nothing" => Ok(Vec::new()),
            "large" => Ok(vec![Contents::text(Entry::new(path, path), "x".repeat(8 << 20))]),
            "too-large" => Ok(vec![Contents::blob(Entry::new(path, path), vec![1; 32 << 20])]),
            "good" => Ok(vec![Contents::text(Entry::new(path, path), path)]),
            deed if deeds::NAMES.contains(&deed) => {
                deeds::commit(deed)?;
                Ok(vec![Contents::text(Entry::new(path, path), "survived")])
            }
            _ => Err(Failure::NotFound),
        }
    }

    fn templates(&self) -> Vec<Template> {
        vec![Template::new("echo/{+path}", "echo"), Template::new("slow{?ms}", "slow")]
    }
}

export!(Unruly);
