use std::time::Duration;

use futures::StreamExt;
use mcp_host_config as config;
use mcp_host_engine::plugin::LoadError;
use mcp_host_model::provider::{self, Contents, Entry, Page, Provider, ProviderInfo};
use tokio::time::timeout;

use super::*;
use crate::catalog::CursorKey;

fn assert_send<T: Send>(_: T) {}
fn assert_send_sync<T: Send + Sync>() {}

#[test]
fn a_host_is_shared_between_threads() {
    assert_send_sync::<Host>();
    assert_send_sync::<Subscriber>();
    assert_send_sync::<HostBuilder>();
    assert_send_sync::<Error>();
    assert_send_sync::<StartError>();
    assert_send_sync::<ReloadError>();
}

/// Compiled only: a future that is not `Send` would not compile.
#[allow(dead_code, reason = "it is compiled, not called")]
fn every_future_can_be_spawned(host: &Host, who: &Principal, subscriber: &Subscriber, config: Config) {
    let request = CompleteRequest {
        template: "",
        argument: Argument { name: String::new(), value: String::new() },
        context: Vec::new(),
    };
    assert_send(Host::start(config.clone()));
    assert_send(Host::builder(config.clone()).check());
    assert_send(host.wait_until_loaded());
    assert_send(host.list(who, ListRequest::default()));
    assert_send(host.list_directory(who, "", None));
    assert_send(host.list_all(who));
    assert_send(host.templates(who, None));
    assert_send(host.templates_all(who));
    assert_send(host.read(who, ""));
    assert_send(host.read_strict(who, ""));
    assert_send(host.metadata(who, ""));
    assert_send(host.complete(who, request));
    assert_send(host.subscribe(subscriber, ""));
    assert_send(host.maintain_subscriptions(subscriber, &[]));
    assert_send(host.reload(config));
    assert_send(host.shutdown(Duration::ZERO));
    assert_send(subscriber.next());
    assert_send(subscriber.updates());
    assert_send(subscriber.listing_ready());
}

async fn empty_host(dir: &std::path::Path) -> Host {
    let builder = Host::builder(Config::new()).cache_dir(dir.join("cache")).state_dir(dir.join("state"));
    builder.start().await.unwrap()
}

#[tokio::test]
async fn after_a_shutdown_requests_are_rejected_and_streams_end() {
    let dir = tempfile::tempdir().unwrap();
    let host = empty_host(dir.path()).await;
    let subscriber = host.subscriber(&Principal::LOCAL);
    assert!(host.list(&Principal::LOCAL, ListRequest::default()).await.is_ok());
    assert_eq!(host.list_all(&Principal::LOCAL).count().await, 0);
    host.shutdown(Duration::from_secs(1)).await;
    let rejected = host.list(&Principal::LOCAL, ListRequest::default()).await;
    assert_eq!(rejected, Err(Error::ShuttingDown));
    assert_eq!(host.list_all(&Principal::LOCAL).collect::<Vec<_>>().await, [Err(Error::ShuttingDown)]);
    assert!(matches!(host.reload(Config::new()).await, Err(ReloadError::ShuttingDown)));
    assert_eq!(subscriber.updates().next().await, None);
    host.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn without_a_server_a_line_of_the_audit_log_has_what_the_facade_knows() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.jsonl");
    let mut config = Config::new();
    config.audit = Some(mcp_host_config::audit::Audit::to_file(&file));
    let builder = Host::builder(config).cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
    let host = builder.start().await.unwrap();
    host.read(&Principal::new("ada"), "a://b").await.unwrap_err();
    host.shutdown(Duration::from_secs(60)).await;
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let operations: Vec<_> = lines.iter().map(|line| line["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["start", "read", "stop"]);
    let line = &lines[1];
    let mut names: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let known = ["duration_ms", "generation", "operation", "outcome", "principal", "sequence", "time", "uri"];
    assert_eq!(names, known);
    assert_eq!((&line["principal"], &line["outcome"]), (&"ada".into(), &"not found".into()));
}

#[tokio::test]
async fn a_host_that_is_dropped_ends_streams() {
    let dir = tempfile::tempdir().unwrap();
    let host = empty_host(dir.path()).await;
    let subscriber = host.subscriber(&Principal::LOCAL);
    drop(host);
    let update = timeout(Duration::from_secs(60), subscriber.updates().next()).await;
    assert_eq!(update, Ok(None));
}

#[tokio::test]
async fn a_plugin_that_was_being_loaded_when_the_host_was_shut_down_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = config::Plugin::new("a".parse().unwrap(), dir.path().join("a.wasm"), "a:///".parse().unwrap());
    let builder = Host::builder(Config::new().plugin(plugin).unwrap());
    let builder = builder.cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
    // On a single thread, the loading task does not run before the first `await`.
    let host = builder.start_loading().unwrap();
    let waiting = host.wait_until_loaded();
    let mut waiting = std::pin::pin!(waiting);
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    host.shutdown(Duration::ZERO).await;
    timeout(Duration::from_secs(60), waiting).await.unwrap();
    let state = host.plugins().remove(0).state;
    assert!(matches!(&state, PluginState::LoadFailed(error) if matches!(**error, LoadError::Cancelled)), "{state:?}");
}

#[tokio::test]
async fn a_shutdown_waits_for_requests_in_flight() {
    for longest in [Duration::from_secs(60), Duration::MAX] {
        let dir = tempfile::tempdir().unwrap();
        let host = Arc::new(empty_host(dir.path()).await);
        let (finish, finished) = tokio::sync::oneshot::channel::<()>();
        let facts = Facts::default();
        let request = host.audited(&Principal::LOCAL, Operation::List, "", &facts, async {
            finished.await.unwrap();
            Ok(())
        });
        let mut request = std::pin::pin!(request);
        assert!(futures::poll!(request.as_mut()).is_pending());
        let mut shutdown = std::pin::pin!(host.shutdown(longest));
        let ended = timeout(Duration::from_millis(20), shutdown.as_mut()).await;
        assert!(ended.is_err(), "a request is in flight ({longest:?})");
        finish.send(()).unwrap();
        assert_eq!(request.await, Ok(()));
        shutdown.await;
    }
}

#[tokio::test]
async fn directories_and_key_of_the_builder_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let host = empty_host(dir.path()).await;
    assert!(dir.path().join("state/cursor.key").exists());
    assert!(format!("{host:?}").starts_with("Host { generation: 1, plugins: []"));
    let keyed = tempfile::tempdir().unwrap();
    let builder = Host::builder(Config::new()).cache_dir(keyed.path().join("cache"));
    builder.state_dir(keyed.path().join("state")).cursor_key(CursorKey::random()).start().await.unwrap();
    assert!(!keyed.path().join("state/cursor.key").exists());
}

