//! The host as a child process: start, output, and graceful shutdown.
//!
//! The host's stderr is passed on immediately. The host has a separate process group, so that an interrupt at the
//! terminal reaches this program only, which passes exactly one interrupt on.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The maximum time until the host listens. The first start compiles components.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The maximum time for the host to complete the requests in progress and exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The prefix of the URL in the host's message that it listens.
const LISTENING_PREFIX: &str = "listening on ";

/// An event of a running host.
#[derive(Debug)]
enum Event {
    Listening(String),
    Interrupted,
    /// The host's stderr is closed: the host has exited.
    Ended,
}

/// The cause of the host's exit.
#[derive(Debug)]
pub(super) enum Exit {
    /// A graceful shutdown that this program requested.
    Requested,
    /// An exit without a request.
    Unexpected(ExitStatus),
}

/// A running host. If it is dropped without [`Host::end`] or [`Host::wait`], it is killed.
#[derive(Debug)]
pub(super) struct Host {
    child: Child,
    events: Receiver<Event>,
}

impl Host {
    /// Starts the host.
    pub(super) fn start(mut command: Command) -> Result<Self> {
        let (sender, events) = mpsc::channel();
        let interrupted = sender.clone();
        ctrlc::set_handler(move || {
            // After the demo the receiver no longer exists.
            let _ = interrupted.send(Event::Interrupted);
        })
        .context("cannot handle interrupts")?;

        own_process_group(&mut command);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child =
            command.spawn().with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || read_output(BufReader::new(stderr), &sender));
        }
        Ok(Self { child, events })
    }

    /// Waits until the host listens, and returns the URL of its MCP endpoint.
    pub(super) fn url(&mut self) -> Result<String> {
        match self.events.recv_timeout(START_TIMEOUT) {
            Ok(Event::Listening(url)) => Ok(url),
            Ok(Event::Interrupted) => {
                self.terminate()?;
                bail!("interrupted before the host was ready")
            }
            Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait()?;
                bail!("the host ended before it listened ({status}); its messages are above")
            }
            Err(RecvTimeoutError::Timeout) => {
                bail!("the host did not say `{LISTENING_PREFIX}URL` within {} s", START_TIMEOUT.as_secs())
            }
        }
    }

    /// Waits for an interrupt, passes it on and waits for the exit; or waits for an exit without a request.
    pub(super) fn wait(mut self) -> Result<Exit> {
        loop {
            match self.events.recv() {
                Ok(Event::Listening(_)) => {}
                Ok(Event::Interrupted) => return self.end().map(|()| Exit::Requested),
                Ok(Event::Ended) | Err(_) => return Ok(Exit::Unexpected(self.child.wait()?)),
            }
        }
    }

    /// Requests a shutdown of the host, and waits for its exit.
    ///
    /// # Errors
    ///
    /// When the host does not exit in time (a second interrupt ends the wait), or exits with a failure.
    pub(super) fn end(mut self) -> Result<()> {
        self.terminate()?;
        loop {
            match self.events.recv_timeout(STOP_TIMEOUT) {
                Ok(Event::Listening(_)) => {}
                Ok(Event::Interrupted) => bail!("interrupted again: the host was killed"),
                Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    bail!("the host did not end within {} s of being asked to, and was killed", STOP_TIMEOUT.as_secs())
                }
            }
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "the host was asked to end and failed ({status})");
        Ok(())
    }

    #[cfg(unix)]
    fn terminate(&mut self) -> Result<()> {
        use rustix::process::{Pid, Signal, kill_process};

        if self.child.try_wait()?.is_none() {
            let id = Pid::from_raw(self.child.id().cast_signed()).context("the host's process id is out of range")?;
            kill_process(id, Signal::TERM).context("cannot ask the host to end")?;
        }
        Ok(())
    }

    /// Without signals, a graceful shutdown is not possible.
    #[cfg(not(unix))]
    fn terminate(&mut self) -> Result<()> {
        self.child.kill().context("cannot end the host")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Both calls fail if the host has exited already, which is the intended state.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
fn own_process_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn own_process_group(_command: &mut Command) {}

/// Passes on the output of the host, and reports the URL where it listens and its exit.
fn read_output(stderr: impl BufRead, events: &Sender<Event>) {
    for line in stderr.lines().map_while(Result::ok) {
        eprintln!("{line}");
        if let Some(url) = parse_listening_url(&line) {
            let _ = events.send(Event::Listening(url.to_owned()));
        }
    }
    let _ = events.send(Event::Ended);
}

/// Returns the URL from the line that announces it, in any log format.
fn parse_listening_url(line: &str) -> Option<&str> {
    let (_, url) = line.split_once(LISTENING_PREFIX)?;
    let url = url.split(|c: char| c.is_whitespace() || c.is_control() || c == '"').next()?;
    url.starts_with("http://").then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_found_in_a_line_of_the_log() {
        let line = "2026-01-02T03:04:05Z  INFO mcp_host::server: listening on http://127.0.0.1:8321/mcp plugins=2";
        assert_eq!(parse_listening_url(line), Some("http://127.0.0.1:8321/mcp"));
    }

    #[test]
    fn the_url_is_found_in_colors_and_in_json() {
        assert_eq!(
            parse_listening_url("\u{1b}[2mlistening on http://[::1]:1/mcp\u{1b}[0m"),
            Some("http://[::1]:1/mcp")
        );
        assert_eq!(
            parse_listening_url(r#"{"message":"listening on http://[::1]:1/mcp","n":2}"#),
            Some("http://[::1]:1/mcp")
        );
    }

    #[test]
    fn other_lines_are_not_taken_for_it() {
        assert_eq!(parse_listening_url("listening on stdio"), None);
        assert_eq!(parse_listening_url("not listening"), None);
    }

    #[test]
    fn what_the_host_says_is_reported_in_order() {
        let (sender, events) = mpsc::channel();
        read_output("starting\nlistening on http://127.0.0.1:1/mcp\n".as_bytes(), &sender);
        drop(sender);
        let events: Vec<_> = events.iter().collect();
        assert!(
            matches!(events.as_slice(), [Event::Listening(url), Event::Ended] if url == "http://127.0.0.1:1/mcp"),
            "{events:?}"
        );
    }
}
