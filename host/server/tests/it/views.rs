//! The view of a principal: for random rules and resources, every operation returns exactly the resources that
//! `explain` allows.
//!
//! The decisions of `explain` are compared with decisions of this test, glob by glob.

mod endpoint;
mod rules;
mod tree;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::join_all;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::search::PluginSearch;
use mcp_resource_host::config::{Config, Operation};
use mcp_resource_host::plugin::NativePlugin;
use mcp_resource_host::resource::{Argument, Error};
use mcp_resource_host::search::{ContextRequest, SearchRequest, SearchResults};
use mcp_resource_host::{CompleteRequest, Host, ListRequest, Update};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use self::rules::{RuleText, Who, everybody, rule_texts, to_toml, witness};
use self::tree::{EVERYWHERE, NEW, NOWHERE, PATHS, TEMPLATES, Tree, WITNESSES};
use crate::{TIMEOUT, engine};

/// The mounts of the two plugins.
const MOUNTS: [&str; 2] = ["a://x/", "b:///"];

/// The templates that the host mounts when a plugin is searched.
const BUILT_IN_TEMPLATES: [&str; 2] = ["context:///{?q,budget,audience}", "search:///{?q,in,kind,lang,limit}"];

/// A host with a tree of resources at each mount.
struct Fixture {
    host: Host,
    rules: Vec<RuleText>,
    trees: [Arc<Tree>; 2],
    page_size: usize,
    dir: TempDir,
}

async fn config(rules: &[RuleText], page_size: usize, dir: &TempDir) -> Config {
    std::fs::write(dir.path().join("x.wasm"), "").unwrap();
    let parsed = Config::parse(&to_toml(rules), &dir.path().join("mcp-host.toml")).unwrap();
    let mut config = Config::new();
    config.server.cache = Some(dir.path().join("cache"));
    config.server.state = Some(dir.path().join("state"));
    config.server.page_size = page_size.try_into().unwrap();
    config.search = Some(endpoint::search().await);
    (config.rules, config.groups, config.file) = (parsed.rules, parsed.groups, parsed.file);
    config
}