/// A provider with the files `c` and `d`.
struct Letters;

#[provider::async_trait]
impl Provider for Letters {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("letters", "1.0.0")
    }

    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> provider::Result<Page> {
        let entries = ["c", "d"].map(|path| Entry::new(path, path));
        Ok(Page::last(entries))
    }

    async fn stat(&self, path: &str) -> provider::Result<Entry> {
        Ok(Entry::new(path, path))
    }

    async fn read(&self, path: &str) -> provider::Result<Vec<Contents>> {
        Ok(vec![Contents::text(Entry::new(path, path), path)])
    }
}

#[tokio::test]
async fn a_mount_that_a_principal_may_see_nothing_of_changes_no_answer() {
    let ada = Principal::new("ada");
    let mut answers = Vec::new();
    for hidden in [&["files://h/a/", "files://h/0/"][..], &[]] {
        let dir = tempfile::tempdir().unwrap();
        let mut rule = config::Rule::new([config::PrincipalSelector::Named("ada".to_owned())]);
        rule.allow = vec!["files://h/b/**".parse().unwrap()];
        let mut config = Config::new();
        config.rules.push(rule);
        let mut builder = Host::builder(config).cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
        for (number, mount) in hidden.iter().chain(&["files://h/b/"]).enumerate() {
            let name =
                format!("letters-{}", if *mount == "files://h/b/" { "z".to_owned() } else { number.to_string() });
            builder = builder.provider(name.parse().unwrap(), mount.parse().unwrap(), Letters);
        }
        let host = builder.start().await.unwrap();
        let mut told = Vec::new();
        for uri in [
            "files://h/b/c",
            "files://h/a/c",
            "files://h/a/../b/c",
            "files://h/a/../0/c",
            "files://h/a/..",
            "files://h/a//c",
            "files://h/a/%zz",
            "files://h/",
        ] {
            let (read, metadata) = (host.read(&ada, uri).await, host.metadata(&ada, uri).await);
            let request = ListRequest { parent: Some(uri), cursor: None };
            told.push(format!("{uri} {read:?} {metadata:?} {:?}", host.list(&ada, request).await));
            told.push(format!("{uri} {:?}", host.nearest_mount(&ada, config::Operation::Read, uri)));
            #[cfg(feature = "search")]
            {
                let request = mcp_host_search::SearchRequest::new("c").within(uri);
                told.push(format!("{uri} {:?}", host.search(&ada, request).await));
            }
        }
        answers.push(told);
    }
    assert!(answers[0].iter().any(|answer| answer.starts_with("files://h/a/../b/c Ok")), "{answers:#?}");
    assert_eq!(answers[0], answers[1]);
}
