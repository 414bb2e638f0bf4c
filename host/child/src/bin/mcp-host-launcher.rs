//! The launcher as a separate program: for applications whose `main` cannot begin with `run_launcher`, and for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    mcp_host_child::run_launcher();
    ExitCode::FAILURE
}
