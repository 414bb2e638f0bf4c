//! `browse/watch`: which changes each viewer is notified of, until when, and the limit of streams.

use std::time::Duration;

use mcp_host_tests::{ConfigFile, Folder, Plugin, Rule, TIMEOUT};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::super::{Administered, TOKEN, with_token};
use super::{ALICE_TOKEN, BOB_TOKEN};

/// The interval between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(50);

const PLAN: &str = "files://files/plan.md";
const SECRET: &str = "files://files/secret.txt";

/// An event: its name and its data.
type Event = (String, Value);

fn updated(uri: &str) -> Event {
    ("updated".to_owned(), json!({ "uri": uri }))
}

fn listing() -> Event {
    ("listing".to_owned(), json!({}))
}

/// The header with a token.
fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

impl Administered {
    /// Logs in to the console. Returns a page's header lines for the session.
    async fn session(&self) -> String {
        let origin = format!("http://{}", self.address);
        let page = [("Origin", origin.as_str()), ("Sec-Fetch-Site", "same-origin")];
        let (status, head, answer) = self.page_request("/console/login", &page, &json!({ "token": TOKEN })).await;
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let (cookie, key) = (cookie.split(';').next().unwrap(), answer["key"].as_str().unwrap());
        format!("Origin: {origin}\r\nSec-Fetch-Site: same-origin\r\nCookie: {cookie}\r\nMcp-Host-Console: {key}\r\n")
    }
}

