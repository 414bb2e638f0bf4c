//! Access control: a resource that a principal may not see does not exist for it.

use mcp_host_tests::{
    ConfigFile, Folder, GitRepo, HttpServer, Plugin, Revision, Rule, StdioServer, content_bytes, run,
};
use rmcp::model::ErrorCode;

fn repo() -> GitRepo {
    GitRepo::with_files([(".env", "SECRET=1"), ("README.md", "hello"), ("deep/er/.env", "SECRET=2"), ("z.txt", "z")])
}

/// Equivalent spellings of the URI of `.env` (RFC 3986, section 6.2.2).
const SPELLINGS: [&str; 7] = [
    "git://repo/blob/main/.env",
    "git://repo/blob/main/%2eenv",
    "git://repo/blob/main/%2Eenv",
    "git://repo/blob/main/.%65%6E%76",
    "GIT://REPO/blob/main/.env",
    "git://repo/blob/main/x/../.env",
    "git://repo/blob/./main/%2e/.env",
];

#[tokio::test]
async fn over_http_nothing_is_there_without_a_rule() {
    let repo = repo();
    let config = ConfigFile::new().plugin(Plugin::git("repo", repo.path())).write();
    let server = HttpServer::start(&config).await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let client = server.client(revision.clone()).await;
        assert!(client.resources().await.is_empty());
        assert!(client.templates().await.is_empty());
        let uri = "git://repo/blob/main/README.md";
        let (hidden, unknown) = (client.read_error(uri).await, client.read_error("nobody://repo/x").await);
        assert_eq!(hidden.code, unknown.code, "hidden looks like not there");
        assert_eq!(hidden.message.replace(uri, ""), unknown.message.replace("nobody://repo/x", ""));
        assert_eq!(hidden.data.unwrap()["uri"], uri);
        client.complete("git://repo/blob/{rev}/{+path}", ("rev", ""), &[]).await.unwrap_err();
    }
    server.end().await;
}

#[tokio::test]
async fn instructions_are_for_every_client_as_they_are_written() {
    let (repo, instructions) = (repo(), "Read git://repo/blob/main/README.md.");
    let config =
        ConfigFile::new().server("instructions", instructions).plugin(Plugin::git("repo", repo.path())).write();
    let server = HttpServer::start(&config).await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let client = server.client(revision.clone()).await;
        assert!(client.resources().await.is_empty());
        assert_eq!(client.peer().peer_info().unwrap().instructions.as_deref(), Some(instructions));
    }
    server.end().await;
}

#[tokio::test]
async fn what_stands_behind_a_mount_cannot_be_told_from_nothing_by_any_answer() {
    let repo = repo();
    let config = ConfigFile::new().plugin(Plugin::git("repo", repo.path())).write();
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2025_11_25).await;
    for path in ["", "blob/main/README.md", "no-such-shape", "blob/main/..%2f", "../x", "a/../../x", "%2e%2e/x", "a%00"]
    {
        let there = client.read_error(&format!("git://repo/{path}")).await;
        // The name has the same length as the other one, so positions in messages are equal.
        let nowhere = client.read_error(&format!("git://none/{path}")).await;
        assert_eq!(there.code, nowhere.code, "{path:?}: {there:?}, {nowhere:?}");
        assert_eq!(there.message.replace("repo", "none"), nowhere.message, "{path:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn over_stdio_everything_is_there_without_a_rule() {
    let repo = repo();
    let config = ConfigFile::new().plugin(Plugin::git("repo", repo.path())).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().resources().await.len(), 4);
    assert_eq!(server.client().text(SPELLINGS[0]).await, "SECRET=1");
    server.end().await;
}

#[tokio::test]
async fn deny_wins_over_allow_in_every_spelling() {
    let repo = repo();
    let config = ConfigFile::new()
        .plugin(Plugin::git("repo", repo.path()))
        .rule(Rule::for_principal("anonymous").deny(["**/.env"]))
        .rule(Rule::for_principal("anonymous").allow(["git://repo/**", "git://repo/blob/main/.env"]))
        .write();
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2025_11_25).await;
    let uris = client.uris().await;
    assert_eq!(uris.len(), 2, "{uris:?}");
    assert!(uris.iter().all(|uri| !uri.contains("env")), "{uris:?}");
    for uri in SPELLINGS {
        let error = client.read_error(uri).await;
        assert_eq!(error.code, ErrorCode(-32002), "{uri}: {error:?}");
    }
    for uri in ["git://repo/blob/main/deep/er/.env", "git://repo/blob/HEAD/.env", "git://repo/blob/main/.env?x"] {
        assert!(client.read(uri).await.is_err(), "{uri}");
    }
    assert_eq!(client.text("git://repo/blob/main/README.md").await, "hello");
    server.end().await;
}

