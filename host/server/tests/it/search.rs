//! Search over a native provider whose resources change: indexed documents, hits, and costs.

mod faults;
mod pages;
mod texts;

use std::sync::atomic::Ordering;

use mcp_resource_host::Host;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::search::PluginSearch;
use mcp_resource_host::config::{PrincipalSelector, Rule};
use mcp_resource_host::resource::Error;
use mcp_resource_host::search::{ContextRequest, SearchRequest};

use self::texts::{Texts, close, found, search, start, wait_until_found};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_found_and_what_is_gone_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "the quick brown fox"), ("b", "日本語の文書")]);
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    assert_eq!(found(&host, "fox").await, ["texts:///a"]);
    assert_eq!(found(&host, "文書").await, ["texts:///b"]);
    texts.set("a", Some("a lazy dog"));
    wait_until_found(&host, "dog", &["texts:///a"]).await;
    assert!(found(&host, "fox").await.is_empty());
    texts.set("c", Some("another dog"));
    texts.set("a", None);
    wait_until_found(&host, "dog", &["texts:///c"]).await;
    let status = host.search_status();
    assert_eq!((status[0].documents, status[0].is_complete), (2, true), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snippet_shows_the_lines_that_match() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "first\n\nthe needle is here\n")]);
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    let hit = search(&host, &Principal::LOCAL, SearchRequest::new("needle")).await.hits.remove(0);
    let snippet = hit.snippet.unwrap();
    assert_eq!(snippet.text.get(snippet.matches[0].clone()), Some("needle"));
    assert_eq!(snippet.lines, (3, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_searched_or_read_unless_the_config_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox")]);
    let host = start(&texts, None, dir.path(), Vec::new()).await;
    let refused = host.search(&Principal::LOCAL, SearchRequest::new("fox")).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidRequest { .. }), "{refused:?}");
    assert_eq!(texts.reads(), 0);
    assert!(!dir.path().join("state/search").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_config_says_what_is_indexed() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox"), ("private/b", "fox"), ("long", "fox and so on, for more than one kibibyte")]);
    texts.set("long", Some(&("fox and so on ".repeat(100) + "zebra")));
    let mut settings = PluginSearch::default();
    settings.exclude.push("texts:///private/**".parse().unwrap());
    settings.max_document = "1KiB".parse().unwrap();
    let host = start(&texts, Some(settings), dir.path(), Vec::new()).await;
    assert_eq!(found(&host, "fox").await, ["texts:///long", "texts:///a"], "of the long one the beginning is indexed");
    assert!(found(&host, "zebra").await.is_empty(), "and its end is not");
    let status = host.search_status();
    assert_eq!((status[0].without_text, status[0].has_everything()), (1, false), "{status:?}");

    let dir = tempfile::tempdir().unwrap();
    let images = Texts::of_type("image/svg+xml");
    images.set("drawing", Some("fox"));
    let host = start(&images, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    assert!(found(&host, "fox").await.is_empty());
    assert_eq!(found(&host, "drawing").await, ["texts:///drawing"]);
    assert_eq!(images.reads(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_indexed_is_read_with_a_lower_priority_than_what_clients_read() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox")]);
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    let niceness = || texts.niceness.load(Ordering::SeqCst);
    let own = rustix::process::getpriority_process(None).unwrap();
    assert_eq!((texts.reads(), niceness()), (1, (own + 10).min(19)));
    host.read(&Principal::LOCAL, "texts:///a").await.unwrap();
    assert_eq!((texts.reads(), niceness()), (2, own));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_the_index_is_there_and_nothing_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox"), ("b", "dog")]);
    close(start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await, dir.path()).await;
    let before = texts.reads();
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    assert_eq!(found(&host, "fox").await, ["texts:///a"]);
    assert_eq!((before, texts.reads()), (2, 2));
    host.rebuild_search_index().await.unwrap();
    wait_until_found(&host, "fox", &["texts:///a"]).await;
    assert!(texts.reads() > 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_config_excludes_now_is_not_found_in_an_index_that_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox"), ("private/b", "fox")]);
    close(start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await, dir.path()).await;
    texts.is_failing.store(true, Ordering::SeqCst);
    let mut settings = PluginSearch::default();
    settings.exclude.push("texts:///private/**".parse().unwrap());
    let host = start(&texts, Some(settings), dir.path(), Vec::new()).await;
    wait_until_found(&host, "fox", &["texts:///a"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_frequent_a_word_is_elsewhere_does_not_change_what_is_found() {
    use mcp_resource_host::config::Operation;
    let mut rule = Rule::new([PrincipalSelector::Any]);
    rule.allow.push("texts:///public/**".parse().unwrap());
    rule.operations = [Operation::List, Operation::Read].into_iter().collect();
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("public/z", "zebra"), ("public/l", "lion")]);
    for index in 0..1100 {
        texts.set(&format!("hidden/{index}"), Some(if index % 2 == 0 { "zebra" } else { "other" }));
    }
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), vec![rule]).await;
    assert_eq!(search(&host, &Principal::new("ada"), SearchRequest::new("zebra lion")).await.total, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_index_is_made_anew_while_the_host_runs() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox")]);
    close(start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await, dir.path()).await;
    let file = dir.path().join("state/search/index.sqlite3");
    std::fs::write(&file, "this is no database").unwrap();
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    wait_until_found(&host, "fox", &["texts:///a"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_is_a_syntax_error_and_a_long_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("a", "fox AND dog")]);
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    for query in
        ["\"a", "a AND", "NEAR(fox dog)", "text:fox*", "(((x", "^fox - dog", "{name text}: fox", "'; DROP", "\0a"]
    {
        search(&host, &Principal::LOCAL, SearchRequest::new(query)).await;
    }
    assert_eq!(found(&host, "x\" OR \"fox").await, Vec::<String>::new(), "a phrase is required");
    let long = SearchRequest::new("x".repeat(10 << 20));
    let refused = host.search(&Principal::LOCAL, long).await.unwrap_err();
    assert!(matches!(&refused, Error::InvalidRequest { message } if message.contains("4096")), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_is_narrowed_to_a_place_and_to_as_many_hits_as_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("src/a", "fox"), ("src/b", "fox"), ("doc/c", "fox fox")]);
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    let narrowed = SearchRequest::new("fox").within("texts:///src").limit(1);
    let results = search(&host, &Principal::LOCAL, narrowed).await;
    let uris: Vec<_> = results.hits.iter().map(|hit| hit.resource.uri.as_str()).collect();
    assert_eq!((results.total, uris), (2, vec!["texts:///src/a"]));
    let of_scheme = SearchRequest::new("fox").within("texts:");
    assert_eq!(search(&host, &Principal::LOCAL, of_scheme).await.total, 3, "of all mounts with that beginning");
}

async fn refusal(host: &Host, who: &Principal, request: SearchRequest) -> String {
    match host.search(who, request.clone()).await {
        Err(Error::InvalidRequest { message }) => message,
        other => panic!("{request:?}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_found_is_refused_with_what_is_expected() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::of_type("text/markdown");
    texts.set("a", Some("fox"));
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    let fox = || SearchRequest::new("fox");
    for (request, parts) in [
        (
            fox().within("text:///a"),
            ["`in`: expected a URI below a mount", "found `text:///a`; the nearest one is `texts:///`"],
        ),
        (
            fox().within(""),
            ["`in`: expected a URI below a mount", "found an empty text; the nearest one is `texts:///`"],
        ),
        (fox().within("search:///"), ["`in`: expected", "found `search:///`"]),
        (fox().kind("markdown"), ["`kind`: expected a MIME type", " (indexed are `text/markdown`); found `markdown`"]),
        (fox().kind(""), ["`kind`: expected a MIME type", "found an empty text"]),
        (fox().kind("text/"), ["`kind`: expected a MIME type", "found `text/`"]),
        (fox().language("xx"), ["`lang`: expected one of `ar`, `de`, `en`", "found `xx`"]),
        (fox().language("en-US"), ["without a region", "found `en-US`"]),
        (SearchRequest::new(""), ["the query: expected at least one word", "found an empty text"]),
        (SearchRequest::new(" (\" ** "), ["the query: expected at least one word", "found ` (\" ** `"]),
    ] {
        let message = refusal(&host, &Principal::LOCAL, request).await;
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    let refused = host.context(&Principal::LOCAL, ContextRequest::new(100).query(" ")).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidRequest { .. }), "{refused:?}");
    // A URI without a resource may get one later.
    for request in [fox().within("texts:///b"), fox().kind("text/html"), fox().kind("VIDEO/*"), fox().language("JA")] {
        assert_eq!(search(&host, &Principal::LOCAL, request).await.total, 0);
    }
    assert_eq!(search(&host, &Principal::LOCAL, fox().kind("Text").within("TEXTS:///a")).await.total, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mount_and_kinds_that_a_principal_may_not_find_are_not_told() {
    use mcp_resource_host::config::Operation;
    let mut rule = Rule::new([PrincipalSelector::Named("ada".to_owned())]);
    rule.allow.push("texts:///**".parse().unwrap());
    rule.operations = [Operation::List, Operation::Read].into_iter().collect();
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::of_type("text/markdown");
    texts.set("a", Some("fox"));
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), vec![rule]).await;
    let (ada, eve) = (Principal::new("ada"), Principal::new("eve"));
    let within = |uri: &str| SearchRequest::new("fox").within(uri);
    assert_eq!(search(&host, &ada, within("texts:///")).await.total, 1);
    let hidden = refusal(&host, &eve, within("texts:///")).await;
    assert_eq!(hidden.replace("texts", "other"), refusal(&host, &eve, within("other:///")).await);
    assert!(hidden.ends_with("there is none that you may search"), "{hidden}");
    let kind = refusal(&host, &eve, SearchRequest::new("fox").kind("markdown")).await;
    assert!(!kind.contains("indexed"), "{kind}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hit_needs_both_list_and_read() {
    use mcp_resource_host::config::Operation;
    let rule = |operations: &[Operation], glob: &str| {
        let mut rule = Rule::new([PrincipalSelector::Any]);
        rule.allow.push(glob.parse().unwrap());
        rule.operations = operations.iter().copied().collect();
        rule
    };
    let rules = vec![
        rule(&[Operation::List], "texts:///listed"),
        rule(&[Operation::Read], "texts:///readable"),
        rule(&[Operation::List, Operation::Read], "texts:///both"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let texts = Texts::new([("listed", "fox"), ("readable", "fox"), ("both", "fox"), ("neither", "fox")]);
    let host = start(&texts, Some(PluginSearch::default()), dir.path(), rules).await;
    let results = search(&host, &Principal::new("ada"), SearchRequest::new("fox")).await;
    let uris: Vec<_> = results.hits.iter().map(|hit| hit.resource.uri.as_str()).collect();
    assert_eq!((results.total, uris), (1, vec!["texts:///both"]));
}
