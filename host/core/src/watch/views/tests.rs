//! Views of a native provider whose data depend on the caller.
#![cfg(feature = "upstream")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_config::{Config, Environment};
use mcp_host_engine::plugin::NativePlugin;
use mcp_host_model::caller::{AccessToken, Caller, Identity};
use mcp_host_model::provider::{
    ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, async_trait,
};
use mcp_host_model::resource::Error;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::super::{Subscriber, Update};
use super::table::MAX_VIEWS_OF_PRINCIPAL;
use crate::access::Principal;
use crate::host::Host;

const TIMEOUT: Duration = Duration::from_secs(60);
/// So long that a change is noticed without it.
const LONG: &str = "1h";
/// What stands for the listing among the versions.
const LISTING: &str = "#";
/// The time in which a wrong update would have come.
const QUIET: Duration = Duration::from_millis(300);

/// A provider with an identity for each access token, else for the group `team`, else for each principal but `nobody`.
struct Users {
    max: usize,
    versions: Mutex<BTreeMap<(String, String), u32>>,
    /// Notified of a change of this user's data.
    changed: Mutex<BTreeMap<String, Arc<Notify>>>,
    /// What each user's listing has.
    listings: Mutex<BTreeMap<String, Vec<String>>>,
    /// The users whose listing was walked.
    walked: Mutex<Vec<String>>,
    /// The users whose listing is not to be watched.
    inactive: Mutex<BTreeSet<String>>,
    /// Notified when a user is active again.
    activated: Notify,
    /// The users for which `changes` was called, with the watched paths.
    calls: Mutex<Vec<(String, Vec<String>)>>,
    /// The identities whose view has ended.
    ended: Mutex<Vec<Identity>>,
}

fn user(caller: &Caller) -> Option<String> {
    let token = caller.access_token().map(|token| token.expose().to_owned());
    let team = || caller.is_member_of("team").then(|| "team".to_owned());
    token.or_else(team).or_else(|| caller.name().map(str::to_owned)).filter(|name| name != "corp/nobody")
}

fn current() -> Option<String> {
    user(&Caller::current()?)
}

impl Users {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            versions: Mutex::default(),
            changed: Mutex::default(),
            listings: Mutex::default(),
            walked: Mutex::default(),
            inactive: Mutex::default(),
            activated: Notify::new(),
            calls: Mutex::default(),
            ended: Mutex::default(),
        })
    }

    fn notify_of(&self, user: &str) -> Arc<Notify> {
        self.changed.lock().entry(user.to_owned()).or_default().clone()
    }

    fn edit(&self, user: &str, path: &str) {
        *self.versions.lock().entry((user.to_owned(), path.to_owned())).or_default() += 1;
        self.notify_of(user).notify_one();
    }

    /// Adds a resource to a user's listing.
    fn add(&self, user: &str, path: &str) {
        self.listings.lock().entry(user.to_owned()).or_default().push(path.to_owned());
        self.edit(user, LISTING);
    }

    /// Sets whether the listing of a user is to be watched, and has the views compared with it.
    fn set_active(&self, user: &str, is_active: bool) {
        if is_active {
            self.inactive.lock().remove(user);
            self.activated.notify_one();
        } else {
            self.inactive.lock().insert(user.to_owned());
            self.notify_of(user).notify_one();
        }
    }

    /// The users for which `changes` was called since the last call of this function.
    fn take_calls(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.calls.lock()).into_iter().map(|(user, _)| user).collect()
    }
}

fn entry(path: &str) -> Entry {
    let mut entry = Entry::new(path, path).mime_type("text/plain").subscribable();
    entry.listable = path == "directory";
    entry
}

