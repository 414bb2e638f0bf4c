//! A provider that misbehaves on request.
//!
//! Reading the path `trap` traps, reading `loop` loops, and so on for every name in [`actions::NAMES`]. The config key
//! `list` selects the behavior of `list`: an action, or one of the pages in [`pages`]. Everything else is well-behaved:
//!
//! | path | reads as |
//! |---|---|
//! | `good` | `good` |
//! | `echo/…` | the path as received |
//! | `slow?ms=300` | `slow`, after this many milliseconds |
//! | `count` | the number of reads of this resource by this instance |
//! | `allocate?mib=8` | `allocated`; the instance holds this much more memory from then on |
//! | `contents?n=3` | `n` contents |
//! | `switch` | the file `switch` in the directory `/switch`; watchable |
//!
//! While a file `broken` exists in the directory `/switch`, every call traps. The variable of the template `echo` has
//! a thousand completions.

mod actions;
mod pages;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, PathTemplate, Provider, Result,
    Template, export, log,
};

/// While this file exists, every call traps.
const BROKEN: &str = "/switch/broken";
/// The file that `switch` reads.
const SWITCH: &str = "/switch/switch";

struct Misbehaving {
    list: Option<String>,
    /// The number of entries in the page `many`.
    count: usize,
    /// The number of reads of `count`.
    read_count: AtomicU64,
    allocated: Mutex<Vec<Vec<u8>>>,
}

impl Misbehaving {
    fn trap_if_broken() {
        if Path::new(BROKEN).exists() {
            std::process::abort();
        }
    }

    fn switch() -> String {
        std::fs::read_to_string(SWITCH).unwrap_or_default()
    }

    /// Returns the number in a path of the form `NAME?KEY=NUMBER`.
    fn number(path: &str, template: &str, key: &str) -> Result<Option<usize>> {
        let Some(captures) = PathTemplate::parse(template)?.matches(path) else { return Ok(None) };
        Ok(Some(captures.get(key).and_then(|number| number.parse().ok()).unwrap_or(0)))
    }
}

impl Provider for Misbehaving {
    fn describe() -> Info {
        Info::new("misbehaving", env!("CARGO_PKG_VERSION"))
            .description("Misbehaves on request.")
            // Without the directory, the host never polls this provider.
            .watches(Path::new(SWITCH).exists())
    }

    fn open(config: &Config) -> Result<Self> {
        Ok(Self {
            list: config.get("list").map(str::to_owned),
            count: config.parse("count")?.unwrap_or(0),
            read_count: AtomicU64::new(0),
            allocated: Mutex::default(),
        })
    }

    fn list(&self, _parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        Self::trap_if_broken();
        let Some(list) = &self.list else {
            return Ok(Page::last(["good"].into_iter().chain(actions::NAMES).map(|name| Entry::new(name, name))));
        };
        match pages::page(list, self.count, cursor, limit) {
            Some(page) => page,
            None => actions::run(list).map(|()| Page::last([Entry::new("good", "good")])),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        Self::trap_if_broken();
        if path.starts_with("echo/") {
            return Ok(vec![Contents::text(Entry::new(path, "echo"), path)]);
        }
        if let Some(ms) = Self::number(path, "slow{?ms}", "ms")? {
            // Tests wait for this line to know that the read is in progress.
            log::info!("a slow read has begun: {path}");
            std::thread::sleep(Duration::from_millis(ms as u64));
            return Ok(vec![Contents::text(Entry::new(path, "slow"), "slow")]);
        }
        if let Some(mib) = Self::number(path, "allocate{?mib}", "mib")? {
            self.allocated.lock().map_err(|_| Failure::internal("poisoned"))?.push(vec![1; mib << 20]);
            return Ok(vec![Contents::text(Entry::new(path, "allocate"), "allocated")]);
        }
        if let Some(number) = Self::number(path, "contents{?n}", "n")? {
            let contents = (0..number).map(|n| Contents::text(Entry::new(format!("echo/{n}"), "echo"), n.to_string()));
            return Ok(contents.collect());
        }
        match path {
            "foreign" => Ok(vec![Contents::text(Entry::new("../../elsewhere", "foreign"), "not yours")]),
            "nothing" => Ok(Vec::new()),
            "large" => Ok(vec![Contents::text(Entry::new(path, path), "x".repeat(8 << 20))]),
            "too-large" => Ok(vec![Contents::blob(Entry::new(path, path), vec![1; 32 << 20])]),
            "count" => {
                let count = self.read_count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                Ok(vec![Contents::text(Entry::new(path, path), count.to_string())])
            }
            "switch" => Ok(vec![Contents::text(Entry::new(path, path).subscribable(), Self::switch())]),
            "good" => Ok(vec![Contents::text(Entry::new(path, path), path)]),
            action if actions::NAMES.contains(&action) => {
                actions::run(action)?;
                Ok(vec![Contents::text(Entry::new(path, path), "survived")])
            }
            _ => Err(Failure::NotFound),
        }
    }

    fn complete(&self, _template: &str, _argument: &Argument, _known: &[Argument]) -> Result<Completion> {
        Ok(Completion { values: (0..1000).map(|n| n.to_string()).collect(), ..Completion::default() })
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        Self::trap_if_broken();
        let changes = Changes::none(Self::switch());
        let has_changed = since.is_some_and(|since| since != changes.token);
        Ok(watched.iter().filter(|_| has_changed).fold(changes, |changes, path| changes.changed(path)))
    }

    fn templates(&self) -> Vec<Template> {
        vec![Template::new("echo/{+path}", "echo"), Template::new("slow{?ms}", "slow")]
    }
}

export!(Misbehaving);
