//! At-least-once delivery of a subscriber's updates.
//!
//! An update that was taken may be lost on its way to the client. So each update has a number, and each subscription
//! keeps the number of its last update. [`Subscriber::redeliver`] makes those updates pending again that the client may
//! not have received. This takes eight bytes per subscription, however many updates there were.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::mailbox::PendingUpdate;
use super::subscriber::{Subscriber, Update};

/// An update that a subscriber has taken to send it to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentUpdate {
    /// The time at which it was taken.
    pub time: SystemTime,
    /// The name of the subscriber's principal.
    pub principal: String,
    /// The change.
    pub update: Update,
}

impl Subscriber {
    /// Returns the next pending update. Drops updates of resources that the principal may currently not read or
    /// subscribe to.
    pub fn try_next(&self) -> Option<Update> {
        self.try_next_numbered().map(|(_, update)| update)
    }

    /// Returns the next pending update as [`try_next`](Self::try_next) does, with its number. Each number is greater
    /// than the previous one. For one caller at a time.
    pub fn try_next_numbered(&self) -> Option<(u64, Update)> {
        let policy = self.hub.context.access.load().policy(&self.principal());
        loop {
            match self.mailbox.pop()? {
                PendingUpdate::Listing => {
                    self.mailbox.mark_sent(PendingUpdate::Listing);
                    let number = self.numbers.next().get();
                    self.numbers.listing.store(number, Ordering::Relaxed);
                    self.hub.listing_updates.increment();
                    self.notify_followers(&Update::Listing);
                    return Some((number, Update::Listing));
                }
                PendingUpdate::Resource(uri) if policy.allows_updates(&uri) => {
                    let mut subscriptions = self.subscriptions();
                    let Some(subscription) = subscriptions.get_mut(&uri) else { continue };
                    if subscription.is_active {
                        let update = Update::Resource(subscription.requested_uri(&uri).to_owned());
                        let number = self.numbers.next();
                        subscription.number = Some(number);
                        self.mailbox.mark_sent(PendingUpdate::Resource(uri));
                        self.hub.resource_updates.increment();
                        self.notify_followers(&update);
                        return Some((number.get(), update));
                    }
                    subscription.has_deferred_update = true;
                }
                PendingUpdate::Resource(_) => {}
            }
        }
    }

    fn notify_followers(&self, update: &Update) {
        if !self.mailbox.is_view() {
            self.hub.sent.send(|| {
                let principal = self.principal().name().to_owned();
                Arc::new(SentUpdate { time: SystemTime::now(), principal, update: update.clone() })
            });
        }
    }

    /// Returns the number of the last update that was taken; 0 before the first.
    pub fn last_number(&self) -> u64 {
        self.numbers.last.load(Ordering::Relaxed)
    }

    /// Makes updates pending again that were taken and may not have been received: all with a number greater than
    /// `received`, the last one that the client has received, or all if that is unknown. Each resource has at most one.
    pub fn redeliver(&self, received: Option<u64>) {
        // A number that was not assigned yet counts as unknown.
        let received = received.filter(|number| *number <= self.last_number()).unwrap_or(0);
        match self.numbers.listing.load(Ordering::Relaxed) {
            0 => {}
            number if number > received => self.mailbox.put_listing(),
            _ => self.numbers.listing.store(0, Ordering::Relaxed),
        }
        for (uri, subscription) in &mut *self.subscriptions() {
            match subscription.number {
                Some(number) if number.get() > received => self.mailbox.put_resource(uri),
                _ => subscription.number = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::access::{Access, Principal};
    use crate::watch::Hub;
    use mcp_host_base::share_limiter::ShareLimits;
    use mcp_host_config::Config;
    use mcp_host_model::uri::Mount;

    #[tokio::test]
    async fn what_may_not_have_been_received_is_told_again_once_and_what_was_is_not() {
        let hub = Hub::new(std::iter::empty(), Arc::new(Access::new(&Config::new())), None, false);
        let (subscriber, mount) = (hub.subscriber(&Principal::LOCAL), "a://x/".parse::<Mount>().unwrap());
        let uris = ["a", "b", "c"].map(|path| mount.compose(path).unwrap().uri);
        let memory = ShareLimits { client: 10_000, overall: 10_000 };
        for uri in &uris {
            let attempt = subscriber.begin(uri.as_str(), uri, memory).unwrap();
            attempt.register(&mount, false);
            attempt.activate(true);
        }
        // Updates of one resource are throttled.
        let next = async || loop {
            subscriber.ready().await;
            if let Some(update) = subscriber.try_next_numbered() {
                return update;
            }
        };
        let update = |index: usize| Update::Resource(uris[index].as_str().to_owned());
        for index in 0..3 {
            assert_eq!(next().await, (u64::try_from(index).unwrap() + 1, update(index)));
        }
        subscriber.redeliver(Some(2));
        assert_eq!(next().await, (4, update(2)));
        // The client has received the first two, so they are not pending.
        subscriber.redeliver(None);
        assert_eq!(next().await, (5, update(2)));
        subscriber.mailbox.put_resource(&uris[0]);
        subscriber.mailbox.put_listing();
        assert_eq!([next().await, next().await], [(6, Update::Listing), (7, update(0))]);
        subscriber.redeliver(Some(5));
        assert_eq!([next().await, next().await], [(8, Update::Listing), (9, update(0))]);
        subscriber.redeliver(Some(u64::MAX));
        let all = [next().await, next().await];
        assert_eq!(all, [(10, Update::Listing), (11, update(0))], "there is no such number");
        subscriber.redeliver(Some(11));
        subscriber.mailbox.put_resource(&uris[1]);
        assert_eq!(next().await, (12, update(1)), "nothing else is pending");
        assert!(futures::poll!(std::pin::pin!(subscriber.ready())).is_pending());
    }
}
