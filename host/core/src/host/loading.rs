//! Requests for a plugin that is still being loaded.
//!
//! At a start with an empty cache, a component with an interpreter compiles for up to a minute, and clients make
//! requests in the first second. A request for one plugin (reading, metadata, children, completion, subscribing) waits
//! until the plugin is loaded or has failed, without blocking a thread, for at most [`MAX_WAIT`]; then it fails with
//! [`Unavailable`](mcp_host_model::resource::Error::Unavailable). The rules are applied before the wait, so that a
//! denied resource gets the same response as one that does not exist, and again afterwards, because a reload may have
//! changed them.
//!
//! Bulkhead: at most [`MAX_WAITING`] requests wait at the same time; a further one fails immediately. Over stdio one
//! bound covers all requests in flight, and waiting requests must not block requests for loaded plugins. Merged
//! listings never wait: they name the missing plugins, and clients are notified when those are loaded.

use std::sync::Arc;
use std::time::Duration;

use mcp_host_config::Operation;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Host;
use super::generation::Generation;
use super::resolve::ResolvedTarget;
use crate::access::Principal;
use crate::audit::Facts;

/// The maximum wait for a plugin. Clients with the official SDKs, and proxies with usual settings, time out after a
/// minute.
const MAX_WAIT: Duration = Duration::from_secs(45);
/// The maximum number of requests that wait at a time.
const MAX_WAITING: usize = 32;

/// The bounds of waiting.
pub(super) struct LoadWaits {
    longest: Duration,
    /// One permit for each request that may wait.
    permits: Semaphore,
}

impl Default for LoadWaits {
    fn default() -> Self {
        Self { longest: MAX_WAIT, permits: Semaphore::new(MAX_WAITING) }
    }
}

impl Host {
    /// Returns the generation for a request about a resource. If the plugin of the resource is being loaded, and the
    /// principal may perform the operation, first waits until it is loaded.
    pub(super) async fn generation_for(
        &self,
        principal: &Principal,
        operation: Operation,
        uri: &str,
        facts: &Facts,
    ) -> Arc<Generation> {
        let now = self.generation.load_full();
        if !now.is_loading {
            return now;
        }
        let is_loading = |target: &ResolvedTarget<'_>| target.slot.is_loading();
        let target = now.resolve(principal, operation, uri, facts).ok().filter(is_loading);
        match target.map(|target| target.slot.name.clone()) {
            Some(plugin) => self.generation_with(&plugin).await,
            None => now,
        }
    }

    /// Waits until a plugin is loaded or has failed, and returns the generation at that time.
    pub(super) async fn generation_with(&self, plugin: &str) -> Arc<Generation> {
        let LoadWaits { longest, permits } = &self.load_waits;
        if let Ok(_permit) = permits.try_acquire() {
            // After the timeout the request fails, because the plugin is still being loaded.
            let _ = timeout(*longest, self.generation_store.wait_until_plugin_loaded(plugin)).await;
        }
        self.generation.load_full()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Instant;

    use futures::FutureExt;

    use super::*;
    use crate::host::CompleteRequest;
    use mcp_host_config::{self as config, Config};
    use mcp_host_model::resource::{Argument, Error};

    /// A host whose only plugin is being loaded.
    fn host(dir: &std::path::Path) -> Host {
        let plugin = config::Plugin::new("a".parse().unwrap(), dir.join("a.wasm"), "a:///".parse().unwrap());
        let builder = Host::builder(Config::new().plugin(plugin).unwrap());
        // On a single thread, the loading task does not run before the first `await`.
        builder.cache_dir(dir.join("cache")).state_dir(dir.join("state")).start_loading().unwrap()
    }

    /// A host whose only plugin is never loaded.
    fn never_loaded(dir: &std::path::Path) -> Host {
        let host = host(dir);
        host.background_loader.retain(&HashSet::new());
        host
    }

    fn complete(template: &str) -> CompleteRequest<'_> {
        let argument = Argument { name: "x".to_owned(), value: String::new() };
        CompleteRequest { template, argument, context: Vec::new() }
    }

    #[tokio::test]
    async fn requests_for_a_plugin_that_is_being_loaded_wait_for_it_but_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let mut host = never_loaded(dir.path());
        host.load_waits.longest = Duration::from_millis(300);
        let began = Instant::now();
        let local = &Principal::LOCAL;
        let (read, metadata, completion, list) = tokio::join!(
            host.read(local, "a:///x"),
            host.metadata(local, "a:///x"),
            host.complete(local, complete("a:///{x}")),
            host.list(local, Default::default()),
        );
        for refused in [read.unwrap_err(), metadata.unwrap_err(), completion.unwrap_err()] {
            assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
        }
        assert_eq!(list.unwrap().missing.len(), 1, "a merged listing names it");
        assert!(began.elapsed() >= host.load_waits.longest);
    }

    #[tokio::test]
    async fn nobody_waits_for_what_they_may_not_access_nor_behind_too_many_others() {
        let dir = tempfile::tempdir().unwrap();
        let host = never_loaded(dir.path());
        let stranger = Principal::new("ada");
        let (uri, template) = ("a:///x", "a:///{x}");
        // A request that does not wait completes at the first poll.
        let read = host.read(&stranger, uri).now_or_never();
        assert_eq!(read, Some(Err(Error::NotFound { uri: uri.to_owned() })));
        let completion = host.complete(&stranger, complete(template)).now_or_never();
        assert_eq!(completion, Some(Err(Error::NotFound { uri: template.to_owned() })));
        assert!(host.read(&Principal::LOCAL, uri).now_or_never().is_none());
        let _all = host.load_waits.permits.acquire_many(MAX_WAITING.try_into().unwrap()).await;
        let read = host.read(&Principal::LOCAL, uri).now_or_never();
        assert!(matches!(read, Some(Err(Error::Unavailable { .. }))), "{read:?}");
    }

    #[tokio::test]
    async fn a_shutdown_ends_the_wait() {
        let dir = tempfile::tempdir().unwrap();
        let host = host(dir.path());
        let mut read = std::pin::pin!(host.read(&Principal::LOCAL, "a:///x"));
        assert!(futures::poll!(read.as_mut()).is_pending());
        let (read, ()) = tokio::join!(read, host.shutdown(Duration::from_secs(60)));
        assert!(matches!(read, Err(Error::Unavailable { retry_after: None, .. })), "{read:?}");
    }
}
