//! Showing that components are being compiled: a spinner for each, on a terminal, gone when that is done.

use std::path::Path;
use std::time::Duration;

use bytesize::ByteSize;
use indicatif::{MultiProgress, ProgressBar};

use super::escape;
use crate::plugin::Progress;

const TICK: Duration = Duration::from_millis(100);

/// Draws there what a host tells.
pub(super) fn drawn_on(bars: &MultiProgress) -> Progress {
    let bars = bars.clone();
    Progress::new(move |file: &Path, size| Spinner::start(&bars, message(file, size)))
}

fn message(file: &Path, size: u64) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    format!("compiling {} ({}); this is done once", escape::line(&name), ByteSize(size))
}

/// One line, until it is dropped.
struct Spinner {
    bars: MultiProgress,
    bar: ProgressBar,
}

impl Spinner {
    fn start(bars: &MultiProgress, message: String) -> Self {
        let bar = bars.add(ProgressBar::new_spinner().with_message(message));
        // A hidden one needs no thread that turns it.
        if !bars.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bars: bars.clone(), bar }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.bars.remove(&self.bar);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spinner_says_what_takes_so_long_and_that_it_will_not_again() {
        let shown = message(Path::new("/plugins/git.wasm"), 3 << 20);
        assert_eq!(shown, "compiling git.wasm (3.0 MiB); this is done once");
    }

    #[test]
    fn a_spinner_is_gone_when_its_work_is_done() {
        let bars = MultiProgress::new();
        let bar = Spinner::start(&bars, String::new()).bar.clone();
        assert!(bar.is_finished());
    }
}