impl Fixture {
    async fn start(rules: Vec<RuleText>, paths: [BTreeSet<&'static str>; 2], page_size: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let trees = paths.map(Tree::new);
        let config = config(&rules, page_size, &dir).await;
        let mut builder = Host::builder(config).engine(engine());
        for ((name, mount), tree) in ["a", "b"].into_iter().zip(MOUNTS).zip(&trees) {
            let plugin = NativePlugin::new(name.parse().unwrap(), mount.parse().unwrap(), tree.clone());
            let search = PluginSearch { embeddings: true, ..PluginSearch::default() };
            let plugin = plugin.watch_interval("100ms".parse().unwrap()).search(search);
            builder = builder.native_plugin(plugin);
        }
        let host = builder.start().await.unwrap();
        in_time("the index", host.wait_until_indexed()).await;
        in_time("the embeddings", async {
            while host.search_status().iter().any(|status| status.embedded != status.documents) {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        Self { host, rules, trees, page_size, dir }
    }

    async fn replace_rules(&mut self, rules: Vec<RuleText>) {
        self.host.reload(config(&rules, self.page_size, &self.dir).await).await.unwrap();
        self.rules = rules;
    }

    /// The URIs of all resources, in the order of the listing.
    fn uris(&self) -> Vec<String> {
        let below = |(mount, tree): (&str, &Arc<Tree>)| {
            tree.paths().into_iter().map(|path| format!("{mount}{path}")).collect::<Vec<_>>()
        };
        MOUNTS.into_iter().zip(&self.trees).flat_map(below).collect()
    }

    /// Whether this test and `explain` both allow the operation.
    fn allows(&self, who: &Who, operation: Operation, uri: &str) -> bool {
        let explained = self.host.explain(&who.principal, operation, uri).unwrap();
        // A principal that may not read a resource is not notified of it.
        let may_read = operation != Operation::Subscribe || who.is_allowed(&self.rules, Operation::Read, uri);
        let allowed = who.is_allowed(&self.rules, operation, uri) && may_read;
        assert_eq!(explained.decision.is_allowed(), allowed, "{:?} {operation} {uri}: {explained:?}", who.principal);
        let location = explained.decision.glob().map(|glob| glob.location.as_deref().unwrap());
        assert_eq!(location, explained.line.map(|line| format!("mcp-host.toml:{line}")).as_deref());
        allowed
    }

    /// The URIs on which the operation is allowed.
    fn allowed(&self, who: &Who, operation: Operation, uris: impl IntoIterator<Item = String>) -> Vec<String> {
        uris.into_iter().filter(|uri| self.allows(who, operation, uri)).collect()
    }

    async fn check_everything(&self, who: &Who) {
        self.check_listings(who).await;
        self.check_templates(who).await;
        for uri in self.uris() {
            self.check_reads(who, &uri).await;
        }
        self.check_completions(who).await;
        self.check_search(who).await;
        self.check_context(who).await;
    }

    /// All pages of a listing, and their cursors. A page that is not the last one is full.
    async fn pages(&self, principal: &Principal, parent: Option<&str>) -> Result<(Vec<String>, Vec<String>), Error> {
        let (mut uris, mut cursors) = (Vec::new(), Vec::<String>::new());
        loop {
            let request = ListRequest { parent, cursor: cursors.last().map(String::as_str) };
            let page = self.host.list(principal, request).await?;
            assert!(page.missing.is_empty(), "{:?}", page.missing);
            assert!(page.next_cursor.is_none() || page.items.len() == self.page_size, "a page is full");
            uris.extend(page.items.iter().map(|entry| entry.uri.as_str().to_owned()));
            match page.next_cursor {
                Some(cursor) => cursors.push(cursor),
                None => return Ok((uris, cursors)),
            }
        }
    }

    async fn check_listings(&self, who: &Who) {
        let (listed, cursors) = self.pages(&who.principal, None).await.unwrap();
        assert_eq!(listed, self.allowed(who, Operation::List, self.uris()), "{:?}", who.principal);
        for (mount, tree) in MOUNTS.into_iter().zip(&self.trees) {
            for directory in tree.directories() {
                let uri = format!("{mount}{directory}");
                let children = tree.children(&directory).into_iter().map(|path| format!("{mount}{path}"));
                let expected = match self.allows(who, Operation::List, &uri) {
                    true => Ok(self.allowed(who, Operation::List, children)),
                    false => Err(Error::NotFound { uri: uri.clone() }),
                };
                assert_eq!(self.pages(&who.principal, Some(&uri)).await.map(|(uris, _)| uris), expected);
            }
        }
        for thief in everybody().iter().filter(|other| !other.principal.is_same_identity(&who.principal)) {
            for cursor in &cursors {
                let request = ListRequest { parent: None, cursor: Some(cursor) };
                assert_eq!(self.host.list(&thief.principal, request).await.unwrap_err(), Error::InvalidCursor);
            }
        }
    }

    async fn check_templates(&self, who: &Who) {
        let (mut listed, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = self.host.templates(&who.principal, cursor.as_deref()).await.unwrap();
            listed.extend(page.items.into_iter().map(|template| template.uri_template.as_str().to_owned()));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let own = MOUNTS.iter().flat_map(|mount| TEMPLATES.map(|template| format!("{mount}{template}")));
        let all = own.chain(BUILT_IN_TEMPLATES.map(str::to_owned));
        let expected: Vec<_> =
            all.filter(|template| who.is_allowed(&self.rules, Operation::Templates, template)).collect();
        assert_eq!(listed, expected, "{:?}", who.principal);
    }

    async fn check_reads(&self, who: &Who, uri: &str) {
        let answer = |operation| match self.allows(who, operation, uri) {
            true => Ok(vec![uri.to_owned()]),
            false => Err(Error::NotFound { uri: uri.to_owned() }),
        };
        let read = self.host.read(&who.principal, uri).await;
        let read = read.map(|contents| contents.iter().map(|one| one.entry.uri.as_str().to_owned()).collect());
        assert_eq!(read, answer(Operation::Read), "{:?}", who.principal);
        let metadata = self.host.metadata(&who.principal, uri).await.map(|entry| vec![entry.uri.as_str().to_owned()]);
        assert_eq!(metadata, answer(Operation::Metadata), "{:?}", who.principal);
    }

    async fn check_completions(&self, who: &Who) {
        for (mount, tree) in MOUNTS.into_iter().zip(&self.trees) {
            for (template, known, prefix) in
                [("{+path}", None, ""), ("d/{name}", None, "d/"), ("{first}/{second}", Some("e"), "e/")]
            {
                let uri_template = format!("{mount}{template}");
                let variable = ["path", "name", "second"].into_iter().find(|name| template.contains(name)).unwrap();
                let context = known.map(|first| Argument::new("first", first)).into_iter().collect();
                let request =
                    CompleteRequest { template: &uri_template, argument: Argument::new(variable, ""), context };
                let completed = self.host.complete(&who.principal, request).await;
                if !who.is_allowed(&self.rules, Operation::Complete, &uri_template) {
                    assert_eq!(completed.unwrap_err(), Error::NotFound { uri: uri_template });
                    continue;
                }
                let values = tree.values(template, prefix);
                // A rule that denies completion of a URI has the same effect as one that denies reading it.
                let is_offered = |value: &String| {
                    let uri = format!("{mount}{prefix}{value}");
                    self.allows(who, Operation::Read, &uri) && !who.is_denied(&self.rules, Operation::Complete, &uri)
                };
                let expected: Vec<_> = values.into_iter().filter(is_offered).collect();
                let completed = completed.unwrap();
                assert_eq!(completed.values, expected, "{uri_template} for {:?}", who.principal);
                let total = completed.total.map(|total| usize::try_from(total).unwrap());
                assert!(total.is_none_or(|total| total == expected.len()), "a total tells what is hidden: {total:?}");
            }
        }
    }

    /// Searches for a word in every resource, and for a word in none, to which all resources are near by their vectors.
    /// The limit is once larger and once smaller than the number of resources.
    async fn check_search(&self, who: &Who) {
        let may_find = |uri: &String| self.allows(who, Operation::List, uri) && self.allows(who, Operation::Read, uri);
        let expected: BTreeSet<_> = self.uris().into_iter().filter(may_find).collect();
        let total = u64::try_from(expected.len()).unwrap();
        let limits = [SearchRequest::MAX_LIMIT, 1];
        for (query, limit) in [EVERYWHERE, NOWHERE].into_iter().flat_map(|query| limits.map(|limit| (query, limit))) {
            let results = self.search(who, SearchRequest::new(query).limit(limit)).await;
            assert!(results.is_hybrid);
            let found: BTreeSet<_> = results.hits.iter().map(|hit| hit.resource.uri.as_str().to_owned()).collect();
            assert_eq!(results.total, total, "a total tells what is hidden from {:?}", who.principal);
            assert_eq!(found.len(), expected.len().min(limit));
            assert!(found.is_subset(&expected), "{found:?} for {:?}", who.principal);
            for hit in &results.hits {
                let snippet = hit.snippet.as_ref().unwrap();
                assert!(hit.resource.uri.as_str().ends_with(snippet.text.split(' ').next().unwrap()), "{hit:?}");
            }
        }
    }

    /// Checks that selections of everything, by a word in every resource and by priority, contain exactly the resources
    /// that may be found.
    async fn check_context(&self, who: &Who) {
        let by_query = |query| ContextRequest::new(10_000).query(query);
        for request in [by_query(EVERYWHERE), by_query(NOWHERE), ContextRequest::new(10_000)] {
            let selection = self.host.context(&who.principal, request).await;
            let Ok(selection) = selection else { continue };
            for passage in &selection.passages {
                let uri = passage.resource.uri.as_str();
                assert!(
                    self.allows(who, Operation::List, uri) && self.allows(who, Operation::Read, uri),
                    "{passage:?}"
                );
                assert!(uri.ends_with(passage.text.split(' ').next().unwrap()), "{passage:?}");
            }
        }
    }

    /// Searches repeatedly until the result is not partial for lack of time.
    async fn search(&self, who: &Who, request: SearchRequest) -> SearchResults {
        let searching = async {
            loop {
                match self.host.search(&who.principal, request.clone()).await {
                    Ok(results) if !results.is_partial => return results,
                    Ok(_) | Err(Error::Unavailable { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        in_time("a search", searching).await
    }

    /// Whether this principal may be notified of changes of a resource.
    fn may_watch(&self, who: &Who, uri: &str) -> bool {
        self.allows(who, Operation::Subscribe, uri) && self.allows(who, Operation::Read, uri)
    }
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(TIMEOUT, future).await.unwrap_or_else(|_| panic!("{what}"))
}

fn proptest_config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    }
}

fn paths() -> impl Strategy<Value = BTreeSet<&'static str>> {
    proptest::sample::subsequence(PATHS.to_vec(), 0..=PATHS.len()).prop_map(BTreeSet::from_iter)
}

proptest! {
    #![proptest_config(proptest_config(40))]

    #[test]
    fn a_principal_sees_by_every_operation_what_explain_allows_before_and_after_a_change_of_rules(
        before in rule_texts(),
        after in rule_texts(),
        paths in [paths(), paths()],
        page_size in 1_usize..8,
    ) {
        runtime().block_on(async {
            let mut fixture = Fixture::start(before, paths, page_size).await;
            let everybody = everybody();
            join_all(everybody.iter().map(|who| fixture.check_everything(who))).await;
            let mut cursors = Vec::new();
            for who in &everybody {
                cursors.push(fixture.pages(&who.principal, None).await.unwrap().1);
            }
            fixture.replace_rules(after).await;
            join_all(everybody.iter().map(|who| fixture.check_everything(who))).await;
            // A cursor from before the change continues the listing under the current rules.
            for (who, cursors) in everybody.iter().zip(cursors) {
                for cursor in cursors {
                    let request = ListRequest { parent: None, cursor: Some(&cursor) };
                    let page = fixture.host.list(&who.principal, request).await.unwrap();
                    for entry in page.items {
                        assert!(fixture.allows(who, Operation::List, entry.uri.as_str()), "{entry:?}");
                    }
                }
            }
        });
    }
}

proptest! {
    #![proptest_config(proptest_config(12))]

    #[test]
    fn a_principal_is_notified_of_changes_that_it_may_see_and_of_no_others(
        before in rule_texts(),
        after in rule_texts(),
        paths in [paths(), paths()],
    ) {
        runtime().block_on(async {
            let mut fixture = Fixture::start(before, paths, 10).await;
            let everybody: Vec<Who> = everybody().into_iter().chain([witness()]).collect();
            let uris = fixture.uris();
            let subscribers: Vec<_> = everybody.iter().map(|who| fixture.host.subscriber(&who.principal)).collect();
            let mut subscribed: Vec<BTreeSet<String>> = Vec::new();
            for (who, subscriber) in everybody.iter().zip(&subscribers) {
                let subscribing = uris.iter().map(|uri| async { (uri.clone(), fixture.host.subscribe(subscriber, uri).await) });
                let mut active = BTreeSet::new();
                for (uri, subscribed) in in_time("subscribing", join_all(subscribing)).await {
                    match fixture.may_watch(who, &uri) {
                        true => assert!(subscribed.is_ok() && active.insert(uri)),
                        false => assert_eq!(subscribed.unwrap_err(), Error::NotFound { uri }),
                    }
                }
                subscribed.push(active);
                subscriber.watch_listing();
                in_time("the listing is known", subscriber.listing_ready()).await;
            }

            let new = format!("{}{NEW}", MOUNTS[0]);
            fixture.trees[0].insert(NEW);
            fixture.trees.iter().for_each(|tree| tree.touch_everything());
            for ((who, subscriber), expected) in everybody.iter().zip(&subscribers).zip(&subscribed) {
                let sees_new = fixture.allows(who, Operation::List, &new);
                let (mut seen, mut saw_listing) = (BTreeSet::new(), false);
                while seen.len() < expected.len() || saw_listing != sees_new {
                    match in_time("an update", subscriber.next()).await {
                        Update::Resource(uri) => assert!(expected.contains(&uri) && seen.insert(uri.clone()), "{uri}"),
                        Update::Listing => {
                            assert!(sees_new, "{:?} is told of what it may not see", who.principal);
                            saw_listing = true;
                        }
                    }
                }
            }
            settle(&fixture, &subscribers, 0).await;
            for ((who, subscriber), subscribed) in everybody.iter().zip(&subscribers).zip(&subscribed) {
                while let Some(update) = subscriber.try_next() {
                    let is_of_witness = |uri: &String| uri.ends_with(WITNESSES[0]) && subscribed.contains(uri);
                    let is_expected = matches!(&update, Update::Resource(uri) if is_of_witness(uri));
                    assert!(is_expected, "{update:?} for {:?}", who.principal);
                }
            }

            fixture.replace_rules(after).await;
            fixture.trees.iter().for_each(|tree| tree.touch_everything());
            settle(&fixture, &subscribers, 1).await;
            for ((who, subscriber), subscribed) in everybody.iter().zip(&subscribers).zip(&subscribed) {
                while let Some(update) = subscriber.try_next() {
                    let Update::Resource(uri) = update else { continue };
                    assert!(subscribed.contains(&uri) && fixture.may_watch(who, &uri), "{uri} for {:?}", who.principal);
                }
            }
        });
    }
}

/// Waits until the witness has been notified of changes after the tested ones, at both mounts.
async fn settle(fixture: &Fixture, subscribers: &[mcp_resource_host::Subscriber], round: usize) {
    let witness = subscribers.last().unwrap();
    let path = WITNESSES[round];
    fixture.trees.iter().for_each(|tree| tree.touch(path));
    let mut waiting: BTreeSet<String> = MOUNTS.iter().map(|mount| format!("{mount}{path}")).collect();
    while !waiting.is_empty() {
        if let Update::Resource(uri) = in_time("the witness is notified", witness.next()).await {
            waiting.remove(&uri);
        }
    }
    while witness.try_next().is_some() {}
}
