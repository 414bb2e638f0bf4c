//! The event loop: handles builds, reloads and keys one at a time.
//!
//! Long operations run in the background: the build, the listing, reads and the test. Each kind runs at most once at a
//! time, except reads, which the limits of the plugin bound.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use futures::future::LocalBoxFuture;
use mcp_host_base::task;
use mcp_host_server::ServeError;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::{Host, PluginState};
use mcp_resource_host::watch::{Subscriber, Update};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::builds::{BuildEvent, BuildState, Builds, Outcome};
use super::compilations::Compilations;
use super::line_editor::{Edited, LineEditor};
use super::listing::Listing;
use super::listing_diff::ListingDiff;
use super::preparations::Preparations;
use super::project::{Project, Settings};
use super::status::{self, State};
use super::terminal::{Key, Terminal};
use super::{BAD, GOOD, checks, format_elapsed, read};
use crate::context::Context;
use crate::error::CliError;
use crate::escape;
use crate::messages::Messages;
use crate::signals::RepeatedSignal;

/// The interval at which the duration of a build is shown.
const TICK: Duration = Duration::from_secs(1);

/// A project that is being developed and served.
pub(super) struct Session<'c> {
    context: &'c Context,
    messages: Messages,
    host: Arc<Host>,
    /// The URL for clients.
    url: String,
    builds: Builds,
    compilations: Compilations,
    preparations: Preparations,
    /// The watcher that reloads when the config or a component changes. Starts when all files of the config exist.
    config_watcher: Option<AbortOnDropHandle<()>>,
    listing: Listing,
    /// The generation of the listing.
    listed_generation: Option<u64>,
    fetching: Option<AbortOnDropHandle<Fetched>>,
    /// Notified when the listing changes. Exists only while the last fetched listing is complete and belongs to the
    /// last build: a failing listing is then fetched once, and not by the watcher, too.
    follower: Option<Subscriber>,
    /// Whether there was a change after the current fetch of the listing began.
    is_stale: bool,
    /// The running test, which the event loop polls.
    testing: Option<LocalBoxFuture<'static, ()>>,
    /// The prompt for a resource.
    editor: Option<LineEditor>,
    last_read: Option<String>,
    /// The URIs of the last shown listing, by number.
    shown: Vec<String>,
}

/// A listing, and the generation that was served before the fetch.
struct Fetched {
    generation: u64,
    listing: Listing,
}

impl<'c> Session<'c> {
    /// Starts with the first build.
    pub(super) async fn start(
        context: &'c Context,
        project: Project,
        settings: Settings,
        host: Arc<Host>,
        compilations: Compilations,
        url: String,
    ) -> Self {
        let messages = context.messages.clone();
        if super::is_closed(&settings.config) {
            messages.note("the config has no rules: every program on this machine may connect and read everything");
        }
        let mut session = Self {
            context,
            builds: Builds::watch(project, settings, messages.clone()).await,
            messages,
            host,
            url,
            compilations,
            preparations: Preparations::default(),
            config_watcher: None,
            listing: Listing::default(),
            listed_generation: None,
            fetching: None,
            follower: None,
            is_stale: false,
            testing: None,
            editor: None,
            last_read: None,
            shown: Vec::new(),
        };
        session.refresh_listing();
        session.builds.start("");
        session
    }

