use std::time::Duration;

use mcp_host_base::share_limiter::{LimitReached, ShareLimits, SharePermit};
use mcp_host_config::Config;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::Mount;

use super::subscription::SUBSCRIPTION_OVERHEAD;
use super::*;
use crate::access::Access;
use crate::watch::context::{LimitScope, SubscribeError};

fn hub() -> Arc<Hub> {
    Hub::new(std::iter::empty(), Arc::new(Access::new(&Config::new())), None, false)
}

const LIMITS: ShareLimits = ShareLimits { client: 600, overall: 1000 };

fn mount() -> Mount {
    "a://x/".parse().unwrap()
}

fn uri() -> Uri {
    mount().compose("f").unwrap().uri
}

#[test]
fn a_subscription_that_is_given_up_before_it_counts_leaves_nothing_behind() {
    let subscriber = hub().subscriber(&Principal::LOCAL);
    let uri = uri();
    let attempt = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
    attempt.register(&mount(), false);
    assert!(subscriber.hub.context.subscription_index().has_resources_under(&mount()));
    drop(attempt);
    assert!(!subscriber.hub.context.subscription_index().has_resources_under(&mount()));
    assert!(subscriber.subscriptions().is_empty());
}

#[test]
fn a_subscriber_that_is_closed_registers_nothing_any_more() {
    let subscriber = hub().subscriber(&Principal::LOCAL);
    let (uri, other) = (uri(), mount().compose("g").unwrap().uri);
    let attempt = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
    subscriber.close();
    attempt.register(&mount(), false);
    attempt.activate(true);
    assert!(subscriber.begin("a://x/g", &other, LIMITS).is_err());
    subscriber.watch_listing();
    let index = subscriber.hub.context.subscription_index();
    assert!(!index.has_resources_under(&mount()) && !index.is_watching_listing(subscriber.mailbox.id));
    drop(index);
    assert!(subscriber.subscriptions().is_empty());
}

#[test]
fn what_there_is_to_tell_waits_until_the_subscription_counts() {
    let subscriber = hub().subscriber(&Principal::LOCAL);
    let uri = uri();
    for comes_to_something in [false, true] {
        let attempt = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
        attempt.register(&mount(), false);
        subscriber.hub.context.subscription_index().notify(&uri, 0, &mut 1, |_| true);
        assert_eq!(subscriber.try_next(), None);
        if comes_to_something {
            attempt.activate(false);
            assert_eq!(subscriber.try_next(), Some(Update::Resource("a://x/f".to_owned())));
        } else {
            drop(attempt);
        }
        assert_eq!(subscriber.try_next(), None);
    }
}

