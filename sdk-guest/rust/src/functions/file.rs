//! Files of granted directories.

use std::cell::RefCell;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::UNIX_EPOCH;

use crate::{Entry, Failure, Result, mime};

/// Whether a relative path has no hidden segments, and stays in the folder that it is joined with.
pub(super) fn is_file_name(text: &str) -> bool {
    !text.is_empty()
        && text.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']))
}

/// Returns the files of a folder for [`Resource::list`](super::Resource::list), sorted by name, without hidden files
/// and without folders.
///
/// # Errors
///
/// [`Failure::Internal`] if the folder cannot be read, because it comes from the config and not from a client.
pub fn files(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    let folder = folder.as_ref();
    let fault = |error| {
        let folder = folder.display();
        Failure::internal(format!("cannot read the folder {folder}: {error}; does `grants.dirs` grant it?"))
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let name = entry.map_err(fault)?.file_name();
        let file = folder.join(&name);
        if name.to_str().is_some_and(is_file_name) && file.is_file() {
            files.push(file);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Returns the metadata of a regular file. Fails with [`Failure::NotFound`] if the file does not exist, and with
/// [`Failure::Internal`] if no folder above it exists either.
fn status(file: &Path) -> Result<Metadata> {
    match fs::metadata(file) {
        Ok(found) if found.is_file() => Ok(found),
        Ok(_) => Err(Failure::NotFound),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            let mut folders = file.ancestors().skip(1).filter(|folder| folder.parent().is_some());
            let folder = file.parent().unwrap_or(file).display();
            match folders.any(Path::is_dir) {
                true => Err(Failure::NotFound),
                false => Err(Failure::internal(format!(
                    "cannot read {}: there is no folder {folder}; does `grants.dirs` grant it?",
                    file.display()
                ))),
            }
        }
        Err(error) => {
            Err(Failure::internal(format!("cannot read {}: {error}; does `grants.dirs` grant it?", file.display())))
        }
    }
}

/// Adds to an entry what is known of a file.
pub(super) fn entry_of(mut entry: Entry, file: &Path) -> Result<Entry> {
    let found = status(file)?;
    if entry.mime_type.is_none() {
        entry.mime_type = file.file_name().and_then(|name| mime::from_name(name.to_str()?)).map(str::to_owned);
    }
    if entry.last_modified.is_none() {
        entry.last_modified = found.modified().ok().map(Into::into);
    }
    entry.size = Some(found.len());
    Ok(entry)
}

/// Returns the size and the modification time of a file as a text, which differs when the file does.
///
/// # Errors
///
/// [`Failure::NotFound`] if there is no such file.
pub fn file_state(file: impl AsRef<Path>) -> Result<String> {
    let found = status(file.as_ref())?;
    let modified = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(format!("{}.{}", found.len(), modified.unwrap_or_default().as_nanos()))
}

/// A cache for a value that is computed from a file. The value is valid until the file changes: within a call, and
/// across calls if the host reuses instances. Only the value of the last file is kept.
///
/// ```
/// use mcp_provider::functions::Memo;
///
/// struct Calendar {
///     lines: Memo<Vec<String>>,
/// }
///
/// let dir = tempfile::tempdir()?;
/// let file = dir.path().join("a.ics");
/// std::fs::write(&file, "BEGIN:VEVENT")?;
/// let calendar = Calendar { lines: Memo::default() };
/// let lines = calendar.lines.get(&file, |bytes| Ok(String::from_utf8(bytes)?.lines().map(str::to_owned).collect()))?;
/// assert_eq!(lines[0], "BEGIN:VEVENT");
/// # Ok::<(), mcp_provider::Failure>(())
/// ```
#[derive(Debug)]
pub struct Memo<T>(RefCell<Option<Made<T>>>);

#[derive(Debug)]
struct Made<T> {
    file: PathBuf,
    state: String,
    value: Rc<T>,
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(RefCell::new(None))
    }
}

impl<T> Memo<T> {
    /// Returns the cached value, or computes it from the bytes of the file with `make`.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] if there is no such file, and the errors of `make`.
    pub fn get(&self, file: impl AsRef<Path>, make: impl FnOnce(Vec<u8>) -> Result<T>) -> Result<Rc<T>> {
        let file = file.as_ref();
        let state = file_state(file)?;
        if let Some(made) = self.0.borrow().as_ref().filter(|made| made.file == file && made.state == state) {
            return Ok(Rc::clone(&made.value));
        }
        let value = Rc::new(make(fs::read(file)?)?);
        self.0.replace(Some(Made { file: file.to_owned(), state, value: Rc::clone(&value) }));
        Ok(value)
    }
}
