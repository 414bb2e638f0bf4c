//! Where lines are written: a file, or standard error.

use std::io;

use mcp_host_config::audit::AuditDestination;

use super::AuditError;
use super::file::LogFile;
use super::torn_line::{TornLine, Written};

/// A destination that is open.
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

    /// Applies other settings of the same destination. Returns whether it is the same.
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
