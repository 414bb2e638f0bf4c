//! The loop: changes of sources, ends of builds, reloads and keys, one at a time.
//!
//! What takes long runs beside it: the build, the listing, reads and the test; of each there is at most one, but for reads, which
//! are bounded by the limits of the plugin.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use futures::future::LocalBoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::build::{Build, Finished};
use super::line_editor::{Edited, LineEditor};
use super::listing::Listing;
use super::listing_diff::ListingDiff;
use super::project::{Project, Settings};
use super::snapshot::{Difference, MAX_ENTRIES, SourceSet};
use super::sources::{Change, SourceWatcher};
use super::status::{self, BuildState};
use super::terminal::{Key, Terminal};
use super::{BAD, GOOD, NEUTRAL, checks, format_elapsed, read};
use crate::access::Principal;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::escape;
use crate::cli::messages::Messages;
use crate::cli::signals::Hangup;
use crate::digest::Digest;
use crate::host::Host;
use crate::server::ServeError;
use crate::watch::Update;

/// The interval at which the duration of a build is shown.
const TICK: Duration = Duration::from_secs(1);
/// The files that one message names.
const MAX_NAMED: usize = 3;
/// Changes that wait to be handled.
const MAX_CHANGES: usize = 16;
/// Builds in a row that a file interrupted, after which it is likely that the build itself writes it.
const MAX_INTERRUPTIONS: usize = 5;
/// What package managers write while they build.
const LOCK_FILES: [&str; 7] =
    ["Cargo.lock", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "go.sum", "uv.lock"];

/// A project that is being developed and served.
pub(super) struct Session<'c> {
    context: &'c Context,
    messages: Messages,
    project: Project,
    settings: Settings,
    host: Arc<Host>,
    /// Where clients connect.
    url: String,
    sources: Sources,
    /// Reloads when the config or a component changes; begins when all files of the config are there.
    config_watcher: Option<AbortOnDropHandle<()>>,
    build: Option<Build>,
    state: BuildState,
    /// The builds in a row that were interrupted by a change of the same files.
    interruptions: usize,
    /// The components as the last build left them.
    components: BTreeMap<PathBuf, Option<Digest>>,
    /// When the change was noticed that is not shown yet.
    changed_at: Option<Instant>,
    listing: Listing,
    /// The generation that the listing is of.
    listed_generation: Option<u64>,
    fetching: Option<AbortOnDropHandle<Fetched>>,
    /// Whether something changed since the listing is being fetched.
    is_stale: bool,
    /// The test that is running, which is polled by the loop.
    testing: Option<LocalBoxFuture<'static, ()>>,
    /// The prompt for a resource.
    editor: Option<LineEditor>,
    last_read: Option<String>,
    /// The URIs of the listing that was shown last, by number.
    shown: Vec<String>,
}

/// The watcher of the sources, on a task of its own.
struct Sources {
    set: SourceSet,
    changes: mpsc::Receiver<Change>,
    _task: AbortOnDropHandle<()>,
}

/// A listing, and the generation that was served before it was fetched.
struct Fetched {
    generation: u64,
    listing: Listing,
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

impl<'c> Session<'c> {
    /// Begins with the first build.
    pub(super) async fn start(
        context: &'c Context,
        project: Project,
        settings: Settings,
        host: Arc<Host>,
        url: String,
    ) -> Self {
        let messages = context.messages.clone();
        let sources = Sources::watch(source_set(&project, &settings), &messages).await;
        let components = digests(&settings).await;
        let mut session = Self {
            context,
            messages,
            project,
            settings,
            host,
            url,
            sources,
            config_watcher: None,
            build: None,
            state: BuildState::Succeeded,
            interruptions: 0,
            components,
            changed_at: None,
            listing: Listing::default(),
            listed_generation: None,
            fetching: None,
            is_stale: false,
            testing: None,
            editor: None,
            last_read: None,
            shown: Vec::new(),
        };
        if super::is_closed(&session.settings.config) {
            session
                .messages
                .note("the config has no rules: every program on this machine may connect and read everything");
        }
        session.refresh_listing();
        session.start_build("");
        session
    }