/// Replaces a file atomically: one change.
fn replace(files: &Folder, name: &str, text: &str) {
    let new = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(new.path(), text).unwrap();
    std::fs::set_permissions(new.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    new.persist(files.path().join(name)).unwrap();
}

/// A stream of `browse/watch`.
struct Watching(Lines<BufReader<TcpStream>>);

impl Watching {
    /// Opens a stream. Fails with the status and the answer.
    async fn open(admin: &Administered, headers: &str, request: &Value) -> Result<Self, (u16, Value)> {
        let stream = TcpStream::connect(&admin.address).await.unwrap();
        Self::over(stream, admin, headers, request).await
    }

    async fn over(
        mut stream: TcpStream,
        admin: &Administered,
        headers: &str,
        request: &Value,
    ) -> Result<Self, (u16, Value)> {
        let request = request.to_string();
        let head = format!(
            "POST /api/v1/browse/watch HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
            admin.address,
            request.len()
        );
        stream.write_all(format!("{head}{request}").as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let first = timeout(TIMEOUT, lines.next_line()).await.unwrap().unwrap().unwrap();
        let status: u16 = first.split(' ').nth(1).unwrap().parse().unwrap();
        while lines.next_line().await.unwrap().unwrap() != "" {}
        if status == 200 {
            return Ok(Self(lines));
        }
        let answer = lines.next_line().await.unwrap().unwrap();
        Err((status, serde_json::from_str(&answer).unwrap()))
    }

    /// Returns the next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        let mut name = String::new();
        loop {
            let line = timeout(TIMEOUT, self.0.next_line()).await.expect("an event, or the end").ok()??;
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }

    /// Returns the events until all of `wanted` have occurred.
    async fn until(&mut self, wanted: &[Event]) -> Vec<Event> {
        let mut events = Vec::new();
        while !wanted.iter().all(|one| events.contains(one)) {
            events.push(self.next().await.expect("the stream goes on"));
        }
        events
    }

    /// Waits for the end of the stream.
    async fn ended(&mut self) {
        while self.next().await.is_some() {}
    }
}

/// Returns the events of a viewer that may not see secrets, first while secrets change (or while there are none), then
/// after a change of the plan.
async fn told(headers: &str, viewer: Option<&str>, has_secrets: bool) -> Vec<Event> {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([("plan.md", "# The plan\n")]);
    if has_secrets {
        files.write("secret.txt", "hidden");
    }
    let config = ConfigFile::new()
        .plugin(Plugin::files("files", files.path()))
        .rule(Rule::for_principal("local").allow(["**"]))
        .rule(Rule::for_principal("anonymous").allow(["**"]).deny(["**/secret*"]))
        .rule(Rule::for_principal("alice").allow(["**"]).deny(["**/secret*"]))
        .append(&format!("{}users = true\n", with_token(folder.path())))
        .principal("alice", ALICE_TOKEN)
        .write();
    let admin = Administered::start(&config).await;
    let mut request = json!({ "uris": [SECRET, PLAN], "listing": true });
    // The administrator's stream includes everything.
    let mut local = Watching::open(&admin, &bearer(TOKEN), &request).await.unwrap_or_else(|error| panic!("{error:?}"));
    if let Some(viewer) = viewer {
        request["as"] = json!({ "principal": viewer });
    }
    request["listing"] = json!(false);
    let mut watching = Watching::open(&admin, headers, &request).await.unwrap_or_else(|error| panic!("{error:?}"));
    let mut events = watching.until(&[updated(PLAN)]).await;
    local.until(&[updated(PLAN)]).await;
    if has_secrets {
        for round in 0..5 {
            replace(&files, "secret.txt", &format!("hidden {round}"));
            local.until(&[updated(SECRET)]).await;
        }
        replace(&files, "secret-2.txt", "hidden");
        local.until(&[listing()]).await;
        std::fs::remove_file(files.path().join("secret.txt")).unwrap();
        local.until(&[listing(), updated(SECRET)]).await;
    }
    replace(&files, "plan.md", "# Another plan\n");
    events.extend(watching.until(&[updated(PLAN)]).await);
    admin.server.end().await;
    events
}

#[tokio::test]
async fn a_view_is_told_of_no_resource_that_its_principal_may_not_see() {
    let alice = bearer(ALICE_TOKEN);
    let token = bearer(TOKEN);
    for (headers, viewer) in [(&token, Some("anonymous")), (&token, Some("alice")), (&alice, None)] {
        let [with, without] = [told(headers, viewer, true).await, told(headers, viewer, false).await];
        assert_eq!(with, [updated(PLAN), updated(PLAN)], "{viewer:?}");
        assert_eq!(with, without, "{viewer:?}");
    }
}

#[tokio::test]
async fn streams_end_with_their_session_and_their_token() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([("plan.md", "# The plan\n")]);
    let token = with_token(folder.path());
    let config = |users: &str| {
        let config = ConfigFile::new().plugin(Plugin::files("files", files.path())).allow_all();
        config.append(&format!("{token}{users}")).principal("bob", BOB_TOKEN)
    };
    let written = config("users = true\n").principal("alice", ALICE_TOKEN).write();
    let admin = Administered::start(&written).await;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions.push(admin.session().await);
    }
    let [one, other] = &sessions[..] else { panic!("two sessions") };
    let request = json!({ "uris": [PLAN], "listing": true });
    let open = async |headers: &str, request| {
        Watching::open(&admin, headers, request).await.unwrap_or_else(|error| panic!("{error:?}"))
    };
    let mut of_token = open(&bearer(TOKEN), &request).await;
    let (mut of_one, mut of_other) = (open(one, &request).await, open(other, &request).await);
    let mut of_alice = open(&bearer(ALICE_TOKEN), &request).await;
    // The stream without subscriptions has no events, and still ends.
    let mut of_bob = open(&bearer(BOB_TOKEN), &json!({})).await;
    for stream in [&mut of_token, &mut of_one, &mut of_other, &mut of_alice] {
        stream.until(&[updated(PLAN)]).await;
    }

    let headers: Vec<_> = one.lines().filter_map(|line| line.split_once(": ")).collect();
    assert_eq!(admin.page_request("/console/logout", &headers, &json!({})).await.0, 200);
    of_one.ended().await;
    files.write("plan.md", "# Another plan\n");
    for stream in [&mut of_token, &mut of_other, &mut of_alice] {
        stream.until(&[updated(PLAN)]).await;
    }
    written.replace(config("users = true\n"));
    of_alice.ended().await;
    written.replace(config(""));
    of_bob.ended().await;
    files.write("plan.md", "# A third plan\n");
    for stream in [&mut of_token, &mut of_other] {
        stream.until(&[updated(PLAN)]).await;
    }
    std::fs::write(folder.path().join("admin.token"), TOKEN.replace('0', "9")).unwrap();
    for stream in [&mut of_token, &mut of_other] {
        stream.ended().await;
    }
    admin.server.end().await;
}

