//! The state of builds: the sources and the command, the build that is running, and what the last one came to.
//!
//! A change of a source starts a build, in place of one that is running. While one runs, what looks like its own output does not
//! count: new files, and lock files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

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

/// The files that one message names.
const MAX_NAMED: usize = 3;
/// Changes that wait to be handled.
const MAX_CHANGES: usize = 16;
/// Builds in a row that a file interrupted, after which it is likely that the build itself writes it.
const MAX_INTERRUPTIONS: usize = 5;
/// What package managers write while they build.
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
    /// The builds in a row that were interrupted by a change of the same files.
    interruptions: usize,
    /// The components as the last build left them.
    components: BTreeMap<PathBuf, Option<Digest>>,
    /// When the change was noticed that is not shown yet.
    changed_at: Option<Instant>,
}

/// What the last build came to.
#[derive(Clone, Copy, Debug)]
pub(super) enum BuildState {
    /// One is running, since then.
    Running(Instant),
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
}

/// What happened to the sources, or to the build.
pub(super) enum BuildEvent {
    /// Sources changed.
    Changed(Change),
    /// The build that was running has ended.
    Finished(Finished),
}

/// What a build came to.
pub(super) enum Outcome {
    /// It failed, with that message.
    Failed(String),
    /// It succeeded.
    Succeeded,
}

/// The watcher of the sources, on a task of its own.
struct Sources {
    set: SourceSet,
    changes: mpsc::Receiver<Change>,
    _task: AbortOnDropHandle<()>,
}

impl Sources {
    /// Watches those sources from now on.
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
        let task = tokio::spawn(async move { while sender.send(watcher.changed().await).await.is_ok() {} });
        Self { set, changes, _task: AbortOnDropHandle::new(task) }
    }
}

impl Builds {
    /// Watches the sources from now on.
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

    /// Returns the digest of a component as the last build left it.
    pub(super) fn digest_of(&self, component: &Path) -> Option<Digest> {
        self.components.get(component).copied().flatten()
    }

    /// Takes the time of the change whose effect is about to be shown.
    pub(super) fn take_changed_at(&mut self) -> Option<Instant> {
        self.changed_at.take()
    }

    /// Waits for a change of the sources, or for the end of the build. May be cancelled.
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

    /// Starts a build at a key.
    pub(super) fn start_now(&mut self) {
        self.changed_at = Some(Instant::now());
        self.start("");
    }

    /// Starts a build because of that, in place of one that is running.
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

    /// Starts a build if sources changed. A config with mistakes is reported here unless its watcher does so.
    pub(super) async fn on_change(&mut self, change: Change, is_config_watched: bool) {
        let Change { difference, at } = change;
        let Difference { mut changed, mut created } = difference;
        let is_config = |file: &PathBuf| file == self.project.config_file();
        let has_new_settings = changed.iter().chain(&created).any(is_config) && self.reread(is_config_watched).await;
        let is_config = |file: &PathBuf| file == self.project.config_file();
        changed.retain(|file| !is_config(file));
        created.retain(|file| !is_config(file));
        if self.running.is_some() && !has_new_settings {
            // New files and lock files are the build's own. A file of the author comes with a change of another, or is built by
            // the next one.
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

    /// Reads the config again. Returns whether the project is built in another way.
    pub(super) async fn reread(&mut self, is_config_watched: bool) -> bool {
        let project = self.project.clone();
        let Ok(read) = tokio::task::spawn_blocking(move || project.read()).await else { return false };
        let settings = match read {
            Ok(settings) => settings,
            Err(error) => {
                // Otherwise the watcher of the config says so.
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

    /// Notes the end of the build.
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

    /// Ends the build that is running, with all its processes.
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
    // A grant of the whole directory does not make it all data.
    let granted = granted.filter(|granted| *granted != dir);
    let excluded = settings.files.iter().cloned().chain(granted).collect();
    SourceSet { dir, patterns: settings.watch.clone(), excluded, config_file: project.config_file().to_owned() }
}

/// The digests of the components of a config, as they are now.
async fn digests(settings: &Settings) -> BTreeMap<PathBuf, Option<Digest>> {
    let files = settings.files.clone();
    let digest =
        |file: &Path| std::fs::File::open(file).and_then(Digest::compute_reader).ok().map(|(digest, _)| digest);
    let compute = move || files.into_iter().map(|file| (file.clone(), digest(&file))).collect();
    tokio::task::spawn_blocking(compute).await.unwrap_or_default()
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

/// The first files by name, and how many more there are.
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