    /// Runs until it is ended by a key or a signal, or the server fails.
    pub(super) async fn run(
        mut self,
        mut terminal: Option<Terminal>,
        shutdown: &CancellationToken,
        mut hangup: Hangup,
        mut server: JoinHandle<Result<(), ServeError>>,
    ) -> Result<(), CliError> {
        let host = self.host.clone();
        let mut generations = host.generations();
        let subscriber = host.subscriber(&Principal::LOCAL);
        subscriber.watch_listing();
        let mut resumed = resumed()?;
        let mut tick = tokio::time::interval(TICK);
        let mut ended = None;
        loop {
            self.show_status(terminal.is_some());
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = hangup.next() => break,
                result = &mut server => {
                    ended = Some(result);
                    break;
                }
                Some(change) = self.sources.changes.recv() => self.on_change(change).await,
                finished = finished(&mut self.build) => self.on_built(finished).await,
                fetched = joined(&mut self.fetching) => self.on_fetched(fetched),
                () = tested(&mut self.testing) => self.testing = None,
                Ok(()) = generations.changed() => self.refresh_listing(),
                Update::Listing = subscriber.next() => self.refresh_listing(),
                key = next_key(&mut terminal) => if self.on_key(key) { break },
                _ = resumed.recv() => terminal.iter().for_each(Terminal::resume),
                _ = tick.tick() => {}
            }
        }
        // The terminal first: what follows may take a while, and a second signal ends it.
        self.messages.writer().set_status(None);
        drop(terminal);
        if let Some(build) = self.build.take() {
            build.cancel().await;
        }
        drop(self);
        shutdown.cancel();
        let ended = match ended {
            Some(ended) => ended,
            None => server.await,
        };
        Ok(ended.map_err(|error| CliError::Other(error.into()))??)
    }

    /// Starts a build because of that, in place of one that is running.
    fn start_build(&mut self, reason: &str) {
        let command = self.settings.build.clone();
        self.messages.labeled("build", NEUTRAL, &format!("{reason}{}", on_one_line(command.as_str())));
        match Build::start(&command, self.project.dir(), &self.messages) {
            Ok(build) => {
                self.build = Some(build);
                self.state = BuildState::Running(Instant::now());
            }
            Err(error) => {
                self.state = BuildState::Failed;
                self.messages.error(&format!("the shell does not start: {error}"));
            }
        }
    }

