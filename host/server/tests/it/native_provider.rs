//! Native providers: a host without any component.

use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::limits::Limits;
use mcp_resource_host::config::{Config, Plugin, PrincipalSelector, Rule, WatchInterval};
use mcp_resource_host::engine::{Engine, EngineOptions};
use mcp_resource_host::plugin::{FaultKind, NativePlugin};
use mcp_resource_host::provider::{
    ChangeSet, Contents, Entry, Failure, Icon, Page, Provider, ProviderInfo, Result, Template, async_trait,
};
use mcp_resource_host::resource::{self, Argument, Completion, Error};
use mcp_resource_host::uri::Mount;
use mcp_resource_host::{
    CompleteRequest, Host, HostBuilder, ListRequest, NativePluginConflict, PluginState, ReloadError, StartError, Update,
};
use tempfile::TempDir;

/// A value whose destructor panics.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("while being dropped");
    }
}

/// A provider that panics in `describe`.
struct Indescribable;

#[async_trait]
impl Provider for Indescribable {
    fn describe(&self) -> ProviderInfo {
        panic!("no\nwords");
    }

    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> {
        Ok(Page::default())
    }

    async fn stat(&self, _: &str) -> Result<Entry> {
        Err(Failure::NotFound)
    }

    async fn read(&self, _: &str) -> Result<Vec<Contents>> {
        Err(Failure::NotFound)
    }
}

/// Numbered notes: `0`, `1`, …. Other paths select other behavior.
#[derive(Default)]
struct Notes {
    count: usize,
    /// Makes all calls panic, including the listing.
    is_broken: AtomicBool,
    calls: AtomicUsize,
    changed: Mutex<Vec<String>>,
}

impl Notes {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { count, ..Self::default() })
    }

    fn entry(&self, path: &str) -> Result<Entry> {
        match path.parse::<usize>() {
            Ok(number) if number < self.count => {
                Ok(Entry::new(path, format!("Note {number}")).mime_type("text/plain").subscribable())
            }
            _ => Err(Failure::NotFound),
        }
    }

    fn call(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(!self.is_broken.load(Ordering::SeqCst), "the notes are\nbroken");
    }
}

#[async_trait]
impl Provider for Notes {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("notes", "1.0.0").title("t".repeat(2000)).watches(true)
    }

    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        self.call();
        if parent.is_some() {
            return Err(Failure::invalid("no parent"));
        }
        let start: usize = cursor.map_or(Ok(0), str::parse).map_err(|_| Failure::invalid("a number"))?;
        let end = self.count.min(start + limit.min(7));
        let entries = (start..end).map(|number| self.entry(&number.to_string())).collect::<Result<_>>()?;
        Ok(Page { entries, next_cursor: (end < self.count).then(|| end.to_string()) })
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        self.call();
        match path {
            "escape" => Ok(vec![Contents::text(Entry::new("../other/0", "elsewhere"), "")]),
            "panic" => panic!("a \x1b[2Jpanic"),
            "sleep" => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                Err(Failure::internal("it was not ended"))
            }
            "sleep-and-panic" => {
                let _held = PanicsOnDrop;
                tokio::time::sleep(Duration::from_secs(60)).await;
                Err(Failure::internal("it was not ended"))
            }
            "spin-and-panic" => {
                let _held = PanicsOnDrop;
                loop {
                    std::hint::black_box((0..100_000).sum::<u64>());
                    tokio::task::yield_now().await;
                }
            }
            "panic-of-payload" => panic_any(PanicsOnDrop),
            "panic-at-end" => {
                let _held = PanicsOnDrop;
                Err(Failure::NotFound)
            }
            "spin" => loop {
                for number in 0..100_000 {
                    std::hint::black_box(number);
                }
                tokio::task::yield_now().await;
            },
            "large" => Ok(vec![Contents::blob(Entry::new("large", "large"), vec![0; 4 << 20])]),
            "denied" => Err(Failure::denied("not for you")),
            _ => Ok(vec![Contents::text(self.entry(path)?, format!("The text of {path}"))]),
        }
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        self.call();
        self.entry(path)
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        Ok(vec![Template::new("{number}", "note").title("A note by its number")])
    }

    async fn complete(&self, template: &str, argument: &Argument, _: &[Argument]) -> Result<Completion> {
        if template != "{number}" {
            return Err(Failure::invalid("`{number}`"));
        }
        Ok(Completion::matching((0..self.count).map(|number| number.to_string()), &argument.value))
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        let mut changes = ChangeSet::none("now");
        if since.is_some() {
            let changed = std::mem::take(&mut *self.changed.lock().unwrap());
            changes.changed = changed.into_iter().filter(|path| watched.contains(path)).collect();
        }
        Ok(changes)
    }
}

