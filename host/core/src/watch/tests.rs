//! The cost of one client's subscriptions for others: polls of a provider that fails with some paths, polls that
//! subscriptions force, cached responses, and what many sessions cost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_host_config::{Config, PrincipalSelector, Rule};
use mcp_host_engine::plugin::NativePlugin;
use mcp_host_model::provider::{
    ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, async_trait,
};
use mcp_host_model::requester::Requester;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::Update;
use crate::access::Principal;
use crate::host::Host;
use crate::response_cache::{EncodedResources, EncodingForm, ListedResources, ReadResponse};

const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of attempts where the subject is time, and a busy machine may be late.
const ATTEMPTS: usize = 5;
const FORM: EncodingForm = EncodingForm(0);

/// A provider of any path. Its `changes` fails while it watches a path that begins with `bad`.
#[derive(Default)]
struct Paths {
    versions: Mutex<BTreeMap<String, u32>>,
    polls: AtomicUsize,
}

impl Paths {
    fn edit(&self, path: &str) {
        *self.versions.lock().entry(path.to_owned()).or_default() += 1;
    }

    fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }
}

fn entry(path: &str) -> Entry {
    Entry::new(path, path).mime_type("text/plain").subscribable().ttl(Duration::from_secs(3600))
}

#[async_trait]
impl Provider for Paths {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("paths", "1.0.0").watches(true)
    }

    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> {
        Ok(Page::last(self.versions.lock().keys().map(|path| entry(path))))
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        Ok(entry(path))
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        Ok(vec![Contents::text(entry(path), format!("{:?}", self.versions.lock().get(path)))])
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        if watched.iter().any(|path| path.starts_with("bad")) {
            return Err(Failure::internal("a bad path"));
        }
        // The token is the whole state: `path=version`, separated by commas.
        let versions = self.versions.lock().clone();
        let now = versions.iter().map(|(path, version)| format!("{path}={version}")).collect::<Vec<_>>().join(",");
        let Some(since) = since else { return Ok(ChangeSet::none(now)) };
        let before: BTreeMap<&str, &str> = since.split(',').filter_map(|pair| pair.split_once('=')).collect();
        let mut changes = ChangeSet::none(now);
        let version = |path: &String| versions.get(path).map(ToString::to_string);
        changes.changed = watched
            .iter()
            .filter(|path| version(path).as_deref() != before.get(path.as_str()).copied())
            .cloned()
            .collect();
        Ok(if before.len() == versions.len() { changes } else { changes.listing_changed() })
    }
}

/// A host with this provider, visible to all principals, polled at this interval.
async fn start(provider: &Arc<Paths>, dir: &std::path::Path, interval: &str) -> Arc<Host> {
    start_with(provider, dir, interval, |_| ()).await
}

/// The same with another config.
async fn start_with(
    provider: &Arc<Paths>,
    dir: &std::path::Path,
    interval: &str,
    change: impl FnOnce(&mut Config),
) -> Arc<Host> {
    let mut rule = Rule::new([PrincipalSelector::Any]);
    rule.allow = vec!["**".parse().unwrap()];
    let mut config = Config::new();
    config.rules.push(rule);
    change(&mut config);
    let plugin = NativePlugin::new("paths".parse().unwrap(), "paths:///".parse().unwrap(), provider.clone());
    let plugin = plugin.watch_interval(interval.parse().unwrap());
    let builder = Host::builder(config).cache_dir(dir.join("cache")).state_dir(dir.join("state"));
    Arc::new(builder.native_plugin(plugin).start().await.unwrap())
}

/// A host with this provider, and with `hidden` plugins that only the principal `local` may see, which are polled
/// rarely.
async fn start_with_hidden(provider: &Arc<Paths>, dir: &std::path::Path, hidden: usize) -> Arc<Host> {
    let mut rule = Rule::new([PrincipalSelector::Any]);
    rule.allow = vec!["paths:///**".parse().unwrap()];
    let mut config = Config::new();
    config.rules.push(rule);
    let mut builder = Host::builder(config).cache_dir(dir.join("cache")).state_dir(dir.join("state"));
    for name in std::iter::once("paths".to_owned()).chain((0..hidden).map(|number| format!("hidden-{number}"))) {
        let mount = format!("{name}:///").parse().unwrap();
        let plugin = NativePlugin::new(name.parse().unwrap(), mount, provider.clone());
        builder = builder.native_plugin(plugin.watch_interval("1h".parse().unwrap()));
    }
    Arc::new(builder.start().await.unwrap())
}

