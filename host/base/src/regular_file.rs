//! Opening and reading regular files by untrusted paths, without blocking on special files.
//!
//! `open(2)` can block without limit: on a FIFO without a writer, on an unreachable network disk. `read(2)` of
//! `/dev/zero` never ends. So:
//!
//! - [`open`] opens regular files only. It checks the file type before opening, because opening some devices has side
//!   effects, opens with `O_NONBLOCK`, and checks the type of the opened file again.
//! - [`read`] reads at most the allowed number of bytes.
//! - [`FileThreads`] runs both on dedicated threads, so an unresponsive disk blocks neither a runtime's threads nor the
//!   process's exit. The caller stops waiting after a deadline. The thread may remain blocked, and holds its permit
//!   until it ends, so the number of permits bounds the number of blocked threads.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use humantime::format_duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// Opens a regular file for reading. For any other file, the error names the file type.
pub fn open(path: &Path) -> io::Result<File> {
    require_regular_file(&path.metadata()?)?;
    open_with(OpenOptions::new().read(true), path)
}

/// Opens a regular file for reading and appending, or creates it with mode 0600.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    match path.metadata() {
        Ok(metadata) => require_regular_file(&metadata)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    open_with(options.read(true).append(true).create(true), path)
}

/// Fails unless the path has a regular file. For files that another program or library will open.
pub fn check(path: &Path) -> io::Result<()> {
    require_regular_file(&path.metadata()?)
}

fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    require_regular_file(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file: all its bytes, or `max + 1` bytes if it has more than `max`.
pub fn read(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    let max = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    open(path)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Fails unless the file is regular.
fn require_regular_file(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = if metadata.is_dir() { ErrorKind::IsADirectory } else { ErrorKind::InvalidInput };
    Err(io::Error::new(kind, format!("it is {}, not a regular file", kind_of(metadata.file_type()))))
}

/// Describes the type of a file, with its article.
pub(crate) fn kind_of(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a FIFO";
        } else if kind.is_socket() {
            return "a socket";
        } else if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    match () {
        () if kind.is_file() => "a regular file",
        () if kind.is_dir() => "a directory",
        () if kind.is_symlink() => "a symbolic link",
        () => "something else",
    }
}

/// Dedicated threads for file operations that may block without limit.
#[derive(Clone, Debug)]
pub struct FileThreads {
    permits: Arc<Semaphore>,
    deadline: Duration,
}

impl FileThreads {
    /// Allows at most `threads` concurrent threads. Each run waits for at most `deadline`.
    pub fn new(threads: usize, deadline: Duration) -> Self {
        Self { permits: Arc::new(Semaphore::new(threads)), deadline }
    }

    /// Runs `work` on a thread once there is a permit.
    ///
    /// # Errors
    ///
    /// Fails with [`ErrorKind::TimedOut`] if all threads are blocked for the deadline, or if the work takes longer than
    /// the deadline; then it continues, and its result is discarded. Fails with another error if a thread cannot be
    /// created, or if the work panics.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let stalled = |what: &str| {
            let deadline = format_duration(self.deadline);
            io::Error::new(ErrorKind::TimedOut, format!("{what} within {deadline}; check that the disk responds"))
        };
        let permit = timeout(self.deadline, self.permits.clone().acquire_owned()).await;
        let permit = permit.map_err(|_| stalled("earlier work on such files is still blocked, and did not end"))?;
        let (sender, done) = oneshot::channel();
        thread::Builder::new().name("files".to_owned()).spawn(move || {
            let _permit = permit;
            // The caller may have stopped waiting.
            let _ = sender.send(work());
        })?;
        let done = timeout(self.deadline, done).await.map_err(|_| stalled("no response"))?;
        done.map_err(|_| io::Error::other("the thread for the file operation panicked"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_regular_file_is_read_as_far_as_allowed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "12345").unwrap();
        assert_eq!(read(file.path(), 5).unwrap(), b"12345");
        assert_eq!(read(file.path(), 3).unwrap(), b"1234", "one more tells that there are more");
    }

    #[cfg(unix)]
    #[test]
    fn nothing_but_a_regular_file_is_opened_and_nothing_is_waited_for() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let dir = tempfile::tempdir().unwrap();
        let [fifo, socket, link] = ["fifo", "socket", "link"].map(|name| dir.path().join(name));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for (path, what) in
            [(fifo.as_path(), "a FIFO"), (&socket, "a socket"), (&link, "a device"), (dir.path(), "a directory")]
        {
            let error = read(path, 10).unwrap_err();
            assert_eq!(error.to_string(), format!("it is {what}, not a regular file"));
        }
        assert_eq!(open(dir.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(open(&dir.path().join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn work_that_hangs_is_given_up_and_so_is_what_waits_behind_it() {
        let threads = FileThreads::new(1, Duration::from_millis(20));
        let (go_on, hangs) = mpsc::channel::<()>();
        let error = threads.run(move || hangs.recv()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        let error = threads.run(|| ()).await.unwrap_err();
        assert!(error.to_string().contains("earlier work"), "{error}");
        drop(go_on);
        // The blocked thread releases its permit once it ends.
        while threads.run(|| ()).await.is_err() {}
    }

    #[tokio::test]
    async fn a_panic_of_the_work_is_an_error() {
        let threads = FileThreads::new(1, Duration::from_secs(60));
        let work: fn() = || panic!("this test has it panic");
        threads.run(work).await.unwrap_err();
        threads.run(|| ()).await.unwrap();
    }
}
