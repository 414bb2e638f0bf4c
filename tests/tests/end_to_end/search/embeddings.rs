//! Embeddings: the texts sent to the endpoint, results found by embeddings, and failures of the endpoint.

use std::fs;
use std::time::{Duration, Instant};

use futures::future::join_all;
use mcp_host_tests::{
    ConfigFile, EmbeddingEndpoint, Folder, Plugin, RawStdio, Reply, Revision, TIMEOUT, WrittenConfig, run, wait_until,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{search, uris, wait_until_found};

const TEXTS: [(&str, &str); 3] =
    [("a.md", "The automobile is red.\n"), ("b.md", "The hound is brown.\n"), ("c.md", "The sky is blue.\n")];

/// A config whose plugin `f` serves a folder, with embeddings by an endpoint.
fn embedded(folder: &Folder, endpoint: &EmbeddingEndpoint) -> ConfigFile {
    let plugin = Plugin::files("f", folder.path()).embedded();
    ConfigFile::new().plugin(plugin).search("embeddings", endpoint.settings())
}

async fn start(config: &WrittenConfig) -> RawStdio {
    RawStdio::start(config, Revision::V_2025_11_25).await
}

/// Waits until a query has a resource as its first result.
async fn wait_until_first(wire: &mut RawStdio, query: &str, uri: &str) -> Value {
    let began = Instant::now();
    loop {
        let result = search(wire, query).await;
        if uris(&result).first().is_some_and(|first| first == uri) {
            return result;
        }
        assert!(began.elapsed() < TIMEOUT, "{query}: {result}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_text_is_found_by_other_words_than_its_own() {
    let (endpoint, folder) = (EmbeddingEndpoint::start().await, Folder::with_files(TEXTS));
    let config = embedded(&folder, &endpoint).write();
    let mut wire = start(&config).await;
    let found = wait_until_first(&mut wire, "car", "files://f/a.md").await;
    assert_eq!(found["results"][0]["snippet"], "The automobile is red.");
    wait_until_first(&mut wire, "dog", "files://f/b.md").await;

    // A phrase is required in the results, and is not sent to the endpoint.
    assert_eq!(search(&mut wire, "%22the%20car%22").await["total"], 0);
    assert_eq!(uris(&search(&mut wire, "%22the%20hound%22").await), ["files://f/b.md"]);
    assert!(!endpoint.texts().iter().any(|text| text.starts_with('"')), "{:?}", endpoint.texts());

    let answer = wire.request("resources/read", json!({ "uri": "context:///?q=car&budget=20" })).await;
    let chosen = &answer.result()["contents"][0];
    assert_eq!(
        (&chosen["text"], &chosen["_meta"]["mcp-host/reason"]),
        (&TEXTS[0].1.into(), &"near to the question".into())
    );
    wire.end().await;
}

#[tokio::test]
async fn the_status_tells_how_many_passages_have_vectors() {
    let (endpoint, folder) = (EmbeddingEndpoint::start().await, Folder::with_files(TEXTS));
    let paragraph = "The sea is blue. ".repeat(120);
    folder.write("d.md", format!("{paragraph}\n\n{paragraph}\n\n{paragraph}\n"));
    let config = embedded(&folder, &endpoint).write();
    let path = config.path();
    let status = async |arguments: &[&str]| {
        run([&["index", "status"], arguments, &["--config", path.to_str().unwrap()]].concat()).await.success()
    };
    let wire = start(&config).await;
    let expected = json!({ "documents": 4, "passages": 6, "totalPassages": 6 });
    let began = Instant::now();
    loop {
        let found = status(&["--json"]).await.json()["plugins"][0]["embeddings"].clone();
        if found == expected {
            break;
        }
        assert!(began.elapsed() < TIMEOUT, "{found}");
        sleep(Duration::from_millis(50)).await;
    }
    let text = status(&[]).await.text();
    assert!(text.contains("6 of 6 (100 %)"), "{text}");
    wire.end().await;
    let mut other = endpoint.settings();
    other.insert("model".to_owned(), "another".into());
    config.replace(ConfigFile::new().plugin(Plugin::files("f", folder.path()).embedded()).search("embeddings", other));
    let text = status(&[]).await.text();
    assert!(text.contains("0 of 6 (0 %)"), "no vector is of another model: {text}");
}

#[tokio::test]
async fn an_edit_is_found_by_its_meaning_and_what_is_gone_is_not() {
    let (endpoint, folder) = (EmbeddingEndpoint::start().await, Folder::with_files(TEXTS));
    let config = embedded(&folder, &endpoint).write();
    let mut wire = start(&config).await;
    wait_until_first(&mut wire, "dog", "files://f/b.md").await;
    folder.write("c.md", "Espresso.\n");
    wait_until_first(&mut wire, "coffee", "files://f/c.md").await;
    fs::remove_file(folder.path().join("c.md")).unwrap();
    wait_until_found(&mut wire, "coffee", 2).await;
    assert_eq!(endpoint.texts().iter().filter(|text| text.contains("hound")).count(), 1, "{:?}", endpoint.texts());
    wire.end().await;
}

#[tokio::test]
async fn only_what_the_config_says_is_sent() {
    let endpoint = EmbeddingEndpoint::start().await;
    let (folder, private) = (Folder::with_files(TEXTS), Folder::with_files([("p.md", "A private automobile.\n")]));
    let key = Folder::with_files([("key", "sk-hunter2\n")]);
    let mut settings = endpoint.settings();
    settings.insert("queries".to_owned(), false.into());
    settings.insert("passage-prefix".to_owned(), "passage: ".into());
    let key_source = [("file".to_owned(), key.path().join("key").to_str().unwrap().into())];
    settings.insert("key".to_owned(), toml::Table::from_iter(key_source).into());
    let config = ConfigFile::new()
        .plugin(Plugin::files("f", folder.path()).embedded())
        .plugin(Plugin::files("p", private.path()).searched())
        .search("embeddings", settings)
        .write();
    let mut wire = start(&config).await;
    wait_until_found(&mut wire, "automobile", 2).await;
    // Texts indexed a moment later are sent in a separate request.
    wait_until("all texts are sent", || endpoint.texts().len() >= TEXTS.len()).await;
    assert_eq!(search(&mut wire, "car").await["total"], 0);
    let mut sent = endpoint.texts();
    sent.sort();
    assert_eq!(sent, TEXTS.map(|(_, text)| format!("passage: {text}")));
    assert_eq!(endpoint.requests()[0].header("authorization"), Some("Bearer sk-hunter2"));
    assert!(!wire.log().contains("hunter2"));
    wire.end().await;
}

#[tokio::test]
async fn nothing_is_sent_of_a_plugin_after_a_reload_that_withdraws_it() {
    let (endpoint, folder) = (EmbeddingEndpoint::start().await, Folder::with_files(TEXTS));
    let other = Folder::with_files([("o.md", "The hound sleeps.\n")]);
    endpoint.answer_with(Reply::silent());
    // One text at a time, in a request that would take longer than the test.
    let mut settings = endpoint.settings();
    settings.insert("batch".to_owned(), 1.into());
    settings.insert("timeout".to_owned(), "300s".into());
    let with = |plugin: Plugin| {
        let other = Plugin::files("o", other.path()).embedded();
        ConfigFile::new().plugin(plugin).plugin(other).search("embeddings", settings.clone())
    };
    let config = with(Plugin::files("f", folder.path()).embedded()).write();
    let mut wire = start(&config).await;
    endpoint.origin().wait_for_requests(1).await;
    endpoint.recover();
    config.replace(with(Plugin::files("f", folder.path()).searched()));
    wait_until_first(&mut wire, "dog", "files://o/o.md").await;
    // Nothing of a later change is sent, either.
    folder.write("a.md", "The automobile is green.\n");
    wait_until_found(&mut wire, "%22green%22", 1).await;
    folder.write("b.md", "The hound is green.\n");
    wait_until_found(&mut wire, "%22green%22", 2).await;
    let of_plugin = |text: &String| TEXTS.iter().any(|(_, sent)| sent == text) || text.ends_with("is green.\n");
    let sent = endpoint.texts();
    // One request was under way, unless it belonged to the other plugin.
    assert!(sent.iter().filter(|text| of_plugin(text)).count() <= 1, "{sent:?}");
    wire.end().await;
}

#[tokio::test]
async fn what_another_host_has_indexed_and_the_config_excludes_is_not_sent() {
    let (endpoint, folder) = (EmbeddingEndpoint::start().await, Folder::with_files(TEXTS));
    folder.write("hid/h.md", "The first secret.\n");
    let config = ConfigFile::new().plugin(Plugin::files("f", folder.path()).searched()).write();
    let mut other = start(&config).await;
    wait_until_found(&mut other, "secret", 1).await;

    let exclude = toml::Value::Array(vec!["files://f/hid/**".into()]);
    let keys = [("embeddings".to_owned(), true.into()), ("exclude".to_owned(), exclude)];
    let plugin = Plugin::files("f", folder.path()).set("search", toml::Table::from_iter(keys));
    let excluding = ConfigFile::new().plugin(plugin).search("embeddings", endpoint.settings()).write();
    // The config uses the state directory of the other host.
    let [text, own_dir, other_dir] = [
        fs::read_to_string(excluding.path()).unwrap(),
        excluding.dir().to_str().unwrap().to_owned(),
        config.dir().to_str().unwrap().to_owned(),
    ];
    fs::write(excluding.path(), text.replace(&own_dir, &other_dir)).unwrap();
    let mut wire = start(&excluding).await;
    wait_until_first(&mut wire, "car", "files://f/a.md").await;
    folder.write("hid/h.md", "The second secret.\n");
    wait_until_found(&mut other, "second", 1).await;
    folder.write("c.md", "Espresso.\n");
    wait_until_first(&mut wire, "coffee", "files://f/c.md").await;
    assert!(!endpoint.texts().iter().any(|text| text.contains("secret")), "{:?}", endpoint.texts());
    wire.end().await;
    other.end().await;
}

#[tokio::test]
async fn a_text_that_has_not_changed_is_not_sent_again() {
    let endpoint = EmbeddingEndpoint::start().await;
    let paragraph = |topic: &str| format!("{}\n\n", format!("The {topic} is here. ").repeat(60));
    let folder = Folder::with_files([("a.md", paragraph("hound") + &paragraph("sky"))]);
    let config = embedded(&folder, &endpoint).write();
    let mut wire = start(&config).await;
    wait_until_first(&mut wire, "dog", "files://f/a.md").await;
    wire.end().await;

    let mut wire = start(&config).await;
    folder.write("a.md", paragraph("hound") + &paragraph("automobile"));
    wait_until_first(&mut wire, "car", "files://f/a.md").await;
    folder.write("b.md", paragraph("hound"));
    wait_until_found(&mut wire, "dog", 2).await;
    let sent = |topic: &str| endpoint.texts().iter().filter(|text| text.contains(&format!("The {topic}"))).count();
    assert_eq!((sent("hound"), sent("sky"), sent("automobile")), (1, 1, 1), "{:?}", endpoint.texts());
    wire.end().await;

    let mut other_model = endpoint.settings();
    other_model.insert("passages".to_owned(), 1.into());
    let plugin = Plugin::files("f", folder.path()).embedded();
    let changed = ConfigFile::new().plugin(plugin).search("embeddings", other_model).write();
    fs::copy(changed.path(), config.path()).unwrap();
    let mut wire = start(&config).await;
    wait_until_first(&mut wire, "dog", "files://f/a.md").await;
    assert_eq!((sent("hound"), sent("automobile")), (2, 1), "{:?}", endpoint.texts());
    wire.end().await;
}

/// A part of an answer that must not be in the log.
const QUOTED: &str = "Bearer sk-hunter2";

/// Returns faults of an endpoint, each with a part of the log message about it.
fn faults() -> Vec<(&'static str, Reply, &'static str)> {
    let vectors = |data: Value| Reply::ok("application/json", json!({ "data": data }).to_string());
    let vector = |dimensions: usize| json!({ "embedding": vec![1.0; dimensions] });
    let dimensions = EmbeddingEndpoint::DIMENSIONS;
    let nan = format!(r#"{{"data":[{{"embedding":[NaN{}]}}]}}"#, ",1".repeat(dimensions - 1));
    vec![
        ("hangs", Reply::silent(), "no answer within 1s"),
        ("drips", Reply::drip(Duration::from_millis(100)), ""),
        ("never ends", Reply::endless(), "or broke off"),
        ("breaks off", Reply::ok("application/json", "{\"data\":[").truncate_after(5), ""),
        ("redirects", Reply::redirect(307, "http://127.0.0.1:9/v1/embeddings"), "the status 307"),
        ("rejects the key", Reply::status(401), "check `search.embeddings.key`"),
        ("is overloaded", Reply::status(429).header("Retry-After", "1"), "the status 429"),
        ("has other dimensions", vectors(json!([vector(dimensions + 1)])), "a vector has 5 dimensions"),
        ("has too many vectors", vectors(json!([vector(dimensions), vector(dimensions)])), "2 vectors for 1 texts"),
        ("has no numbers", Reply::ok("application/json", nan), "is not a list of embeddings"),
        ("is no endpoint", Reply::ok("text/html", "<html>"), "is not a list of embeddings"),
        ("repeats the request", vectors(json!([{ "index": QUOTED, "embedding": [] }])), "is not a list of embeddings"),
    ]
}

/// During a fault, results are lexical, in time and complete. After it, they are hybrid.
async fn is_lexical_until_it_is_repaired(name: &str, fault: Reply, message: &str) {
    let (endpoint, folder) = (EmbeddingEndpoint::start().await, Folder::with_files([TEXTS[0]]));
    endpoint.answer_with(fault);
    let mut settings = endpoint.settings();
    settings.insert("timeout".to_owned(), "1s".into());
    settings.insert("query-timeout".to_owned(), "1s".into());
    let plugin = Plugin::files("f", folder.path()).embedded();
    let config = ConfigFile::new().plugin(plugin).search("embeddings", settings).write();
    let began = Instant::now();
    let mut wire = start(&config).await;
    wait_until_found(&mut wire, "automobile", 1).await;
    endpoint.origin().wait_for_requests(1).await;
    assert_eq!(search(&mut wire, "car").await["total"], 0, "{name}");
    wire.log_line(message).await;
    // After this number, the circuit breaker opens, and no more requests are sent.
    for _ in 0..4 {
        search(&mut wire, "car").await;
    }
    let log = wire.log();
    let told = log.matches("the results are lexical").count() as u64;
    assert!(told <= 1 + began.elapsed().as_secs() / 60, "{name}: once a minute: {log}");
    assert!(!log.contains(QUOTED), "{name}: {log}");
    endpoint.recover();
    wait_until_first(&mut wire, "car", "files://f/a.md").await;
    wire.end().await;
}

#[tokio::test]
async fn results_are_lexical_while_the_endpoint_fails() {
    let faults = faults();
    join_all(faults.into_iter().map(|(name, fault, message)| is_lexical_until_it_is_repaired(name, fault, message)))
        .await;
}

#[tokio::test]
async fn results_are_lexical_while_the_endpoint_is_down() {
    let (endpoint, folder) = (EmbeddingEndpoint::start().await, Folder::with_files(TEXTS));
    endpoint.origin().take_down().await;
    let config = embedded(&folder, &endpoint).write();
    let mut wire = start(&config).await;
    wait_until_found(&mut wire, "automobile", 1).await;
    assert_eq!(search(&mut wire, "car").await["total"], 0);
    wire.log_line("embeddings cannot be computed").await;
    endpoint.origin().bring_up().await;
    wait_until_first(&mut wire, "car", "files://f/a.md").await;
    wire.end().await;
}

#[tokio::test]
async fn a_text_that_is_rejected_does_not_keep_others_from_being_found() {
    let (endpoint, folder) = (EmbeddingEndpoint::start().await, Folder::with_files(TEXTS));
    folder.write("rejected.md", "The automobile is too long.\n");
    endpoint.reject_texts_with("too long");
    let config = embedded(&folder, &endpoint).write();
    let mut wire = start(&config).await;
    wait_until_first(&mut wire, "car", "files://f/a.md").await;
    assert!(!uris(&search(&mut wire, "car").await).contains(&"files://f/rejected.md".to_owned()));
    wire.log_line("rejects a resource").await;
    wire.end().await;
}
