//! Support for tests that read the log.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

/// The events of this thread as text, without colors, times and targets.
#[derive(Clone, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Captures the events of this thread at this level until the result is dropped.
    pub fn capture(&self, level: LevelFilter) -> DefaultGuard {
        let writer = self.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).without_time().with_target(false);
        let subscriber = tracing_subscriber::registry().with(level);
        tracing::subscriber::set_default(subscriber.with(layer.with_writer(move || writer.clone())))
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.0.lock()).lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
