//! Notifications: changes of hidden resources are not notified to a principal, for any size of the listing and in any
//! directory, and the principal's subscriptions cause no call of a completely hidden plugin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcp_host_model::resource::Error;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::ListRequest;
use mcp_resource_host::watch::Update;
use tokio::time::{sleep, timeout};

use super::principal;
use super::world::{COLLECTION, Contents, HIDDEN, PART, Providers, ROOT, Rules, is_allowed, started};

pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than the deferral of an update after a previous one.
const PAUSE: Duration = Duration::from_millis(500);
/// Hidden files: more than a walk of the listing would have pages for, if the principal could see the whole plugin.
const HIDDEN_FILES: usize = 400;
pub(super) const ROUNDS: usize = 3;
pub(in crate::non_interference) const BARRIER: &str = "part://h/pub/c.md";
/// Directories: the barrier's, and its parent, which the principal may read under some rules only.
pub(super) const FOLDER: &str = "part://h/pub/";
pub(super) const ROOT_FOLDER: &str = "part://h/";

fn numbered(folder: &str) -> Vec<String> {
    (0..HIDDEN_FILES).map(|number| format!("{folder}/{number}.md")).collect()
}

/// The directories that the principal may read.
pub(super) fn folders(rules: Rules) -> &'static [&'static str] {
    if rules == Rules::Deny { &[FOLDER, ROOT_FOLDER] } else { &[FOLDER] }
}

/// Two worlds that are the same for the principal, although directories that it may read have other children.
pub(super) fn worlds(is_visible: &dyn Fn(&str) -> bool) -> [Contents; 2] {
    let common = vec!["pub/c.md".to_owned()];
    [vec!["pub/.env".to_owned()], vec![".env".to_owned()]].map(|mut own| {
        own.extend(numbered(if own[0] == ".env" { "secret/more" } else { "secret" }));
        own.retain(|path| !is_visible(&format!("part://h/{path}")));
        let drawn: Vec<String> = common.iter().chain(&own).cloned().collect();
        Contents::new(&drawn, &common, &own, is_visible)
    })
}

/// A world with one more visible file.
pub(super) fn world_with_more(is_visible: &dyn Fn(&str) -> bool) -> Contents {
    let more: Vec<String> = ["pub/c.md", "pub/d.md"].map(str::to_owned).into();
    Contents::new(&more, &more, &[], is_visible)
}

/// The numbers of walks of the listing and of directories so far.
pub(super) struct Compared {
    walks: usize,
    folders: usize,
}

impl Compared {
    pub(super) fn now(providers: &Providers) -> Self {
        Self { walks: providers.walks(), folders: providers.folder_listings() }
    }

