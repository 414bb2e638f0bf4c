//! The `mcp-host` command: runs the library's command line.

use std::process::ExitCode;

/// jemalloc: responses are allocated on one thread and often freed on another, which causes lock contention in the
/// system's allocator. The background thread of jemalloc returns unused memory to the system, also while the host is
/// idle.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // The first call: a host starts this executable to compile components.
    mcp_host_engine::run_compiler();
    // The same for the process that starts programs of upstreams.
    #[cfg(target_os = "linux")]
    mcp_resource_host::programs::run_launcher();
    mcp_resource_host_cli::main(start_allocator_thread)
}

/// Starts jemalloc's background thread. Automatic start is disabled, because the process is confined while it has one
/// thread.
fn start_allocator_thread() {
    #[cfg(not(target_env = "msvc"))]
    // If that fails, the threads that free memory return it.
    let _ = tikv_jemalloc_ctl::background_thread::write(true);
}