#[tokio::test]
async fn there_are_so_many_streams_of_one_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([("plan.md", "# The plan\n")]);
    let config = ConfigFile::new().plugin(Plugin::files("files", files.path())).allow_all();
    let config = config.append(&format!("{}users = true\n", with_token(folder.path())));
    let config = config.principal("alice", ALICE_TOKEN).principal("bob", BOB_TOKEN).write();
    let admin = Administered::start(&config).await;
    let request = json!({ "uris": [PLAN] });
    let refused = async |headers: &str, request: &Value| match Watching::open(&admin, headers, request).await {
        Ok(_) => panic!("{request} is not refused"),
        Err(refused) => refused,
    };
    let uris: Vec<_> = (0..65).map(|number| format!("files://files/{number}")).collect();
    let (status, answer) = refused(&bearer(TOKEN), &json!({ "uris": uris })).await;
    assert_eq!((status, &answer["error"]), (400, &json!("`uris` has 65 URIs; at most 64 are watched")));
    assert_eq!(refused(&bearer(TOKEN), &json!({ "as": { "principal": "nobody" } })).await.0, 400);
    assert_eq!(refused(&bearer(ALICE_TOKEN), &json!({ "as": { "principal": "bob" } })).await.0, 403);
    assert_eq!(refused("", &request).await.0, 401);

    for (token, limit) in [(TOKEN, 8), (ALICE_TOKEN, 4)] {
        let headers = bearer(token);
        let mut streams = Vec::new();
        for _ in 0..limit {
            let stream = Watching::open(&admin, &headers, &request).await;
            streams.push(stream.unwrap_or_else(|error| panic!("{error:?}")));
        }
        let (status, answer) = refused(&headers, &request).await;
        assert_eq!((status, &answer["help"]), (503, &json!("close one of them")), "{answer}");
        let expected = format!("{limit} views are followed already by this principal");
        assert_eq!(answer["error"], expected);
        assert_eq!(admin.api("GET", "status", None).await.0, 200);
        // The shares of other principals are unaffected.
        assert!(Watching::open(&admin, &bearer(BOB_TOKEN), &request).await.is_ok());
        drop(streams.pop());
        while Watching::open(&admin, &headers, &request).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    // Dropped streams leave no subscriptions.
    loop {
        let (_, watched) = admin.api("GET", "subscriptions", None).await;
        if watched["resources"]["total"] == 0 {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    admin.server.end().await;
}

/// Pending updates are coalesced: one per resource, however many changes occur.
#[tokio::test]
async fn a_stream_that_is_not_read_keeps_no_updates_and_nothing_from_others() {
    const FILES: usize = 40;
    const ROUNDS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let long = "ä".repeat(120);
    let name = |number: usize| format!("{long}/{long}{number}.txt");
    let files = Folder::with_files((0..FILES).map(|number| (name(number), "0")));
    let config = || ConfigFile::new().plugin(Plugin::files("files", files.path())).allow_all();
    let token = with_token(folder.path());
    let written = config().append(&token).write();
    let admin = Administered::start(&written).await;
    let encoded = "%C3%A4".repeat(120);
    let uris: Vec<_> = (0..FILES).map(|number| format!("files://files/{encoded}/{encoded}{number}.txt")).collect();
    let last = "files://files/last.txt".to_owned();
    let request = json!({ "uris": uris.iter().chain([&last]).collect::<Vec<_>>() });
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let unread = socket.connect(admin.address.parse().unwrap()).await.unwrap();
    let mut unread = Watching::over(unread, &admin, &bearer(TOKEN), &request).await.ok().unwrap();
    let mut other = Watching::open(&admin, &bearer(TOKEN), &request).await.ok().unwrap();
    let all: Vec<_> = uris.iter().map(|uri| updated(uri)).collect();
    other.until(&all).await;
    for round in 0..ROUNDS {
        for number in 0..FILES {
            files.write(name(number), format!("{round} {number}"));
        }
        other.until(&all).await;
    }
    assert_eq!(admin.api("GET", "status", None).await.0, 200);
    // A resource that did not exist is subscribed to after a reload. Its update is sent after the pending ones.
    files.write("last.txt", "1");
    written.replace(config().plugin(Plugin::sample("another")).append(&token));
    other.until(&[updated(&last)]).await;
    let read = unread.until(&[updated(&last)]).await.len();
    assert!(read < ROUNDS * FILES, "{read} events were kept");
    admin.server.end().await;
}
