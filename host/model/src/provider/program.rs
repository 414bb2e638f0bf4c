//! The programs that a provider runs, for administrators.

use std::time::{Duration, SystemTime};

/// The programs that a provider runs. Bounded by the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Programs {
    /// The programs that are running, or are restarted when they are needed.
    pub programs: Vec<Program>,
    /// The number of starts since the plugin was loaded.
    pub starts: u64,
    /// The number of ends since then, by reason. Reasons with count 0 are left out.
    pub ends: Vec<(ProgramEndReason, u64)>,
    /// The last end of any program.
    pub last_end: Option<ProgramEnd>,
}

/// One program. Its resource use is counted from its last start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Program {
    /// The id of its process, or of the init of its processes, as the host sees it; none if unknown.
    pub process: Option<u32>,
    /// Whether it is running.
    pub is_running: bool,
    /// The time of its last start.
    pub started: SystemTime,
    /// The number of restarts after an end.
    pub restarts: u64,
    /// The resource use of its processes; none if it is not measured.
    pub usage: Option<ProgramUsage>,
    /// The resource limits of its processes.
    pub limits: ProgramLimits,
}

/// The resource use of a program's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramUsage {
    /// Resident memory that is not backed by a file, in bytes.
    pub memory: u64,
    /// Processor time since the start.
    pub cpu: Duration,
    /// The number of processes and threads.
    pub tasks: u64,
}

/// The resource limits of a program's processes; none for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Processor time since the start.
    pub cpu: Option<Duration>,
    /// The number of processes and threads.
    pub tasks: Option<u64>,
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramEnd {
    /// The time of the end.
    pub at: SystemTime,
    /// The reason.
    pub reason: ProgramEndReason,
    /// The reason as a sentence without its subject: `it exited with code 1`.
    pub text: String,
}

/// Why a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramEndReason {
    /// It exited.
    Exit,
    /// A signal ended it that the host did not send.
    Signal,
    /// It was killed because it exceeded its memory limit.
    Memory,
    /// It was killed because it exceeded its limit of processor time.
    Cpu,
    /// The host ended it, because it was no longer needed or violated the protocol.
    Stopped,
    /// The reason is unknown.
    Unknown,
}

impl ProgramEndReason {
    /// All reasons.
    pub const ALL: [Self; 6] = [Self::Exit, Self::Signal, Self::Memory, Self::Cpu, Self::Stopped, Self::Unknown];

    /// Its name in metrics and in the administration API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        }
    }
}

impl Program {
    /// Creates a running program that was started at this time.
    pub fn started_at(started: SystemTime) -> Self {
        Self { process: None, is_running: true, started, restarts: 0, usage: None, limits: ProgramLimits::default() }
    }
}
