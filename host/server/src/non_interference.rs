//! Non-interference: two worlds that differ only in resources hidden from a principal give it the same answers, and no
//! call reaches a plugin that is completely hidden from it.
//!
//! A world is the content of a host's providers. The property test makes two worlds from random paths: the visible
//! resources are the same in both, and the hidden ones differ. Then the test sends every request of the protocol, of
//! every extension and to every tool, in the first and the last revision, with URIs and templates of all kinds. It
//! compares the answers byte for byte, except for cursors, of which it compares the lengths, and which it follows, and
//! the numbers of calls that each request made.
//!
//! | | compared |
//! |---|---|
//! | results and errors, with `_meta` and counts | of every request |
//! | pages | their items, and whether there is another |
//! | calls of providers | of every request but listings; never a call to a completely hidden plugin |
//! | notifications | [`notifications`] |
//! | search and context | [`search`] |
//! | which responses are cached, and for how long | [`cached`] |
//! | completions with more hidden values than a client gets before the visible ones | [`completions`] |
//! | the same through the service over HTTP, with a token, in a session and without: status, answers one by one and in batches, event streams | `over_http` |
//! | lists, reads and completions of the console | `console` |
//! | capabilities, methods, acknowledged subscriptions: two worlds that differ in the abilities of the plugins | `capabilities` |
//!
//! Each answer without a transport, error or result, has a budget charge of at least its bytes.
//!
//! A listing makes as many calls as its hidden items take, up to the bound of a page (`catalog`), so its calls are not
//! compared.
//!
//! [`requests`] has a sample of each method, and fails for a method of any revision without a sample, so new requests
//! are covered or the test fails.

mod cached;
mod capabilities;
mod completions;
mod console;
mod notifications;
mod over_http;
mod requests;
mod search;
mod world;

use std::sync::Arc;
use std::time::Duration;

use mcp_host_config::Extension;
use mcp_resource_host::access::{CredentialScopes, Principal};
use mcp_resource_host::audit;
use mcp_resource_host::host::Host;
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, RngSeed, TestCaseError, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use self::requests::samples;
use self::world::{ADA, Contents, HIDDEN, Providers, Rules, is_allowed, started};
use super::budget::{Account, Budget, Limits};
use super::client_id::ClientId;
use super::dispatch::Call;
use super::jsonrpc::{self, Incoming, Kind};
use super::request::Request;
use super::request_context::RequestContext;
use super::respond::respond;
use super::revision::Revision;
use super::trace::RequestTrace;

/// The number of pairs of worlds for each kind of rules.
const CASES: u32 = 8;
/// The maximum number of pages of a listing in these tests.
const MAX_PAGES: usize = 200;

fn principal() -> Principal {
    Principal::new(ADA)
}

fn account() -> Arc<Account> {
    let most = 1 << 30;
    let limits =
        Limits { connection: most, client: most, principal: most, overall: most, wait: Duration::from_secs(1) };
    Budget::new(move || limits).account(ClientId::from_address(std::net::Ipv4Addr::LOCALHOST.into()))
}

/// A way to send requests as the principal.
trait Client {
    /// The revision of its requests.
    fn revision(&self) -> Revision;

    /// Sends a request. None if it is a lifecycle request.
    async fn send(&self, method: &str, params: &Value) -> Option<Value>;
}

/// A client without a transport.
struct InProcess<'a> {
    host: &'a Arc<Host>,
    revision: Revision,
    /// The negotiated extensions.
    extensions: &'static [Extension],
}

impl<'a> InProcess<'a> {
    /// A client with all extensions.
    fn new(host: &'a Arc<Host>, revision: Revision) -> Self {
        Self { host, revision, extensions: &Extension::ALL }
    }
}

