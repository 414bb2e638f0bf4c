//! The file of the audit log: append-only, rotated by renaming.
//!
//! The file is locked (`flock`) while it is open, so that two hosts do not rotate the same file. If another
//! program, such as logrotate, renames or removes the file, the next write creates it again.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_host_base::throttle::Throttle;
use mcp_host_base::{log_target, regular_file};
use mcp_host_config::audit::{AuditDestination, AuditFile};

use super::AuditError;
use super::torn_line::{TornLine, Written};

/// The shortest interval between warnings about rotation.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// An open log file.
#[derive(Debug)]
pub(super) struct LogFile {
    config: AuditFile,
    file: File,
    torn: TornLine,
    rotation_warnings: Throttle,
}

impl LogFile {
    /// Opens the file, and locks it.
    pub(super) fn open(config: AuditFile) -> Result<Self, AuditError> {
        let (file, torn) = open_locked(&config.path)?;
        Ok(Self { config, file, torn, rotation_warnings: Throttle::new(WARNING_INTERVAL) })
    }

    /// Applies other settings of the same file. Returns whether the path is the same.
    pub(super) fn reconfigure(&mut self, config: &AuditFile) -> bool {
        let is_same = self.config.path == config.path;
        if is_same {
            self.config = config.clone();
        }
        is_same
    }

    /// Appends lines, after rotation if they would make the file too large.
    pub(super) fn append(&mut self, lines: &[u8]) -> Written {
        if let Err(error) = self.prepare(lines.len()) {
            return (0, Err(error));
        }
        let written = self.torn.write(&mut self.file, lines);
        if self.torn != TornLine::default() && self.cut_off(self.torn.0).is_ok() {
            self.torn = TornLine::default();
        }
        written
    }

    /// Opens the file again if its path names another file now, and rotates it if `more` bytes would make it
    /// too large.
    fn prepare(&mut self, more: usize) -> io::Result<()> {
        if !self.is_in_place() {
            self.reopen()?;
        }
        let len = self.file.metadata()?.len();
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        if len > 0 && len.saturating_add(more) > self.config.max_size.bytes() {
            match self.rotate() {
                // The lines are written anyway: a file that is too large is better than lost lines.
                Err(error) => {
                    if self.rotation_warnings.record().is_some() {
                        let file = self.config.path.display();
                        tracing::warn!(
                            target: log_target::SERVER, %file, %error,
                            "the audit log cannot be rotated, and grows beyond `audit.max-size`"
                        );
                    }
                }
                Ok(()) => self.reopen()?,
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.torn) = open_locked(&self.config.path).map_err(io::Error::other)?;
        Ok(())
    }

    /// Renames the rotated files and then the file, each to the next number. The last one is overwritten.
    fn rotate(&self) -> io::Result<()> {
        let keep = self.config.keep.get();
        // Files that an earlier config with a larger number has left.
        let leftover = (keep.saturating_add(1)..).map(|number| self.rotated(number));
        leftover.take_while(|path| fs::remove_file(path).is_ok()).for_each(drop);
        for number in (1..keep).rev() {
            match fs::rename(self.rotated(number), self.rotated(number.saturating_add(1))) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.config.path, self.rotated(1))
    }

    /// Returns the path of the rotated file with this number.
    fn rotated(&self, number: usize) -> PathBuf {
        let mut path = OsString::from(&self.config.path);
        path.push(format!(".{number}"));
        path.into()
    }

    /// Returns whether the open file is the one at its path.
    fn is_in_place(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
            let there = self.config.path.metadata().map(id);
            there.ok().is_some_and(|there| self.file.metadata().is_ok_and(|open| id(open) == there))
        }
        #[cfg(not(unix))]
        self.config.path.exists()
    }

    /// Removes the last bytes of the file.
    fn cut_off(&self, bytes: usize) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        self.file.set_len(len.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX)))
    }
}

/// Opens a file and locks it. Its last line may be torn if a host was killed while it wrote.
fn open_locked(path: &Path) -> Result<(File, TornLine), AuditError> {
    let failed = |source| AuditError::Open { path: path.to_owned(), source };
    let mut file = regular_file::open_to_append(path).map_err(failed)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Err(AuditError::InUse { path: path.to_owned() }),
        // Not every file system has locks.
        Err(TryLockError::Error(_)) | Ok(()) => {}
    }
    let torn = ends_in_a_line(&mut file).map_err(failed)?;
    Ok((file, TornLine(usize::from(torn))))
}