#[async_trait]
impl Provider for Users {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("users", "1.0.0").watches(true).views(self.max)
    }

    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> {
        let Some(user) = current() else { return Ok(Page::last([])) };
        let listings = self.listings.lock();
        self.walked.lock().push(user.clone());
        Ok(Page::last(listings.get(&user).into_iter().flatten().map(|path| entry(path))))
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        current().map(|_| entry(path)).ok_or(Failure::NotFound)
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        Ok(vec![Contents::text(self.stat(path).await?, "")])
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        let user = current().ok_or_else(|| Failure::internal("a poll for nobody"))?;
        let versions = self.versions.lock();
        self.calls.lock().push((user.clone(), watched.to_vec()));
        let version = |path: &str| versions.get(&(user.clone(), path.to_owned())).copied().unwrap_or_default();
        // The token has the user, so that one of another user counts as unknown.
        let of_user: Vec<_> = versions.iter().filter(|((of, _), _)| *of == user).collect();
        let state =
            of_user.iter().map(|((_, path), version)| format!("{path}={version}")).collect::<Vec<_>>().join(",");
        let now = format!("{user} {state}");
        let Some(since) = since else { return Ok(ChangeSet::none(now)) };
        let Some((_, before)) = since.split_once(' ').filter(|(of, _)| *of == user) else {
            return Ok(ChangeSet::all(now, watched));
        };
        let before: BTreeMap<&str, &str> = before.split(',').filter_map(|pair| pair.split_once('=')).collect();
        let known = |path: &str| before.get(path).and_then(|version| version.parse::<u32>().ok()).unwrap_or_default();
        let mut changes = ChangeSet::none(now);
        changes.changed = watched.iter().filter(|path| version(path) != known(path)).cloned().collect();
        Ok(if version(LISTING) == known(LISTING) { changes } else { changes.listing_changed() })
    }

    async fn changed(&self) {
        match current() {
            Some(user) => self.notify_of(&user).notified().await,
            None => std::future::pending().await,
        }
    }

    fn identity(&self, caller: &Caller) -> Option<Identity> {
        user(caller).map(|user| Identity::of(user.as_bytes()))
    }

    fn reports_listing(&self, identity: &Identity) -> bool {
        !self.inactive.lock().iter().any(|user| Identity::of(user.as_bytes()) == *identity)
    }

    async fn identities_changed(&self) {
        self.activated.notified().await;
    }

    fn end_view(&self, identity: &Identity) {
        self.ended.lock().push(*identity);
    }
}

/// A config in which every principal may read everything except `denied`, with these principals in the group `team`.
fn config(team: &[&str], denied: &str) -> Config {
    let team: Vec<_> = team.iter().map(|name| format!("'{name}'")).collect();
    // The upstream makes the host pass on callers. It is not there.
    let text = format!(
        "[[group]]\nname = 'team'\nprincipals = [{}]\n[[rule]]\nprincipals = ['*']\nallow = ['**']\ndeny = ['{denied}']\n\
         [[upstream]]\nname = 'none'\nurl = 'http://127.0.0.1:9/mcp'\nmount = 'none+'\nviews = 'principal'\n",
        team.join(", ")
    );
    let config = Config::parse_in(&text, FilePath::new("/etc/mcp-host.toml"), &Environment::empty());
    config.unwrap_or_else(|error| panic!("{error}"))
}

struct World {
    users: Arc<Users>,
    host: Arc<Host>,
    _dir: tempfile::TempDir,
}

impl World {
    async fn start(max: usize, team: &[&str]) -> Self {
        let (users, dir) = (Users::new(max), tempfile::tempdir().unwrap());
        let plugin = NativePlugin::new("users".parse().unwrap(), "users:///".parse().unwrap(), users.clone());
        let plugin = plugin.watch_interval(LONG.parse().unwrap());
        let builder = Host::builder(config(team, "none:///**"));
        let builder = builder.cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
        let host = Arc::new(builder.native_plugin(plugin).start().await.unwrap());
        Self { users, host, _dir: dir }
    }

    async fn reload(&self, team: &[&str], denied: &str) {
        self.host.reload(config(team, denied)).await.unwrap();
    }

    fn subscriber(&self, principal: &str) -> Subscriber {
        self.host.subscriber(&Principal::new(principal))
    }

    /// A subscriber whose requests come with this access token.
    async fn with_token(&self, principal: &str, token: &str) -> Subscriber {
        AccessToken::scope(Some(AccessToken::new(token)), async { self.subscriber(principal) }).await
    }