#[tokio::test]
async fn a_rule_that_denies_holds_for_local_as_well() {
    let repo = repo();
    let config = ConfigFile::new()
        .plugin(Plugin::git("repo", repo.path()))
        .rule(Rule::for_principal("*").deny(["**/.env"]))
        .write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().resources().await.len(), 2);
    for uri in SPELLINGS {
        assert_eq!(server.client().read_error(uri).await.code, ErrorCode(-32002), "{uri}");
    }
    server.end().await;
}

#[tokio::test]
async fn each_operation_is_decided_by_itself() {
    let repo = repo();
    let config = ConfigFile::new()
        .plugin(Plugin::git("repo", repo.path()))
        .rule(Rule::for_principal("anonymous").allow(["**"]).operations(["list", "templates"]))
        .write();
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2025_11_25).await;
    assert_eq!(client.resources().await.len(), 4);
    assert!(!client.templates().await.is_empty());
    assert_eq!(client.read_error("git://repo/blob/main/README.md").await.code, ErrorCode(-32002));
    client.complete("git://repo/blob/{rev}/{+path}", ("rev", ""), &[]).await.unwrap_err();
    server.end().await;
}

#[tokio::test]
async fn what_is_hidden_is_neither_listed_below_its_parent_nor_completed() {
    let repo = repo();
    let config = ConfigFile::new()
        .plugin(Plugin::git("repo", repo.path()))
        .rule(Rule::for_principal("anonymous").allow(["**"]).deny(["**/.env", "git://repo/tree/main/deep/*/**"]))
        .write();
    let path = config.path();
    let list = async |uri: &str| {
        run(["list", uri, "--all", "--json", "--as", "anonymous", "--config", path.to_str().unwrap()]).await
    };
    let root = list("git://repo/tree/main").await.success().json();
    let uris: Vec<_> = root["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["git://repo/blob/main/README.md", "git://repo/tree/main/deep", "git://repo/blob/main/z.txt"]);
    let hidden = list("git://repo/tree/main/deep/er").await;
    assert_eq!(hidden.code(), 1);
    assert!(hidden.stderr.contains("there is no resource"), "{}", hidden.stderr);

    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2025_11_25).await;
    let complete = async |value: &str| {
        client.complete("git://repo/blob/{rev}/{+path}", ("path", value), &[("rev", "main")]).await.unwrap().values
    };
    assert_eq!(complete("REA").await, ["README.md"]);
    assert!(complete(".e").await.is_empty());
    server.end().await;
}

#[tokio::test]
async fn what_is_denied_is_never_asked_of_its_provider() {
    let config = ConfigFile::new()
        .plugin(Plugin::misbehaving("hidden"))
        .plugin(Plugin::misbehaving("shown"))
        .rule(Rule::for_principal("*").deny(["misbehaving://hidden/**"]))
        .write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().read_error("misbehaving://hidden/slow?ms=0").await.code, ErrorCode(-32002));
    assert_eq!(server.client().text("misbehaving://shown/slow?ms=0").await, "slow");
    let log = server.end().await.log;
    // The guest logs this line whenever the resource is read.
    let reads: Vec<_> = log.lines().filter(|line| line.contains("a slow read has begun")).collect();
    assert!(reads.len() == 1 && reads[0].contains("shown"), "{log}");
}

#[tokio::test]
async fn contents_below_a_resource_are_read_without_those_that_are_denied() {
    for (denied, left) in [("**/folder/b", Some("folder/a")), ("**/folder/*", None)] {
        let config =
            ConfigFile::new().plugin(Plugin::sample("a")).rule(Rule::for_principal("*").deny([denied])).write();
        let server = StdioServer::start(&config).await;
        match (left, server.client().read("sample://a/folder").await) {
            (Some(left), Ok(contents)) => {
                assert_eq!(contents.iter().map(content_bytes).collect::<Vec<_>>(), [left.as_bytes()])
            }
            (None, Err(error)) => assert_eq!(error.code, ErrorCode(-32002)),
            (_, read) => panic!("{denied}: {read:?}"),
        }
        server.end().await;
    }
}

