//! The state of builds: the sources and the command, the running build, and the result of the last one.
//!
//! A change of a source starts a build, and cancels a running one. During a build, changes that look like the build's
//! own output are ignored: new files, and lock files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use mcp_host_base::task;
use mcp_host_model::digest::Digest;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::build::{Build, Finished};
use super::project::{Project, Settings};
use super::snapshot::{Difference, MAX_ENTRIES, SourceSet};
use super::sources::{Change, SourceWatcher};
use super::{GOOD, NEUTRAL, format_elapsed};
use crate::error::CliError;
use crate::messages::Messages;

/// The maximum number of files in one message.
const MAX_NAMED: usize = 3;
/// The maximum number of queued changes.
const MAX_CHANGES: usize = 16;
/// The number of consecutive builds that the same files interrupted, after which the build itself probably writes them.
const MAX_INTERRUPTIONS: usize = 5;
/// Files that package managers write during a build.
const LOCK_FILES: [&str; 7] =
    ["Cargo.lock", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "go.sum", "uv.lock"];

/// The builds of a project.
pub(super) struct Builds {
    messages: Messages,
    project: Project,
    settings: Settings,
    sources: Sources,
    running: Option<Build>,
    state: BuildState,
    /// The number of consecutive builds that a change of the same files interrupted.
    interruptions: usize,
    /// The components after the last build.
    components: BTreeMap<PathBuf, Option<Digest>>,
    /// The time of the last change whose effect is not shown yet.
    changed_at: Option<Instant>,
}

/// The result of the last build.
#[derive(Clone, Copy, Debug)]
pub(super) enum BuildState {
    /// A build is running, since this time.
    Running(Instant),
    /// The build succeeded.
    Succeeded,
    /// The build failed.
    Failed,
}

/// What happened to the sources, or to the build.
pub(super) enum BuildEvent {
    /// Sources changed.
    Changed(Change),
    /// The running build has ended.
    Finished(Finished),
}

/// The result of a build.
pub(super) enum Outcome {
    /// The build failed, with this message.
    Failed(String),
    /// The build succeeded.
    Succeeded,
}

/// The watcher of the sources, on its own task.
struct Sources {
    set: SourceSet,
    changes: mpsc::Receiver<Change>,
    _task: AbortOnDropHandle<()>,
}

impl Sources {
    /// Starts to watch these sources.
    async fn watch(set: SourceSet, messages: &Messages) -> Self {
        let mut watcher = SourceWatcher::new(set.clone()).await;
        let limits = watcher.limits();
        if limits.is_truncated {
            messages.warning(&format!(
                "the project has more than {MAX_ENTRIES} files, and only these are watched; name the sources: `watch = [\"src\"]` under \
                 `[dev]` of the config"
            ));
        }
        if limits.is_polling {
            messages.note("the system reports no changes of the sources; they are compared every second");
        }
        let (sender, changes) = mpsc::channel(MAX_CHANGES);
        let task = task::spawn(async move { while sender.send(watcher.changed().await).await.is_ok() {} });
        Self { set, changes, _task: AbortOnDropHandle::new(task) }
    }
}

impl Builds {
    /// Starts to watch the sources.
    pub(super) async fn watch(project: Project, settings: Settings, messages: Messages) -> Self {
        let sources = Sources::watch(source_set(&project, &settings), &messages).await;
        let components = digests(&settings).await;
        Self {
            messages,
            project,
            settings,
            sources,
            running: None,
            state: BuildState::Succeeded,
            interruptions: 0,
            components,
            changed_at: None,
        }
    }

    pub(super) fn project(&self) -> &Project {
        &self.project
    }

