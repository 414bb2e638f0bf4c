//! An upstream with a token for each principal: two clients of one server read their own content, by every kind of
//! access.

use mcp_host_tests::{ConfigFile, Folder, HttpServer, MockOrigin, RawHttp, RecordedRequest, Reply, Revision, Rule};
use serde_json::{Value, json};

const REVISION: Revision = Revision::V_2026_07_28;

/// Answers as a server with sessions whose answers differ by user.
fn answer(request: &RecordedRequest) -> Reply {
    if request.method != "POST" {
        return Reply::status(405);
    }
    let user = request.header("authorization").unwrap_or_default().trim_start_matches("Bearer ").to_owned();
    let message: Value = serde_json::from_slice(&request.body).unwrap();
    let resource = |name: &str| json!({ "uri": format!("x:{name}"), "name": format!("{name} of {user}") });
    let result = match message["method"].as_str().unwrap() {
        "initialize" => {
            json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": { "subscribe": true } },
            "serverInfo": { "name": "users", "version": "1" } })
        }
        "resources/list" => json!({ "resources": [resource("both"), resource(&user)] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "resources/read" => {
            let uri = message["params"]["uri"].as_str().unwrap();
            if uri != "x:both" && uri != format!("x:{user}") {
                let error = json!({ "code": -32002, "message": "none" });
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
                return Reply::ok("application/json", answer.to_string());
            }
            json!({ "contents": [{ "uri": uri, "text": format!("for {user}") }] })
        }
        method if method.starts_with("notifications/") => return Reply::status(202),
        _ => return Reply::status(400),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    Reply::ok("application/json", answer.to_string()).header("mcp-session-id", &user)
}

struct World {
    server: HttpServer,
    origin: MockOrigin,
    /// The files with the upstream's tokens.
    _tokens: Folder,
}

impl World {
    async fn start() -> Self {
        let origin = MockOrigin::http().await;
        origin.serve_with("/mcp", answer);
        // Secrets come from files, because the environment of the tests is empty.
        let folder = Folder::with_files([("a", "a"), ("o", "o")]);
        let file = |name: &str| folder.path().join(name).display().to_string();
        let text = format!(
            "[[group]]\nname = 'ops'\nprincipals = ['bob']\n[[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\nauth.tokens = [{{ \
             principal = 'ada', token = {{ file = '{}' }} }}, {{ group = 'ops', token = {{ file = '{}' }} }}]\n",
            origin.url("/mcp"),
            file("a"),
            file("o"),
        );
        let rule = Rule::for_principal("*").allow(["up+**"]);
        // The tokens equal the names.
        let principals = ["ada", "bob", "mallory"].into_iter();
        let config = principals.fold(ConfigFile::new(), |config, name| config.principal(name, name));
        let config = config.append(&text).rule(rule).write();
        Self { server: HttpServer::start(&config).await, origin, _tokens: folder }
    }

    async fn client(&self, token: &str) -> RawHttp {
        RawHttp::start_with_token(self.server.url(), REVISION, token).await
    }
}

async fn read(client: &mut RawHttp, uri: &str) -> Value {
    client.request("resources/read", json!({ "uri": uri })).await.message
}

#[tokio::test]
async fn two_principals_see_their_own_content_and_a_third_nothing() {
    let world = World::start().await;
    let (mut ada, mut bob, mut mallory) =
        (world.client("ada").await, world.client("bob").await, world.client("mallory").await);
    for _ in 0..2 {
        for (client, user) in [(&mut ada, "a"), (&mut bob, "o")] {
            let listed = client.request("resources/list", json!({})).await.result().clone();
            let names: Vec<_> = listed["resources"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
            assert_eq!(names, [&json!(format!("both of {user}")), &json!(format!("{user} of {user}"))]);
            assert_eq!(listed["cacheScope"], "private", "{listed}");
            let contents = read(client, "up+x:both").await;
            assert_eq!(contents["result"]["contents"][0]["text"], format!("for {user}"), "{contents}");
            assert_eq!(contents["result"]["cacheScope"], "private", "{contents}");
        }
        assert!(read(&mut ada, "up+x:o").await["error"].is_object());
        assert!(read(&mut bob, "up+x:a").await["error"].is_object());
    }
    let before = world.origin.request_count("/mcp");
    let listed = mallory.request("resources/list", json!({})).await.result().clone();
    assert_eq!(listed["resources"], json!([]), "{listed}");
    // The answer is the same as for a missing resource, and no request was sent to the upstream.
    assert_eq!(
        read(&mut mallory, "up+x:both").await["error"]["code"],
        read(&mut mallory, "none:x").await["error"]["code"]
    );
    assert_eq!(world.origin.request_count("/mcp"), before);
    world.server.end().await;
}
