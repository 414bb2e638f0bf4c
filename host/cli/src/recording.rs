//! `--record FILE`: the calls of providers, in a file for [`replay`](super::replay).
//!
//! The file is readable by its owner only (mode 0600): it has what providers read and answered. It is written as calls end, and has at most
//! [`MAX_FILE`] bytes; calls beyond are counted.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_host_devkit::passthrough::passthrough;
use mcp_host_engine::recording::{self, Line, MakePassthrough, Recorder, RecordingEnd, RecordingSink};
use parking_lot::Mutex;

/// The bytes of a recording.
const MAX_FILE: u64 = 1 << 30;

/// A file that takes a recording.
pub(super) struct RecordingFile {
    pub(super) path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: BufWriter<File>,
    bytes: u64,
    end: RecordingEnd,
    /// Why it could not be written.
    error: Option<io::Error>,
}

impl RecordingFile {
    /// Creates the file, or empties it, and writes the first line. Blocks.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        // One that was there before may have other permissions.
        if file.metadata()?.is_file() {
            file.set_permissions(PermissionsExt::from_mode(0o600))?;
        }
        let state = State { file: BufWriter::new(file), bytes: 0, end: RecordingEnd::default(), error: None };
        let created = Self { path: path.to_owned(), state: Mutex::new(state) };
        created.state.lock().write(&recording::to_line(&Line::McpHostRecording(recording::VERSION)));
        Ok(created)
    }

    /// Returns what the recording has, without a last line: it was interrupted, so that not all calls may be in it. Blocks.
    pub(super) fn interrupt(&self) -> io::Result<RecordingEnd> {
        let mut state = self.state.lock();
        let end = state.end;
        state.file.flush().map(|()| end)
    }

    /// Writes the last line, and returns what the recording has. Blocks.
    pub(super) fn finish(&self) -> io::Result<RecordingEnd> {
        let mut state = self.state.lock();
        let end = state.end;
        state.write(&recording::to_line(&Line::End(end)));
        match state.error.take() {
            Some(error) => Err(error),
            None => state.file.flush().map(|()| end),
        }
    }
}

impl RecordingFile {
    /// Takes a line of a recording that a server makes. Its last line replaces what was counted here.
    pub(super) fn receive(&self, line: String) -> bool {
        if line.starts_with("{\"end\"") {
            if let Ok(Line::End(end)) = serde_json::from_str(&line) {
                self.state.lock().end = end;
            }
            return true;
        }
        self.write(line)
    }
}

impl RecordingSink for RecordingFile {
    fn write(&self, line: String) -> bool {
        let mut state = self.state.lock();
        let is_call = line.starts_with("{\"call\"");
        let has_room = state.bytes.saturating_add(line.len() as u64) <= MAX_FILE;
        let is_written = has_room && state.write(&line);
        if is_call {
            let count = if is_written { &mut state.end.calls } else { &mut state.end.skipped };
            *count = count.saturating_add(1);
        }
        is_written
    }
}

impl State {
    fn write(&mut self, line: &str) -> bool {
        if self.error.is_some() {
            return false;
        }
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.write_all(b"\n"));
        self.bytes = self.bytes.saturating_add(line.len() as u64).saturating_add(1);
        match written {
            Ok(()) => true,
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }
}

/// What makes passthroughs.
pub(super) fn make_passthrough() -> MakePassthrough {
    MakePassthrough::new(passthrough)
}

/// What records into that file.
pub(super) fn recorder(sink: Arc<RecordingFile>) -> Recorder {
    Recorder { sink, passthrough: make_passthrough() }
}

/// What a recording has, in a sentence.
pub(super) fn summary(end: RecordingEnd, path: &Path) -> String {
    let RecordingEnd { calls, skipped } = end;
    let calls = if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
    let skipped = if skipped > 0 { format!("; {skipped} more were not recorded") } else { String::new() };
    format!("{calls} recorded in {}{skipped}; it has what providers read and answered", path.display())
}
