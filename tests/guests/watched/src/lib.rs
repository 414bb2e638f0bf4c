//! A provider of unlimited resources that are subscribable.
//!
//! Every path exists, and reads as the file `/data/state`. When that file changes, all resources change. Paths with
//! these prefixes differ:
//!
//! | path | `stat` |
//! |---|---|
//! | `slow/…` | never returns |
//! | `trap/…` | traps |
//! | `missing/…` | returns not found |
//! | `plain/…` | is not subscribable |
//!
//! While the file `/data/bad` exists, each `changes` with a path `bad/…` traps.
//!
//! While a file `/data/CALL.FAULT` exists, every CALL (`stat`, `changes`, `list`) ends with the FAULT: `trap`, `hang`
//! or `fail`; with `wait`, it returns after the file is deleted. Each `stat` logs `stat PATH`, each `changes` logs
//! `changes COUNT`, and each `list` logs `listed`. If a directory `/count` is granted, it contains a file per call,
//! which grows by one byte with each call.
//!
//! | config key | meaning |
//! |---|---|
//! | `stat-ms` | the duration of a `stat` |
//! | `ttl` | the time to live of what is read, in seconds; none by default |
//! | `repeat` | every answer reports every watched path as changed, this many times |
//! | `relists` | every answer reports the listing as changed, and each listing differs |

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_provider::{Changes, Config, Contents, Entry, Failure, Info, Page, Provider, Result, export, log};

struct Watched {
    stat_time: Duration,
    ttl: Option<Duration>,
    repeat: usize,
    relists: bool,
}

impl Provider for Watched {
    fn describe() -> Info {
        Info::new("watched", env!("CARGO_PKG_VERSION")).watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        Ok(Self {
            stat_time: Duration::from_millis(config.parse("stat-ms")?.unwrap_or(0)),
            ttl: config.parse("ttl")?.map(Duration::from_secs),
            repeat: config.parse("repeat")?.unwrap_or(0),
            relists: config.parse("relists")?.unwrap_or(false),
        })
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        log::info!("listed");
        record_call("listed")?;
        inject_fault("list")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = if self.relists { now.as_nanos().to_string() } else { "one".to_owned() };
        Ok(Page::last([Entry::new(name.clone(), name)]))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let entry = self.stat(path)?;
        let entry = match self.ttl {
            Some(ttl) => entry.ttl(ttl),
            None => entry,
        };
        Ok(vec![Contents::text(entry, state())])
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        log::info!("stat {path}");
        record_call("stat")?;
        inject_fault("stat")?;
        std::thread::sleep(self.stat_time);
        let entry = Entry::new(path, path);
        match path.split_once('/').map(|(first, _)| first) {
            Some("slow") => hang(),
            Some("trap") => std::process::abort(),
            Some("missing") => return Err(Failure::NotFound),
            Some("plain") => return Ok(entry),
            _ => {}
        }
        Ok(entry.subscribable())
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        log::info!("changes {}", watched.len());
        record_call("changes")?;
        inject_fault("changes")?;
        if watched.iter().any(|path| path.starts_with("bad/")) && Path::new("/data/bad").exists() {
            std::process::abort();
        }
        let now = state();
        let times = if since.is_some_and(|since| since != now) { 1 } else { 0 }.max(self.repeat);
        let repeated = watched.iter().flat_map(|path| std::iter::repeat_n(path, times));
        let changes = repeated.fold(Changes::none(now), |changes, path| changes.changed(path));
        Ok(if self.relists { changes.listing_changed() } else { changes })
    }
}

fn state() -> String {
    std::fs::read_to_string("/data/state").unwrap_or_default()
}

fn hang() {
    std::thread::sleep(Duration::from_secs(3600));
}

/// Records a call in a file.
fn record_call(call: &str) -> Result<()> {
    if !Path::new("/count").exists() {
        return Ok(());
    }
    let mut file = File::options().create(true).append(true).open(format!("/count/{call}"))?;
    Ok(file.write_all(b".")?)
}

/// Injects the fault configured for a call.
fn inject_fault(call: &str) -> Result<()> {
    let is = |fault: &str| Path::new(&format!("/data/{call}.{fault}")).exists();
    while is("wait") {
        std::thread::sleep(Duration::from_millis(5));
    }
    if is("trap") {
        std::process::abort();
    }
    if is("hang") {
        hang();
    }
    if is("fail") { Err(Failure::internal("injected fault")) } else { Ok(()) }
}

export!(Watched);