/// Waits until this many plugins are polled.
async fn wait_for_polled(host: &Host, plugins: usize) {
    let began = Instant::now();
    while host.watch_stats().plugins != plugins {
        assert!(began.elapsed() < TIMEOUT, "{} plugins are polled, expected {plugins}", host.watch_stats().plugins);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A new subscriber of the listing.
async fn listener(host: &Host, principal: &Principal) -> super::Subscriber {
    let subscriber = host.subscriber(principal);
    subscriber.watch_listing();
    timeout(TIMEOUT, subscriber.listing_ready()).await.unwrap();
    subscriber
}

async fn subscribe(host: &Host, subscriber: &super::Subscriber, path: &str) {
    timeout(TIMEOUT, host.subscribe(subscriber, &format!("paths:///{path}"))).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_that_make_a_provider_fail_keep_no_notification_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let provider = Arc::new(Paths::default());
    let host = start(&provider, dir.path(), "100ms").await;
    let ada = host.subscriber(&Principal::new("ada"));
    subscribe(&host, &ada, "before").await;
    ada.watch_listing();
    timeout(TIMEOUT, ada.listing_ready()).await.unwrap();
    // These subscriptions stay pending, and are retried.
    let mallory = host.subscriber(&Principal::new("mallory"));
    let bad: Vec<String> = (0..40).map(|number| format!("paths:///bad-{number}")).collect();
    let maintaining = tokio::spawn({
        let host = host.clone();
        async move { host.maintain_subscriptions(&mallory, &bad).await }
    });
    let began = Instant::now();
    while host.watched_resources(None, 100).len() < 3 {
        assert!(began.elapsed() < TIMEOUT, "they are watched");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for round in 0..5 {
        // One more subscription during the retries.
        let path = format!("while-{round}");
        subscribe(&host, &ada, &path).await;
        let mut expected = vec![Update::Resource("paths:///before".to_owned()), Update::Listing];
        expected.push(Update::Resource(format!("paths:///{path}")));
        for path in ["before", &path] {
            provider.edit(path);
        }
        while !expected.is_empty() {
            let told = timeout(TIMEOUT, ada.next()).await.expect("ada is told");
            expected.retain(|update| *update != told);
        }
    }
    maintaining.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_lacks_memory_goes_on_when_its_client_unsubscribes() {
    let dir = tempfile::tempdir().unwrap();
    let provider = Arc::new(Paths::default());
    // A quarter of it for each principal: room for one long URI, and not for two.
    let host = start_with(&provider, dir.path(), "100ms", |config| {
        config.http.limits.subscription_memory = "64KiB".parse().unwrap();
    });
    let (host, ada) = (host.await, Principal::new("ada"));
    let [first, second] = ["a", "b"].map(|letter| letter.repeat(1000));
    let mut times: Vec<Duration> = Vec::new();
    while times.iter().all(|time| *time >= Duration::from_secs(6)) {
        assert!(times.len() < ATTEMPTS, "{times:?}");
        let before = host.subscriber(&ada);
        subscribe(&host, &before, &first).await;
        let (subscriber, uris) = (host.subscriber(&ada), [format!("paths:///{second}")]);
        let told = async {
            // The second back-off, of 10 s, has begun.
            assert!(timeout(Duration::from_secs(6), subscriber.next()).await.is_err());
            let began = Instant::now();
            drop(before);
            assert_eq!(timeout(TIMEOUT, subscriber.next()).await.unwrap(), Update::Resource(uris[0].clone()));
            began.elapsed()
        };
        tokio::select! {
            never = host.maintain_subscriptions(&subscriber, &uris) => match never {},
            time = told => times.push(time),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_fails_keeps_no_notification_from_the_other_paths_of_its_client() {
    let dir = tempfile::tempdir().unwrap();
    let provider = Arc::new(Paths::default());
    let host = start(&provider, dir.path(), "100ms").await;
    let ada = host.subscriber(&Principal::new("ada"));
    let uris: Vec<String> = ["bad", "good-1", "good-2", "good-3"].map(|path| format!("paths:///{path}")).into();
    let maintaining = host.maintain_subscriptions(&ada, &uris);
    let told = async {
        for path in ["good-1", "good-2", "good-3"] {
            let update = Update::Resource(format!("paths:///{path}"));
            // The subscription is notified once when it becomes active.
            let began = Instant::now();
            let mut count = 0;
            while count < 2 {
                provider.edit(path);
                count += usize::from(timeout(TIMEOUT, ada.next()).await.unwrap() == update);
                assert!(began.elapsed() < TIMEOUT);
            }
        }
    };
    tokio::select! {
        _ = maintaining => {}
        () = told => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribing_to_what_is_polled_already_makes_no_poll() {
    let dir = tempfile::tempdir().unwrap();
    let provider = Arc::new(Paths::default());
    let host = start(&provider, dir.path(), "1h").await;
    let ada = host.subscriber(&Principal::new("ada"));
    subscribe(&host, &ada, "a").await;
    let polls = provider.polls();
    for _ in 0..20 {
        let mallory = host.subscriber(&Principal::new("mallory"));
        subscribe(&host, &mallory, "a").await;
    }
    assert_eq!(provider.polls(), polls);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_subscribes_in_a_loop_forces_some_polls_per_second() {
    let dir = tempfile::tempdir().unwrap();
    let provider = Arc::new(Paths::default());
    let host = start(&provider, dir.path(), "1h").await;
    let ada = host.subscriber(&Principal::new("ada"));
    subscribe(&host, &ada, "a").await;
    let mallory = host.subscriber(&Principal::new("mallory"));
    let mut times: Vec<Duration> = Vec::new();
    while times.iter().all(|time| *time >= Duration::from_secs(4)) {
        let attempt = times.len();
        assert!(attempt < ATTEMPTS, "{times:?}");
        let (began, before) = (Instant::now(), provider.polls());
        for number in 0..28 {
            let path = format!("b-{attempt}-{number}");
            subscribe(&host, &mallory, &path).await;
            host.unsubscribe(&mallory, &format!("paths:///{path}")).unwrap();
        }
        let (polls, seconds) = (provider.polls() - before, began.elapsed().as_secs_f64());
        assert!(polls as f64 <= 21.0 + 4.0 * seconds, "{polls} polls in {seconds} s");
        // No other client waits for this: with the tokens of the first one, 20 polls would take 5 s.
        let bob = host.subscriber(&Principal::new(format!("bob-{attempt}")));
        let began = Instant::now();
        for number in 0..20 {
            subscribe(&host, &bob, &format!("c-{attempt}-{number}")).await;
        }
        times.push(began.elapsed());
    }
}

/// Reads a resource, and returns whether the response was cached.
async fn is_cached(host: &Host, principal: &Principal, path: &str) -> bool {
    let uri = format!("paths:///{path}");
    let encode = async |_| Bytes::from_static(b"[]");
    match host.read_cached(principal, &uri, FORM, encode).await.unwrap() {
        ReadResponse::Contents(_) => false,
        ReadResponse::Encoded { is_hit, .. } => is_hit,
    }
}

/// Returns the time at which the first page of the listing expires.
async fn page_holds_until(host: &Host, principal: &Principal) -> Option<Instant> {
    let encode = async |entries: Vec<mcp_host_model::resource::Resource>| {
        let items = entries.into_iter().map(|entry| (entry.uri, 0)).collect();
        EncodedResources { json: Bytes::new(), items }
    };
    let page = host.list_cached(principal, None, FORM, encode).await.unwrap();
    let now = Instant::now();
    page.items.iter().filter(|item| matches!(item, ListedResources::Encoded(_))).map(|item| now + item.ttl(now)).min()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_drops_the_cached_responses_to_its_resource_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let provider = Arc::new(Paths::default());
    provider.edit("a");
    let host = start(&provider, dir.path(), "1h").await;
    let (ada, mallory) = (Principal::new("ada"), host.subscriber(&Principal::new("mallory")));
    // The first response with a time to live switches the cache on, and the very first poll drops cached pages of the
    // listing.
    subscribe(&host, &mallory, "first").await;
    for path in ["a", "b"] {
        is_cached(&host, &ada, path).await;
        is_cached(&host, &ada, path).await;
        assert!(is_cached(&host, &ada, path).await);
    }
    let holds_until = page_holds_until(&host, &ada).await.expect("the page is cached");
    for _ in 0..3 {
        subscribe(&host, &mallory, "b").await;
        host.unsubscribe(&mallory, "paths:///b").unwrap();
    }
    assert!(is_cached(&host, &ada, "a").await, "another resource");
    assert!(!is_cached(&host, &ada, "b").await);
    let now_until = page_holds_until(&host, &ada).await.unwrap();
    assert!(now_until.duration_since(holds_until) < Duration::from_millis(5), "the page is the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_notification_no_older_response_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let provider = Arc::new(Paths::default());
    let host = start(&provider, dir.path(), "100ms").await;
    let (ada, other) = (Principal::new("ada"), host.subscriber(&Principal::new("other")));
    subscribe(&host, &other, "a").await;
    // The first response with a time to live switches the cache on.
    is_cached(&host, &ada, "a").await;
    for _ in 0..5 {
        is_cached(&host, &ada, "a").await;
        is_cached(&host, &ada, "b").await;
        assert!(is_cached(&host, &ada, "a").await && is_cached(&host, &ada, "b").await);
        provider.edit("a");
        while timeout(TIMEOUT, other.next()).await.unwrap() != Update::Resource("paths:///a".to_owned()) {}
        assert!(!is_cached(&host, &ada, "a").await);
        assert!(is_cached(&host, &ada, "b").await, "another resource");
    }
}

/// A client without credentials at an address.
fn anonymous(number: u8) -> Requester {
    Requester::Address(std::net::Ipv4Addr::new(192, 0, 2, number).into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_makes_a_provider_fail_may_force_fewer_polls_and_nobody_else_without_credentials() {
    let dir = tempfile::tempdir().unwrap();
    let provider = Arc::new(Paths::default());
    let host = start(&provider, dir.path(), "1h").await;
    let (mallory, bob) = (host.subscriber(&Principal::ANONYMOUS), host.subscriber(&Principal::ANONYMOUS));
    // The burst that a client may force.
    let subscribe_all = async |requester: Requester, subscriber: &super::Subscriber, name: &str| {
        let began = Instant::now();
        for number in 0..20 {
            requester.clone().scope(subscribe(&host, subscriber, &format!("{name}-{number}"))).await;
        }
        began.elapsed()
    };
    let mut times: Vec<(Duration, Duration)> = Vec::new();
    while times.iter().all(|(charged, other)| *charged <= Duration::from_millis(1500) || charged <= other) {
        let attempt = times.len();
        assert!(attempt < ATTEMPTS, "of who is charged, and of the other client: {times:?}");
        // Other clients than in the last attempt.
        let [one, another] = [1, 2].map(|number| anonymous(u8::try_from(2 * attempt).unwrap() + number));
        let bad = format!("paths:///bad-{attempt}");
        let failing = one.clone().scope(host.subscribe(&mallory, &bad));
        assert!(timeout(TIMEOUT, failing).await.unwrap().is_err());
        let charged = subscribe_all(one, &mallory, &format!("a-{attempt}")).await;
        let other = subscribe_all(another, &bob, &format!("b-{attempt}")).await;
        times.push((charged, other));
    }
}

/// The time in which the tasks of all plugins have become idle.
const SETTLED: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_unsubscribes_or_leaves_costs_the_same_however_many_sessions_and_hidden_plugins_there_are() {
    // The look-ups of policies for a subscription that ends, and for a session that ends and one that begins.
    let count = async |sessions: usize, hidden: usize| {
        let dir = tempfile::tempdir().unwrap();
        let host = start_with_hidden(&Arc::new(Paths::default()), dir.path(), hidden).await;
        let mallory = Principal::new("mallory");
        let mut idle = vec![listener(&host, &mallory).await];
        for _ in 1..sessions {
            let subscriber = host.subscriber(&mallory);
            subscriber.watch_listing();
            idle.push(subscriber);
        }
        let subscriber = host.subscriber(&mallory);
        subscribe(&host, &subscriber, "a").await;
        tokio::time::sleep(SETTLED).await;
        let lookups = || subscriber.hub.context.access.load().lookups();
        let before = lookups();
        host.unsubscribe(&subscriber, "paths:///a").unwrap();
        tokio::time::sleep(SETTLED).await;
        let unsubscribed = lookups() - before;
        drop(idle.pop());
        let another = host.subscriber(&mallory);
        another.watch_listing();
        tokio::time::sleep(SETTLED).await;
        (unsubscribed, lookups() - before - unsubscribed)
    };
    for (sessions, hidden) in [(2, 0), (300, 20)] {
        let (unsubscribed, left) = count(sessions, hidden).await;
        assert!(unsubscribed < 10 && left < 10, "{unsubscribed} and {left} with {sessions} sessions, {hidden} hidden");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_is_polled_while_somebody_may_see_it_and_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let host = start_with_hidden(&Arc::new(Paths::default()), dir.path(), 3).await;
    let mallory = Principal::new("mallory");
    let (first, second) = (listener(&host, &mallory).await, listener(&host, &mallory).await);
    wait_for_polled(&host, 1).await;
    let local = listener(&host, &Principal::LOCAL).await;
    wait_for_polled(&host, 4).await;
    timeout(TIMEOUT, host.subscribe(&local, "hidden-1:///a")).await.unwrap().unwrap();
    subscribe(&host, &first, "a").await;
    // Longer than a plugin without subscribers is still watched.
    let linger = Duration::from_millis(2500);
    host.unsubscribe(&first, "paths:///a").unwrap();
    host.unsubscribe(&local, "hidden-1:///a").unwrap();
    drop(first);
    tokio::time::sleep(linger).await;
    assert_eq!(host.watch_stats().plugins, 4, "the listing is watched");
    timeout(TIMEOUT, host.subscribe(&local, "hidden-1:///a")).await.unwrap().unwrap();
    local.unwatch_listing();
    wait_for_polled(&host, 2).await;
    tokio::time::sleep(linger).await;
    assert_eq!(host.watch_stats().plugins, 2, "one resource of a hidden plugin is watched");
    host.unsubscribe(&local, "hidden-1:///a").unwrap();
    wait_for_polled(&host, 1).await;
    // Its listing is known again when it returns.
    local.watch_listing();
    timeout(TIMEOUT, local.listing_ready()).await.unwrap();
    wait_for_polled(&host, 4).await;
    subscribe(&host, &second, "a").await;
    drop(local);
    wait_for_polled(&host, 1).await;
    drop(second);
    wait_for_polled(&host, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_that_comes_to_see_a_plugin_has_it_polled_and_is_told_of_its_listing() {
    let dir = tempfile::tempdir().unwrap();
    let provider = Arc::new(Paths::default());
    let host = start_with_hidden(&provider, dir.path(), 2).await;
    let mallory = listener(&host, &Principal::new("mallory")).await;
    wait_for_polled(&host, 1).await;
    provider.edit("a");
    for (allow, polled) in [("**", 3), ("paths:///**", 1), ("none:///**", 0), ("**", 3)] {
        let mut rule = Rule::new([PrincipalSelector::Any]);
        rule.allow = vec![allow.parse().unwrap()];
        let mut config = Config::new();
        config.rules.push(rule);
        host.reload(config).await.unwrap();
        assert_eq!(
            timeout(TIMEOUT, mallory.next()).await.unwrap_or_else(|_| panic!("the listing is another: {allow}")),
            Update::Listing
        );
        wait_for_polled(&host, polled).await;
    }
}
