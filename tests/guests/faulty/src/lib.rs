//! A provider of the files of one folder, with fault injection through that folder.
//!
//! A file at `/data/.faults/CALL.FAULT` makes every CALL (`describe`, `list`, `read`, `stat`, `changes`) end with the
//! FAULT: `trap` traps, `hang` never returns, `fail` fails. Reading a file returns the config's `prefix`, if any,
//! followed by the file's content. The only persistent state is the token, which contains a hash of every watched file
//! and of the listing.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use mcp_provider::{Changes, Config, Contents, Entry, Failure, Info, Page, Provider, Result, export};

const FOLDER: &str = "/data";

struct Faulty {
    prefix: String,
}

impl Provider for Faulty {
    fn describe() -> Info {
        // `describe` cannot fail; it can only trap or hang.
        let _ = inject_fault("describe");
        Info::new("faulty", env!("CARGO_PKG_VERSION")).description("A folder whose calls fail on demand.").watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        Ok(Self { prefix: config.get("prefix").unwrap_or_default().to_owned() })
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        inject_fault("list")?;
        Ok(Page::last(files()?.into_iter().map(|(name, size)| entry(&name).size(size))))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        inject_fault("read")?;
        let text = fs::read_to_string(Path::new(FOLDER).join(path))?;
        Ok(vec![Contents::text(entry(path), format!("{}{text}", self.prefix))])
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        inject_fault("stat")?;
        fs::metadata(Path::new(FOLDER).join(path))?;
        Ok(entry(path))
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        inject_fault("changes")?;
        let mut now = BTreeMap::from([("/".to_owned(), hash(&files()?))]);
        now.extend(watched.iter().map(|path| (path.clone(), hash(&fs::read(Path::new(FOLDER).join(path)).ok()))));
        let token: Vec<_> = now.iter().map(|(path, state)| format!("{path} {state}")).collect();
        let mut changes = Changes::none(token.join("\n"));
        let Some(since) = since else { return Ok(changes) };
        let then: BTreeMap<_, _> = since.lines().filter_map(|line| line.split_once(' ')).collect();
        for (path, state) in &now {
            match then.get(path.as_str()) {
                Some(then) if *then == state.to_string() => {}
                _ if path == "/" => changes = changes.listing_changed(),
                _ => changes = changes.changed(path),
            }
        }
        Ok(changes)
    }
}

/// Injects the fault configured for a call.
fn inject_fault(call: &str) -> Result<()> {
    let is = |fault: &str| fs::exists(format!("{FOLDER}/.faults/{call}.{fault}")).unwrap_or(false);
    if is("trap") {
        std::process::abort();
    }
    if is("hang") {
        std::thread::sleep(Duration::from_secs(3600));
    }
    if is("fail") { Err(Failure::internal("injected fault")) } else { Ok(()) }
}

/// Returns the files by name, with their sizes.
fn files() -> Result<BTreeMap<String, u64>> {
    let mut files = BTreeMap::new();
    for file in fs::read_dir(FOLDER)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        // A file that was deleted in the meantime is skipped.
        if let Ok(metadata) = file.metadata()
            && metadata.is_file()
        {
            files.insert(name, metadata.len());
        }
    }
    Ok(files)
}

fn entry(name: &str) -> Entry {
    Entry::new(name, name).subscribable()
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

export!(Faulty);
