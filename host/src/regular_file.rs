//! Opening and reading files by a path that somebody else decides, without ever waiting for one.
//!
//! `open(2)` waits for as long as it likes: for the writer of a FIFO, for a network disk that is gone. `read(2)` of `/dev/zero`
//! has no end. So:
//!
//! - [`open`] opens regular files only. It looks before it opens, as some devices do something when they are opened, opens with
//!   `O_NONBLOCK`, and looks again at what it has opened.
//! - [`read`] reads at most as much as is allowed.
//! - [`FileThreads`] does both on threads of its own, so that a disk that does not answer keeps neither a thread of a runtime nor
//!   the end of the process. Whoever waits gives up after a deadline; the thread may hang on, and holds its permit until it ends.
//!   So no more threads hang than there are permits.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use humantime::format_duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// Opens a regular file to be read. Anything else is an error that says what it is.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    require_regular_file(&path.metadata()?)?;
    let mut options = OpenOptions::new();
    options.read(true);
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

/// The bytes of a regular file: all of them, or one more than `max`, which tells that there are more.
pub(crate) fn read(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    let max = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    open(path)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses what is no regular file.
fn require_regular_file(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = if metadata.is_dir() { ErrorKind::IsADirectory } else { ErrorKind::InvalidInput };
    Err(io::Error::new(kind, format!("it is {}, not a regular file", describe_file_type(metadata.file_type()))))
}

/// What a file is that is no regular one, with its article.
fn describe_file_type(kind: FileType) -> &'static str {
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
    if kind.is_dir() { "a directory" } else { "something else" }
}

/// Threads for work on files that may hang.
#[derive(Clone, Debug)]
pub(crate) struct FileThreads {
    permits: Arc<Semaphore>,
    deadline: Duration,
}

impl FileThreads {
    /// At most `threads` at once, each of which is waited for until that deadline.
    pub(crate) fn new(threads: usize, deadline: Duration) -> Self {
        Self { permits: Arc::new(Semaphore::new(threads)), deadline }
    }

    /// Does that on a thread, once there is one.
    ///
    /// # Errors
    ///
    /// It takes longer than the deadline ([`ErrorKind::TimedOut`]): the work goes on, and nobody learns what comes of it. Or all
    /// threads hang for that long already, or there is none.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let stalled = |what: &str| {
            let deadline = format_duration(self.deadline);
            io::Error::new(ErrorKind::TimedOut, format!("{what} within {deadline}; does its disk answer?"))
        };
        let permit = timeout(self.deadline, self.permits.clone().acquire_owned()).await;
        let permit = permit.map_err(|_| stalled("earlier work on such files hangs, and does not end"))?;
        let (sender, done) = oneshot::channel();
        thread::Builder::new().name("files".to_owned()).spawn(move || {
            let _permit = permit;
            // Nobody may wait for it any more.
            let _ = sender.send(work());
        })?;
        let done = timeout(self.deadline, done).await.map_err(|_| stalled("no answer"))?;
        done.map_err(|_| io::Error::other("the thread that works on it panicked"))
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
        // The thread that hung gives its permit back once it ends.
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
