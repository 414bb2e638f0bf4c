//! Progress of long work.
//!
//! On a terminal, a step is a spinner with the step's name and elapsed time. In a log or in CI, a step is a plain line
//! at its start, one at each interval while it lasts, and one at its end. All output goes to stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The interval of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// The interval of the lines if there is no spinner.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// Displays steps at the requested verbosity.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    verbose: bool,
}

impl Progress {
    /// Creates a display on stderr; `verbose` passes on the output of tools immediately.
    pub(crate) fn new(verbose: bool) -> Self {
        Self { terminal: std::io::stderr().is_terminal(), verbose }
    }

    /// Returns whether stderr is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns whether the output of tools is passed on immediately.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Prints one message.
    pub(crate) fn print(&self, message: &str) {
        eprintln!("{message}");
    }

    /// Starts a step with a title such as `building the host`.
    pub(crate) fn step(&self, title: impl Into<String>) -> Step {
        let title = title.into();
        let bar = (self.terminal && !self.verbose).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {prefix} {wide_msg:.dim} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_prefix(title.clone());
            bar.enable_steady_tick(TICK);
            bar
        });
        if bar.is_none() {
            eprintln!("{title} …");
        }
        let now = Instant::now();
        Step { title, bar, started: now, last_output: now }
    }
}

/// A step in progress. If it is dropped without [`Step::done`], it leaves no line on a terminal.
#[derive(Debug)]
pub(crate) struct Step {
    title: String,
    bar: Option<ProgressBar>,
    started: Instant,
    last_output: Instant,
}

impl Step {
    /// Updates the message of the step.
    pub(crate) fn at(&mut self, detail: impl Into<String>) {
        match &self.bar {
            Some(bar) => bar.set_message(detail.into()),
            None if self.last_output.elapsed() >= HEARTBEAT => {
                self.last_output = Instant::now();
                eprintln!("{} … {} ({})", self.title, detail.into(), seconds(self.started.elapsed()));
            }
            None => {}
        }
    }

    /// Returns the elapsed time of the step.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Ends the step, and prints its result and its duration.
    pub(crate) fn done(self, outcome: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        eprintln!("{outcome} ({})", seconds(self.started.elapsed()));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Formats a duration for messages: `0.4 s`, `1 min 32 s`.
pub(crate) fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        whole => format!("{} min {} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_read_them() {
        assert_eq!(seconds(Duration::from_millis(430)), "0.4 s");
        assert_eq!(seconds(Duration::from_secs(92)), "1 min 32 s");
    }
}