    /// Runs until a key or a signal ends the session, or the server fails.
    pub(super) async fn run(
        mut self,
        mut terminal: Option<Terminal>,
        shutdown: &CancellationToken,
        mut hangup: RepeatedSignal,
        mut server: JoinHandle<Result<(), ServeError>>,
    ) -> Result<(), CliError> {
        let host = self.host.clone();
        let mut generations = host.generations();
        let mut compilations = self.compilations.subscribe();
        let mut resumed = resumed()?;
        let mut tick = tokio::time::interval(TICK);
        let mut ended = None;
        loop {
            self.show_preparations();
            self.show_status(terminal.is_some());
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = hangup.next() => break,
                result = &mut server => {
                    ended = Some(result);
                    break;
                }
                event = self.builds.event() => self.on_build(event).await,
                Ok(()) = compilations.changed() => {}
                fetched = joined(&mut self.fetching) => self.on_fetched(fetched),
                () = tested(&mut self.testing) => self.testing = None,
                Ok(()) = generations.changed() => self.on_generation(),
                () = listing_changed(&self.follower) => self.refresh_listing(),
                key = next_key(&mut terminal) => if self.on_key(key) { break },
                _ = resumed.recv() => terminal.iter().for_each(Terminal::resume),
                _ = tick.tick() => {}
            }
        }
        // The terminal is restored first: the shutdown may take a while, and a second signal ends the process.
        self.messages.writer().set_status(None);
        drop(terminal);
        self.builds.cancel().await;
        drop(self);
        shutdown.cancel();
        let ended = match ended {
            Some(ended) => ended,
            None => server.await,
        };
        Ok(ended.map_err(|error| CliError::Other(error.into()))??)
    }

    async fn on_build(&mut self, event: BuildEvent) {
        let finished = match event {
            BuildEvent::Changed(change) => {
                return self.builds.on_change(change, self.config_watcher.is_some()).await;
            }
            BuildEvent::Finished(finished) => finished,
        };
        match self.builds.on_finished(finished).await {
            Outcome::Failed(failure) => {
                let is_served = self
                    .host
                    .plugins()
                    .iter()
                    .any(|plugin| matches!(plugin.state, PluginState::Ready | PluginState::Failing(_)));
                let then = if is_served { "the last component is still served" } else { "nothing is served yet" };
                self.messages.error(&format!("{failure}; {then}"));
            }
            Outcome::Succeeded => {
                if self.is_outdated() {
                    // While the new component is not loaded, changes of the data are not shown.
                    self.follower = None;
                } else if self.follower.is_none() && self.fetching.is_none() && self.listing.errors.is_empty() {
                    // The served component is current again, after one that did not load.
                    self.refresh_listing();
                }
                if self.config_watcher.is_none() {
                    self.watch_config().await;
                }
            }
        }
    }

    fn on_generation(&mut self) {
        self.follower = None;
        self.refresh_listing();
    }

    /// Starts to reload on changes, if all files of the config exist.
    async fn watch_config(&mut self) {
        self.builds.reread(false).await;
        if let Some(missing) = self.builds.settings().missing.take() {
            CliError::Config(missing).report(&self.messages);
            return;
        }
        let watcher = self.host.watch_config(self.builds.project().config_file());
        let watcher = watcher.map(super::serve_locally);
        self.config_watcher = Some(AbortOnDropHandle::new(task::spawn(watcher.run())));
        // If the component existed before, the watcher's first snapshot has the version that the host has loaded.
    }

    /// Fetches the listing again.
    fn refresh_listing(&mut self) {
        if self.fetching.is_some() {
            self.is_stale = true;
            return;
        }
        self.is_stale = false;
        let host = self.host.clone();
        self.fetching = Some(AbortOnDropHandle::new(task::spawn(async move {
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
        self.follow_listing();
        let diff = ListingDiff::new(&self.listing, &listing);
        // Before the first component is loaded, only rules and settings can be reloaded.
        let has_plugins = !self.host.config().plugins.is_empty();
        let is_reload = has_plugins && self.listed_generation.is_some_and(|before| before != generation);
        let is_first = self.listing.items.is_empty() && !listing.items.is_empty();
        self.listed_generation = Some(generation);
        if !diff.is_empty() || is_reload || !self.listing.errors.is_empty() {
            // A change of the data is not a change of the sources.
            let at = self.builds.take_changed_at().filter(|_| is_reload || is_first);
            let after = at.map(|at| format!(", {} after the change", format_elapsed(at.elapsed())));
            let summary = if is_first { String::new() } else { format!(": {}", diff.summary()) };
            let label = if is_reload || is_first { "reload" } else { "listing" };
            let text = format!("{}{}{summary}", listing.count(), after.unwrap_or_default());
            self.messages.labeled(label, GOOD, &text);
            self.messages.print_lines(&diff.show(self.messages.is_colored()));
        }
        self.listing = listing;
    }

    /// Fetches the listing again on each change. Changes before the first poll of the provider are shown with the next
    /// change.
    fn follow_listing(&mut self) {
        if self.follower.is_none() && !self.is_outdated() {
            let follower = self.host.subscriber(&Principal::LOCAL);
            follower.watch_listing();
            self.follower = Some(follower);
        }
    }

    /// Shows why the listing is incomplete. The next listing is compared with the last complete one.
    fn on_failed_listing(&mut self, generation: u64, errors: Vec<String>) {
        let is_reload = self.listed_generation.replace(generation).is_some_and(|before| before != generation);
        if is_reload || errors != self.listing.errors {
            self.builds.take_changed_at();
            self.messages.labeled("listing", BAD, "it failed; the last one is kept");
            for error in &errors {
                self.messages.error(error);
            }
        }
        self.listing.errors = errors;
        self.follower = None;
    }

    /// Handles a key. Returns whether to quit.
    fn on_key(&mut self, key: Key) -> bool {
        let Key::Pressed(key) = key else {
            // The writer of the status line knows only its text, and not the width of the terminal.
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
            KeyCode::Char('b') if self.builds.is_running() => self.messages.note("a build is running"),
            KeyCode::Char('b') => self.builds.start_now(),
            KeyCode::Char('?' | 'h') => self.help(),
            // The user adds an empty line as a separator.
            KeyCode::Enter => self.messages.print_line(""),
            _ => {}
        }
        false
    }

    /// Whether a build has made another component than the served one.
    fn is_outdated(&self) -> bool {
        let (config, served) = (self.host.config(), self.host.plugins());
        served.iter().any(|served| {
            let plugin = config.plugins.iter().find(|plugin| plugin.name.as_str() == served.name);
            let built = plugin.and_then(|plugin| self.builds.digest_of(&plugin.component));
            served.digest.is_some() && built.is_some() && served.digest != built
        })
    }

    fn note_if_outdated(&self) {
        if self.is_outdated() {
            let state = if self.compilations.since().is_some() { "being compiled" } else { "not loaded" };
            self.messages.note(&format!("the new component is {state}; this is of the last one"));
        }
    }

    fn list(&mut self) {
        self.note_if_outdated();
        if !self.listing.errors.is_empty() {
            self.refresh_listing();
        }
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
        self.note_if_outdated();
        task::spawn(async move { read::read(&host, &uri, &messages).await });
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
            escape::line(&self.builds.command()),
            self.url
        ));
    }

    fn state(&self) -> State {
        match (self.builds.state(), self.compilations.since()) {
            (BuildState::Running(since), _) => State::Building(since),
            (_, Some(since)) => State::Compiling(since),
            (BuildState::Failed, None) => State::BuildFailed,
            (BuildState::Succeeded, None) if self.testing.is_some() => State::Testing,
            (BuildState::Succeeded, None) => self.preparations.running().map_or(State::Ready, State::Preparing),
        }
    }

    /// Shows new states of preparations. Prepared data may change the listing.
    fn show_preparations(&mut self) {
        let (news, is_prepared) = self.preparations.look_at(self.host.plugins());
        for (color, line) in news {
            self.messages.labeled("prepare", color, &line);
        }
        if is_prepared {
            self.refresh_listing();
        }
    }

    fn show_status(&self, is_interactive: bool) {
        if !is_interactive {
            return;
        }
        let is_colored = self.messages.is_colored();
        let line = match &self.editor {
            Some(editor) => status::prompt(editor, self.last_read.as_deref(), is_colored),
            None => status::status_line(self.state(), &self.listing.count(), is_colored),
        };
        self.messages.writer().set_status(Some(line));
    }
}

/// The result of a task; `None` if the task panicked, which is logged.
async fn joined<T>(task: &mut Option<AbortOnDropHandle<T>>) -> Option<T> {
    match task {
        Some(task) => task.await.ok(),
        None => std::future::pending().await,
    }
}

/// Waits for the next change of the listing, if there is a subscriber.
async fn listing_changed(follower: &Option<Subscriber>) {
    match follower {
        Some(follower) => while follower.next().await != Update::Listing {},
        None => std::future::pending().await,
    }
}

/// Waits for the end of the test, if one is running.
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

/// SIGCONT: the process continues after a stop.
fn resumed() -> io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))
}
