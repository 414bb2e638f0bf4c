//! The façade of a host in this process, for two principals.

use std::sync::Arc;

use futures::{StreamExt, stream};
use mcp_host_tests::{WrittenConfig, wait_until};
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::{ANONYMOUS, Config, LOCAL};
use mcp_resource_host::{Host, Subscriber, Update, WatchStats};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::SUBSCRIBERS;
use super::run::Run;
use super::seeds::seeds;
use super::transport::{StreamEvent, Transport};
use crate::subscriptions::facade::start;

/// The number of concurrent runs.
const MAX_CONCURRENT: usize = 12;

struct FacadeTransport {
    host: Arc<Host>,
    subscribers: Vec<Subscriber>,
    reloading: Option<JoinHandle<()>>,
    listeners: Vec<JoinHandle<()>>,
}

impl FacadeTransport {
    async fn start(config: &WrittenConfig) -> Self {
        let host = start(config).await;
        let mut subscribers = Vec::new();
        for principal in 0..SUBSCRIBERS {
            subscribers.push(subscriber(&host, principal).await);
        }
        Self { host, subscribers, reloading: None, listeners: Vec::new() }
    }

    async fn end(self) {
        drop(self.subscribers);
        self.listeners.iter().for_each(JoinHandle::abort);
        wait_until("nothing is watched any more", || self.host.watch_stats() == WatchStats::default()).await;
    }
}

fn principal_at(index: usize) -> Principal {
    if index.is_multiple_of(2) { Principal::LOCAL } else { Principal::ANONYMOUS }
}

async fn subscriber(host: &Host, principal: usize) -> Subscriber {
    let subscriber = host.subscriber(&principal_at(principal));
    subscriber.watch_listing();
    subscriber.listing_ready().await;
    subscriber
}

impl Transport for FacadeTransport {
    const IS_LISTING_EFFECTIVE_AT_ONCE: bool = true;

    fn principal(index: usize) -> &'static str {
        [LOCAL, ANONYMOUS][index % 2]
    }

    async fn subscribe(&mut self, principal: usize, uri: &str) -> bool {
        self.host.subscribe(&self.subscribers[principal], uri).await.is_ok()
    }

    async fn unsubscribe(&mut self, principal: usize, uri: &str) -> Vec<Update> {
        let told = self.drain_updates(&[principal]).await.remove(0);
        // An error because the plugin no longer exists does not matter.
        let _ = self.host.unsubscribe(&self.subscribers[principal], uri);
        told
    }

    async fn listen(&mut self, count: usize, uris: &[String]) -> Vec<mpsc::UnboundedReceiver<StreamEvent>> {
        let mut all = Vec::new();
        for principal in 0..count {
            let (heard, receiver) = mpsc::unbounded_channel();
            heard.send(StreamEvent::Acknowledged(uris.to_vec())).unwrap();
            let (host, uris) = (self.host.clone(), uris.to_vec());
            self.listeners.push(tokio::spawn(async move {
                let subscriber = host.subscriber(&principal_at(principal));
                let hearing = async {
                    // The loop ends when the receiver is dropped.
                    while heard.send(StreamEvent::Update(subscriber.next().await)).is_ok() {}
                };
                tokio::select! {
                    never = host.maintain_subscriptions(&subscriber, &uris) => match never {},
                    () = hearing => {}
                }
            }));
            all.push(receiver);
        }
        all
    }

    async fn reconnect(&mut self, principal: usize) {
        self.subscribers[principal] = subscriber(&self.host, principal).await;
    }

    async fn drain_updates(&mut self, whom: &[usize]) -> Vec<Vec<Update>> {
        whom.iter().map(|principal| std::iter::from_fn(|| self.subscribers[*principal].try_next()).collect()).collect()
    }

    async fn wait_for_update(&mut self, principal: usize) -> Vec<Update> {
        vec![self.subscribers[principal].next().await]
    }

    fn reload(&mut self, config: &WrittenConfig) {
        let (host, config) = (self.host.clone(), Config::load(config.path()).unwrap());
        self.reloading = Some(tokio::spawn(async move { drop(host.reload(config).await.unwrap()) }));
    }

    async fn wait_until_reloaded(&mut self) {
        if let Some(reloading) = self.reloading.take() {
            reloading.await.unwrap();
        }
    }
}

#[tokio::test]
async fn over_the_facade_the_rule_holds_whatever_happens() {
    let one = async |seed| {
        let run = Run::new(seed);
        let mut transport = FacadeTransport::start(&run.fixture.config).await;
        run.run(&mut transport, 80).await;
        transport.end().await;
    };
    stream::iter(seeds(24)).for_each_concurrent(MAX_CONCURRENT, one).await;
}