/// The minimum that a provider must have, and invalid hints.
struct Minimal;

#[async_trait]
impl Provider for Minimal {
    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> {
        let good = Entry::new("good", "good").priority(7.0).icon(Icon::new("file:///etc/passwd"));
        Ok(Page::last([Entry::new("../outside", "outside"), good]))
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        Ok(vec![Contents::text(self.stat(path).await?, "")])
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        if path == "good" { Ok(Entry::new("good", "good")) } else { Err(Failure::NotFound) }
    }
}

/// A host and its directories.
struct Fixture {
    host: Host,
    config: Config,
    _dir: TempDir,
}

fn config(dir: &TempDir) -> Config {
    let mut config = Config::new();
    config.server.cache = Some(dir.path().join("cache"));
    config.server.state = Some(dir.path().join("state"));
    config.server.page_size = 10.try_into().unwrap();
    config
}

fn small_engine() -> Arc<Engine> {
    Engine::new(EngineOptions::new().max_instances(2).worker_threads(2)).unwrap()
}

impl Fixture {
    async fn start(mount: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = config(&dir);
        let host = mount(Host::builder(config.clone()).engine(small_engine())).start().await.unwrap();
        Self { host, config, _dir: dir }
    }

    async fn notes(count: usize) -> (Self, Arc<Notes>) {
        let notes = Notes::new(count);
        let plugin = plugin(&notes);
        (Self::start(|builder| builder.native_plugin(plugin)).await, notes)
    }

    async fn read(&self, path: &str) -> Result<Vec<resource::ResourceContents>, Error> {
        self.host.read(&Principal::LOCAL, &format!("notes:///{path}")).await
    }

    /// The number of faults of this kind of the only plugin.
    fn faults(&self, kind: FaultKind) -> u64 {
        self.host.plugins().iter().filter_map(|plugin| plugin.faults.get(&kind)).sum()
    }
}

/// Little CPU time and small answers.
fn limits() -> Limits {
    Limits { cpu: "50ms".parse().unwrap(), response_size: "1MiB".parse().unwrap(), ..Limits::default() }
}

/// The notes at their mount, which are polled often.
fn plugin(notes: &Arc<Notes>) -> NativePlugin {
    let interval: WatchInterval = "100ms".parse().unwrap();
    NativePlugin::new("notes".parse().unwrap(), mount("notes:///"), notes.clone())
        .limits(limits())
        .watch_interval(interval)
        .title("Mine")
}

fn mount(text: &str) -> Mount {
    text.parse().unwrap()
}

