//! What a provider tells administrators of the programs that it runs.

use std::time::{Duration, SystemTime};

/// The programs that a provider runs. Bounded by the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Programs {
    /// Those that run, or are started again when they are needed.
    pub programs: Vec<Program>,
    /// How often one was started, since the plugin was loaded.
    pub starts: u64,
    /// How many have ended since then, by the reason. Reasons that did not occur are left out.
    pub ends: Vec<(ProgramEndReason, u64)>,
    /// The last end, of any of them.
    pub last_end: Option<ProgramEnd>,
}

/// One program. What it used is that of its last start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Program {
    /// The number of its process, or of the init of its processes, as the host sees it; none if it is not known.
    pub process: Option<u32>,
    /// Whether it runs.
    pub is_running: bool,
    /// When it was started last.
    pub started: SystemTime,
    /// How often it was started again after an end.
    pub restarts: u64,
    /// What its processes use; none if that is not measured.
    pub usage: Option<ProgramUsage>,
    /// What they may use.
    pub limits: ProgramLimits,
}

/// What the processes of a program use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramUsage {
    /// Resident memory that is not a file's, in bytes.
    pub memory: u64,
    /// Processor time since the start.
    pub cpu: Duration,
    /// Processes and threads.
    pub tasks: u64,
}

/// What the processes of a program may use; none where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Memory, in bytes.
    pub memory: Option<u64>,
    /// Processor time since the start.
    pub cpu: Option<Duration>,
    /// Processes and threads.
    pub tasks: Option<u64>,
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramEnd {
    /// When.
    pub at: SystemTime,
    /// Why.
    pub reason: ProgramEndReason,
    /// Why, as a sentence without its subject: `it exited with code 1`.
    pub text: String,
}

/// Why a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramEndReason {
    /// It exited by itself.
    Exit,
    /// A signal ended it that was not the host's.
    Signal,
    /// It was killed above its limit of memory.
    Memory,
    /// It was killed above its limit of processor time.
    Cpu,
    /// The host ended it, as it was not needed any more, or did not keep the protocol.
    Stopped,
    /// How it ended is not known.
    Unknown,
}

impl ProgramEndReason {
    /// All of them.
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
    /// A program that was started at that time, and runs.
    pub fn started_at(started: SystemTime) -> Self {
        Self { process: None, is_running: true, started, restarts: 0, usage: None, limits: ProgramLimits::default() }
    }
}