impl Client for InProcess<'_> {
    fn revision(&self) -> Revision {
        self.revision
    }

    async fn send(&self, method: &str, params: &Value) -> Option<Value> {
        let Self { host, revision, extensions } = *self;
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let message = match jsonrpc::parse(text.as_bytes(), Some(revision), extensions) {
            Ok(Incoming::Single(message)) => message,
            other => panic!("{text}: {other:?}"),
        };
        let Kind::Request { id, name, method, request } = message.kind else { panic!("{text}") };
        let config = host.config();
        let method = method.filter(|method| method.exists(host, &config, &principal(), revision, false));
        if method.is_some_and(|method| method.is_protocol) {
            return None;
        }
        let request = if method.is_some() { request } else { Ok(Request::Unknown(name)) };
        let context = RequestContext {
            host: host.clone(),
            config,
            principal: principal(),
            account: account(),
            revision,
            session: None,
            audit: audit::RequestContext::new(None, &id, None),
            trace: RequestTrace::none(),
            scopes: CredentialScopes::default(),
            issued_token: None,
        };
        let reply =
            respond(&context, id, Call { method, request, revision }, None).await.expect("there is room for it");
        let (json, charged) = (reply.json.into_vec(), reply.charge.bytes());
        assert!(charged >= json.len(), "every answer is charged: {text}: {charged} for {} bytes", json.len());
        Some(serde_json::from_slice(&json).unwrap())
    }
}

/// Replaces the cursors of an answer by their lengths, and returns the last one.
fn take_cursor(value: &mut Value) -> Option<String> {
    match value {
        Value::Object(members) => {
            let inner = members.values_mut().filter_map(take_cursor).reduce(|_, last| last);
            let own = members.get_mut("nextCursor").and_then(|member| {
                let cursor = member.as_str()?.to_owned();
                *member = json!(length_of(&cursor));
                Some(cursor)
            });
            own.or(inner)
        }
        Value::Array(items) => items.iter_mut().filter_map(take_cursor).reduce(|_, last| last),
        // The text of a tool contains the cursor, too.
        Value::String(text) => {
            if text.contains("cursor") {
                let words = text.split(['"', '`', ' ']);
                let words: Vec<_> =
                    words.map(|word| if word.len() < 60 { word.to_owned() } else { length_of(word) }).collect();
                *text = words.join(" ");
            }
            None
        }
        _ => None,
    }
}

fn length_of(cursor: &str) -> String {
    format!("({} bytes)", cursor.len())
}

/// Sends a request, and the requests for the following pages. Returns the answers without their cursors.
async fn walk(client: &impl Client, method: &str, params: &Value) -> Vec<Value> {
    let mut answers = Vec::new();
    let mut params = params.clone();
    loop {
        let Some(mut answer) = client.send(method, &params).await else { return answers };
        let cursor = take_cursor(&mut answer);
        answers.push(answer);
        let Some(cursor) = cursor else { return answers };
        assert!(answers.len() < MAX_PAGES, "{method} {params}");
        match method {
            "tools/call" => params["arguments"]["cursor"] = json!(cursor),
            _ => params["cursor"] = json!(cursor),
        }
    }
}

/// A request with its answers, and the number of its calls if that number is compared.
type Exchange = (String, Vec<Value>, Option<usize>);

/// All answers of a world to a principal.
async fn transcript(host: &Host, client: &impl Client, providers: &Providers, pool: &[String]) -> Vec<Exchange> {
    let mut transcript = Vec::new();
    for (method, params) in samples(host, client.revision(), pool) {
        let before = providers.calls();
        let answers = walk(client, method, &params).await;
        // The providers have plain text only. Markdown is an index, which the host makes by listing a directory.
        let is_index = answers.iter().any(|answer| {
            let answer = answer.to_string();
            ["text/markdown", "](<part://", "There are no entries."].iter().any(|mark| answer.contains(mark))
        });
        // Skills are found by listing.
        let lists = is_index
            || ["list", "directory", "skills"].iter().any(|part| method.contains(part))
            || params["name"] == "list_resources";
        let calls = (!lists).then(|| providers.calls() - before);
        transcript.push((format!("{:?} {method} {params}", client.revision()), answers, calls));
    }
    transcript
}

/// All answers without a transport, in the first and the last revision.
async fn transcript_in_process(host: &Arc<Host>, providers: &Providers, pool: &[String]) -> Vec<Exchange> {
    let mut told = Vec::new();
    for revision in [Revision::ALL[0], Revision::LATEST] {
        told.extend(transcript(host, &InProcess::new(host, revision), providers, pool).await);
    }
    told
}