    async fn on_change(&mut self, change: Change) {
        let Change { difference, at } = change;
        let Difference { mut changed, mut created } = difference;
        let is_config = |file: &PathBuf| file == self.project.config_file();
        let has_new_settings = changed.iter().chain(&created).any(is_config) && self.reread().await;
        let is_config = |file: &PathBuf| file == self.project.config_file();
        changed.retain(|file| !is_config(file));
        created.retain(|file| !is_config(file));
        if self.build.is_some() && !has_new_settings {
            // New files and lock files are the build's own. A file of the author comes with a change of another, or is built by
            // the next one.
            changed.retain(|file| !is_lock_file(file));
            created.clear();
        }
        if changed.is_empty() && created.is_empty() && !has_new_settings {
            return;
        }
        let during = if self.build.is_some() { " during the build" } else { "" };
        let files: Vec<_> = changed.iter().chain(&created).map(|file| self.project.display(file)).collect();
        if let Some(build) = self.build.take() {
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
        self.start_build(&reason);
    }

    /// Reads the config again. Returns whether the project is built in another way.
    async fn reread(&mut self) -> bool {
        let project = self.project.clone();
        let Ok(read) = tokio::task::spawn_blocking(move || project.read()).await else { return false };
        let settings = match read {
            Ok(settings) => settings,
            Err(error) => {
                // Otherwise the watcher of the config says so.
                if self.config_watcher.is_none() || !matches!(error, CliError::Config(_)) {
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

    async fn on_built(&mut self, finished: Finished) {
        self.build = None;
        self.interruptions = 0;
        let elapsed = format_elapsed(finished.elapsed);
        let failure = match &finished.status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(format!("the build failed after {elapsed}: {status}")),
            Err(error) => Some(format!("the build has no result: {error}")),
        };
        if let Some(failure) = failure {
            self.state = BuildState::Failed;
            let is_served =
                self.host.plugins().iter().any(|plugin| matches!(plugin.state, crate::host::PluginState::Ready));
            let then = if is_served { "the last component is still served" } else { "nothing is served yet" };
            self.messages.error(&format!("{failure}; {then}"));
            return;
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
        if self.config_watcher.is_none() {
            self.watch_config().await;
        }
    }

    /// Begins to reload on changes, if all files of the config are there.
    async fn watch_config(&mut self) {
        self.reread().await;
        if let Some(missing) = self.settings.missing.take() {
            CliError::Config(missing).report(&self.messages);
            return;
        }
        let watcher = self.host.watch_config(self.project.config_file());
        let watcher = watcher.map(super::serve_locally);
        self.config_watcher = Some(AbortOnDropHandle::new(tokio::spawn(watcher.run())));
        // Of a component that was there before, the first snapshot of the watcher is the one that the host has loaded.
    }

    /// Fetches the listing anew.
    fn refresh_listing(&mut self) {
        if self.fetching.is_some() {
            self.is_stale = true;
            return;
        }
        self.is_stale = false;
        let host = self.host.clone();
        self.fetching = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            host.wait_until_loaded().await;
            let generation = host.generation();
            Fetched { generation, listing: Listing::fetch(&host).await }
        })));
    }

    fn on_fetched(&mut self, fetched: Option<Fetched>) {
        self.fetching = None;
        if self.is_stale {
            self.refresh_listing();
        }
        let Some(Fetched { generation, listing }) = fetched else { return };
        if !listing.errors.is_empty() {
            self.on_failed_listing(generation, listing.errors);
            return;
        }
        let diff = ListingDiff::new(&self.listing, &listing);
        // Before the first component is loaded, only rules and settings are.
        let has_plugins = !self.host.config().plugins.is_empty();
        let is_reload = has_plugins && self.listed_generation.is_some_and(|before| before != generation);
        let is_first = self.listing.items.is_empty() && !listing.items.is_empty();
        self.listed_generation = Some(generation);
        if !diff.is_empty() || is_reload || !self.listing.errors.is_empty() {
            // A change of the data is none of the sources.
            let at = self.changed_at.take().filter(|_| is_reload || is_first);
            let after = at.map(|at| format!(", {} after the change", format_elapsed(at.elapsed())));
            let summary = if is_first { String::new() } else { format!(": {}", diff.summary()) };
            let label = if is_reload || is_first { "reload" } else { "listing" };
            let text = format!("{}{}{summary}", listing.count(), after.unwrap_or_default());
            self.messages.labeled(label, GOOD, &text);
            self.messages.print_lines(&diff.show(self.messages.is_colored()));
        }
        self.listing = listing;
    }

    /// Shows why the listing is incomplete. The next one is compared with the last that was complete.
    fn on_failed_listing(&mut self, generation: u64, errors: Vec<String>) {
        let is_reload = self.listed_generation.replace(generation).is_some_and(|before| before != generation);
        if is_reload || errors != self.listing.errors {
            self.changed_at = None;
            self.messages.labeled("listing", BAD, "it failed; the last one is kept");
            for error in &errors {
                self.messages.error(error);
            }
        }
        self.listing.errors = errors;
    }

    /// Handles a key. Returns whether to quit.
    fn on_key(&mut self, key: Key) -> bool {
        let Key::Pressed(key) = key else {
            // The writer of the status line knows its text only.
            self.messages.writer().set_status(None);
            return false;
        };
        match self.editor.take() {
            Some(editor) => {
                self.edit(editor, key);
                false
            }
            None => self.command(key),
        }
    }

    fn edit(&mut self, mut editor: LineEditor, key: KeyEvent) {
        match editor.press(key) {
            Edited::Typing => self.editor = Some(editor),
            Edited::Cancelled => {}
            Edited::Submitted(typed) => match (typed.trim(), &self.last_read) {
                ("", None) => {}
                ("", Some(uri)) => self.read(uri.clone()),
                (typed, _) => match read::chosen_uri(typed, &self.shown, &self.host) {
                    Ok(uri) => self.read(uri),
                    Err(error) => self.messages.error(&error),
                },
            },
        }
    }

    fn command(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Char('d') if is_control => return true,
            KeyCode::Char('r') => {
                if self.shown != self.listing.uris {
                    self.list();
                }
                self.editor = Some(LineEditor::default());
            }
            KeyCode::Char('l') => self.list(),
            KeyCode::Char('t') => self.test(),
            KeyCode::Char('b') => match self.build {
                Some(_) => self.messages.note("a build is running"),
                None => {
                    self.changed_at = Some(Instant::now());
                    self.start_build("");
                }
            },
            KeyCode::Char('?' | 'h') => self.help(),
            // An empty line, to keep what is above apart.
            KeyCode::Enter => self.messages.print_line(""),
            _ => {}
        }
        false
    }