#[tokio::test]
async fn listings_of_native_providers_are_merged_page_by_page() {
    let (first, second) = (Notes::new(25), Notes::new(3));
    let fixture = Fixture::start(|builder| {
        builder.provider("b".parse().unwrap(), mount("b:///"), second).provider(
            "a".parse().unwrap(),
            mount("a:///"),
            first,
        )
    })
    .await;
    let (mut uris, mut cursor, mut sizes) = (Vec::new(), None::<String>, Vec::new());
    loop {
        let request = ListRequest { parent: None, cursor: cursor.as_deref() };
        let page = fixture.host.list(&Principal::LOCAL, request).await.unwrap();
        assert!(page.missing.is_empty(), "{:?}", page.missing);
        sizes.push(page.items.len());
        uris.extend(page.items.into_iter().map(|entry| entry.uri.as_str().to_owned()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let expected = (0..25).map(|n| format!("a:///{n}")).chain((0..3).map(|n| format!("b:///{n}")));
    assert_eq!(uris, expected.collect::<Vec<_>>());
    assert_eq!(sizes, [10, 10, 8]);
}

#[tokio::test]
async fn a_resource_is_read_described_and_completed() {
    let (fixture, _) = Fixture::notes(12).await;
    let contents = fixture.read("%31").await.unwrap();
    assert_eq!(contents[0].entry.uri.as_str(), "notes:///1");
    assert_eq!((contents[0].entry.size, contents[0].body.as_bytes()), (Some(13), b"The text of 1".as_slice()));
    assert_eq!(fixture.host.metadata(&Principal::LOCAL, "notes:///2").await.unwrap().name, "Note 2");
    let missing = fixture.read("99").await.unwrap_err();
    assert_eq!(missing, Error::NotFound { uri: "notes:///99".to_owned() });
    assert_eq!(fixture.read("denied").await.unwrap_err(), Error::Denied { message: "not for you".to_owned() });

    let templates = fixture.host.templates(&Principal::LOCAL, None).await.unwrap();
    assert_eq!(templates.items[0].title.as_deref(), Some("Mine: A note by its number"));
    let template = templates.items[0].uri_template.as_str();
    assert_eq!(template, "notes:///{number}");
    let argument = Argument::new("number", "1");
    let request = CompleteRequest { template, argument, context: Vec::new() };
    let completion = fixture.host.complete(&Principal::LOCAL, request).await.unwrap();
    assert_eq!(completion.values, ["1", "10", "11"]);
}

#[tokio::test]
async fn what_only_the_required_functions_answer_is_validated_as_for_a_component() {
    let fixture =
        Fixture::start(|builder| builder.provider("minimal".parse().unwrap(), mount("minimal:///"), Minimal)).await;
    let page = fixture.host.list(&Principal::LOCAL, ListRequest::default()).await.unwrap();
    let [entry] = &page.items[..] else { panic!("{page:?}") };
    assert_eq!(entry.uri.as_str(), "minimal:///good");
    assert!(entry.annotations.is_empty() && entry.icons.is_empty());
    assert_eq!(fixture.faults(FaultKind::Contract), 3, "a path, a priority and an icon");
    assert!(fixture.host.templates(&Principal::LOCAL, None).await.unwrap().items.is_empty());
    assert!(!fixture.host.supports_subscriptions(&Principal::LOCAL));
}

#[tokio::test]
async fn a_path_that_leaves_the_mount_fails_its_read() {
    let (fixture, _) = Fixture::notes(1).await;
    assert_eq!(fixture.read("escape").await.unwrap_err(), Error::Internal { plugin: "notes".to_owned() });
    assert_eq!(fixture.faults(FaultKind::Contract), 1);
    fixture.read("0").await.unwrap();
}

#[tokio::test]
async fn a_panic_ends_its_call_only() {
    let (fixture, _) = Fixture::notes(1).await;
    for (number, path) in (1..).zip(["panic", "panic-of-payload", "panic-at-end"]) {
        let error = fixture.read(path).await.unwrap_err();
        assert_eq!(error, Error::Internal { plugin: "notes".to_owned() }, "{path}");
        assert_eq!(fixture.faults(FaultKind::Panic), number, "{path}");
        fixture.read("0").await.unwrap();
    }
}

#[tokio::test]
async fn a_panic_in_describe_is_an_error_of_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let builder =
        || Host::builder(config(&dir)).provider("words".parse().unwrap(), "words:///".parse().unwrap(), Indescribable);
    let errors = [builder().start().await.unwrap_err(), builder().check().await.unwrap_err()];
    for error in errors {
        assert!(matches!(error, StartError::Describe { .. }), "{error:?}");
        assert_eq!(error.to_string(), "the native provider of plugin `words` panicked in `describe`: no\\nwords");
    }
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_when_its_cpu_time_is_used_up() {
    for (path, kind, deadline) in [
        // The read after it has to finish within this time, too.
        ("sleep", FaultKind::Deadline, "5s"),
        ("sleep-and-panic", FaultKind::Deadline, "5s"),
        ("spin", FaultKind::Cpu, "1m"),
        ("spin-and-panic", FaultKind::Cpu, "1m"),
    ] {
        let mut plugin_limits = limits();
        plugin_limits.deadline = deadline.parse().unwrap();
        let plugin = plugin(&Notes::new(1)).limits(plugin_limits);
        let fixture = Fixture::start(|builder| builder.native_plugin(plugin)).await;
        let error = fixture.read(path).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{path}: {error}");
        assert_eq!(fixture.faults(kind), 1, "{path}");
        fixture.read("0").await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_fails() {
    let (fixture, _) = Fixture::notes(1).await;
    let error = fixture.read("large").await.unwrap_err();
    assert!(error.to_string().contains("larger than the 1.0 MiB allowed"), "{error}");
    assert_eq!(fixture.faults(FaultKind::ResponseSize), 1);
}

#[tokio::test]
async fn the_circuit_breaker_opens_after_five_failures_and_a_failed_probe() {
    let (fixture, notes) = Fixture::notes(1).await;
    notes.is_broken.store(true, Ordering::SeqCst);
    for _ in 0..5 {
        fixture.read("0").await.unwrap_err();
    }
    assert_eq!(notes.calls.load(Ordering::SeqCst), 5);
    let suspended = fixture.read("0").await.unwrap_err();
    assert!(matches!(suspended, Error::Unavailable { retry_after: Some(_), .. }), "{suspended}");
    assert_eq!(notes.calls.load(Ordering::SeqCst), 6, "the probe");
    fixture.read("0").await.unwrap_err();
    assert_eq!(notes.calls.load(Ordering::SeqCst), 6, "it is left alone");
    assert!(matches!(fixture.host.plugins()[0].state, PluginState::Suspended(_)));

    notes.is_broken.store(false, Ordering::SeqCst);
    let recovered = async {
        while fixture.read("0").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), recovered).await.unwrap();
}

#[tokio::test]
async fn a_change_is_delivered_to_subscribers() {
    let (fixture, notes) = Fixture::notes(3).await;
    assert!(fixture.host.supports_subscriptions(&Principal::LOCAL));
    let subscriber = fixture.host.subscriber(&Principal::LOCAL);
    fixture.host.subscribe(&subscriber, "notes:///1").await.unwrap();
    let report = async {
        loop {
            notes.changed.lock().unwrap().push("1".to_owned());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let update = tokio::select! {
        update = subscriber.next() => update,
        () = report => unreachable!("it goes on"),
        () = tokio::time::sleep(Duration::from_secs(120)) => panic!("no update"),
    };
    assert_eq!(update, Update::Resource("notes:///1".to_owned()));
}

#[tokio::test]
async fn a_reload_keeps_native_providers_and_refuses_what_conflicts_with_them() {
    let (fixture, notes) = Fixture::notes(1).await;
    fixture.read("panic").await.unwrap_err();
    let report = fixture.host.reload(fixture.config.clone()).await.unwrap();
    assert!(report.is_unchanged(), "{report:?}");
    let component = |name: &str, at: &str| Plugin::new(name.parse().unwrap(), "missing.wasm", mount(at));
    for (plugin, is_expected) in [
        (
            component("notes", "other:///"),
            (|conflict| matches!(conflict, NativePluginConflict::Names(_))) as fn(&_) -> bool,
        ),
        (component("other", "notes:///below/"), |conflict| matches!(conflict, NativePluginConflict::Mounts(_))),
    ] {
        let config = fixture.config.clone().plugin(plugin).unwrap();
        let Err(ReloadError::Conflict(conflict)) = fixture.host.reload(config).await else { panic!("a conflict") };
        assert!(is_expected(&conflict), "{conflict}");
    }
    let mut renamed = fixture.config.clone();
    renamed.server.page_size = 5.try_into().unwrap();
    assert!(fixture.host.reload(renamed).await.unwrap().removed.is_empty());
    assert_eq!(fixture.faults(FaultKind::Panic), 1, "it is the same plugin");
    fixture.read("0").await.unwrap();
    assert_eq!(notes.calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn native_providers_of_one_name_or_mount_do_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let engine = small_engine();
    let start = |name: &str, at: &str| {
        Host::builder(config(&dir))
            .engine(engine.clone())
            .provider("a".parse().unwrap(), mount("a:///"), Minimal)
            .provider(name.parse().unwrap(), mount(at), Minimal)
            .start()
    };
    let error = start("a", "b:///").await.unwrap_err();
    assert!(matches!(error, StartError::Conflict(NativePluginConflict::Names(_))), "{error}");
    let error = start("b", "a:///b/").await.unwrap_err();
    assert!(matches!(error, StartError::Conflict(NativePluginConflict::Mounts(_))), "{error}");
    start("b", "b:///").await.unwrap();
}

#[tokio::test]
async fn a_check_takes_native_providers_into_account() {
    let dir = tempfile::tempdir().unwrap();
    let engine = small_engine();
    let mut rule = Rule::new([PrincipalSelector::Any]);
    rule.allow = vec!["a:///**".parse().unwrap(), "nowhere:///**".parse().unwrap()];
    let mut config = config(&dir);
    config.rules.push(rule);
    let check = |name: &str| {
        Host::builder(config.clone())
            .engine(engine.clone())
            .provider("a".parse().unwrap(), mount("a:///"), Minimal)
            .provider(name.parse().unwrap(), mount("b:///"), Minimal)
            .check()
    };
    let warnings = check("b").await.unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].to_string().contains("nowhere:///**"), "{warnings:?}");
    let error = check("a").await.unwrap_err();
    assert!(matches!(error, StartError::Conflict(NativePluginConflict::Names(_))), "{error}");
}

#[tokio::test]
async fn hosts_that_share_an_engine_answer_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let engine = small_engine();
    let mut hosts = Vec::new();
    for _ in 0..3 {
        let builder = Host::builder(config(&dir)).engine(engine.clone());
        hosts.push(builder.native_plugin(plugin(&Notes::new(1))).start().await.unwrap());
    }
    drop(hosts.pop());
    for host in &hosts {
        host.read(&Principal::LOCAL, "notes:///0").await.unwrap();
    }
}

/// The config with a rule that denies every principal these URIs.
fn config_denying(config: &Config, glob: &str) -> Config {
    let mut rule = Rule::new([PrincipalSelector::Any]);
    rule.deny.push(glob.parse().unwrap());
    config.clone().rule(rule)
}

#[tokio::test]
async fn rules_apply_although_the_reload_is_dropped_while_they_are_compiled() {
    let (fixture, _) = Fixture::notes(2).await;
    // Rules are compiled on another thread, which almost never finishes before the first poll.
    drop(fixture.host.reload(config_denying(&fixture.config, "notes:///0")).now_or_never());
    while fixture.host.generation() == 1 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(fixture.read("0").await, Err(Error::NotFound { .. })));
    fixture.read("1").await.unwrap();
}

#[tokio::test]
async fn of_two_reloads_at_once_the_rules_of_the_later_one_apply() {
    let (fixture, _) = Fixture::notes(2).await;
    let reload = |path: &str| fixture.host.reload(config_denying(&fixture.config, &format!("notes:///{path}")));
    for (earlier, later) in [("0", "1"), ("1", "0")] {
        let (superseded, reloaded) = tokio::join!(reload(earlier), reload(later));
        // On a fast machine the first reload may have ended before the second began.
        assert!(matches!(superseded, Ok(_) | Err(ReloadError::Superseded)), "{superseded:?}");
        reloaded.unwrap();
        assert!(matches!(fixture.read(later).await, Err(Error::NotFound { .. })));
        fixture.read(earlier).await.unwrap();
    }
}