/// Fails if the answers of two worlds differ, or if a call reaches a completely hidden plugin.
fn compare(
    runtime: &Runtime,
    host: &Arc<Host>,
    providers: &Providers,
    rules: Rules,
    common: &[String],
    own: [&[String]; 2],
) -> Result<(), TestCaseError> {
    let policy = host.policy(&principal());
    let drawn: Vec<String> = [common, own[0], own[1]].concat();
    let pool = world::pool(&drawn);
    let [first, second] = own.map(|own| {
        providers.set(Contents::new(&drawn, common, own, &|uri| is_allowed(&policy, uri)));
        runtime.block_on(transcript_in_process(host, providers, &pool))
    });
    for (one, other) in first.into_iter().zip(second) {
        prop_assert_eq!(one, other);
    }
    prop_assert_eq!(providers.calls_of(HIDDEN), 0, "no call reaches what it may see nothing of");
    if rules == Rules::Nothing {
        prop_assert_eq!(providers.calls(), 0);
    }
    Ok(())
}

/// Regressions: pairs of worlds whose answers once differed.
#[test]
fn a_known_variable_behind_the_completed_one_does_not_lead_around_a_rule() {
    let runtime = Runtime::new().unwrap();
    let cases: [(Rules, [&[&str]; 3]); 2] = [
        // `log/.env` is denied, and `log/.env/b` is not.
        (Rules::Deny, [&["a.txt"], &["log/.env"], &["secret/a.txt", "a.txt"]]),
        // `blob/main/b.txt` is denied, and `blob/main/b.md` is not.
        (Rules::Both, [&["blob/main/a.txt"], &["blob/main/b.txt"], &[]]),
    ];
    for (rules, paths) in cases {
        let [common, one, other] = paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        let (_dir, providers, host) = runtime.block_on(started(rules));
        compare(&runtime, &host, &providers, rules, &common, [&one, &other]).unwrap();
    }
}

#[test]
fn the_length_of_a_cursor_does_not_tell_the_length_of_a_hidden_name() {
    let runtime = Runtime::new().unwrap();
    let (_dir, providers, host) = runtime.block_on(started(Rules::Deny));
    // The provider's first page ends with the hidden name, which is its cursor.
    let common = ["a.txt", "b.txt", "t.txt", "u.txt", "v.txt", "w.txt"].map(str::to_owned);
    let [one, other] = [1, 200].map(|length| vec![format!("secret/{}", "s".repeat(length))]);
    compare(&runtime, &host, &providers, Rules::Deny, &common, [&one, &other]).unwrap();
}

#[test]
fn two_worlds_that_differ_only_in_what_a_principal_may_not_see_are_the_same_for_it() {
    let runtime = Runtime::new().unwrap();
    for rules in Rules::ALL {
        let (_dir, providers, host) = runtime.block_on(started(rules));
        let worlds = (world::paths(4..14), world::paths(0..8), world::paths(0..8));
        let mut runner = TestRunner::new(Cases {
            cases: CASES,
            rng_seed: RngSeed::Fixed(rules as u64),
            failure_persistence: None,
            ..Cases::default()
        });
        let tested = runner
            .run(&worlds, |(common, one, other)| compare(&runtime, &host, &providers, rules, &common, [&one, &other]));
        tested.unwrap_or_else(|failure| panic!("{rules:?}: {failure}"));
    }
}

#[test]
fn the_worlds_have_something_to_see_and_something_to_hide() {
    let runtime = Runtime::new().unwrap();
    let (_dir, providers, host) = runtime.block_on(started(Rules::Deny));
    let drawn = ["pub/a.txt", "pub/SKILL.md", "pub/.env", "secret/b.txt", "blob/main/a.txt", "blob/secret/b.txt"];
    let drawn = drawn.map(str::to_owned);
    providers.set(Contents::new(&drawn, &drawn, &drawn, &|_| true));
    let told = runtime.block_on(transcript_in_process(&host, &providers, &world::pool(&drawn)));
    let text = format!("{told:?}");
    for seen in ["part://h/pub/a.txt", "\"main\"", "part://h/blob/main/a.txt", "sha256:"] {
        assert!(text.contains(&seen.replace('"', "\\\"")) || text.contains(seen), "{seen} is told");
    }
    assert!(providers.calls_of(HIDDEN) == 0 && providers.calls() > 0);
}
