//! `--record FILE`: a file with the calls of providers, for [`replay`](super::replay).
//!
//! Only the owner can read the file ([`private_file::create`]): it has the data that providers read and returned. A
//! call is written when it ends. The file has at most [`MAX_FILE`] bytes; further calls are only counted.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_host_base::private_file;
use mcp_host_devkit::passthrough::passthrough;
use mcp_host_engine::recording::{self, Line, MakePassthrough, Recorder, RecordingEnd, RecordingSink};
use parking_lot::Mutex;

use crate::error::CliError;

/// The maximum size of a recording, in bytes.
const MAX_FILE: u64 = 1 << 30;

/// The file of a recording.
pub(super) struct RecordingFile {
    pub(super) path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: BufWriter<File>,
    bytes: u64,
    end: RecordingEnd,
    /// The first error of writing.
    error: Option<io::Error>,
}

impl RecordingFile {
    /// Creates or truncates the file, and writes the first line. Blocks.
    pub(super) fn create(path: &Path) -> Result<Self, CliError> {
        let failed = |source| CliError::Recording { file: path.to_owned(), source };
        let file = private_file::create(path).map_err(failed)?;
        let state = State { file: BufWriter::new(file), bytes: 0, end: RecordingEnd::default(), error: None };
        let created = Self { path: path.to_owned(), state: Mutex::new(state) };
        created.state.lock().write(&recording::to_line(&Line::McpHostRecording(recording::VERSION)));
        Ok(created)
    }

    /// Returns the counts of an interrupted recording, without writing a last line: calls may be missing. Blocks.
    pub(super) fn interrupt(&self) -> io::Result<RecordingEnd> {
        self.state.lock().flush()
    }

    /// Writes the last line, and returns the counts of the recording. Blocks.
    pub(super) fn finish(&self) -> io::Result<RecordingEnd> {
        let mut state = self.state.lock();
        let end = state.end;
        state.write(&recording::to_line(&Line::End(end)));
        state.flush()
    }
}

impl RecordingFile {
    /// Takes a line of a recording from a server. The counts in its last line replace the counts here.
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

    fn skip(&self) {
        let mut state = self.state.lock();
        state.end.skipped = state.end.skipped.saturating_add(1);
    }
}

impl State {
    /// Writes what is buffered, and returns the counts of the recording, or the first error of writing.
    fn flush(&mut self) -> io::Result<RecordingEnd> {
        let end = self.end;
        match self.error.take() {
            Some(error) => Err(error),
            None => self.file.flush().map(|()| end),
        }
    }

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

/// Makes the passthroughs.
pub(super) fn make_passthrough() -> MakePassthrough {
    MakePassthrough::new(passthrough)
}

/// A recorder that writes the calls of one plugin, or of all, to this file.
pub(super) fn recorder(sink: Arc<RecordingFile>, only: Option<String>) -> Recorder {
    Recorder { sink, passthrough: make_passthrough(), only }
}

/// The counts of a recording, in a sentence.
pub(super) fn summary(end: RecordingEnd, path: &Path) -> String {
    let RecordingEnd { calls, skipped } = end;
    let calls = if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
    let skipped = if skipped > 0 { format!("; {skipped} more were not recorded") } else { String::new() };
    format!("{calls} recorded in {}{skipped}; it has what providers read and answered", path.display())
}