    pub(super) fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }

    pub(super) fn state(&self) -> BuildState {
        self.state
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The first line of the command.
    pub(super) fn command(&self) -> String {
        on_one_line(self.settings.build.as_str())
    }

    /// Returns the digest of a component after the last build.
    pub(super) fn digest_of(&self, component: &Path) -> Option<Digest> {
        self.components.get(component).copied().flatten()
    }

    /// Takes the time of the change whose effect is shown next. `None` while a build is running: the effect shown then
    /// belongs to an earlier change.
    pub(super) fn take_changed_at(&mut self) -> Option<Instant> {
        if self.running.is_some() {
            return None;
        }
        self.changed_at.take()
    }

    /// Waits for a change of the sources, or for the end of the build. Cancel-safe.
    pub(super) async fn event(&mut self) -> BuildEvent {
        let build = async {
            match &mut self.running {
                Some(build) => build.finished().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(change) = self.sources.changes.recv() => BuildEvent::Changed(change),
            finished = build => BuildEvent::Finished(finished),
        }
    }

    /// Starts a build on request of the user.
    pub(super) fn start_now(&mut self) {
        self.changed_at = Some(Instant::now());
        self.start("");
    }

    /// Starts a build for this reason, and cancels a running one.
    pub(super) fn start(&mut self, reason: &str) {
        let command = self.settings.build.clone();
        self.messages.labeled("build", NEUTRAL, &format!("{reason}{}", on_one_line(command.as_str())));
        match Build::start(&command, self.project.dir(), &self.messages) {
            Ok(build) => {
                self.running = Some(build);
                self.state = BuildState::Running(Instant::now());
            }
            Err(error) => {
                self.state = BuildState::Failed;
                self.messages.error(&format!("the shell does not start: {error}"));
            }
        }
    }

    /// Starts a build if sources changed. Reports an invalid config unless its watcher does so.
    pub(super) async fn on_change(&mut self, change: Change, is_config_watched: bool) {
        let Change { difference, at } = change;
        let Difference { mut changed, mut created } = difference;
        let is_config = |file: &PathBuf| file == self.project.config_file();
        let has_new_settings = changed.iter().chain(&created).any(is_config) && self.reread(is_config_watched).await;
        let is_config = |file: &PathBuf| file == self.project.config_file();
        changed.retain(|file| !is_config(file));
        created.retain(|file| !is_config(file));
        if self.running.is_some() && !has_new_settings {
            // New files and lock files are the build's own. A new file of the author comes with a change of an existing
            // one, or is part of the next build.
            changed.retain(|file| !is_lock_file(file));
            created.clear();
        }
        if changed.is_empty() && created.is_empty() && !has_new_settings {
            return;
        }
        let during = if self.running.is_some() { " during the build" } else { "" };
        let files: Vec<_> = changed.iter().chain(&created).map(|file| self.project.display(file)).collect();
        if let Some(build) = self.running.take() {
            build.cancel().await;
            self.interruptions = self.interruptions.saturating_add(1);
            if self.interruptions == MAX_INTERRUPTIONS {
                self.messages.warning(&format!(
                    "{} changed in {MAX_INTERRUPTIONS} builds in a row; if the build writes it, name it in `.gitignore`, or name the \
                     sources: `watch = [\"src\"]` under `[dev]` of the config",
                    named(&files)
                ));
            }
        }
        self.changed_at = Some(at);
        let reason = if files.is_empty() {
            "the config changed: ".to_owned()
        } else {
            format!("{} changed{during}: ", named(&files))
        };
        self.start(&reason);
    }

    /// Reads the config again. Returns whether the build settings changed.
    pub(super) async fn reread(&mut self, is_config_watched: bool) -> bool {
        let project = self.project.clone();
        let Ok(read) = task::spawn_blocking(move || project.read()).await else { return false };
        let settings = match read {
            Ok(settings) => settings,
            Err(error) => {
                // A running watcher of the config reports the error.
                if !is_config_watched || !matches!(error, CliError::Config(_)) {
                    error.report(&self.messages);
                }
                return false;
            }
        };
        let set = source_set(&self.project, &settings);
        let is_new_command = settings.build != self.settings.build;
        if set != self.sources.set {
            self.sources = Sources::watch(set, &self.messages).await;
        }
        self.settings = settings;
        is_new_command
    }

    /// Records the end of the build.
    pub(super) async fn on_finished(&mut self, finished: Finished) -> Outcome {
        self.running = None;
        self.interruptions = 0;
        let elapsed = format_elapsed(finished.elapsed);
        let failure = match &finished.status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(format!("the build failed after {elapsed}: {status}")),
            Err(error) => Some(format!("the build has no result: {error}")),
        };
        if let Some(failure) = failure {
            self.state = BuildState::Failed;
            return Outcome::Failed(failure);
        }
        self.state = BuildState::Succeeded;
        let components = digests(&self.settings).await;
        let is_same = components == self.components && !components.is_empty();
        self.components = components;
        let same = if is_same { "; the component is the same" } else { "" };
        self.messages.labeled("build", GOOD, &format!("finished in {elapsed}{same}"));
        if is_same {
            self.changed_at = None;
        }
        Outcome::Succeeded
    }

    /// Ends the running build, with all its processes.
    pub(super) async fn cancel(&mut self) {
        if let Some(build) = self.running.take() {
            build.cancel().await;
        }
    }
}

/// The sources of a project.
fn source_set(project: &Project, settings: &Settings) -> SourceSet {
    let dir = project.dir().to_owned();
    let granted =
        settings.config.plugins.iter().flat_map(|plugin| plugin.grants.dirs.values()).map(|grant| grant.host.clone());
    // A grant of the whole project directory does not make all its files data.
    let granted = granted.filter(|granted| *granted != dir);
    let excluded = settings.files.iter().cloned().chain(granted).collect();
    SourceSet { dir, patterns: settings.watch.clone(), excluded, config_file: project.config_file().to_owned() }
}

/// The current digests of the components of a config.
async fn digests(settings: &Settings) -> BTreeMap<PathBuf, Option<Digest>> {
    let files = settings.files.clone();
    let digest =
        |file: &Path| std::fs::File::open(file).and_then(Digest::compute_reader).ok().map(|(digest, _)| digest);
    let compute = move || files.into_iter().map(|file| (file.clone(), digest(&file))).collect();
    task::spawn_blocking(compute).await.unwrap_or_default()
}

fn is_lock_file(file: &Path) -> bool {
    file.file_name().is_some_and(|name| LOCK_FILES.iter().any(|lock| name == *lock))
}

/// The first line of a command.
fn on_one_line(command: &str) -> String {
    let mut lines = command.trim().lines();
    let first = lines.next().unwrap_or_default();
    if lines.next().is_some() { format!("{first} …") } else { first.to_owned() }
}

/// The first files by name, and the number of further files.
fn named(files: &[String]) -> String {
    let names = files.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(MAX_NAMED) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_are_named_by_the_first() {
        let files = |number: usize| (0..number).map(|index| format!("{index}.rs")).collect::<Vec<_>>();
        assert_eq!(named(&files(1)), "0.rs");
        assert_eq!(named(&files(5)), "0.rs, 1.rs, 2.rs and 2 more");
    }

    #[test]
    fn of_a_command_of_several_lines_the_first_is_shown() {
        assert_eq!(on_one_line("make"), "make");
        assert_eq!(on_one_line("\nset -e\nmake\n"), "set -e …");
    }

    #[test]
    fn lock_files_are_known_by_name() {
        assert!(is_lock_file(Path::new("/a/Cargo.lock")) && !is_lock_file(Path::new("/a/Cargo.toml")));
    }
}
