//! `--profile` and `--record`: write calls of providers to files, and failed calls to standard error.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::context::Context;
use super::diagnostics::{ProfileFile, show_failure};
use super::error::CliError;
use super::recording::{RecordingFile, summary};

/// The width of a flame graph if standard error is not a terminal, or has no known width.
const DEFAULT_COLUMNS: usize = 100;

/// The options of commands that call providers.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ObservationArgs {
    /// Write a CPU profile of the providers to this file, for Firefox's profiler (profiler.firefox.com); `-` prints a
    /// flame graph and a call tree on standard error
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// Record the calls of providers in this file, with the data that providers read and their answers, for
    /// `mcp-host replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl ObservationArgs {
    /// Returns whether a profile or a recording is requested.
    pub(crate) fn is_requested(&self) -> bool {
        self.profile.is_some() || self.record.is_some()
    }
}

impl Context {
    /// Starts a profile and a recording of calls, if requested. Both are complete when the command ends. Blocks.
    pub(crate) fn observe(&self, args: &ObservationArgs) -> Result<(), CliError> {
        if let (Some(calls), Some(file)) = (&self.calls(), &args.profile) {
            calls.profile_to(file);
        }
        args.record.as_ref().map_or(Ok(()), |file| self.record_to(file))
    }

    /// Writes the profile, if there is one. Blocks.
    pub(crate) fn finish_profile(&self) -> Result<(), CliError> {
        let Some(ProfileFile { file, profile }) = self.calls().and_then(|calls| calls.profile.get()) else {
            return Ok(());
        };
        let profile = profile.lock();
        self.messages.note(&format!("profile: {}", profile.summary()));
        if profile.is_empty() {
            self.messages.note("no provider computed for longer than half a millisecond at once");
        }
        if file.as_os_str() == "-" {
            if !profile.is_empty() {
                let columns = self.messages.columns().unwrap_or(DEFAULT_COLUMNS);
                let tree = profile.call_tree();
                let graph = tree.flame_graph(columns, self.messages.is_colored());
                self.messages.print_lines(&format!("{graph}\n{}", tree.text()));
            }
            return Ok(());
        }
        let written = File::create(file).and_then(|into| profile.write_firefox(BufWriter::new(into)));
        written.map_err(|source| CliError::Save { file: file.clone(), source })?;
        self.messages
            .note(&format!("open {} at https://profiler.firefox.com, which keeps it in the browser", file.display()));
        Ok(())
    }

    /// Prints details of the failed calls. Blocks.
    pub(crate) fn print_failed_calls(&self) {
        let Some(calls) = self.calls() else { return };
        let (failures, more) = calls.take_failures();
        for failures in failures {
            self.messages.print_lines(&show_failure(&failures.first, failures.count));
        }
        if more > 0 {
            self.messages.print_line(&format!("and {more} more calls failed at other places"));
        }
    }

    /// Records the plugin calls of hosts that are built from now on. Blocks.
    pub(super) fn record_to(&self, path: &Path) -> Result<(), CliError> {
        let file = RecordingFile::create(path)?;
        // A command has one recording.
        let _ = self.recording.set(Arc::new(file));
        Ok(())
    }

    /// Completes the recording, if there is one. Blocks.
    pub(super) fn finish_recording(&self) -> Result<(), CliError> {
        let Some(recording) = self.recording.get() else { return Ok(()) };
        let finished = recording.finish();
        let end = finished.map_err(|source| CliError::Save { file: recording.path.clone(), source })?;
        self.messages.note(&summary(end, &recording.path));
        Ok(())
    }
}
