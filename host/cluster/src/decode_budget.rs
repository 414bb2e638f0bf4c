//! Yields between messages of other replicas, by their bytes.
//!
//! Tokio makes a task yield after 128 received messages, however long they are: with messages of 512 KiB, the thread of the runtime would
//! decode 64 MiB of JSON in one piece, and no other task of it would run for as long.

/// The number of decoded bytes after which a task yields. One message may be longer.
const MAX_BYTES: usize = 64 * 1024;

/// The bytes that a task has decoded since it yielded.
#[derive(Debug, Default)]
pub(crate) struct DecodeBudget {
    decoded: usize,
}

impl DecodeBudget {
    /// Counts a decoded message of this length, and yields to other tasks if the budget is used up.
    pub(crate) async fn spend(&mut self, length: usize) {
        self.decoded = self.decoded.saturating_add(length);
        if self.decoded >= MAX_BYTES {
            self.decoded = 0;
            tokio::task::yield_now().await;
        }
    }
}