    /// Waits for the given numbers of further walks.
    pub(super) async fn wait_for_more(self, providers: &Providers, walks: usize, folders: usize) {
        let began = Instant::now();
        while providers.walks() < self.walks + walks || providers.folder_listings() < self.folders + folders {
            assert!(began.elapsed() < TIMEOUT, "the listing and the directories are compared");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_what_a_principal_may_not_see_are_not_told() {
    for rules in [Rules::Deny, Rules::Allow] {
        let (_dir, providers, host) = started(rules).await;
        let policy = host.policy(&principal());
        let is_visible = |uri: &str| is_allowed(&policy, uri);
        let worlds = worlds(&is_visible);
        providers.set(worlds[0].clone());
        let subscriber = host.subscriber(&principal());
        subscriber.watch_listing();
        timeout(TIMEOUT, subscriber.listing_ready()).await.unwrap();
        timeout(TIMEOUT, host.subscribe(&subscriber, BARRIER)).await.unwrap().unwrap();
        for folder in folders(rules) {
            timeout(TIMEOUT, host.subscribe(&subscriber, folder)).await.unwrap().unwrap();
        }
        for uri in ["part://h/secret/1.md", "part://h/secret/none.md", "hidden://h/secret/1.md", "nobody://h/x"] {
            let refused = host.subscribe(&subscriber, uri).await;
            assert_eq!(refused, Err(Error::NotFound { uri: uri.to_owned() }), "{rules:?}");
        }
        for round in 1..=ROUNDS {
            let compared = Compared::now(&providers);
            providers.set(worlds[round % 2].clone());
            let told = timeout(TIMEOUT, subscriber.next()).await.unwrap();
            assert_eq!(told, Update::Resource(BARRIER.to_owned()), "{rules:?}");
            compared.wait_for_more(&providers, 1, folders(rules).len()).await;
            assert_eq!(subscriber.try_next(), None, "{rules:?}");
        }
        assert_eq!(providers.calls_of(HIDDEN), 0, "{rules:?}");
        // A visible change is notified for its directory.
        providers.set(world_with_more(&is_visible));
        let (mut told, folder) = (Vec::new(), Update::Resource(FOLDER.to_owned()));
        while !(told.contains(&Update::Listing) && told.contains(&folder)) {
            told.push(timeout(TIMEOUT, subscriber.next()).await.unwrap());
        }
        assert!(!told.contains(&Update::Resource(ROOT_FOLDER.to_owned())), "{told:?}");
        drop(subscriber);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_changes_while_a_subscription_begins_are_not_told() {
    // Under other rules the principal sees all of a plugin, and may get one notification more than there are changes.
    let dir = tempfile::tempdir().unwrap();
    let providers = Arc::new(Providers::new());
    let host = providers.start(Rules::Deny, dir.path(), false).await;
    let policy = host.policy(&principal());
    let hidden = worlds(&|uri: &str| is_allowed(&policy, uri));
    providers.set(hidden[0].clone());
    // The plugin is polled, and its listing has not been walked.
    let local = host.subscriber(&Principal::LOCAL);
    timeout(TIMEOUT, host.subscribe(&local, BARRIER)).await.unwrap().unwrap();
    let subscriber = host.subscriber(&principal());
    let is_over = Arc::new(AtomicBool::new(false));
    let changing = std::thread::spawn({
        let (providers, is_over, worlds) = (providers.clone(), is_over.clone(), hidden.clone());
        move || {
            for world in worlds.iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                providers.set(world.clone());
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    });
    subscriber.watch_listing();
    let is_ready = timeout(TIMEOUT, subscriber.listing_ready()).await;
    is_over.store(true, Ordering::Relaxed);
    changing.join().unwrap();
    is_ready.unwrap();
    // Walks are sequential: after two more, all notifications of the first are pending.
    for world in &hidden {
        let compared = Compared::now(&providers);
        providers.set(world.clone());
        compared.wait_for_more(&providers, 1, 0).await;
    }
    assert_eq!(subscriber.try_next(), None);
    providers.set(Contents::default());
    assert_eq!(timeout(TIMEOUT, subscriber.next()).await.unwrap(), Update::Listing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_principal_saw_of_a_directory_before_it_unsubscribed_is_not_compared() {
    let (_dir, providers, host) = started(Rules::Deny).await;
    let policy = host.policy(&principal());
    let is_visible = |uri: &str| is_allowed(&policy, uri);
    providers.set(worlds(&is_visible)[0].clone());
    let (local, subscriber) = (host.subscriber(&Principal::LOCAL), host.subscriber(&principal()));
    let next = async || timeout(TIMEOUT, local.next()).await.unwrap();
    timeout(TIMEOUT, host.subscribe(&local, FOLDER)).await.unwrap().unwrap();
    timeout(TIMEOUT, host.subscribe(&subscriber, FOLDER)).await.unwrap().unwrap();
    host.unsubscribe(&subscriber, FOLDER).unwrap();
    // A visible change, while only the other principal is subscribed.
    let more = world_with_more(&is_visible);
    providers.set(more.clone());
    assert_eq!(next().await, Update::Resource(FOLDER.to_owned()));
    for uri in [FOLDER, BARRIER] {
        timeout(TIMEOUT, host.subscribe(&subscriber, uri)).await.unwrap().unwrap();
    }
    // The visible change may be reported once more, to the subscription that began after it.
    let compared = Compared::now(&providers);
    providers.set(more.clone());
    while timeout(TIMEOUT, subscriber.next()).await.unwrap() != Update::Resource(BARRIER.to_owned()) {}
    compared.wait_for_more(&providers, 0, 1).await;
    while subscriber.try_next().is_some() {}
    let compared = Compared::now(&providers);
    providers.set(more.with_file("pub/.env"));
    assert_eq!(timeout(TIMEOUT, subscriber.next()).await.unwrap(), Update::Resource(BARRIER.to_owned()));
    compared.wait_for_more(&providers, 0, 1).await;
    assert_eq!(subscriber.try_next(), None);
}

#[tokio::test]
async fn who_may_see_nothing_is_not_told_of_a_change_while_another_begins_to_watch() {
    let dir = tempfile::tempdir().unwrap();
    let providers = Arc::new(Providers::new());
    let host = providers.start(Rules::Nothing, dir.path(), false).await;
    let (subscriber, root) = (host.subscriber(&principal()), host.subscriber(&Principal::new(ROOT)));
    // Nothing else runs before the next await, so the first walk serves both subscribers.
    subscriber.watch_listing();
    root.watch_listing();
    let is_over = Arc::new(AtomicBool::new(false));
    let changing = std::thread::spawn({
        let (providers, is_over) = (providers.clone(), is_over.clone());
        move || {
            while !is_over.load(Ordering::Relaxed) {
                providers.set(Contents::default());
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    });
    let told = timeout(TIMEOUT, root.next()).await;
    is_over.store(true, Ordering::Relaxed);
    changing.join().unwrap();
    assert_eq!(told.unwrap(), Update::Listing);
    assert_eq!(subscriber.try_next(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_see_nothing_causes_no_call_by_watching_the_listing() {
    let (_dir, providers, host) = started(Rules::Nothing).await;
    let subscriber = host.subscriber(&principal());
    subscriber.watch_listing();
    timeout(TIMEOUT, subscriber.listing_ready()).await.unwrap();
    providers.set(Contents::new(&["a.txt".to_owned()], &[], &["a.txt".to_owned()], &|_| false));
    // Another principal's walk is a barrier: it begins after any walk for the first principal could have begun.
    let local = host.subscriber(&Principal::LOCAL);
    let before = providers.calls();
    assert_eq!(before, 0);
    local.watch_listing();
    timeout(TIMEOUT, local.listing_ready()).await.unwrap();
    assert!(providers.calls() > 0);
    assert_eq!(subscriber.try_next(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_becomes_a_directory_is_one_from_then_on() {
    const CHANGING: &str = "part://h/pub/x/";
    let (_dir, providers, host) = started(Rules::Deny).await;
    let contents = |paths: &[&str]| {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        Contents::new(&paths, &paths, &paths, &|_| true)
    };
    let subscriber = host.subscriber(&principal());
    // The provider's folders end with a slash, and here a file does, too.
    providers.set(contents(&["pub/c.md"]).with_file("pub/x/"));
    for uri in [BARRIER, CHANGING] {
        timeout(TIMEOUT, host.subscribe(&subscriber, uri)).await.unwrap().unwrap();
    }
    let next = async || timeout(TIMEOUT, subscriber.next()).await.unwrap();
    let update = |uri: &str| Update::Resource(uri.to_owned());
    let with_hidden = contents(&["pub/c.md", "pub/x/.env"]);
    let without = contents(&["pub/c.md"]).with_folder("pub/x/");
    let compared = Compared::now(&providers);
    providers.set(with_hidden.clone());
    let mut told = [next().await, next().await];
    told.sort_by_key(|update| format!("{update:?}"));
    assert_eq!(told, [update(BARRIER), update(CHANGING)]);
    compared.wait_for_more(&providers, 0, 1).await;
    // The directory may be notified once more, because the content that was read meanwhile may be the file's. Pending
    // updates of one resource are merged. Directories are compared sequentially: when this one is compared again, all
    // updates of the first comparison are pending.
    let compared = Compared::now(&providers);
    providers.set(with_hidden.clone());
    compared.wait_for_more(&providers, 0, 1).await;
    while let Ok(told) = timeout(PAUSE, subscriber.next()).await {
        assert!([update(BARRIER), update(CHANGING)].contains(&told), "{told:?}");
    }
    for contents in [&without, &with_hidden, &without] {
        let compared = Compared::now(&providers);
        providers.set(contents.clone());
        assert_eq!(next().await, update(BARRIER));
        compared.wait_for_more(&providers, 0, 1).await;
        assert_eq!(subscriber.try_next(), None);
    }
    providers.set(contents(&["pub/c.md", "pub/x/a.txt"]));
    let mut told = [next().await, next().await];
    told.sort_by_key(|update| format!("{update:?}"));
    assert_eq!(told, [update(BARRIER), update(CHANGING)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_that_is_no_directory_tells_of_no_hidden_member() {
    let (_dir, providers, host) = started(Rules::Deny).await;
    let policy = host.policy(&principal());
    let is_visible = |uri: &str| is_allowed(&policy, uri);
    let worlds = worlds(&is_visible);
    providers.set(worlds[0].clone());
    let (subscriber, collection) = (host.subscriber(&principal()), format!("part://h/{COLLECTION}"));
    for uri in [BARRIER, &collection] {
        timeout(TIMEOUT, host.subscribe(&subscriber, uri)).await.unwrap().unwrap();
    }
    for round in 1..=ROUNDS {
        let compared = Compared::now(&providers);
        providers.set(worlds[round % 2].clone().with_edit("pub/.env"));
        let told = timeout(TIMEOUT, subscriber.next()).await.unwrap();
        assert_eq!(told, Update::Resource(BARRIER.to_owned()));
        // All notifications of a comparison are pending when the next comparison is done.
        compared.wait_for_more(&providers, 0, 1).await;
        let compared = Compared::now(&providers);
        providers.set(worlds[round % 2].clone().with_edit("pub/.env").with_edit("secret/1.md"));
        compared.wait_for_more(&providers, 0, 1).await;
        while let Some(told) = subscriber.try_next() {
            assert_eq!(told, Update::Resource(BARRIER.to_owned()));
        }
    }
    providers.set(world_with_more(&is_visible));
    while timeout(TIMEOUT, subscriber.next()).await.unwrap() != Update::Resource(collection.clone()) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_what_a_principal_reads_beside_an_index_is_told() {
    let (_dir, providers, host) = started(Rules::Deny).await;
    let policy = host.policy(&principal());
    let contents = worlds(&|uri: &str| is_allowed(&policy, uri))[0].clone();
    providers.set(contents.clone());
    let subscriber = host.subscriber(&principal());
    timeout(TIMEOUT, host.subscribe(&subscriber, FOLDER)).await.unwrap().unwrap();
    // A read of the folder returns the texts of its files, too.
    for hidden in ["pub/.env", "secret/1.md"] {
        let compared = Compared::now(&providers);
        providers.set(contents.clone().with_edit(hidden));
        compared.wait_for_more(&providers, 0, 1).await;
    }
    providers.set(contents.clone().with_edit("pub/c.md"));
    let compared = Compared::now(&providers);
    assert_eq!(timeout(TIMEOUT, subscriber.next()).await.unwrap(), Update::Resource(FOLDER.to_owned()));
    // Again without a visible change.
    providers.set(contents.with_edit("pub/c.md").with_edit("pub/.env"));
    compared.wait_for_more(&providers, 0, 1).await;
    assert_eq!(timeout(PAUSE, subscriber.next()).await.ok(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_walk_that_fails_is_no_change() {
    let (_dir, providers, host) = started(Rules::Deny).await;
    let policy = host.policy(&principal());
    let is_visible = |uri: &str| is_allowed(&policy, uri);
    providers.set(worlds(&is_visible)[0].clone());
    providers.set_failing(PART, true);
    let subscriber = host.subscriber(&principal());
    subscriber.watch_listing();
    timeout(TIMEOUT, subscriber.listing_ready()).await.unwrap();
    let compared = Compared::now(&providers);
    providers.set_failing(PART, false);
    compared.wait_for_more(&providers, 1, 0).await;
    assert_eq!(timeout(PAUSE, subscriber.next()).await.ok(), None);
    providers.set(world_with_more(&is_visible));
    assert_eq!(timeout(TIMEOUT, subscriber.next()).await.unwrap(), Update::Listing);
}

/// Pages have three items.
#[tokio::test]
async fn hidden_changes_between_two_pages_repeat_and_drop_nothing() {
    let (_dir, providers, host) = started(Rules::Deny).await;
    let visible: Vec<String> = (0..8).map(|number| format!("pub/{number}.md")).collect();
    let without = Contents::new(&visible, &visible, &[], &|_| true);
    // The hidden files come first.
    let with = without.clone().with_file(".env").with_file("pub/.env");
    let reader = principal();
    for (first, then) in [(&without, &with), (&with, &without)] {
        providers.set(first.clone());
        let (mut uris, mut cursor) = (Vec::new(), None);
        loop {
            let request = ListRequest { cursor: cursor.as_deref(), ..ListRequest::default() };
            let page = host.list(&reader, request).await.unwrap();
            uris.extend(page.items.iter().map(|entry| entry.uri.as_str().to_owned()));
            providers.set(then.clone());
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        uris.retain(|uri| uri.starts_with("part://"));
        let expected: Vec<String> = visible.iter().map(|path| format!("part://h/{path}")).collect();
        assert_eq!(uris, expected);
    }
}
