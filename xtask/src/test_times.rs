//! The duration of each test and the output of failed tests: `target/test-times.tsv` and `target/test-failures.txt` of
//! the last `cargo xtask test`.
//!
//! libtest measures tests, but prints the durations only with an unstable option, which it accepts if `RUSTC_BOOTSTRAP`
//! is set. The compiler must not see this variable: it changes what build scripts detect, so all dependencies would be
//! compiled again. So cargo runs each test executable through a runner, this program, which sets the variable for the
//! executable alone. With the runner's value of the variable, a compiler that a test starts behaves as a stable one.
//! The runner removes the durations from the output.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use clap::Args;

use crate::progress::Progress;
use crate::workspace::Workspace;

/// The number of slow tests that are listed at the end.
const SLOWEST: usize = 10;

/// The files with the durations and the failures.
#[derive(Debug)]
pub(crate) struct TestTimes {
    /// A file with one line for each test: its duration in seconds, its executable and its name.
    file: PathBuf,
    /// A file with libtest's list of failures of each executable that has failures.
    failures: PathBuf,
}

impl TestTimes {
    /// Creates empty files.
    pub(crate) fn create(workspace: &Workspace) -> Result<Self> {
        fs::create_dir_all(workspace.target()).context("cannot make target/")?;
        let create = |name| -> Result<PathBuf> {
            let file = workspace.target().join(name);
            File::create(&file).with_context(|| format!("cannot write {}", file.display()))?;
            Ok(file)
        };
        Ok(Self { file: create("test-times.tsv")?, failures: create("test-failures.txt")? })
    }

    /// Returns the value of cargo's `--config` that sets [`RunTests`] as the runner of test executables.
    pub(crate) fn cargo_config(&self) -> Result<String> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let (times, failures) = (self.file.to_string_lossy(), self.failures.to_string_lossy());
        let words = [program.to_string_lossy(), "run-tests".into(), times, failures, "--".into()];
        Ok(format!("target.'cfg(all())'.runner={}", serde_json::to_string(&words)?))
    }

    /// Sorts the durations in descending order, and prints the slowest tests and then the output of failed tests.
    /// There, at the end of a long log, the failures are easy to find and survive truncation of the log.
    pub(crate) fn finish(&self, progress: &Progress) -> Result<()> {
        let text = fs::read_to_string(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        let mut tests: Vec<(f64, &str)> = text
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .filter_map(|(time, name)| Some((time.parse().ok()?, name)))
            .collect();
        tests.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        let sorted: String = tests.iter().map(|(time, name)| format!("{time:.3}\t{name}\n")).collect();
        fs::write(&self.file, sorted).with_context(|| format!("cannot write {}", self.file.display()))?;
        if !tests.is_empty() {
            progress.print(&format!("\nthe slowest of {} tests; all are in target/test-times.tsv", tests.len()));
        }
        for (time, name) in tests.iter().take(SLOWEST) {
            progress.print(&format!("{time:8.1} s  {}", name.replace('\t', " ")));
        }
        let failures = fs::read(&self.failures);
        let failures = failures.with_context(|| format!("cannot read {}", self.failures.display()))?;
        if !failures.is_empty() {
            progress.print("\nthe tests that failed; the same is in target/test-failures.txt");
            progress.print(&String::from_utf8_lossy(&failures));
        }
        Ok(())
    }
}

/// The runner: not for people.
#[derive(Debug, Args)]
pub(crate) struct RunTests {
    /// The file of times
    times: PathBuf,

    /// The file of failures
    failures: PathBuf,

    /// What cargo runs, and its arguments
    #[arg(last = true)]
    command: Vec<OsString>,
}

impl RunTests {
    /// Runs the program and returns its exit code.
    ///
    /// # Errors
    ///
    /// When the program cannot be started or is terminated, its output cannot be passed on, or its durations cannot be
    /// written.
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let (program, arguments) = self.command.split_first().context("expected a command after `--`")?;
        let program = Path::new(program);
        let context = || format!("cannot run {}", program.display());
        let mut command = Command::new(program);
        command.args(arguments);
        // Doctests and examples are in other folders. A test without libtest is here, too; it ignores arguments, as it
        // ignores filters.
        let is_test = program.parent().and_then(Path::file_name).is_some_and(|folder| folder == "deps");
        let status = if is_test {
            if io::stdout().is_terminal() {
                command.arg("--color=always");
            }
            command.env("RUSTC_BOOTSTRAP", "-1").args(["-Z", "unstable-options", "--report-time"]);
            let mut child = command.stdout(Stdio::piped()).spawn().with_context(context)?;
            let output = child.stdout.take().context("the output of tests is not piped")?;
            let append = |path: &Path| {
                let file = File::options().append(true).open(path);
                file.with_context(|| format!("cannot write {}", path.display()))
            };
            let (mut times, mut failures) = (append(&self.times)?, append(&self.failures)?);
            let from = BufReader::new(output);
            pass_on(from, &mut io::stdout(), &mut times, &mut failures, executable(program))?;
            child.wait()
        } else {
            command.status()
        };
        let status = status.with_context(context)?;
        let code = status.code().with_context(|| format!("{} was terminated: {status}", program.display()))?;
        Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from))
    }
}

