//! Actions with Rust's standard library, as in ordinary providers.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::command::Command;

/// Runs the action, if it belongs to this module.
pub(crate) fn try_run(command: &Command) -> Option<Outcome> {
    let path = Path::new(&command.dir).join(&command.path);
    let done = match &*command.action {
        "plain-list" => list(&path),
        "plain-read" => fs::read_to_string(&path),
        "plain-write" => write(path, command.size),
        "plain-set-size" => File::create(path).and_then(|file| file.set_len(command.size)).map(|()| "ok".to_owned()),
        "plain-open-many" => open_many(&path),
        _ => return None,
    };
    Some(done.map_err(|error| format!("{:?}", error.kind())))
}

fn list(path: &Path) -> io::Result<String> {
    let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names = entries.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names.join("\n"))
}

/// Opens a file repeatedly, until opening fails.
fn open_many(path: &Path) -> io::Result<String> {
    let mut kept = Vec::new();
    loop {
        kept.push(File::open(path)?);
    }
}

fn write(path: PathBuf, size: u64) -> io::Result<String> {
    let mut file = File::create(path)?;
    io::copy(&mut io::Read::take(io::repeat(b'x'), size), &mut file)?;
    file.flush()?;
    Ok("ok".to_owned())
}
