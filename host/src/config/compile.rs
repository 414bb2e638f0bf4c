//! Resource limits of compiling one component: `compile` of `[server]`.
//!
//! A component is compiled once, in a child process, before any of it runs. The cost of compiling hostile input has no
//! useful bound of its own, so the process is terminated when it reaches a limit, and the plugin is not loaded.

use super::duration::{BoundedDuration, HOUR, MINUTE, SECOND};
use super::reader::{FromTable, Table, documented};
use super::size::{GIB, MIB, Size};

/// The maximum address space of the compiler.
pub type CompileMemory = Size<{ 512 * MIB }, { 8 * GIB }, { 64 * GIB }>;
/// The maximum CPU time of the compiler, over all processors.
pub type CompileCpu = BoundedDuration<SECOND, { 10 * MINUTE }, HOUR>;
/// The maximum wall-clock time of a compilation.
pub type CompileDeadline = BoundedDuration<SECOND, { 2 * MINUTE }, HOUR>;

documented! {
    /// Resource limits of compiling one component: `compile` of `[server]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct CompileLimits {
        /// The maximum address space of the compiler, which is more than the memory that it touches. 8 GiB unless set;
        /// 512 MiB to 64 GiB.
        pub memory: CompileMemory,
        /// The maximum CPU time of the compiler, in whole seconds, over all processors. 10 min unless set; 1 s to 1 h.
        pub cpu: CompileCpu,
        /// The maximum wall-clock time of the compiler. 2 min unless set; 1 s to 1 h.
        pub deadline: CompileDeadline,
    }
}

impl FromTable for CompileLimits {
    const TYPE_NAME: &'static str = "a table of limits";

    fn example() -> String {
        "{ memory = \"8GiB\", deadline = \"2m\" }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        Some(Self {
            memory: table.or_default("memory"),
            cpu: table.or_default("cpu"),
            deadline: table.or_default("deadline"),
        })
    }
}
