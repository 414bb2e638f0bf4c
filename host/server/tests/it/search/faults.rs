//! The index while reads are slow, while they fail, and while everything changes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcp_resource_host::Host;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::search::PluginSearch;
use mcp_resource_host::search::{SearchRequest, SearchStatus};

use super::texts::{Texts, close, search, start, start_indexing, wait_until_found};
use crate::TIMEOUT;

/// Waits until the status of the plugin satisfies a condition.
async fn wait_until_status(host: &Host, is_wanted: impl Fn(&SearchStatus) -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let status = host.search_status().remove(0);
        if is_wanted(&status) {
            return;
        }
        assert!(Instant::now() < deadline, "{status:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_followed_while_the_rest_waits_for_its_budget_of_reads() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox"), ("b", "fox")]);
    close(start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await, dir.path()).await;
    for number in 0..100 {
        texts.set(&format!("new/{number}"), Some("dog"));
    }
    let settings = PluginSearch { reads: "1/s".parse().unwrap(), ..PluginSearch::default() };
    let host = start_indexing(&texts, Some(settings), dir.path(), Vec::new()).await;
    // The other host has read the texts.
    wait_until_found(&host, "fox", &["texts:///a", "texts:///b"]).await;
    // The plugin is watched from now on.
    wait_until_status(&host, |status| status.documents > 2).await;
    texts.set("a", None);
    texts.set("b", Some("a lazy cat"));
    wait_until_found(&host, "fox", &[]).await;
    wait_until_found(&host, "cat", &["texts:///b"]).await;
    let results = search(&host, &Principal::LOCAL, SearchRequest::new("dog")).await;
    assert!(results.total < 100, "the rest still waits: {}", results.total);
    assert_eq!((results.is_partial, results.incomplete), (true, vec!["texts".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_cannot_be_read_is_read_later_and_results_are_partial_until_then() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox")]);
    let settings = PluginSearch { refresh: "1s".parse().unwrap(), ..PluginSearch::default() };
    let host = start(&texts, Some(settings), dir.path(), Vec::new()).await;
    texts.is_unreadable.store(true, Ordering::SeqCst);
    texts.set("a", Some("dog"));
    wait_until_status(&host, |status| status.failed > 0).await;
    // The text is found by its old content.
    wait_until_found(&host, "fox", &["texts:///a"]).await;
    assert!(search(&host, &Principal::LOCAL, SearchRequest::new("fox")).await.is_partial);
    texts.is_unreadable.store(false, Ordering::SeqCst);
    wait_until_found(&host, "dog", &["texts:///a"]).await;
    wait_until_status(&host, SearchStatus::has_everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_that_changes_with_each_poll_is_indexed_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox"), ("b", "dog")]);
    texts.is_restless.store(true, Ordering::SeqCst);
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    wait_until_found(&host, "fox", &["texts:///a"]).await;
    for edit in 0..3 {
        texts.set("b", Some(&format!("edit{edit}")));
        wait_until_found(&host, &format!("edit{edit}"), &["texts:///b"]).await;
    }
    texts.set("b", None);
    wait_until_found(&host, "edit2", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_that_fails_makes_results_partial() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox")]);
    texts.is_failing.store(true, Ordering::SeqCst);
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    let results = search(&host, &Principal::LOCAL, SearchRequest::new("fox")).await;
    assert_eq!((results.total, results.is_partial), (0, true));
    assert!(host.search_status()[0].error.is_some());
}
