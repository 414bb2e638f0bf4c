//! A provider with configurable CPU usage.
//!
//! | path | reads as |
//! |---|---|
//! | `good` | `good` |
//! | `compute?rounds=1000` | `computed`, after that many rounds of a computation of fixed length |
//! | `spin` | nothing: an endless loop |
//!
//! With the config key `changes = "spin"`, `changes` is an endless loop, too. Every resource is subscribable.

use std::hint::black_box;

use mcp_provider::{Changes, Config, Contents, Entry, Failure, Info, Page, PathTemplate, Provider, Result, export};

/// The number of steps in one round: about a microsecond.
const STEPS_PER_ROUND: u64 = 1000;

struct Busy {
    spins_in_changes: bool,
}

impl Provider for Busy {
    fn describe() -> Info {
        Info::new("busy", env!("CARGO_PKG_VERSION")).description("Uses as much CPU time as requested.").watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        Ok(Self { spins_in_changes: config.get("changes") == Some("spin") })
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        Ok(Page::last([entry("good")]))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        if let Some(captures) = PathTemplate::parse("compute{?rounds}")?.matches(path) {
            let rounds = captures.get("rounds").and_then(|rounds| rounds.parse().ok());
            compute(rounds.ok_or_else(|| Failure::invalid("expected a number of rounds"))?);
            return Ok(vec![Contents::text(entry(path), "computed")]);
        }
        match path {
            "good" => Ok(vec![Contents::text(entry(path), path)]),
            "spin" => spin(),
            _ => Err(Failure::NotFound),
        }
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        Ok(entry(path))
    }

    fn changes(&self, _watched: &[String], _since: Option<&str>) -> Result<Changes> {
        if self.spins_in_changes {
            return spin();
        }
        Ok(Changes::none("constant"))
    }
}

fn entry(path: &str) -> Entry {
    Entry::new(path, path).subscribable()
}

fn compute(rounds: u64) {
    for step in 0..rounds.saturating_mul(STEPS_PER_ROUND) {
        black_box(step);
    }
}

fn spin<T>() -> Result<T> {
    loop {
        compute(1);
    }
}

export!(Busy);
