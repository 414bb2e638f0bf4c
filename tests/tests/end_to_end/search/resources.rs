//! Searches as resources: the template, saved searches, and subscriptions to them.

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, RawStdio, Revision, Rule};
use serde_json::{Value, json};
use toml::Table;

use super::{run_search, searched, uris, wait_until_found};

fn saved(name: &str, query: &str) -> toml::Value {
    Table::from_iter([("name".to_owned(), name.into()), ("query".to_owned(), query.into())]).into()
}

#[tokio::test]
async fn a_search_is_a_resource_with_a_template_that_is_completed() {
    let folder = Folder::with_files([("a.md", "# Needle\n\nin a haystack of hay\n"), ("b.json", "{\"needle\": 1}")]);
    let config = searched(&folder).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let templates = wire.request("resources/templates/list", json!({})).await;
    let template = "search:///{?q,in,kind,lang,limit}";
    let listed = templates.result()["resourceTemplates"].as_array().unwrap();
    assert!(listed.iter().any(|one| one["uriTemplate"] == template), "{listed:?}");
    wait_until_found(&mut wire, "needle", 2).await;
    let read = |uri: &str| json!({ "uri": uri });
    let narrowed = wire.request("resources/read", read("search:///?q=needle&kind=text/markdown&limit=1")).await;
    let contents = &narrowed.result()["contents"][0];
    assert_eq!(contents["mimeType"], "application/json");
    let result: Value = serde_json::from_str(contents["text"].as_str().unwrap()).unwrap();
    assert_eq!((uris(&result), &result["results"][0]["lines"]), (vec!["files://f/a.md".to_owned()], &json!([1, 3])));
    assert_eq!(result["results"][0]["linesUri"], "files://f/a.md?lines=1-3");
    assert_eq!(wire.read("files://f/a.md?lines=1-3").await.unwrap(), "# Needle\n\nin a haystack of hay\n");

    for (variable, expected) in [("kind", "text/markdown"), ("in", "files://f/")] {
        let reference = json!({ "type": "ref/resource", "uri": template });
        let params = json!({ "ref": reference, "argument": { "name": variable, "value": "" } });
        let completed = wire.request("completion/complete", params).await;
        let values = completed.result()["completion"]["values"].as_array().unwrap();
        assert!(values.contains(&json!(expected)), "{variable}: {values:?}");
    }
    for invalid in [
        "search:///",
        "search:///?in=files://f/",
        "search:///?q=",
        "search:///?q=x&limit=0",
        "search:///?q=x&other=1",
        "search:///?q=x&in=file://f/",
        "search:///?q=x&kind=markdown",
        "search:///?q=x&lang=english",
    ] {
        assert_eq!(wire.request("resources/read", read(invalid)).await.error_code(), -32602, "{invalid}");
    }
    assert_eq!(wire.request("resources/read", read("search:///saved/none")).await.error_code(), -32002);
    wire.end().await;
}

#[tokio::test]
async fn a_saved_search_is_listed_and_tells_when_its_result_changes() {
    let folder = Folder::with_files([("a.md", "needle"), ("b.md", "hay")]);
    let config = searched(&folder).search("saved", vec![saved("needles", "needle"), saved("other", "thread")]).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let listed = wire.request("resources/list", json!({})).await;
    let listed = listed.result()["resources"].as_array().unwrap().clone();
    let listed: Vec<_> = listed.iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(listed[2..], ["search:///saved/needles", "search:///saved/other"], "{listed:?}");
    wait_until_found(&mut wire, "needle", 1).await;
    wire.subscribe("search:///saved/needles").await;
    wire.subscribe("search:///saved/other").await;
    folder.write("b.md", "a second needle");
    let updated = wire.notification("notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "search:///saved/needles");
    let result: Value = serde_json::from_str(&wire.read("search:///saved/needles").await.unwrap()).unwrap();
    assert_eq!(result["total"], 2);
    assert!(wire.take_notifications().iter().all(|one| one["params"]["uri"] != "search:///saved/other"));
    wire.end().await;
}

#[tokio::test]
async fn what_a_principal_may_not_read_is_neither_found_nor_counted_nor_completed() {
    let folder = Folder::with_files([("public/a.md", "needle"), ("secret/b.txt", "needle needle needle")]);
    let config = ConfigFile::new()
        .plugin(Plugin::files("f", folder.path()).searched())
        .rule(Rule::for_principal("*").allow(["files://f/public/**", "search:///**"]))
        .write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2025_11_25).await;
    loop {
        let answer = wire.request("resources/read", json!({ "uri": "search:///?q=needle" })).await;
        let text = answer.result()["contents"][0]["text"].as_str().unwrap().to_owned();
        assert!(!text.contains("secret"), "{text}");
        let result: Value = serde_json::from_str(&text).unwrap();
        if result["total"] == 1 && result["partial"] == false {
            break;
        }
        assert!(result["total"] == 0 || result["partial"] == true || result["total"] == 1, "{result}");
    }
    let reference = json!({ "type": "ref/resource", "uri": "search:///{?q,in,kind,lang,limit}" });
    let params = json!({ "ref": reference, "argument": { "name": "kind", "value": "" } });
    let completed = wire.request("completion/complete", params).await;
    assert_eq!(completed.result()["completion"]["values"], json!(["text/markdown"]));
    server.end().await;
}

#[tokio::test]
async fn what_is_shown_of_a_hit_does_not_depend_on_hidden_documents() {
    let page = "\n\nthe alphaword is here\n".to_owned() + &"filler\n".repeat(120) + "\nthe betaword is here\n";
    let mut shown = Vec::new();
    for hidden in ["nothing", "alphaword", "betaword"] {
        let folder = Folder::with_files([("pub/a.md", page.as_str()), ("priv/b.md", hidden)]);
        let rule = Rule::for_principal("local").allow(["files://f/**", "search:///**", "context:///**"]);
        let config = searched(&folder).rule(rule.deny(["files://f/priv/**", "files://f/priv"])).write();
        let path = config.path();
        let config = ["--config", path.to_str().unwrap()];
        let found = run_search(&[&["search", "alphaword", "betaword", "--json"][..], &config].concat()).await.json();
        let passages =
            run_search(&[&["context", "alphaword", "betaword", "--budget", "400"][..], &config].concat()).await.text();
        assert_eq!(found["total"], 1, "{found}");
        shown.push((found["results"][0]["lines"].clone(), found["results"][0]["snippet"].clone(), passages));
    }
    assert_eq!(shown[0], shown[1]);
    assert_eq!(shown[0], shown[2]);
}

#[tokio::test]
async fn a_search_is_for_no_shared_cache_although_the_rules_are_the_same_for_all() {
    let folder = Folder::with_files([("a.md", "needle")]);
    let config = searched(&folder).search("saved", vec![saved("needles", "needle")]).allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    for (uri, scope) in [
        ("files://f/a.md", "public"),
        ("search:///?q=needle", "private"),
        ("SEARCH:///?q=needle", "private"),
        ("search:///saved/needles", "private"),
        ("context:///?q=needle", "private"),
    ] {
        let read = wire.request("resources/read", json!({ "uri": uri })).await;
        assert_eq!(read.result()["cacheScope"], scope, "{uri}");
    }
    server.end().await;
}
