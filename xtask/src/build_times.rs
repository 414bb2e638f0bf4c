//! The duration and the number of crates of each command's longest build. `target/xtask-builds.json` keeps them, so
//! that the next long build can print an estimate.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::progress::seconds;
use crate::workspace::Workspace;

/// The longest build of each command, by the number of compiled crates.
#[derive(Debug)]
pub(crate) struct BuildTimes {
    file: PathBuf,
}

/// A completed build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BuildTime {
    pub(crate) crates: usize,
    pub(crate) time: Duration,
}

impl BuildTimes {
    pub(crate) fn new(workspace: &Workspace) -> Self {
        Self { file: workspace.target().join("xtask-builds.json") }
    }

    /// Returns the longest build of a command so far.
    pub(crate) fn longest(&self, command: &str) -> Option<BuildTime> {
        self.read().remove(command)
    }

    /// Records a build if it compiled more crates than the recorded one. An error of writing the file is ignored; the
    /// next build then has no estimate.
    pub(crate) fn record(&self, command: &str, build: BuildTime) {
        let mut builds = self.read();
        if builds.get(command).is_none_or(|longest| longest.crates < build.crates) {
            builds.insert(command.to_owned(), build);
            if let Ok(json) = serde_json::to_vec_pretty(&builds) {
                let _ = fs::write(&self.file, json);
            }
        }
    }

    fn read(&self) -> BTreeMap<String, BuildTime> {
        fs::read(&self.file).ok().and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
    }
}

impl std::fmt::Display for BuildTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the longest build so far compiled {} in {}", self.crates, seconds(self.time))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_build_with_the_most_crates_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let times = BuildTimes { file: folder.path().join("builds.json") };
        assert_eq!(times.longest("cargo build"), None);
        let (first, cold) = (build(2, 1), build(500, 460));
        for build in [first, cold, build(3, 4)] {
            times.record("cargo build", build);
        }
        assert_eq!(times.longest("cargo build"), Some(cold));
        assert_eq!(cold.to_string(), "the longest build so far compiled 500 in 7 min 40 s");
    }

    #[test]
    fn a_damaged_file_is_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let times = BuildTimes { file: folder.path().join("builds.json") };
        fs::write(&times.file, "{").unwrap();
        times.record("cargo build", build(2, 1));
        assert_eq!(times.longest("cargo build"), Some(build(2, 1)));
    }

    fn build(crates: usize, seconds: u64) -> BuildTime {
        BuildTime { crates, time: Duration::from_secs(seconds) }
    }
}
