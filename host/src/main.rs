//! The `mcp-host` command: the library's command line, and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First thing: a host starts this very program to compile components.
    mcp_resource_host::plugin::run_compiler();
    mcp_resource_host::cli::main()
}
