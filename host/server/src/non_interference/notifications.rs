//! Notifications: changes of what a principal may not see are not notified, however large the listing is and whatever directory they are in,
//! and its subscriptions cause no call of a plugin that it may see nothing of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcp_host_model::resource::Error;
use mcp_resource_host::access::Principal;
use mcp_resource_host::watch::Update;
use tokio::time::{sleep, timeout};

use super::principal;
use super::world::{Contents, HIDDEN, Providers, ROOT, Rules, is_allowed};

pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than an update of a resource is deferred after one before.
const PAUSE: Duration = Duration::from_millis(500);
/// Hidden files: more than a walk of the listing has pages for, were it not that the principal may see a part only.
const HIDDEN_FILES: usize = 400;
pub(super) const ROUNDS: usize = 3;
pub(super) const BARRIER: &str = "part://h/pub/c.md";
/// Directories: that of the barrier, and one above, which the principal may read by some rules only.
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

/// A world in which the principal sees one file more.
pub(super) fn world_with_more(is_visible: &dyn Fn(&str) -> bool) -> Contents {
    let more: Vec<String> = ["pub/c.md", "pub/d.md"].map(str::to_owned).into();
    Contents::new(&more, &more, &[], is_visible)
}

/// The walks of the listing and of directories so far.
pub(super) struct Compared {
    walks: usize,
    folders: usize,
}

impl Compared {
    pub(super) fn now(providers: &Providers) -> Self {
        Self { walks: providers.walks(), folders: providers.folder_listings() }
    }

    /// Waits until there are that many more.
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
        let dir = tempfile::tempdir().unwrap();
        let providers = Providers::new();
        let host = providers.start(rules, dir.path(), false).await;
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
        // A change that the principal may see is told, of the directory that it is in.
        providers.set(world_with_more(&is_visible));
        let (mut told, folder) = (Vec::new(), Update::Resource(FOLDER.to_owned()));
        while !(told.contains(&Update::Listing) && told.contains(&folder)) {
            told.push(timeout(TIMEOUT, subscriber.next()).await.unwrap());
        }
        assert!(!told.contains(&Update::Resource(ROOT_FOLDER.to_owned())), "{told:?}");
        drop(subscriber);
    }
}

#[tokio::test]
async fn who_may_see_nothing_is_not_told_of_a_change_while_another_begins_to_watch() {
    let dir = tempfile::tempdir().unwrap();
    let providers = Arc::new(Providers::new());
    let host = providers.start(Rules::Nothing, dir.path(), false).await;
    let (subscriber, root) = (host.subscriber(&principal()), host.subscriber(&Principal::new(ROOT)));
    // Nothing else runs before the next await, so the first walk is for both.
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
    let dir = tempfile::tempdir().unwrap();
    let providers = Providers::new();
    let host = providers.start(Rules::Nothing, dir.path(), false).await;
    let subscriber = host.subscriber(&principal());
    subscriber.watch_listing();
    timeout(TIMEOUT, subscriber.listing_ready()).await.unwrap();
    providers.set(Contents::new(&["a.txt".to_owned()], &[], &["a.txt".to_owned()], &|_| false));
    // Another principal's walk is a barrier: it begins after those of the first could have.
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
    let dir = tempfile::tempdir().unwrap();
    let providers = Providers::new();
    let host = providers.start(Rules::Deny, dir.path(), false).await;
    let contents = |paths: &[&str]| {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        Contents::new(&paths, &paths, &paths, &|_| true)
    };
    let subscriber = host.subscriber(&principal());
    // The provider's folders have a slash at their end, and here a file has one, too.
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
    // Of the directory it may be told once more, as what was read meanwhile may be that of the file; pending updates of one resource are
    // one. Directories are compared one after the other: when it is compared again, all of the first time is pending.
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
