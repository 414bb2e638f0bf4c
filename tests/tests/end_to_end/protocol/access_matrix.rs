//! Access control of every operation, over every transport, in every revision, for every kind of principal, under every
//! kind of rules: allowed resources are available, and nothing reveals denied ones.
//!
//! A folder has notes that every principal may see, and notes whose names and text contain [`SECRET`]. Without
//! permission, no message may contain that word, and the answer to a request for a secret note must equal the answer
//! for a missing one.

mod client;
mod principals;

use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, REVISIONS, Revision, WrittenConfig};
use serde_json::{Value, json};

use self::client::{Client, Notification};
use self::principals::{Kind, PrincipalKind, WITNESS};

/// A word that only principals with permission for the secret notes may see.
const SECRET: &str = "topsecret";
const PUBLIC_URI: &str = "notes://n/public/a.md";
const SECRET_URI: &str = "notes://n/secret/topsecret.md";
/// The same length as the URI of the secret note.
const ABSENT_URI: &str = "notes://n/public/notpublic.md";
/// No mount owns this URI. The same length as the URI of the secret note.
const NOWHERE_URI: &str = "nobody://n/some/something.txt";
/// A resource that changes without changing any listing.
const BARRIER_URI: &str = "watched://w/barrier";
const TEMPLATE: &str = "notes://n/{+path}";
const EXTENSION: &str = "sep-2093";

fn folder() -> Folder {
    let note = |text: &str| format!("---\ntags: [{text}]\n---\nThe text of {text}.\n");
    Folder::with_files([
        ("public/a.md", note("public")),
        ("public/b.md", note("public")),
        ("public/c.md", note("public")),
        ("secret/topsecret.md", note(SECRET)),
    ])
}

/// A config with one kind of rules for each kind of principal.
fn config(kind: Kind, folder: &Folder, barriers: &Folder) -> WrittenConfig {
    let config = ConfigFile::new()
        .page_size(2)
        .server("extensions", vec![EXTENSION])
        .plugin(Plugin::notes("n", folder.path()))
        .plugin(Plugin::watched("w", barriers.path()));
    principals::add(config, kind).write()
}

#[tokio::test]
async fn over_http_every_principal_sees_what_its_rules_allow_and_nothing_tells_the_rest() {
    for kind in Kind::ALL {
        let (folder, barriers) = (folder(), Folder::with_files([("state", "1")]));
        let config = config(kind, &folder, &barriers);
        let server = HttpServer::start(&config).await;
        let mut clients = Vec::new();
        for revision in REVISIONS {
            for principal in PrincipalKind::OVER_HTTP {
                if kind == Kind::None && principal == PrincipalKind::Anonymous {
                    principals::check_unauthorized(&server, &revision).await;
                    continue;
                }
                let mut client = Client::over_http(&server, revision.clone(), principal.token()).await;
                check_requests(&mut client, kind, principal).await;
                watch(&mut client, kind, principal).await;
                clients.push((client, principal));
            }
        }
        let mut witness = Client::over_http(&server, Revision::V_2025_11_25, Some(WITNESS)).await;
        witness.watch(&[SECRET_URI, BARRIER_URI]).await;

        let changes = Changes::new(&folder, &barriers);
        changes.of_secret_notes();
        let told = [Notification::updated(SECRET_URI), Notification::Listing];
        witness.wait_for(&told, || changes.of_secret_notes()).await;
        changes.of_barrier();
        witness.wait_for(&[Notification::updated(BARRIER_URI)], || changes.of_barrier()).await;
        for (client, principal) in &mut clients {
            client.wait_for(&expected_notifications(kind, *principal), || changes.of_everything()).await;
        }
        let log = server.end().await.log;
        for (client, principal) in clients {
            let at = client.to_string();
            check_notifications(client.notifications_to_the_end().await, kind, principal, &at);
        }
        check_log(&log);
    }
}

#[tokio::test]
async fn over_stdio_local_sees_what_its_rules_allow_and_nothing_tells_the_rest() {
    for kind in Kind::ALL {
        for revision in REVISIONS {
            let (folder, barriers) = (folder(), Folder::with_files([("state", "1")]));
            let config = config(kind, &folder, &barriers);
            let mut client = Client::over_stdio(&config, revision).await;
            let principal = PrincipalKind::Local;
            check_requests(&mut client, kind, principal).await;
            watch(&mut client, kind, principal).await;
            let changes = Changes::new(&folder, &barriers);
            changes.of_everything();
            client.wait_for(&expected_notifications(kind, principal), || changes.of_everything()).await;
            let log = client.log();
            let mut seen = client.notifications_to_the_end().await;
            // On a busy machine, plugins are loaded after the server has started to serve, which changes the listing.
            if log.contains("the others follow as they are loaded") {
                seen.retain(|notification| *notification != Notification::Listing);
            }
            check_notifications(seen, kind, principal, "stdio");
            check_log(&log);
        }
    }
}

/// Changes of watched resources.
struct Changes<'a> {
    folder: &'a Folder,
    barriers: &'a Folder,
    count: AtomicUsize,
}

impl<'a> Changes<'a> {
    fn new(folder: &'a Folder, barriers: &'a Folder) -> Self {
        Self { folder, barriers, count: AtomicUsize::new(0) }
    }

    /// Changes the text of the secret note, and adds another secret note.
    fn of_secret_notes(&self) {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        self.folder.write("secret/topsecret.md", format!("Text {count} of topsecret.\n"));
        self.folder.write(format!("secret/topsecret-{count}.md"), "One more.\n");
    }

    fn of_barrier(&self) {
        self.barriers.write("state", format!("state {}", self.count.fetch_add(1, Ordering::Relaxed)));
    }

