//! A provider that misbehaves on demand.
//!
//! Reading the path `trap` traps, reading `loop` loops, and so on for every name in [`actions::NAMES`]. The config key `list`
//! says what listing does: one of those, or one of the pages of [`pages`]. The rest is well-behaved:
//!
//! | path | reads as |
//! |---|---|
//! | `good` | `good` |
//! | `echo/…` | the path as it came |
//! | `slow?ms=300` | `slow`, after so many milliseconds |
//! | `count` | how often this instance has been asked for it |
//! | `allocate?mib=8` | `allocated`, and the instance holds so much more memory from then on |
//! | `contents?n=3` | so many contents |
//! | `switch` | the file `switch` in the directory `/switch`, which can be watched |
//!
//! While there is a file `broken` in the directory `/switch`, every call traps. The variable of the template `echo` has a
//! thousand completions.

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

/// While this file is there, every call traps.
const BROKEN: &str = "/switch/broken";
/// What `switch` reads.
const SWITCH: &str = "/switch/switch";

struct Misbehaving {
    list: Option<String>,
    /// How many entries the page `many` has.
    count: usize,
    /// How often `count` has been read.
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

    /// What a path of the form `NAME?KEY=NUMBER` says.
    fn number(path: &str, template: &str, key: &str) -> Result<Option<usize>> {
        let Some(captures) = PathTemplate::parse(template)?.matches(path) else { return Ok(None) };
        Ok(Some(captures.get(key).and_then(|number| number.parse().ok()).unwrap_or(0)))
    }
}

impl Provider for Misbehaving {
    fn describe() -> Info {
        Info::new("misbehaving", env!("CARGO_PKG_VERSION"))
            .description("Misbehaves on demand.")
            // Without the directory it is called by nobody but those who ask it something.
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
            // Whoever waits for this line knows that the read is under way.
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
