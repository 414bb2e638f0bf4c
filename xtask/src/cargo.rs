//! Runs cargo and other tools. A tool's output is shown only when the tool fails.

use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Artifact, Message, Metadata};

use crate::build_times::{BuildTime, BuildTimes};
use crate::progress::{Progress, Step};
use crate::workspace::Workspace;

/// The maximum number of lines of a tool's output that an error shows; the last lines are kept.
const MAX_TAIL_LINES: usize = 200;

/// Formats a command as a user would type it, for messages.
pub(crate) fn display(command: &Command) -> String {
    let program = command.get_program();
    let name = std::path::Path::new(program).file_name().unwrap_or(program);
    let words: Vec<_> = std::iter::once(name).chain(command.get_args()).map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// Runs a tool to its end and returns its standard output.
///
/// # Errors
///
/// When the tool cannot be started, or fails. The error of a failed tool contains the end of its output on both
/// streams.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let name = display(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{name}`"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    bail!("`{name}` failed ({}):\n{}", output.status, tail(&said))
}

/// Returns the packages of the cargo workspace in the directory that `cargo` runs in, without dependencies.
pub(crate) fn metadata(mut cargo: Command) -> Result<Metadata> {
    let text = capture(cargo.args(["metadata", "--no-deps", "--format-version=1"]))?;
    serde_json::from_str(&text).context("`cargo metadata` printed what is not its format")
}

/// Runs `cargo build …` and returns the artifacts that it built or found up to date.
///
/// `cargo` has all of its arguments except those for its output. Cargo's output is shown when the build fails, or
/// immediately when `progress` is verbose. The step shows the progress of the build, and its duration when crates were
/// compiled.
pub(crate) fn build(
    mut cargo: Command,
    workspace: &Workspace,
    progress: &Progress,
    step: &mut Step,
) -> Result<Vec<Artifact>> {
    let name = display(&cargo);
    let times = BuildTimes::new(workspace);
    let longest = times.longest(&name).map(|longest| format!("; {longest}")).unwrap_or_default();
    cargo.arg("--message-format=json-render-diagnostics");
    if progress.is_terminal() && !progress.is_verbose() {
        cargo.arg("--color=always");
    }
    let stderr = if progress.is_verbose() { Stdio::inherit() } else { Stdio::piped() };
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .with_context(|| format!("cannot run `{name}`"))?;
    let said = child.stderr.take().map(|mut stderr| {
        thread::spawn(move || {
            let mut said = Vec::new();
            // The output that was read before a broken pipe is still shown.
            let _ = stderr.read_to_end(&mut said);
            said
        })
    });

    let mut artifacts = Vec::new();
    let mut compiled = 0_usize;
    let stdout = child.stdout.take().context("cargo's output is not piped")?;
    for message in Message::parse_stream(BufReader::new(stdout)) {
        let message = message.with_context(|| format!("cannot read the output of `{name}`"))?;
        if let Message::CompilerArtifact(artifact) = message {
            if !artifact.fresh {
                compiled = compiled.saturating_add(1);
                step.at(format!("{compiled} compiled, last {}{longest}", artifact.target.name));
            }
            artifacts.push(artifact);
        }
    }

    let status = child.wait().with_context(|| format!("cannot wait for `{name}`"))?;
    let said = said.and_then(|reader| reader.join().ok()).unwrap_or_default();
    if !status.success() {
        bail!("`{name}` failed ({status})\n{}", tail(&said));
    }
    times.record(&name, BuildTime { crates: compiled, time: step.elapsed() });
    Ok(artifacts)
}

/// Returns the program with the given name from the artifacts.
pub(crate) fn program(artifacts: &[Artifact], name: &str) -> Result<PathBuf> {
    artifacts
        .iter()
        .filter(|artifact| artifact.target.is_bin() && artifact.target.name == name)
        .find_map(|artifact| artifact.executable.clone().map(Into::into))
        .with_context(|| format!("the build of the workspace gave no program `{name}`"))
}

/// Runs a command with inherited output, and returns whether it succeeded.
pub(crate) fn pass_through(command: &mut Command) -> Result<bool> {
    let name = display(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run `{name}`"))?;
    Ok(status.success())
}

/// Returns the last lines of a tool's output.
fn tail(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<_> = text.trim_end().lines().collect();
    let cut = lines.len().saturating_sub(MAX_TAIL_LINES);
    lines.get(cut..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/opt/rust/bin/cargo");
        command.args(["build", "--release"]);
        assert_eq!(display(&command), "cargo build --release");
    }

    #[test]
    fn only_the_end_of_a_long_output_is_shown() {
        let said: String = (0..MAX_TAIL_LINES + 5).map(|line| format!("{line}\n")).collect();
        let shown = tail(said.as_bytes());
        assert!(shown.starts_with("5\n"), "{shown}");
        assert_eq!(shown.lines().count(), MAX_TAIL_LINES);
    }
}