/// Returns the name of a test executable without cargo's hash: `end_to_end`.
fn executable(program: &Path) -> &str {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.rsplit_once('-').map_or(name, |(name, _)| name)
}

/// Copies libtest's output without the durations of tests, which are appended to `times`. The output from the line
/// `failures:` on is also appended to `failures`.
fn pass_on(
    mut from: impl BufRead,
    to: &mut impl Write,
    times: &mut impl Write,
    failures: &mut impl Write,
    executable: &str,
) -> Result<()> {
    let mut line = Vec::new();
    let mut has_failed = false;
    while from.read_until(b'\n', &mut line).context("cannot read the output of tests")? > 0 {
        if !has_failed && line == b"failures:\n" {
            has_failed = true;
            writeln!(failures, "\n== {executable}").context("cannot write the failures of tests")?;
        }
        if has_failed {
            failures.write_all(&line).context("cannot write the failures of tests")?;
        }
        let timed = str::from_utf8(&line).ok().and_then(TimedLine::parse);
        if let Some(TimedLine { name, time, line }) = timed {
            writeln!(times, "{time}\t{executable}\t{name}").context("cannot write the times of tests")?;
            to.write_all(line.as_bytes())
        } else {
            to.write_all(&line)
        }
        .and_then(|()| to.flush())
        .context("cannot write the output of tests")?;
        line.clear();
    }
    Ok(())
}

/// A line of libtest about a completed test: `test NAME ... ok <1.234s>`.
#[derive(Debug, PartialEq)]
struct TimedLine<'a> {
    name: &'a str,
    /// In seconds.
    time: f64,
    /// The line without the time.
    line: String,
}

impl<'a> TimedLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, rest) = line.rsplit_once(" <")?;
        let (time, after) = rest.split_once("s>")?;
        let (name, _) = before.strip_prefix("test ")?.split_once(" ... ")?;
        let name = name.strip_suffix(" - should panic").unwrap_or(name);
        Some(Self { name, time: time.parse().ok()?, line: format!("{before}{after}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the copied output, the durations and the failures for the given output of libtest.
    fn passed_on(output: &str) -> [String; 3] {
        let [mut to, mut times, mut failures] = [const { Vec::new() }; 3];
        pass_on(output.as_bytes(), &mut to, &mut times, &mut failures, "it").unwrap();
        [to, times, failures].map(|output| String::from_utf8(output).unwrap())
    }

    #[test]
    fn the_output_of_tests_is_as_without_times() {
        let timed = "running 3 tests\ntest a::b ... ok <1.250s>\ntest c ... ignored\n\
                     test d - should panic ... \u{1b}[31mFAILED\u{1b}(B\u{1b}[m\u{1b}[33m <0.012s>\u{1b}(B\u{1b}[m\n\n\
                     test result: FAILED. 1 passed; finished in 1.26s\n";
        let [output, times, failures] = passed_on(timed);
        assert_eq!(output, timed.replace(" <1.250s>", "").replace(" <0.012s>", ""));
        assert_eq!(times, "1.25\tit\ta::b\n0.012\tit\td\n");
        assert_eq!(failures, "");
    }

    #[test]
    fn failures_are_kept_with_the_name_of_the_executable() {
        let ran = "running 1 test\ntest a ... FAILED\n\n";
        let failed = "failures:\n\n---- a stdout ----\npanicked\n\nfailures:\n    a\n\ntest result: FAILED. 0 passed\n";
        let [output, _, failures] = passed_on(&format!("{ran}{failed}"));
        assert_eq!(output, format!("{ran}{failed}"));
        assert_eq!(failures, format!("\n== it\n{failed}"));
    }

    #[test]
    fn what_a_test_prints_is_no_time() {
        let printed = "test of 1 <2s> things\ntest x ... ok <fast>\n<3s>\n\u{fffd}";
        assert_eq!(passed_on(printed), [printed, "", ""].map(str::to_owned));
    }

    #[test]
    fn the_slowest_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let times = TestTimes { file: folder.path().join("times.tsv"), failures: folder.path().join("failures.txt") };
        fs::write(&times.failures, "").unwrap();
        fs::write(&times.file, "0.5\tit\ta\n10.25\tend_to_end\tb\ndamaged\n2\tit\tc\n").unwrap();
        times.finish(&Progress::new(false)).unwrap();
        assert_eq!(fs::read_to_string(&times.file).unwrap(), "10.250\tend_to_end\tb\n2.000\tit\tc\n0.500\tit\ta\n");
    }
}
