//! The `mcp-host` command: runs the library's command line.

use std::process::ExitCode;

/// jemalloc: responses are allocated on one thread and often freed on another, for which the system's allocator has
/// lock contention. Its background thread returns unused memory to the system, also while the host is idle.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // First of all: a host starts this executable to compile components.
    mcp_host_engine::run_compiler();
    // The same for the process that starts programs of upstreams.
    #[cfg(target_os = "linux")]
    mcp_resource_host::programs::run_launcher();
    mcp_resource_host_cli::main(start_allocator_thread)
}

/// Starts jemalloc's background thread. It does not start by itself, because the process is confined before there are threads.
fn start_allocator_thread() {
    #[cfg(not(target_env = "msvc"))]
    // Without it, unused memory is returned on the threads that free it.
    let _ = tikv_jemalloc_ctl::background_thread::write(true);
}
