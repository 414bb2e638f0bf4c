//! A provider that makes the host allocate and write as much as possible.
//!
//! | path | action, before it reads as `survived` |
//! |---|---|
//! | `good` | nothing |
//! | `KIND?count=8&kib=1024` | allocates `count` host resources of that size each, and holds them until the call ends |
//! | `KIND-in-turn?count=8&kib=1024` | the same, but drops each resource before it allocates the next one |
//! | `line-feeds?count=8` | logs a message of `count` line feeds, then writes the same number to standard output and standard error |
//! | `noise?count=8` | logs `count` different lines of 1000 bytes at level `warn` |
//! | `whisper?count=8` | logs `count` lines of 1000 bytes at level `debug`, then `heard` at level `warn` |
//! | `deception` | logs a line with characters that spoof a terminal |
//!
//! `KIND` is one of [`KINDS`].

mod resources;

use std::io::Write;

use mcp_provider::{Config, Contents, Entry, Failure, Info, Page, Provider, Result, export, log};

use crate::resources::{HostResource, KINDS};

struct Exhaust;

/// Returns the number of a key in a query.
fn number(query: &str, key: &str) -> usize {
    let values = query.split('&').filter_map(|pair| pair.split_once('='));
    values.filter(|(name, _)| *name == key).find_map(|(_, value)| value.parse().ok()).unwrap_or(1)
}

fn run(what: &str, query: &str) -> Result<()> {
    let (count, kib) = (number(query, "count"), number(query, "kib"));
    match what {
        "good" => {}
        "line-feeds" => {
            let feeds = "\n".repeat(count);
            log::warn!("{feeds}");
            // An error means that the stream is closed.
            let _ = std::io::stdout().write_all(feeds.as_bytes());
            let _ = std::io::stderr().write_all(feeds.as_bytes());
        }
        "noise" => (0..count).for_each(|number| log::warn!("{number:n>1000}")),
        "whisper" => {
            (0..count).for_each(|_| log::debug!("{}", "w".repeat(1000)));
            log::warn!("heard");
        }
        "deception" => log::warn!("safe\u{202e}txt.exe\u{2028}\u{85}\u{2066}forged"),
        kind => match kind.strip_suffix("-in-turn") {
            Some(kind) if KINDS.contains(&kind) => (0..count).for_each(|_| drop(HostResource::new(kind, kib))),
            None if KINDS.contains(&kind) => drop((0..count).map(|_| HostResource::new(kind, kib)).collect::<Vec<_>>()),
            _ => return Err(Failure::NotFound),
        },
    }
    Ok(())
}

impl Provider for Exhaust {
    fn describe() -> Info {
        Info::new("exhaust", env!("CARGO_PKG_VERSION")).description("Exhausts the host's resources.")
    }

    fn open(_config: &Config) -> Result<Self> {
        Ok(Self)
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        Ok(Page::last([Entry::new("good", "good")]))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let (what, query) = path.split_once('?').unwrap_or((path, ""));
        run(what, query)?;
        Ok(vec![Contents::text(Entry::new(path, what), "survived")])
    }
}

export!(Exhaust);
