//! A provider that prepares an index of a text file, in steps, and misbehaves on demand.
//!
//! The folder `/data` contains the file `source`. A preparation has [`STEPS`] steps. The last step writes `index`: the
//! config's `prefix`, and the content of `source`. The resource `index` is that file; while it does not exist, it is
//! being prepared. The resource `echo` always exists. Each call of `prepare` appends its token to the file `calls`.
//!
//! The config key `prepare` selects the behavior:
//!
//! | value | |
//! |---|---|
//! | none | one step per call; after the second step, it continues only when the file `go` exists |
//! | `trap` | the same without waiting, but the second step traps while the file `fault` exists, and removes it |
//! | `loop` | the same with an endless loop |
//! | `fail` | fails while the file `fault` exists, which is not removed |
//! | `strict` | as `trap`, without a trap; all calls but `echo` fail while `index` was not built from `source` |
//! | `never` | never completes, and computes for 50 ms in each call |
//! | `large-token`, `same-token`, `percent`, `panic`, `memory` | one fault in each call |
//! | `message` | a message that is too long and not printable |
//! | `again` | requests to be called again immediately |

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use mcp_provider::{
    Changes, Config, Contents, Entry, Failure, Info, Page, Prepare, Progress, Provider, Result, Retry, export,
};

/// The number of steps of a preparation.
const STEPS: usize = 4;

struct Preparing {
    prefix: String,
    how: String,
}

impl Provider for Preparing {
    fn describe() -> Info {
        Info::new("preparing", env!("CARGO_PKG_VERSION")).description("An index of a text file.").watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        let text = |key| config.get(key).unwrap_or_default().to_owned();
        Ok(Self { prefix: text("prefix"), how: text("prepare") })
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        self.check_index()?;
        Ok(Page::last([entry("index"), entry("echo")]))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let text = match path {
            "index" => {
                self.check_index()?;
                fs::read_to_string("/data/index").map_err(|_| Failure::being_prepared())?
            }
            "echo" => "echo".to_owned(),
            _ => return Err(Failure::NotFound),
        };
        Ok(vec![Contents::text(entry(path), text)])
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        self.check_index()?;
        let token = fs::read_to_string("/data/source").unwrap_or_default();
        let changes = Changes::none(token.clone());
        Ok(match since {
            Some(since) if since != token => watched.iter().fold(changes, |changes, path| changes.changed(path)),
            _ => changes,
        })
    }
}

impl Prepare for Preparing {
    #[allow(clippy::panic, reason = "required by the test")]
    fn prepare(&self, token: Option<&str>) -> Result<Progress> {
        let mut calls = fs::OpenOptions::new().create(true).append(true).open("/data/calls")?;
        let shown: String = token.unwrap_or("-").chars().take(40).collect();
        writeln!(calls, "{shown}")?;
        match self.how.as_str() {
            "never" => {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(50) {}
                let calls = token.and_then(|token| token.parse().ok()).unwrap_or(0_u64);
                Ok(Progress::next(calls.saturating_add(1)).percent(99))
            }
            "large-token" => Ok(Progress::next("x".repeat(70_000))),
            "same-token" => Ok(Progress::next(token.unwrap_or("again"))),
            // Answers that the SDK prevents.
            "percent" => {
                let mut progress = Progress::next("more");
                progress.percent = Some(250);
                Ok(progress)
            }
            "panic" => panic!("nothing is prepared"),
            "memory" => Ok(Progress::done().message(vec!["x"; 64 << 20].len().to_string())),
            "message" => Ok(Progress::done().message(format!("\u{1b}[2Jone\ntwo {}", "x".repeat(1000)))),
            "again" => Ok(Progress::done().again_after(Duration::ZERO)),
            _ => self.step(token),
        }
    }
}

impl Preparing {
    /// Fails if the config requires an index of the current source, and the index was built from another one.
    fn check_index(&self) -> Result<()> {
        match self.how == "strict" && !self.is_indexed()? {
            true => Err(Failure::being_prepared()),
            false => Ok(()),
        }
    }

    fn index(&self) -> Result<String> {
        Ok(format!("{}{}", self.prefix, fs::read_to_string("/data/source")?))
    }

    fn is_indexed(&self) -> Result<bool> {
        let index = self.index()?;
        Ok(fs::read_to_string("/data/index").is_ok_and(|written| written == index))
    }

    fn step(&self, token: Option<&str>) -> Result<Progress> {
        let is_there = |name: &str| fs::exists(format!("/data/{name}")).unwrap_or(false);
        let (step, waited) = match token.unwrap_or("0").split_once('.') {
            Some((step, waited)) => (step.parse().unwrap_or(0), waited.parse().unwrap_or(0_u64)),
            None => (token.and_then(|token| token.parse().ok()).unwrap_or(0_usize), 0),
        };
        if step == 0 && self.is_indexed()? {
            return Ok(Progress::done());
        }
        if step == 2 && self.how.is_empty() && !is_there("go") {
            std::thread::sleep(Duration::from_millis(20));
            return Ok(Progress::of(step, STEPS, "steps", format!("{step}.{}", waited.saturating_add(1))));
        }
        if step == 2 && is_there("fault") {
            match self.how.as_str() {
                "trap" => {
                    fs::remove_file("/data/fault")?;
                    std::process::abort();
                }
                "loop" => {
                    fs::remove_file("/data/fault")?;
                    loop {
                        std::hint::black_box(());
                    }
                }
                _ => return Err(Retry::new("the source is locked").after(Duration::from_millis(10)).into()),
            }
        }
        let done = step.saturating_add(1);
        if done == STEPS {
            fs::write("/data/index", self.index()?)?;
        }
        Ok(Progress::of(done, STEPS, "steps", done))
    }
}

fn entry(name: &str) -> Entry {
    Entry::new(name, name).subscribable()
}

export!(Preparing, prepare);