#[test]
fn updates_that_may_have_been_dropped_under_other_groups_are_told_under_the_new_ones() {
    let others = Principal::LOCAL.with_groups(["corp/x"]);
    let subscriber = hub().subscriber(&others);
    let uri = uri();
    let attempt = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
    attempt.register(&mount(), false);
    attempt.activate(false);
    subscriber.set_principal(&others, None);
    assert_eq!(subscriber.try_next(), None);
    subscriber.set_principal(&Principal::LOCAL, None);
    assert_eq!(subscriber.try_next(), Some(Update::Resource("a://x/f".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn whether_a_plugin_is_watched_follows_the_groups_of_who_watches_the_listing() {
    // Without rules, local sees everything, and nobody else anything.
    let (hub, member) = (hub(), Principal::LOCAL.with_groups(["corp/x"]));
    let is_watched = || hub.context.is_watched(&mount());
    let after = |seconds| Some(Instant::now() + Duration::from_secs(seconds));
    let subscriber = hub.subscriber(&Principal::LOCAL);
    subscriber.watch_listing();
    assert!(is_watched());
    for until in [10, 20] {
        subscriber.set_principal(&member, after(until));
        assert!(!is_watched());
    }
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(!is_watched(), "the groups were extended");
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(is_watched(), "they have expired");
    for until in [100, 1] {
        subscriber.set_principal(&member, after(until));
        assert!(!is_watched());
    }
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(is_watched(), "they expire sooner");
    drop(subscriber);
    assert!(!is_watched());
}

#[tokio::test]
async fn each_active_subscription_and_the_listing_can_be_notified_once() {
    let subscriber = hub().subscriber(&Principal::LOCAL);
    let (uri, pending) = (uri(), mount().compose("g").unwrap().uri);
    let attempt = subscriber.begin("A://x/f", &uri, LIMITS).unwrap();
    attempt.register(&mount(), false);
    attempt.activate(false);
    let limits = ShareLimits { client: 10_000, overall: 10_000 };
    let _pending = subscriber.begin("a://x/g", &pending, limits).unwrap();
    assert_eq!(subscriber.requested_uris(), [("a://x/f".to_owned(), "A://x/f".to_owned())]);
    assert!(subscriber.is_subscribed("a://x/g") && !subscriber.is_subscribed("A://x/f"));
    subscriber.notify_all();
    assert_eq!(subscriber.try_next(), Some(Update::Resource("A://x/f".to_owned())));
    assert_eq!(subscriber.try_next(), None);
    subscriber.watch_listing();
    subscriber.notify_all();
    assert_eq!(
        [subscriber.next().await, subscriber.next().await],
        [Update::Listing, Update::Resource("A://x/f".to_owned())]
    );
}

#[test]
fn of_two_attempts_one_that_is_given_up_takes_nothing_from_the_other() {
    let subscriber = hub().subscriber(&Principal::LOCAL);
    let uri = uri();
    let [first, second] = [(); 2].map(|()| subscriber.begin("a://x/f", &uri, LIMITS).unwrap());
    second.register(&mount(), false);
    drop(first);
    second.activate(false);
    assert!(subscriber.hub.context.subscription_index().has_resources_under(&mount()));
    // A subscription that was cancelled and requested again is new.
    let late = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
    subscriber.unsubscribe(&uri);
    let new = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
    new.register(&mount(), false);
    drop(late);
    new.activate(false);
    assert!(subscriber.hub.context.subscription_index().has_resources_under(&mount()));
}

#[test]
fn a_subscriber_that_is_gone_leaves_nothing_behind() {
    let hub = hub();
    let subscriber = hub.subscriber(&Principal::LOCAL);
    let uri = uri();
    subscriber.watch_listing();
    let attempt = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
    attempt.register(&mount(), false);
    attempt.activate(false);
    drop(subscriber);
    assert!(!hub.context.is_watched(&mount()));
}

#[test]
fn a_resource_whose_plugin_is_gone_is_unsubscribed_from_as_it_was_subscribed_to() {
    let subscriber = hub().subscriber(&Principal::LOCAL);
    let uri = uri();
    let attempt = subscriber.begin("A://x/f", &uri, LIMITS).unwrap();
    attempt.activate(false);
    assert!(!subscriber.unsubscribe_by_spelling("a://x/g"));
    assert!(subscriber.unsubscribe_by_spelling("A://x/f"));
    assert!(subscriber.subscriptions().is_empty());
}

/// URIs, spelled in normal form.
fn by_form<const N: usize>(uris: [&str; N]) -> BTreeMap<String, String> {
    uris.map(|uri| (uri.to_owned(), uri.to_owned())).into()
}

#[test]
fn a_resource_that_is_spelled_otherwise_at_another_host_is_charged_once() {
    let subscriber = hub().subscriber(&Principal::LOCAL);
    let (mut charge, uri) = (None, uri());
    let client = || Requester::Principal(Principal::LOCAL);
    let _here = subscriber.begin("A://x/f", &uri, LIMITS).unwrap();
    let elsewhere = [("a://x/f", "a://X/f"), ("b://x/f", "A://x/f")];
    for (form, spelling) in elsewhere {
        let one = BTreeMap::from([(form.to_owned(), spelling.to_owned())]);
        assert!(subscriber.charge_elsewhere(client(), &one, &mut charge, LIMITS).is_ok());
        assert!(charge.is_none(), "{spelling}");
    }
    let other = by_form(["a://x/g"]);
    assert_eq!(
        subscriber.charge_elsewhere(client(), &other, &mut charge, LIMITS),
        Err(LimitReached::ClientShare),
        "another resource"
    );
}

#[test]
fn subscriptions_at_another_host_are_charged_until_they_are_made_here() {
    let subscriber = hub().subscriber(&Principal::LOCAL);
    let (mut charge, uri) = (None, uri());
    let client = || Requester::Principal(Principal::LOCAL);
    let (one, two) = (by_form(["a://x/f"]), by_form(["a://x/f", "a://x/g"]));
    assert!(subscriber.charge_elsewhere(client(), &one, &mut charge, LIMITS).is_ok());
    let amount = |charge: &Option<SharePermit<Requester>>| charge.as_ref().map_or(0, SharePermit::amount);
    assert_eq!(amount(&charge), 11 * 7 + SUBSCRIPTION_OVERHEAD);
    assert!(subscriber.charge_elsewhere(client(), &two, &mut charge, LIMITS).is_err());
    assert_eq!(amount(&charge), 11 * 7 + SUBSCRIPTION_OVERHEAD);
    // It leaves no memory for a subscription here.
    assert!(subscriber.begin("a://x/f", &uri, LIMITS).is_err());
    assert!(subscriber.charge_elsewhere(client(), &by_form([]), &mut charge, LIMITS).is_ok());
    let _here = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
    assert!(subscriber.charge_elsewhere(client(), &one, &mut charge, LIMITS).is_ok());
    assert_eq!(amount(&charge), 0);
    assert!(subscriber.charge_elsewhere(client(), &two, &mut charge, LIMITS).is_err());
}

#[test]
fn a_principal_at_its_share_of_the_memory_leaves_the_rest_to_others() {
    let hub = hub();
    let (ada, member, bob) = (
        hub.subscriber(&Principal::new("corp/ada")),
        hub.subscriber(&Principal::new("corp/ada").with_groups(["corp/x"])),
        hub.subscriber(&Principal::new("corp/bob")),
    );
    let uri = uri();
    let first = ada.begin("a://x/f", &uri, LIMITS).unwrap();
    let refused = |subscriber: &Subscriber| match subscriber.begin("a://x/f", &uri, LIMITS).map(drop) {
        Err(SubscribeError::Limited(Fault::Unavailable { reason, .. }, LimitScope::Subscriber(_))) => reason,
        other => panic!("{other:?}"),
    };
    assert!(refused(&member).contains("your share"));
    let _second = bob.begin("a://x/f", &uri, LIMITS).unwrap();
    let local = hub.subscriber(&Principal::LOCAL);
    assert!(refused(&local).contains("is exhausted"));
    drop(first);
    assert!(member.begin("a://x/f", &uri, LIMITS).is_ok());
}

#[test]
fn an_address_at_its_share_of_the_memory_leaves_the_rest_to_other_addresses() {
    let hub = hub();
    let address = |last| {
        let subscriber = hub.subscriber(&Principal::ANONYMOUS);
        subscriber.mailbox.set_requester(&Requester::Address([192, 0, 2, last].into()));
        subscriber
    };
    let (greedy, again, other) = (address(1), address(1), address(2));
    let uri = uri();
    let _first = greedy.begin("a://x/f", &uri, LIMITS).unwrap();
    assert!(again.begin("a://x/f", &uri, LIMITS).is_err());
    let (client, mut charge) = (again.mailbox.requester(), None);
    let elsewhere = by_form(["a://x/f"]);
    assert_eq!(again.charge_elsewhere(client, &elsewhere, &mut charge, LIMITS), Err(LimitReached::ClientShare));
    assert!(other.begin("a://x/f", &uri, LIMITS).is_ok());
}
