//! The `mcp-host` command: the library's command line, and nothing else.

use std::process::ExitCode;

/// Answers are made on one thread and often freed on another, for which the system's allocator has threads wait for one another.
/// A background thread of it gives memory that is not used back to the system, also while nothing is asked.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // First thing: a host starts this very program to compile components.
    mcp_resource_host::engine::run_compiler();
    mcp_resource_host::cli::main()
}
