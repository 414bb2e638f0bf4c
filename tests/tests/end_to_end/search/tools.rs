//! Tools: the same façade, for clients that support only tools.

use mcp_host_tests::{
    ConfigFile, Folder, GitRepo, HttpServer, Plugin, REVISIONS, RawStdio, Revision, RpcResponse, Rule, run,
};
use serde_json::{Value, json};

use super::{searched, wait_until_found};

const ALL: [&str; 4] = ["list", "read", "search", "context"];

fn folder() -> Folder {
    Folder::with_files([
        ("guide.md", "# Guide\n\nThe circuit breaker opens after five failures.\n"),
        ("logo.png", "\u{89}PNG\r\n"),
    ])
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

fn text(answer: &RpcResponse) -> &str {
    answer.result()["content"][0]["text"].as_str().unwrap()
}

/// Calls a tool that searches, until the search does not end early, as it may on a busy machine.
async fn call_in_time(wire: &mut RawStdio, params: Value) -> RpcResponse {
    call_until(wire, params, "guide.md").await
}

/// The same, until the text of the result contains `wanted`.
async fn call_until(wire: &mut RawStdio, params: Value, wanted: &str) -> RpcResponse {
    loop {
        let answer = wire.request("tools/call", params.clone()).await;
        let is_partial = ["cut short", "not everything is indexed"].iter().any(|mark| text(&answer).contains(mark));
        if !is_partial && text(&answer).contains(wanted) {
            return answer;
        }
    }
}

#[tokio::test]
async fn a_client_that_knows_only_tools_finds_and_reads_in_every_revision() {
    let folder = folder();
    let config = searched(&folder).server("tools", ALL.to_vec());
    let config = config.server("tool-links", true).server("tool-structured-content", true).write();
    for revision in REVISIONS {
        let mut wire = RawStdio::start(&config, revision.clone()).await;
        wait_until_found(&mut wire, "circuit", 1).await;
        let is_structured = revision >= Revision::V_2025_06_18;
        let listed = wire.request("tools/list", json!({})).await;
        let tools = listed.result()["tools"].as_array().unwrap().clone();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["list_resources", "read_resource", "search_resources", "resource_context"]);
        for tool in &tools {
            assert_eq!(tool["inputSchema"]["type"], "object");
            assert_eq!(tool.get("outputSchema").is_some(), is_structured, "{revision:?}");
            assert_eq!(tool.get("annotations").is_some(), revision >= Revision::V_2025_03_26);
        }

        let found = call_in_time(&mut wire, call("search_resources", json!({ "query": "circuit breaker" }))).await;
        assert!(text(&found).contains("files://f/guide.md") && text(&found).contains("opens after five"));
        assert_eq!(found.result().get("structuredContent").is_some(), is_structured);
        let links = found.result()["content"].as_array().unwrap().iter().filter(|item| item["type"] == "resource_link");
        assert_eq!(links.count(), usize::from(is_structured));
        if is_structured {
            assert_eq!(found.result()["structuredContent"]["results"][0]["uri"], "files://f/guide.md");
        }

        let context = json!({ "query": "when does the breaker open?", "budget": 100 });
        let chosen = call_in_time(&mut wire, call("resource_context", context)).await;
        assert!(text(&chosen).starts_with("files://f/guide.md?lines=1-3 (lines 1-3):\n# Guide"), "{}", text(&chosen));
        let context = json!({ "query": "when does the breaker open?", "budget": 1 });
        call_until(&mut wire, call("resource_context", context), "No passage fits the budget of 1 tokens").await;
        let read = wire.request("tools/call", call("read_resource", json!({ "uri": "files://f/guide.md" }))).await;
        assert!(text(&read).starts_with("# Guide"));
        let listed = wire.request("tools/call", call("list_resources", json!({}))).await;
        assert!(text(&listed).contains("files://f/guide.md (~14 tokens)\n"), "{}", text(&listed));
        assert!(text(&listed).contains("\nfiles://f/{+path}{?lines"), "{}", text(&listed));
        if is_structured {
            let templates = listed.result()["structuredContent"]["resourceTemplates"].as_array().unwrap();
            let templates: Vec<_> = templates.iter().map(|one| one["uriTemplate"].as_str().unwrap()).collect();
            assert!(templates.contains(&"search:///{?q,in,kind,lang,limit}"), "{templates:?}");
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn after_a_resource_that_does_not_exist_a_model_is_told_what_to_do_next() {
    let folder = folder();
    let config = searched(&folder).server("tools", ALL.to_vec()).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let tools = "`list_resources` lists those that exist; `search_resources` finds them by words";
    for (name, uri, next) in [
        ("read_resource", "files://f/absent", tools.to_owned()),
        ("read_resource", "file://f/guide.md", format!("the nearest mount is `files://f/`; {tools}")),
        ("list_resources", "files://g/", format!("the nearest mount is `files://f/`; {tools}")),
    ] {
        let answer = wire.request("tools/call", call(name, json!({ "uri": uri }))).await;
        assert_eq!(text(&answer), format!("there is no resource {uri}; {next}"));
    }
    wire.end().await;
}

#[tokio::test]
async fn an_integer_is_one_however_json_writes_it() {
    let folder = folder();
    let config = searched(&folder).server("tools", ALL.to_vec()).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wait_until_found(&mut wire, "circuit", 1).await;
    call_in_time(&mut wire, call("search_resources", json!({ "query": "circuit", "limit": 5.0 }))).await;
    call_in_time(&mut wire, call("resource_context", json!({ "query": "circuit", "budget": 1e2 }))).await;
    wire.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_told_to_the_model_or_to_the_client() {
    let folder = folder();
    let config = searched(&folder).server("tools", ALL.to_vec()).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for (name, arguments) in [
        ("read_resource", json!({})),
        ("read_resource", json!({ "uri": "files://f/absent" })),
        ("read_resource", json!({ "uri": "files://f/guide.md", "other": 1 })),
        ("search_resources", json!({ "query": 5 })),
        ("search_resources", json!({ "query": "x", "limit": 1000 })),
        ("search_resources", json!({ "query": "" })),
        ("search_resources", json!({ "query": "x", "in": "" })),
        ("search_resources", json!({ "query": "x", "kind": "markdown" })),
        ("search_resources", json!({ "query": "x", "lang": "english" })),
        ("resource_context", json!({ "query": "?" })),
        ("list_resources", json!({ "cursor": "forged" })),
    ] {
        let answer = wire.request("tools/call", call(name, arguments)).await;
        assert_eq!(answer.result()["isError"], true, "{name}: {}", answer.result());
    }
    assert_eq!(wire.request("tools/call", call("other", json!({}))).await.error_code(), -32602);
    assert_eq!(
        wire.request("tools/call", json!({ "name": "read_resource", "arguments": [] })).await.error_code(),
        -32602
    );
    assert_eq!(wire.request("tools/call", json!({})).await.error_code(), -32602);
    assert_eq!(wire.request("tools/list", json!({ "cursor": "forged" })).await.error_code(), -32602);
    let long = json!({ "query": "x".repeat(100_000) });
    assert_eq!(wire.request("tools/call", call("search_resources", long)).await.error_code(), -32602);
    wire.end().await;
}

#[tokio::test]
async fn without_tools_in_the_config_there_are_none() {
    let folder = folder();
    let config = searched(&folder).server("tools", vec!["read"]).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let listed = wire.request("tools/list", json!({})).await;
    assert_eq!(listed.result()["tools"].as_array().unwrap().len(), 1);
    assert_eq!(wire.request("tools/call", call("list_resources", json!({}))).await.error_code(), -32602);
    wire.end().await;
    let config = searched(&folder).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for (method, params) in [("tools/list", json!({})), ("tools/call", call("read_resource", json!({})))] {
        assert_eq!(wire.request(method, params).await.error_code(), -32601);
    }
    wire.end().await;
}

#[tokio::test]
async fn a_tool_obeys_the_rules_of_resources() {
    let folder = Folder::with_files([("public.md", "needle"), ("secret.md", "needle")]);
    let config = ConfigFile::new()
        .server("tools", ALL.to_vec())
        .plugin(Plugin::files("f", folder.path()).searched())
        .rule(Rule::for_principal("*").allow(["files://f/public.md"]))
        .write();
    let server = HttpServer::start(&config).await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = server.raw_client(revision).await;
        let listed = wire.request("tools/call", call("list_resources", json!({}))).await;
        assert!(text(&listed).contains("public.md") && !text(&listed).contains("secret"), "{}", text(&listed));
        let read = |uri: &str| call("read_resource", json!({ "uri": uri }));
        let hidden = wire.request("tools/call", read("files://f/secret.md")).await;
        let unknown = wire.request("tools/call", read("files://f/unknown.md")).await;
        assert_eq!(text(&hidden).replace("secret", "unknown"), text(&unknown));
        loop {
            let found = wire.request("tools/call", call("search_resources", json!({ "query": "needle" }))).await;
            assert!(!text(&found).contains("secret"), "{}", text(&found));
            if text(&found).contains("files://f/public.md") {
                break;
            }
        }
    }
    server.end().await;
}

/// Returns the cursor at the end of a page of `list_resources`.
fn next_cursor(page: &RpcResponse) -> Option<String> {
    let last = text(page).lines().last()?;
    let (_, cursor) = last.strip_prefix("[cut: ")?.strip_suffix(']')?.split_once("continue with the cursor ")?;
    Some(cursor.to_owned())
}

#[tokio::test]
async fn a_result_is_one_copy_of_its_data_unless_the_config_asks_for_more() {
    let folder = folder();
    let tools = || searched(&folder).server("tools", ALL.to_vec());
    let both = tools().server("tool-links", true).server("tool-structured-content", true);
    for (config, is_repeated) in [(tools().write(), false), (both.write(), true)] {
        for revision in REVISIONS {
            let mut wire = RawStdio::start(&config, revision.clone()).await;
            let is_repeated = is_repeated && revision >= Revision::V_2025_06_18;
            let listed = wire.request("tools/list", json!({})).await;
            for tool in listed.result()["tools"].as_array().unwrap() {
                assert_eq!(tool.get("outputSchema").is_some(), is_repeated, "{revision:?}: {tool}");
            }
            for (name, arguments) in [
                // The call waits until the plugin is loaded.
                ("read_resource", json!({ "uri": "files://f/guide.md" })),
                ("list_resources", json!({})),
                ("search_resources", json!({ "query": "circuit" })),
                ("resource_context", json!({ "query": "circuit" })),
            ] {
                let called = call_in_time_if_searched(&mut wire, call(name, arguments)).await;
                let content = called.result()["content"].as_array().unwrap();
                let has_links = content.iter().any(|item| item["type"] == "resource_link");
                assert_eq!(content[0]["type"], "text");
                assert_eq!(called.result().get("structuredContent").is_some(), is_repeated, "{name}: {revision:?}");
                assert_eq!(has_links, is_repeated && name != "read_resource", "{name}: {revision:?}");
            }
            wire.end().await;
        }
    }
}

/// Calls a tool. A tool that searches is repeated until it has a result.
async fn call_in_time_if_searched(wire: &mut RawStdio, params: Value) -> RpcResponse {
    match params["name"].as_str() {
        Some("search_resources" | "resource_context") => call_in_time(wire, params).await,
        _ => wire.request("tools/call", params).await,
    }
}

#[tokio::test]
async fn a_page_for_a_model_is_small_and_says_how_to_continue() {
    let description = "words ".repeat(1000);
    let names: Vec<_> = (0..180).map(|n| format!("note-{n:03}.md")).collect();
    let note = |name| (name, format!("---\ntitle: A title\ndescription: {description}\n---\ntext\n"));
    let folder = Folder::with_files(names.iter().map(note));
    let plugin = Plugin::notes("n", folder.path());
    let config = ConfigFile::new().server("tools", vec!["list"]).plugin(plugin).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for (limit, pages) in [(None, 4), (Some(100), 2)] {
        let (mut cursor, mut found, mut count) = (None, Vec::new(), 0);
        loop {
            let mut arguments = json!({ "uri": "notes://n/", "cursor": cursor });
            if let Some(limit) = limit {
                arguments["limit"] = limit.into();
            }
            let page = wire.request("tools/call", call("list_resources", arguments)).await;
            assert!(text(&page).len() < 64 << 10, "{} bytes", text(&page).len());
            let uris =
                text(&page).lines().filter_map(|line| line.split([' ', '\n']).next()?.strip_prefix("notes://n/"));
            found.extend(uris.filter(|path| path.ends_with(".md")).map(str::to_owned));
            count += 1;
            match next_cursor(&page) {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(found, names);
        assert!(count >= pages, "{count} pages");
    }
    wire.end().await;
}

#[tokio::test]
async fn what_a_tool_leaves_out_is_its_last_line_with_how_to_get_it() {
    let lines: String = (0..60_000).map(|n| format!("{n:05} a line of a large log file\n")).collect();
    let folder = Folder::with_files([("big.log", lines.as_str()), ("scan.bin", "\u{0}\u{1}")]);
    let plugin = Plugin::files("f", folder.path());
    let config = ConfigFile::new().server("tools", vec!["read"]).server("tool-structured-content", true);
    let config = config.plugin(plugin).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let (mut uri, mut all, mut calls) = ("files://f/big.log".to_owned(), String::new(), 0);
    loop {
        let mut offset = 0_u64;
        let next = loop {
            let arguments = json!({ "uri": uri, "offset": offset, "max_bytes": 400_000 });
            let part = wire.request("tools/call", call("read_resource", arguments)).await;
            calls += 1;
            assert!(text(&part).len() < 401_000);
            // No line of the file starts with a bracket.
            let (shown, notices): (Vec<_>, Vec<_>) =
                text(&part).split_inclusive('\n').partition(|line| !line.starts_with('['));
            all.extend(shown);
            let last = notices.last().map_or("", |line| line.trim_end());
            let structured = &part.result()["structuredContent"];
            if let Some(at) = last.strip_suffix(']').and_then(|last| last.split_once("continue with the offset ")) {
                offset = at.1.parse().unwrap();
                assert_eq!(structured["nextOffset"], offset);
                continue;
            }
            let next = last.strip_suffix(']').and_then(|last| last.split_once("the next part is "));
            assert_eq!(structured["contents"][0]["notices"][0]["next"].as_str(), next.map(|(_, uri)| uri));
            break next.map(|(_, uri)| uri.to_owned());
        };
        match next {
            Some(next) => uri = next,
            None => break,
        }
    }
    assert!(all == lines, "{} of {} bytes", all.len(), lines.len());
    assert!(calls > 4, "{calls}");
    let binary = wire.request("tools/call", call("read_resource", json!({ "uri": "files://f/scan.bin" }))).await;
    assert_eq!(binary.result()["structuredContent"]["contents"][0]["blob"], "AAE=");
    wire.end().await;
    let config = ConfigFile::new().server("tools", vec!["read"]).plugin(Plugin::files("f", folder.path())).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let binary = wire.request("tools/call", call("read_resource", json!({ "uri": "files://f/scan.bin" }))).await;
    assert!(
        text(&binary).starts_with("[incomplete: ")
            && text(&binary).contains("2 bytes, is not in this text: it is no text]"),
        "{}",
        text(&binary)
    );
    wire.end().await;
}

#[tokio::test]
async fn the_next_part_is_a_whole_uri_over_every_door() {
    let repo = GitRepo::with_files([("a.md", "1")]);
    for n in 0..3 {
        repo.worktree().write("a.md", format!("{n} and more"));
        repo.commit("more");
    }
    let config = ConfigFile::new().server("tools", vec!["read"]).plugin(Plugin::git("repo", repo.path())).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let (mut uri, mut commits) = ("git://repo/log/main?limit=2".to_owned(), 0);
    loop {
        let read = wire.request("resources/read", json!({ "uri": uri })).await;
        let content = &read.result()["contents"][0];
        commits += content["text"].as_str().unwrap().lines().count();
        let next = content["_meta"]["mcp-host/notices"][0]["next"].as_str().map(str::to_owned);
        let tool = wire.request("tools/call", call("read_resource", json!({ "uri": uri }))).await;
        let last = text(&tool).lines().last().unwrap().to_owned();
        let printed = run(["read", &uri, "--config", config.path().to_str().unwrap()]).await.success();
        match next {
            Some(next) => {
                assert!(next.starts_with("git://repo/log/"), "{next}");
                assert!(last.ends_with(&format!("; the next part is {next}]")), "{last}");
                assert!(printed.stderr.contains(&next), "{}", printed.stderr);
                uri = next;
            }
            None => {
                assert!(!last.starts_with('['), "{last}");
                break;
            }
        }
    }
    assert_eq!(commits, 4);
    wire.end().await;
}

#[tokio::test]
async fn the_next_part_that_a_principal_may_not_read_is_not_named() {
    let repo = GitRepo::with_files([("a.md", "1")]);
    repo.commit("more");
    let of = |allowed: &str| {
        let rule = Rule::for_principal("*").allow([allowed]);
        ConfigFile::new().plugin(Plugin::git("repo", repo.path())).rule(rule).write()
    };
    // The URI of the next part contains the commit's id.
    for (allowed, is_named) in [("git://repo/log/**", true), ("git://repo/log/main", false)] {
        let config = of(allowed);
        let server = HttpServer::start(&config).await;
        let mut wire = server.raw_client(Revision::V_2026_07_28).await;
        // The second read is answered from the cache, if the first one is cached.
        for _ in 0..2 {
            let read = wire.request("resources/read", json!({ "uri": "git://repo/log/main?limit=1" })).await;
            let notice = read.result()["contents"][0]["_meta"]["mcp-host/notices"][0].clone();
            assert_eq!((&notice["kind"], notice.get("next").is_some()), (&json!("cut"), is_named), "{notice}");
        }
        server.end().await;
    }
}

#[tokio::test]
async fn a_bare_mount_can_be_listed_whatever_its_provider_has_there() {
    let folder = folder();
    let repo = GitRepo::with_files([("a.md", "1")]);
    let config = ConfigFile::new()
        .server("tools", vec!["list"])
        .plugin(Plugin::files("f", folder.path()))
        .plugin(Plugin::notes("n", folder.path()))
        .plugin(Plugin::git("g", repo.path()))
        .plugin(Plugin::results("r", folder.path()))
        .plugin(Plugin::configuration("c", folder.path()))
        .plugin(Plugin::sample("s"))
        .write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let mounts = ["files://f/", "notes://n/", "git://g/", "results://r/", "config://c/", "sample://s/"];
    let of_mount = |text: &str, mount: &str| {
        text.lines()
            .filter(|line| line.starts_with(mount) && !line.contains('{'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut below = Vec::new();
    for mount in mounts {
        // The call waits until the plugin is loaded.
        let listed = wire.request("tools/call", call("list_resources", json!({ "uri": mount, "limit": 1000 }))).await;
        assert_ne!(listed.result()["isError"], true, "{mount}: {}", text(&listed));
        let is_of_another = |line: &str| mounts.iter().any(|other| *other != mount && line.starts_with(*other));
        assert!(!text(&listed).lines().any(is_of_another), "{mount}: {}", text(&listed));
        below.push(of_mount(text(&listed), mount));
    }
    let all = wire.request("tools/call", call("list_resources", json!({ "limit": 1000 }))).await;
    for (mount, below) in mounts.into_iter().zip(below) {
        assert_eq!(below.is_empty(), of_mount(text(&all), mount).is_empty(), "{mount}: {}", text(&all));
    }
    wire.end().await;
}

#[tokio::test]
async fn a_hit_of_which_only_a_part_is_indexed_says_so() {
    let folder = Folder::with_files([
        ("big.log", "a circuit breaker in a log\n".repeat(10_000)),
        ("small.md", "circuit".to_owned()),
    ]);
    let plugin = Plugin::files("f", folder.path()).config("max-read", "64KiB").searched();
    let config = ConfigFile::new().server("tools", vec!["search", "context"]).plugin(plugin).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wait_until_found(&mut wire, "circuit", 2).await;
    let expected = "[cut: only a part of it is indexed: ";
    for tool in ["search_resources", "resource_context"] {
        let found = call_until(&mut wire, call(tool, json!({ "query": "circuit breaker" })), "big.log").await;
        assert!(text(&found).lines().any(|line| line.starts_with(expected)), "{}", text(&found));
    }
    let result = super::search(&mut wire, "circuit breaker").await;
    let hits = result["results"].as_array().unwrap();
    let cut: Vec<_> = hits.iter().filter(|hit| hit["notices"][0]["kind"] == "cut").map(|hit| &hit["uri"]).collect();
    assert_eq!(cut, ["files://f/big.log"]);
    wire.end().await;
}

#[tokio::test]
async fn a_small_page_does_not_count_what_is_hidden() {
    let hidden = (0..200).map(|number| (format!("a/{number:03}.txt"), "hidden\n"));
    let folder = Folder::with_files(hidden.chain([("b.txt".to_owned(), "seen\n")]));
    let rule = Rule::for_principal("local").allow(["files://f/**"]).deny(["files://f/a/**", "files://f/a"]);
    let plugin = Plugin::files("f", folder.path());
    let config = ConfigFile::new().server("tools", vec!["list"]).plugin(plugin).rule(rule).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let first = wire.request("tools/call", call("list_resources", json!({ "limit": 1 }))).await;
    assert!(text(&first).contains("files://f/b.txt"), "{}", text(&first));
    wire.end().await;
}