    async fn subscribe(&self, subscriber: &Subscriber, path: &str) {
        self.try_subscribe(subscriber, path).await.unwrap();
    }

    async fn try_subscribe(&self, subscriber: &Subscriber, path: &str) -> std::result::Result<(), Error> {
        timeout(TIMEOUT, self.host.subscribe(subscriber, &format!("users:///{path}"))).await.unwrap()
    }

    /// Subscribes with the access token of this number of a principal.
    async fn open(&self, principal: &str, number: usize) -> std::result::Result<Subscriber, Error> {
        let subscriber = self.with_token(principal, &format!("{principal} {number}")).await;
        self.try_subscribe(&subscriber, "a").await.map(|()| subscriber)
    }

    async fn open_when_allowed(&self, principal: &str, number: usize) -> Subscriber {
        let opened = async {
            loop {
                match self.open(principal, number).await {
                    Ok(subscriber) => return subscriber,
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        timeout(TIMEOUT, opened).await.expect("a view of the principal is charged to another one")
    }

    /// A subscriber of the listing.
    fn listener(&self, principal: &str) -> Subscriber {
        let subscriber = self.subscriber(principal);
        subscriber.watch_listing();
        subscriber
    }

    async fn wait_until_ended(&self, user: &str) {
        let identity = Identity::of(user.as_bytes());
        wait_until(|| self.users.ended.lock().contains(&identity)).await;
    }

    async fn wait_until_polled(&self, user: &str) {
        wait_until(|| self.users.calls.lock().iter().any(|(of, _)| of == user)).await;
    }
}

async fn wait_until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, waiting).await.unwrap();
}

fn updated(path: &str) -> Update {
    Update::Resource(format!("users:///{path}"))
}

async fn next(subscriber: &Subscriber) -> Update {
    timeout(TIMEOUT, subscriber.next()).await.unwrap()
}

async fn assert_quiet(subscriber: &Subscriber) {
    let update = timeout(QUIET, subscriber.next()).await;
    assert!(update.is_err(), "{update:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_identity_is_polled_for_what_it_watches_and_told_of_its_own_changes() {
    let world = World::start(8, &[]).await;
    let (ada, bob) = (world.subscriber("corp/ada"), world.subscriber("corp/bob"));
    world.subscribe(&ada, "both").await;
    world.subscribe(&ada, "ada's").await;
    world.subscribe(&bob, "both").await;
    for (one, other, user) in [(&ada, &bob, "corp/ada"), (&bob, &ada, "corp/bob")] {
        world.users.edit(user, "both");
        assert_eq!(next(one).await, updated("both"));
        assert_quiet(other).await;
    }
    // A change of what only another identity watches.
    world.users.edit("corp/bob", "ada's");
    assert_quiet(&ada).await;
    assert_quiet(&bob).await;
    let calls = world.users.calls.lock().clone();
    assert!(calls.iter().all(|(user, watched)| user != "corp/bob" || !watched.contains(&"ada's".to_owned())));
    assert_eq!(world.users.take_calls(), BTreeSet::from(["corp/ada".to_owned(), "corp/bob".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sees_nothing_and_a_listable_resource_have_no_subscription() {
    let world = World::start(8, &[]).await;
    let nobody = world.subscriber("corp/nobody");
    assert!(matches!(world.try_subscribe(&nobody, "a").await, Err(Error::NotFound { .. })));
    assert!(world.users.take_calls().is_empty());
    let ada = world.subscriber("corp/ada");
    assert!(matches!(world.try_subscribe(&ada, "directory").await, Err(Error::InvalidRequest { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identity_that_a_reload_takes_is_asked_for_no_more_and_one_that_comes_back_is_told_once() {
    let world = World::start(8, &["corp/ada", "corp/bob"]).await;
    let (ada, bob) = (world.subscriber("corp/ada"), world.subscriber("corp/bob"));
    world.subscribe(&ada, "a").await;
    world.subscribe(&bob, "a").await;
    world.users.edit("team", "a");
    assert_eq!((next(&ada).await, next(&bob).await), (updated("a"), updated("a")));
    for _ in 0..2 {
        // The group is narrower: ada continues with her own identity, and is notified of everything.
        world.reload(&["corp/bob"], "none:///**").await;
        assert_eq!(next(&ada).await, updated("a"));
        world.users.edit("team", "a");
        assert_eq!(next(&bob).await, updated("a"));
        assert_quiet(&ada).await;
        world.users.edit("corp/ada", "a");
        assert_eq!(next(&ada).await, updated("a"));
        assert_quiet(&bob).await;
        // The group is empty: no call has its credentials, and its view ends.
        world.reload(&[], "none:///**").await;
        assert_eq!(next(&bob).await, updated("a"));
        world.wait_until_ended("team").await;
        world.users.ended.lock().clear();
        world.users.take_calls();
        world.users.edit("team", "a");
        assert_quiet(&bob).await;
        assert!(!world.users.take_calls().contains("team"));
        // It comes back.
        world.reload(&["corp/ada", "corp/bob"], "none:///**").await;
        assert_eq!((next(&ada).await, next(&bob).await), (updated("a"), updated("a")));
        world.users.edit("team", "a");
        assert_eq!((next(&ada).await, next(&bob).await), (updated("a"), updated("a")));
        assert_quiet(&ada).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_of_what_a_rule_denies_since_is_dropped_and_told_when_it_is_allowed_again() {
    let world = World::start(8, &[]).await;
    let ada = world.subscriber("corp/ada");
    world.subscribe(&ada, "a").await;
    world.reload(&[], "users:///a").await;
    world.users.edit("corp/ada", "a");
    assert_quiet(&ada).await;
    world.reload(&[], "none:///**").await;
    assert_eq!(next(&ada).await, updated("a"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_access_token_is_another_identity_that_is_told_once() {
    let world = World::start(8, &[]).await;
    let ada = world.with_token("corp/ada", "one").await;
    world.subscribe(&ada, "a").await;
    assert_eq!(world.users.take_calls(), BTreeSet::from(["one".to_owned()]));
    ada.set_access_token(Some(AccessToken::new("two")));
    assert_eq!(next(&ada).await, updated("a"));
    world.wait_until_ended("one").await;
    world.users.take_calls();
    world.users.edit("one", "a");
    assert_quiet(&ada).await;
    world.users.edit("two", "a");
    assert_eq!(next(&ada).await, updated("a"));
    assert_eq!(world.users.take_calls(), BTreeSet::from(["two".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_principal_has_a_share_of_the_views_and_all_have_a_limit() {
    let max = MAX_VIEWS_OF_PRINCIPAL + 1;
    let world = World::start(max, &[]).await;
    let mut subscribers = Vec::new();
    for number in 0..MAX_VIEWS_OF_PRINCIPAL {
        let subscriber = world.with_token("corp/mallory", &number.to_string()).await;
        world.subscribe(&subscriber, "a").await;
        subscribers.push(subscriber);
    }
    let refused = async |principal: &str, token: &str| {
        let subscriber = world.with_token(principal, token).await;
        match world.try_subscribe(&subscriber, "a").await {
            Err(Error::Unavailable { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    };
    let reason = refused("corp/mallory", "more").await;
    assert!(reason.contains("16 access tokens"), "{reason}");
    // A subscription in an existing view needs no further view.
    let again = world.with_token("corp/mallory", "0").await;
    world.subscribe(&again, "b").await;
    let ada = world.with_token("corp/ada", "ada").await;
    world.subscribe(&ada, "a").await;
    let reason = refused("corp/bob", "bob").await;
    assert!(reason.contains("its limit of 17 identities"), "{reason}");
    // The first subscribers are still notified.
    world.users.edit("0", "a");
    assert_eq!(next(&subscribers[0]).await, updated("a"));
    drop((subscribers, again));
    world.wait_until_ended("0").await;
    let bob = world.with_token("corp/bob", "bob").await;
    world.subscribe(&bob, "a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_is_charged_to_one_who_uses_it_once_the_one_who_caused_it_has_left() {
    let team = ["corp/ada", "corp/bob"];
    let world = World::start(3 * MAX_VIEWS_OF_PRINCIPAL, &team).await;
    let [ada, bob] = team.map(|name| world.subscriber(name));
    world.subscribe(&ada, "a").await;
    world.subscribe(&bob, "a").await;
    let mut subscribers = Vec::new();
    for number in 1..MAX_VIEWS_OF_PRINCIPAL {
        subscribers.push(world.open("corp/ada", number).await.unwrap());
    }
    assert!(world.open("corp/ada", MAX_VIEWS_OF_PRINCIPAL).await.is_err(), "the view of the team counts, too");
    drop(ada);
    // Identities are checked after a reload.
    world.reload(&team, "none:///**").await;
    subscribers.push(world.open_when_allowed("corp/ada", MAX_VIEWS_OF_PRINCIPAL).await);
    for number in 1..MAX_VIEWS_OF_PRINCIPAL {
        subscribers.push(world.open("corp/bob", number).await.unwrap());
    }
    assert!(world.open("corp/bob", MAX_VIEWS_OF_PRINCIPAL).await.is_err(), "and counts there");
    world.users.edit("team", "a");
    assert_eq!(next(&bob).await, updated("a"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_stays_charged_as_it_is_while_another_user_of_it_has_its_share() {
    let team = ["corp/ada", "corp/bob"];
    let world = World::start(3 * MAX_VIEWS_OF_PRINCIPAL, &team).await;
    let [ada, bob] = team.map(|name| world.subscriber(name));
    world.subscribe(&ada, "a").await;
    world.subscribe(&bob, "a").await;
    let mut of_bob = Vec::new();
    for number in 0..MAX_VIEWS_OF_PRINCIPAL {
        of_bob.push(world.open("corp/bob", number).await.unwrap());
    }
    drop(ada);
    world.reload(&team, "none:///**").await;
    let mut of_ada = Vec::new();
    for number in 1..MAX_VIEWS_OF_PRINCIPAL {
        of_ada.push(world.open("corp/ada", number).await.unwrap());
    }
    tokio::time::sleep(QUIET).await;
    assert!(world.open("corp/ada", MAX_VIEWS_OF_PRINCIPAL).await.is_err(), "the view of the team still counts");
    drop(of_bob.remove(0));
    world.wait_until_ended("corp/bob 0").await;
    world.reload(&team, "none:///**").await;
    of_ada.push(world.open_when_allowed("corp/ada", MAX_VIEWS_OF_PRINCIPAL).await);
    assert!(world.open("corp/bob", 0).await.is_err(), "it counts for the other user");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_without_subscribers_ends_with_its_tasks_and_one_that_begins_again_is_told_of_changes() {
    let world = World::start(8, &[]).await;
    for _ in 0..2 {
        let ada = world.subscriber("corp/ada");
        world.subscribe(&ada, "a").await;
        assert_eq!(world.host.watch_stats().plugins, 1);
        world.users.edit("corp/ada", "a");
        assert_eq!(next(&ada).await, updated("a"));
        drop(ada);
        world.wait_until_ended("corp/ada").await;
        world.users.ended.lock().clear();
        assert_eq!(world.host.watch_stats().plugins, 0);
        world.users.take_calls();
        world.users.edit("corp/ada", "a");
        tokio::time::sleep(QUIET).await;
        assert!(world.users.take_calls().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_listing_is_told_to_those_with_its_identity() {
    let world = World::start(1, &["corp/ada", "corp/alan"]).await;
    let names = ["corp/ada", "corp/alan", "corp/bob", "corp/nobody"];
    let [ada, alan, bob, nobody] = names.map(|name| world.listener(name));
    for user in ["team", "corp/bob"] {
        world.wait_until_polled(user).await;
    }
    assert_eq!(world.users.take_calls(), BTreeSet::from(["team".to_owned(), "corp/bob".to_owned()]));
    for _ in 0..2 {
        world.users.add("team", "a");
        assert_eq!((next(&ada).await, next(&alan).await), (Update::Listing, Update::Listing));
        assert_quiet(&bob).await;
        world.users.add("corp/bob", "b");
        assert_eq!(next(&bob).await, Update::Listing);
        for other in [&ada, &alan, &nobody] {
            assert_quiet(other).await;
        }
    }
    // A view ends with its last subscriber.
    drop(ada);
    assert_quiet(&alan).await;
    world.users.add("team", "c");
    assert_eq!(next(&alan).await, Update::Listing);
    drop(alan);
    world.wait_until_ended("team").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_listens_takes_no_place_of_a_subscription() {
    let world = World::start(1, &[]).await;
    let [ada, bob] = ["corp/ada", "corp/bob"].map(|name| world.listener(name));
    for user in ["corp/ada", "corp/bob"] {
        world.wait_until_polled(user).await;
    }
    world.subscribe(&ada, "a").await;
    assert!(matches!(world.try_subscribe(&bob, "a").await, Err(Error::Unavailable { .. })));
    world.users.add("corp/bob", "b");
    assert_eq!(next(&bob).await, Update::Listing);
    // Her view is for the listing only again.
    world.host.unsubscribe(&ada, "users:///a").unwrap();
    let subscribed = async {
        while world.try_subscribe(&bob, "a").await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, subscribed).await.unwrap();
    for (one, user) in [(&ada, "corp/ada"), (&bob, "corp/bob")] {
        world.users.add(user, "c");
        assert_eq!(next(one).await, Update::Listing);
    }
    world.users.edit("corp/bob", "a");
    assert_eq!(next(&bob).await, updated("a"));
    assert_quiet(&ada).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_listing_that_a_rule_hides_is_not_told() {
    let world = World::start(8, &[]).await;
    let ada = world.listener("corp/ada");
    world.wait_until_polled("corp/ada").await;
    world.users.walked.lock().clear();
    world.reload(&[], "users:///hidden").await;
    wait_until(|| !world.users.walked.lock().is_empty()).await;
    // The rules may hide something now.
    while timeout(QUIET, ada.next()).await.is_ok() {}
    world.users.add("corp/ada", "hidden");
    assert_quiet(&ada).await;
    world.users.add("corp/ada", "seen");
    assert_eq!(next(&ada).await, Update::Listing);
    assert!(world.users.walked.lock().iter().all(|user| user == "corp/ada"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_access_token_has_another_listing_which_is_told_once() {
    let world = World::start(8, &[]).await;
    let ada = world.with_token("corp/ada", "one").await;
    ada.watch_listing();
    world.wait_until_polled("one").await;
    ada.set_access_token(Some(AccessToken::new("two")));
    assert_eq!(next(&ada).await, Update::Listing);
    world.wait_until_ended("one").await;
    world.users.take_calls();
    world.users.add("one", "a");
    assert_quiet(&ada).await;
    world.users.add("two", "a");
    assert_eq!(next(&ada).await, Update::Listing);
    assert_eq!(world.users.take_calls(), BTreeSet::from(["two".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_is_watched_while_the_provider_wants_that_and_what_was_missed_meanwhile_is_told_once() {
    let world = World::start(8, &[]).await;
    world.users.set_active("corp/ada", false);
    let ada = world.listener("corp/ada");
    assert_quiet(&ada).await;
    assert!(world.users.take_calls().is_empty());
    world.users.set_active("corp/ada", true);
    world.wait_until_polled("corp/ada").await;
    // It has not missed anything.
    assert_quiet(&ada).await;
    world.users.add("corp/ada", "a");
    assert_eq!(next(&ada).await, Update::Listing);
    world.users.set_active("corp/ada", false);
    world.wait_until_ended("corp/ada").await;
    world.users.add("corp/ada", "b");
    assert_quiet(&ada).await;
    world.users.set_active("corp/ada", true);
    assert_eq!(next(&ada).await, Update::Listing);
    assert_quiet(&ada).await;
}