/// Returns whether the last byte of a file is not a line break.
fn ends_in_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// An open destination.
#[derive(Debug)]
pub(super) enum Sink {
    File(LogFile),
    Stderr(TornLine),
}

impl Sink {
    /// Opens a destination.
    pub(super) fn open(destination: &AuditDestination) -> Result<Self, AuditError> {
        match destination {
            AuditDestination::File(file) => LogFile::open(file.clone()).map(Self::File),
            AuditDestination::Stderr => Ok(Self::Stderr(TornLine::default())),
        }
    }

    /// Applies other settings of the same destination. Returns whether the destination is the same.
    pub(super) fn reconfigure(&mut self, destination: &AuditDestination) -> bool {
        match (self, destination) {
            (Self::File(file), AuditDestination::File(config)) => file.reconfigure(config),
            (Self::Stderr(_), AuditDestination::Stderr) => true,
            _ => false,
        }
    }

    /// Appends lines.
    pub(super) fn append(&mut self, lines: &[u8]) -> Written {
        match self {
            Self::File(file) => file.append(lines),
            Self::Stderr(torn) => torn.write(&mut io::stderr(), lines),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::audit::{Audit, AuditDestination};

    fn config(path: &Path, keep: usize) -> AuditFile {
        let AuditDestination::File(file) = Audit::to_file(path).destination else { panic!("it is a file") };
        AuditFile { max_size: (64 << 10).try_into().unwrap(), keep: keep.try_into().unwrap(), ..file }
    }

    fn append(file: &mut LogFile, lines: &str) {
        let (written, result) = file.append(lines.as_bytes());
        result.unwrap();
        assert_eq!(written, lines.len());
    }

    /// Returns the names of the files in the directory, sorted, with the first character of each file.
    fn files(dir: &Path) -> Vec<(String, char)> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let first = |path: PathBuf| fs::read_to_string(path).unwrap().chars().next().unwrap();
        let mut files: Vec<_> =
            entries.map(|entry| (entry.file_name().into_string().unwrap(), first(entry.path()))).collect();
        files.sort();
        files
    }

    #[test]
    fn rotated_files_are_numbered_from_the_newest_and_the_oldest_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = LogFile::open(config(&dir.path().join("a"), 2)).unwrap();
        for line in ["1", "2", "3", "4"] {
            append(&mut file, &format!("{}\n", line.repeat(40 << 10)));
        }
        let names = |files: &[(&str, char)]| files.iter().map(|(name, c)| ((*name).to_owned(), *c)).collect::<Vec<_>>();
        assert_eq!(files(dir.path()), names(&[("a", '4'), ("a.1", '3'), ("a.2", '2')]));
        assert!(file.reconfigure(&config(&dir.path().join("a"), 1)));
        append(&mut file, &format!("{}\n", "5".repeat(40 << 10)));
        assert_eq!(files(dir.path()), names(&[("a", '5'), ("a.1", '4')]), "fewer are kept");
        assert!(!file.reconfigure(&config(&dir.path().join("b"), 1)));
    }

    #[test]
    fn a_file_that_others_renamed_or_removed_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut file = LogFile::open(config(&path, 2)).unwrap();
        append(&mut file, "1\n");
        fs::rename(&path, dir.path().join("a.old")).unwrap();
        append(&mut file, "2\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
        fs::remove_file(&path).unwrap();
        append(&mut file, "3\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "3\n");
        assert_eq!(fs::read_to_string(dir.path().join("a.old")).unwrap(), "1\n");
    }

    #[test]
    fn a_torn_last_line_of_an_earlier_host_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "1\n{\"to").unwrap();
        append(&mut LogFile::open(config(&path, 1)).unwrap(), "2\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n{\"to\n2\n");
    }

    #[test]
    fn one_host_writes_a_file_and_it_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = LogFile::open(config(&path, 1)).unwrap();
        assert!(matches!(LogFile::open(config(&path, 1)), Err(AuditError::InUse { .. })));
        drop(file);
        LogFile::open(config(&path, 1)).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn what_is_not_a_regular_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("absent/a"), "/dev/full".into()] {
            let error = LogFile::open(config(&path, 1)).unwrap_err();
            assert!(error.to_string().contains("audit.file"), "{error}");
        }
    }
}
