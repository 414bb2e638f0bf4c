//! `cargo xtask fuzz`: fuzzes everything that parses untrusted bytes.
//!
//! The targets are in `fuzz/fuzz_targets`; each calls a function of the host's module `fuzzing`. The fuzzer is
//! cargo-fuzz, which is installed into `target/tools`. It keeps its corpus in `target/fuzz/corpus` for the next run,
//! and its findings in `target/fuzz/artifacts`. The fuzzed code is safe Rust, so no sanitizer is needed, and the
//! repository's own toolchain suffices.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::progress::Progress;
use crate::workspace::Workspace;
use crate::{cargo, install};

/// The version of cargo-fuzz.
const CARGO_FUZZ: &str = "0.13.2";

#[derive(Debug, Args)]
pub(crate) struct Fuzz {
    /// The targets to run; all by default
    targets: Vec<String>,

    /// The duration of each target, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

impl Fuzz {
    /// Runs the targets in sequence. A finding in one target does not stop the others.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        let known = targets(&workspace.root().join("fuzz/fuzz_targets"))?;
        let unknown: Vec<_> = self.targets.iter().filter(|target| !known.contains(target)).collect();
        ensure!(unknown.is_empty(), "there is no fuzz target {unknown:?}; there are {}", known.join(", "));
        let chosen = if self.targets.is_empty() { &known } else { &self.targets };

        let fuzzer = install::cargo_install("cargo-fuzz", CARGO_FUZZ, &[], workspace, progress)?;
        let mut failed = Vec::new();
        for target in chosen {
            progress.print(&format!("fuzzing {target} for {} s", self.seconds));
            if !cargo::pass_through(&mut self.command(workspace, &fuzzer, target)?)? {
                failed.push(target.as_str());
            }
        }
        ensure!(
            failed.is_empty(),
            "{} failed; the input is in target/fuzz/artifacts, and what it did is above",
            failed.join(" and ")
        );
        Ok(())
    }

    fn command(&self, workspace: &Workspace, fuzzer: &Path, target: &str) -> Result<Command> {
        let kept = workspace.target().join("fuzz");
        let [corpus, artifacts] = ["corpus", "artifacts"].map(|kind| kept.join(kind).join(target));
        for dir in [&corpus, &artifacts] {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        // Instrumentation needs compiler flags that are unstable in name only.
        let mut command = Command::new(fuzzer);
        command.env("RUSTC_BOOTSTRAP", "1").current_dir(workspace.root());
        command.args(["run", target]).arg(corpus).arg(workspace.root().join("fuzz/seeds").join(target));
        command.args(["--fuzz-dir", "fuzz", "--sanitizer", "none", "--target-dir"]).arg(kept).arg("--");
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        command.arg(format!("-max_total_time={}", self.seconds)).arg("-print_final_stats=1");
        Ok(command)
    }
}

/// Returns the names of the targets, sorted.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let files = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for file in files {
        let file = file.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if let Some(name) = file.file_stem().filter(|_| file.extension().is_some_and(|extension| extension == "rs")) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_of_the_repository_is_found() {
        let workspace = Workspace::find().unwrap();
        let names = targets(&workspace.root().join("fuzz/fuzz_targets")).unwrap();
        let seeds = fs::read_dir(workspace.root().join("fuzz/seeds")).unwrap();
        let mut seeded: Vec<_> = seeds.map(|dir| dir.unwrap().file_name().into_string().unwrap()).collect();
        seeded.sort();
        assert_eq!(names, seeded, "each has seeds");
    }
}
