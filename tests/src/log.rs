//! The output stream of a process, line by line, to wait for.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::TIMEOUT;

/// The text of a stream so far. It is read continuously, so that the process never blocks on a full pipe.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    text: watch::Receiver<String>,
}

impl Log {
    /// Starts reading that stream, to its end.
    pub(crate) fn new(stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (sender, text) = watch::channel(String::new());
        tokio::spawn(async move {
            let mut lines = BufReader::new(stream).split(b'\n');
            while let Ok(Some(line)) = lines.next_segment().await {
                sender.send_modify(|text| {
                    text.push_str(&String::from_utf8_lossy(&line));
                    text.push('\n');
                });
            }
        });
        Self { text }
    }

    /// The text so far.
    pub(crate) fn snapshot(&self) -> String {
        self.text.borrow().clone()
    }

    /// Waits for the first line that contains that text.
    pub(crate) async fn wait_for_line(&self, wanted: &str) -> String {
        let mut text = self.text.clone();
        let found = timeout(TIMEOUT, text.wait_for(|text| find_line(text, wanted).is_some())).await;
        match found {
            Ok(Ok(text)) => find_line(&text, wanted).unwrap_or_default(),
            Ok(Err(_)) => panic!("it ended without saying {wanted:?}, but:\n{}", self.snapshot()),
            Err(_) => panic!("it did not say {wanted:?} within {TIMEOUT:?}, but:\n{}", self.snapshot()),
        }
    }

    /// Waits until `number` lines contain that text.
    pub(crate) async fn wait_for_lines(&self, wanted: &str, number: usize) {
        let mut text = self.text.clone();
        let are_there = |text: &String| text.lines().filter(|line| line.contains(wanted)).count() >= number;
        let found = timeout(TIMEOUT, text.wait_for(are_there)).await.is_ok_and(|found| found.is_ok());
        assert!(found, "it did not say {wanted:?} {number} times, but:\n{}", self.snapshot());
    }

    /// Returns the whole text once the stream has ended.
    pub(crate) async fn read_to_end(mut self) -> String {
        let end = async { while self.text.changed().await.is_ok() {} };
        timeout(TIMEOUT, end).await.expect("the stream of a process that ended ends too");
        self.snapshot()
    }
}

fn find_line(text: &str, wanted: &str) -> Option<String> {
    text.lines().find(|line| line.contains(wanted)).map(str::to_owned)
}