    fn list(&mut self) {
        self.shown.clone_from(&self.listing.uris);
        match self.listing.show(self.messages.is_colored()) {
            Ok(shown) if shown.is_empty() => self.messages.note("the listing is empty"),
            Ok(shown) => self.messages.print_lines(&shown),
            Err(error) => self.messages.error(&error.to_string()),
        }
    }

    fn read(&mut self, uri: String) {
        let (host, messages) = (self.host.clone(), self.messages.clone());
        self.last_read = Some(uri.clone());
        tokio::spawn(async move { read::read(&host, &uri, &messages).await });
    }

    fn test(&mut self) {
        if self.testing.is_some() {
            return self.messages.note("the test is running");
        }
        let config = self.host.config();
        if config.plugins.is_empty() {
            return self.messages.note("nothing is served yet, so there is nothing to test");
        }
        let tests: Vec<_> = config
            .plugins
            .iter()
            .map(|plugin| (self.context.builder((*config).clone()), plugin.clone(), self.messages.clone()))
            .collect();
        self.testing = Some(Box::pin(async move {
            for (builder, plugin, messages) in tests {
                checks::test(builder, &plugin, &messages).await;
            }
        }));
    }

    fn help(&self) {
        self.messages.print_lines(&format!(
            "r  read a resource: its number, its URI, or its path; Enter reads the last one again\n\
             t  test whether the provider keeps the contract, as `mcp-host test` does\n\
             l  list what clients see\n\
             b  build now: {}\n\
             q  quit, as Ctrl-C does\n\
             Clients connect at {}.\n",
            escape::line(&on_one_line(self.settings.build.as_str())),
            self.url
        ));
    }

    fn show_status(&self, is_interactive: bool) {
        if !is_interactive {
            return;
        }
        let is_colored = self.messages.is_colored();
        let line = match &self.editor {
            Some(editor) => status::prompt(editor, self.last_read.as_deref(), is_colored),
            None => status::status_line(self.state, self.testing.is_some(), &self.listing.count(), is_colored),
        };
        self.messages.writer().set_status(Some(line));
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

/// The end of the build, if one is running.
async fn finished(build: &mut Option<Build>) -> Finished {
    match build {
        Some(build) => build.finished().await,
        None => std::future::pending().await,
    }
}

/// The result of a task, if there is one; none if it panicked, which is logged.
async fn joined<T>(task: &mut Option<AbortOnDropHandle<T>>) -> Option<T> {
    match task {
        Some(task) => task.await.ok(),
        None => std::future::pending().await,
    }
}

/// The end of the test, if one is running.
async fn tested(test: &mut Option<LocalBoxFuture<'static, ()>>) {
    match test {
        Some(test) => test.await,
        None => std::future::pending().await,
    }
}

async fn next_key(terminal: &mut Option<Terminal>) -> Key {
    match terminal {
        Some(terminal) => terminal.next().await,
        None => std::future::pending().await,
    }
}

/// SIGCONT: the process was stopped, and continues.
fn resumed() -> io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))
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
