//! Progress of compilation: one spinner per component on a terminal, removed at the end.

use std::path::Path;

use bytesize::ByteSize;
use mcp_host_engine::Progress;

use super::escape;
use super::messages::Messages;
use super::stderr::Spinner;

/// Shows progress as spinners on standard error.
pub(super) fn with_spinners(messages: &Messages) -> Progress {
    let messages = messages.clone();
    Progress::new(move |file: &Path, size| spinner(&messages, file, size))
}

/// Shows that a component is being compiled, until the spinner is dropped.
pub(super) fn spinner(messages: &Messages, file: &Path, size: u64) -> Spinner {
    messages.spin(message(file, size))
}

fn message(file: &Path, size: u64) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    format!("compiling {} ({}); this is done once", escape::line(&name), ByteSize(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spinner_says_what_takes_so_long_and_that_it_will_not_again() {
        let shown = message(Path::new("/plugins/git.wasm"), 3 << 20);
        assert_eq!(shown, "compiling git.wasm (3.0 MiB); this is done once");
    }
}