    fn of_everything(&self) {
        self.of_secret_notes();
        self.of_barrier();
    }
}

/// Sends each kind of request once. Text that the client sent itself is not a leak.
async fn check_requests(client: &mut Client, kind: Kind, principal: PrincipalKind) {
    let may = |operation, is_secret| kind.allows(principal, operation, is_secret);
    let at = format!("{kind:?} {principal:?} {client}");

    let listed = client.pages("resources/list", "resources").await;
    assert_eq!(listed.contains(PUBLIC_URI), may("list", false), "{at}: {listed}");
    assert_eq!(listed.contains(SECRET), may("list", true), "{at}: {listed}");
    let templates = client.pages("resources/templates/list", "resourceTemplates").await;
    assert_eq!(templates.contains(TEMPLATE), may("templates", false), "{at}: {templates}");

    for (method, operation) in [("resources/read", "read"), ("resources/metadata", "metadata")] {
        for (uri, is_secret) in [(PUBLIC_URI, false), (SECRET_URI, true)] {
            let answer = client.request(method, json!({ "uri": uri })).await;
            match may(operation, is_secret) {
                true => assert!(answer.get("result").is_some(), "{at} {method} {uri}: {answer}"),
                false => check_is_absent(client, method, |uri| json!({ "uri": uri }), uri, &at).await,
            }
        }
    }
    if client.has_sessions() {
        let subscribed = client.request("resources/subscribe", json!({ "uri": SECRET_URI })).await;
        match may("subscribe", true) && may("read", true) {
            true => assert!(subscribed.get("result").is_some(), "{at}: {subscribed}"),
            false => check_is_absent(client, "resources/subscribe", |uri| json!({ "uri": uri }), SECRET_URI, &at).await,
        }
        // No answer reveals whether there was a subscription.
        let [one, other] = [SECRET_URI, NOWHERE_URI].map(|uri| json!({ "uri": uri }));
        let one = client.request("resources/unsubscribe", one).await;
        assert_eq!(one, client.request("resources/unsubscribe", other).await, "{at}");
    }

    let complete = |template: &str, value: &str| json!({ "ref": { "type": "ref/resource", "uri": template }, "argument": { "name": "path", "value": value } });
    for value in ["", "secret/", "secret/t"] {
        let completed = client.request("completion/complete", complete(TEMPLATE, value)).await;
        let text = completed.to_string();
        assert_eq!(completed.get("result").is_some(), may("complete", false), "{at}: {text}");
        assert_eq!(text.contains(SECRET), may("complete", true) && may("read", true), "{at}: {text}");
        if completed.get("error").is_some() {
            let nowhere = client.request("completion/complete", complete("nobody://{+path}", value)).await;
            assert_eq!(text.replace(TEMPLATE, "nobody://{+path}"), nowhere.to_string(), "{at}");
        }
    }

    // The children of a folder (SEP-2093), and a collection by tag whose name is in a note.
    let below = client.request("resources/list", json!({ "uri": "notes://n/secret" })).await;
    assert_eq!(below.to_string().contains(SECRET), may("list", true), "{at}: {below}");
    let collection = client.request("resources/read", json!({ "uri": "notes://n/tag/public" })).await;
    assert!(!collection.to_string().contains(SECRET), "{at}: {collection}");
}

/// Asserts that the answer for a URI equals the answer for missing ones, apart from the URI itself.
async fn check_is_absent(client: &mut Client, method: &str, params: impl Fn(&str) -> Value, uri: &str, at: &str) {
    let denied = client.request(method, params(uri)).await.to_string();
    assert!(denied.contains("\"error\""), "{at} {method} {uri}: {denied}");
    for absent in [ABSENT_URI, NOWHERE_URI] {
        let answer = client.request(method, params(absent)).await.to_string();
        assert_eq!(denied.replace(uri, absent), answer, "{at} {method}");
    }
}

/// Subscribes to all changing resources, as far as possible.
async fn watch(client: &mut Client, kind: Kind, principal: PrincipalKind) {
    let may = |is_secret| kind.allows(principal, "subscribe", is_secret) && kind.allows(principal, "read", is_secret);
    let uris = [(SECRET_URI, may(true)), (BARRIER_URI, may(false))];
    match client.has_sessions() {
        true => client.watch(&uris.into_iter().filter(|(_, may)| *may).map(|(uri, _)| uri).collect::<Vec<_>>()).await,
        // A filter is acknowledged unchanged, whether or not its resources exist and are visible.
        false => client.watch(&uris.map(|(uri, _)| uri)).await,
    }
}

/// Returns the notifications that a client must receive when the secret notes and the barrier change.
fn expected_notifications(kind: Kind, principal: PrincipalKind) -> Vec<Notification> {
    let may = |operation, is_secret| kind.allows(principal, operation, is_secret);
    let may_watch = |is_secret| may("subscribe", is_secret) && may("read", is_secret);
    let secret = may_watch(true).then(|| Notification::updated(SECRET_URI));
    let listing = may("list", true).then_some(Notification::Listing);
    let barrier = may_watch(false).then(|| Notification::updated(BARRIER_URI));
    [secret, listing, barrier].into_iter().flatten().collect()
}

fn check_notifications(seen: Vec<Notification>, kind: Kind, principal: PrincipalKind, at: &str) {
    let expected = expected_notifications(kind, principal);
    for notification in seen {
        assert!(expected.contains(&notification), "{kind:?} {principal:?} {at} is told of {notification:?}");
    }
}

/// The log contains no secret text and no token.
fn check_log(log: &str) {
    assert!(!log.contains(SECRET) && !log.contains("mcp_matrix-"), "{log}");
}