#[tokio::test]
async fn a_page_is_full_although_much_is_hidden() {
    let many = Plugin::misbehaving("many").config("list", "many").config("count", 300);
    let config = ConfigFile::new()
        .page_size(10)
        .plugin(many)
        .rule(Rule::for_principal("anonymous").allow(["misbehaving://many/item-000*"]))
        .rule(Rule::for_principal("anonymous").allow(["misbehaving://many/item-02*"]))
        .write();
    let server = HttpServer::start(&config).await;
    let pages = server.client(Revision::V_2025_11_25).await.pages().await;
    let sizes: Vec<_> = pages.iter().map(|page| page.resources.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 110);
    assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == 10), "{sizes:?}");
    server.end().await;
}

#[tokio::test]
async fn the_command_line_sees_what_the_principal_sees() {
    let repo = repo();
    let config = ConfigFile::new()
        .plugin(Plugin::git("repo", repo.path()))
        .rule(Rule::for_principal("anonymous").allow(["**/*.md"]))
        .write();
    let path = config.path();
    let path = path.to_str().unwrap();
    let listed = run(["list", "--json", "--as", "anonymous", "--config", path]).await.success().json();
    assert_eq!(listed["resources"].as_array().unwrap().len(), 1);
    let uri = listed["resources"][0]["uri"].as_str().unwrap();
    assert_eq!(run(["read", uri, "--as", "anonymous", "--config", path]).await.success().text(), "hello");
    let refused = run(["read", "git://repo/blob/main/z.txt", "--as", "anonymous", "--config", path]).await;
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("there is no resource"), "{}", refused.stderr);
    run(["read", "git://repo/blob/main/z.txt", "--config", path]).await.success();
}

#[tokio::test]
async fn who_asked_for_what_and_what_came_of_it_is_in_the_log_for_those_who_want_it() {
    let repo = repo();
    let config = ConfigFile::new().plugin(Plugin::git("repo", repo.path())).write();
    let logged_requests = async |arguments: &[&str]| {
        let path = config.path();
        let options = ["--log", "mcp_host::access=debug", "--log-format", "json", "--config", path.to_str().unwrap()];
        let log = run([arguments, options.as_slice()].concat()).await.stderr;
        let events = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let events = events.filter(|event| event["target"] == "mcp_host::access");
        let fields = ["principal", "operation", "uri", "outcome"];
        events.map(|event| fields.map(|field| event[field].as_str().unwrap().to_owned())).collect::<Vec<_>>()
    };
    let uri = "git://repo/blob/main/README.md";
    assert_eq!(logged_requests(&["read", uri]).await, [["local", "read", uri, "ok"]]);
    assert_eq!(logged_requests(&["read", uri, "--as", "anonymous"]).await, [["anonymous", "read", uri, "not found"]]);
    assert_eq!(logged_requests(&["list"]).await, [["local", "list", "", "ok"]]);
}

#[tokio::test]
async fn a_plugin_that_is_missing_from_a_listing_is_named_to_those_who_may_see_something_of_it() {
    let folder = Folder::with_files([("a", "a"), (".faults/list.fail", "")]);
    let of = |principal: &str| Rule::for_principal(principal);
    for (rules, is_named) in [
        (vec![of("anonymous").allow(["**"])], true),
        (vec![of("anonymous").allow(["sample://a/**", "faulty://*/a"])], true),
        (vec![of("anonymous").allow(["sample://a/**"])], false),
        (vec![of("anonymous").allow(["**"]), of("*").deny(["faulty://m/**"])], false),
        (vec![of("anonymous").allow(["**"]), of("*").deny(["**"]).operations(["list"])], false),
        (vec![of("anonymous").allow(["**"]).operations(["read"]), of("local").allow(["**"])], false),
    ] {
        let config = ConfigFile::new().plugin(Plugin::faulty("m", folder.path())).plugin(Plugin::sample("a"));
        let config = rules.into_iter().fold(config, ConfigFile::rule).write();
        let server = HttpServer::start(&config).await;
        let mut wire = server.raw_client(Revision::V_2025_11_25).await;
        let listed = wire.request("resources/list", serde_json::json!({})).await;
        let missing = &listed.result()["_meta"]["mcp-host/missing"];
        assert_eq!(missing[0]["plugin"].as_str(), is_named.then_some("m"), "{listed:?}");
        server.end().await;
    }
}
