//! Notifications: changes of what a principal may not see are not told, however large the listing is, and its subscriptions cause no call
//! of a plugin that it may see nothing of.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::principal;
use super::world::{Contents, HIDDEN, Providers, Rules, is_allowed};
use crate::resource::Error;
use crate::watch::Update;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Hidden files: more than a walk of the listing has pages for, were it not that the principal may see a part only.
const HIDDEN_FILES: usize = 400;
const ROUNDS: usize = 3;
const BARRIER: &str = "part://h/pub/c.md";

fn numbered(folder: &str) -> Vec<String> {
    (0..HIDDEN_FILES).map(|number| format!("{folder}/{number}.md")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_what_a_principal_may_not_see_are_not_told() {
    for rules in [Rules::Deny, Rules::Allow] {
        let dir = tempfile::tempdir().unwrap();
        let providers = Providers::new();
        let host = providers.start(rules, dir.path(), false).await;
        let policy = host.policy(&principal());
        let common = vec!["pub/c.md".to_owned()];
        let worlds = ["secret", "secret/more"].map(|folder| {
            let own = numbered(folder);
            let drawn: Vec<String> = common.iter().chain(&own).cloned().collect();
            Contents::new(&drawn, &common, &own, &|uri| is_allowed(&policy, uri))
        });
        providers.set(worlds[0].clone());
        let subscriber = host.subscriber(&principal());
        subscriber.watch_listing();
        timeout(TIMEOUT, subscriber.listing_ready()).await.unwrap();
        timeout(TIMEOUT, host.subscribe(&subscriber, BARRIER)).await.unwrap().unwrap();
        for uri in ["part://h/secret/1.md", "part://h/secret/none.md", "hidden://h/secret/1.md", "nobody://h/x"] {
            let refused = host.subscribe(&subscriber, uri).await;
            assert_eq!(refused, Err(Error::NotFound { uri: uri.to_owned() }), "{rules:?}");
        }
        for round in 1..=ROUNDS {
            let walks = providers.walks();
            providers.set(worlds[round % 2].clone());
            let told = timeout(TIMEOUT, subscriber.next()).await.unwrap();
            assert_eq!(told, Update::Resource(BARRIER.to_owned()), "{rules:?}");
            let began = Instant::now();
            while providers.walks() < walks + 1 {
                assert!(began.elapsed() < TIMEOUT, "the listing is compared");
                sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(subscriber.try_next(), None, "{rules:?}");
        }
        assert_eq!(providers.calls_of(HIDDEN), 0, "{rules:?}");
        // A change that the principal may see is told.
        let more: Vec<String> = ["pub/c.md", "pub/d.md"].map(str::to_owned).into();
        providers.set(Contents::new(&more, &more, &[], &|uri| is_allowed(&policy, uri)));
        let mut told = Vec::new();
        while !told.contains(&Update::Listing) {
            told.push(timeout(TIMEOUT, subscriber.next()).await.unwrap());
        }
        drop(subscriber);
    }
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
    let local = host.subscriber(&crate::access::Principal::LOCAL);
    let before = providers.calls();
    assert_eq!(before, 0);
    local.watch_listing();
    timeout(TIMEOUT, local.listing_ready()).await.unwrap();
    assert!(providers.calls() > 0);
    assert_eq!(subscriber.try_next(), None);
}
