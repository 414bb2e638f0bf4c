//! Listings, contents, templates and errors.

use std::time::Duration;

use mcp_host_model::provider::{Body, Failure, Provider};
use mcp_host_model::resource::Argument;
use serde_json::{Value, json};

use super::scripted::{Reply, Scripted, page, stateless, text, with_session};

fn cursor(message: &Value) -> Option<&str> {
    message["params"]["cursor"].as_str()
}

fn uri(message: &Value) -> &str {
    message["params"]["uri"].as_str().unwrap_or_default()
}

/// All pages of a listing.
async fn listed(provider: &dyn Provider) -> Result<Vec<String>, Failure> {
    let (mut paths, mut cursor) = (Vec::new(), None);
    loop {
        let page = provider.list(None, cursor.as_deref(), 100).await?;
        paths.extend(page.entries.into_iter().map(|entry| entry.path));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(paths);
        }
    }
}

#[tokio::test]
async fn pages_are_followed_and_uris_are_paths_in_normal_form() {
    let server = with_session(|method, message| match (method, cursor(message)) {
        ("resources/list", None) => page(&["Repo://X/a", "urn:isbn:1"], Some("2")),
        ("resources/list", Some("2")) => page(&[], Some("")),
        ("resources/list", Some("")) => page(&["file:///b%2Cc"], None),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    assert_eq!(listed(&*up).await.unwrap(), ["repo://x/a", "urn:isbn:1", "file:///b,c"]);
    assert_eq!(up.describe().name, "scripted");
    assert!(up.describe().watches);
}

#[tokio::test]
async fn the_upstream_gets_the_spelling_that_it_listed_and_else_the_normal_form() {
    let server = with_session(|method, message| match method {
        "resources/list" => page(&["Repo://X/%61"], None),
        "resources/read" => text(uri(message), uri(message)),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let read = async |path: &str| match up.read(path).await.unwrap().remove(0) {
        contents if contents.entry.path == path => contents.body,
        other => panic!("{other:?}"),
    };
    assert_eq!(read("repo://x/a").await, Body::Text("repo://x/a".to_owned()));
    listed(&*up).await.unwrap();
    assert_eq!(read("repo://x/a").await, Body::Text("Repo://X/%61".to_owned()));
}

#[tokio::test]
async fn an_exchanged_prefix_is_in_every_place() {
    let server = with_session(|method, message| match method {
        "resources/list" => page(&["file:///srv/a", "file:///etc/passwd"], None),
        "resources/templates/list" => Reply::Result(json!({ "resourceTemplates": [
            { "uriTemplate": "file:///srv/{+path}", "name": "files" },
            { "uriTemplate": "other://{x}", "name": "others" },
        ] })),
        "resources/read" if uri(message) == "file:///srv/b" => Reply::Error(-32602, "file:///srv/b is locked"),
        "resources/read" if uri(message) == "file:///srv/c" => Reply::Error(-32602, "see file:///srv/d"),
        "resources/read" => Reply::Result(json!({ "contents": [
            { "uri": uri(message), "text": "1" },
            { "uri": "file:///srv/below", "blob": "/wA=" },
            { "uri": "file:///etc/passwd", "text": "secret" },
        ] })),
        "completion/complete" => {
            assert_eq!(message["params"]["ref"]["uri"], "file:///srv/{+path}");
            Reply::Result(json!({ "completion": { "values": ["x"], "total": 1 } }))
        }
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("mount = 'files://nas/'\nprefix = 'file:///srv/'").await;
    assert_eq!(listed(&*up).await.unwrap(), ["a"]);
    let templates = up.templates().await.unwrap();
    assert_eq!(templates.iter().map(|one| one.path_template.as_str()).collect::<Vec<_>>(), ["{+path}"]);
    let contents = up.read("a").await.unwrap();
    assert_eq!(contents.iter().map(|one| one.entry.path.as_str()).collect::<Vec<_>>(), ["a", "below"]);
    assert_eq!(contents[1].body, Body::Blob(vec![0xff, 0]));
    let meta = contents[0].entry.meta.as_deref().unwrap_or_default();
    assert!(
        meta.contains(r#""incomplete""#) && meta.contains("1 of 3 contents of the upstream are left out"),
        "{meta}"
    );
    assert!(!meta.contains("passwd") && contents[1].entry.meta.is_none(), "{meta}");
    let completed = up.complete("{+path}", &Argument::new("path", ""), &[]).await.unwrap();
    assert_eq!((completed.values, completed.total), (vec!["x".to_owned()], Some(1)));
    assert_eq!(up.read("b").await, Err(Failure::invalid("files://nas/b is locked")));
    assert_eq!(up.read("c").await, Err(Failure::invalid("the upstream rejects the request")));
}

/// Rules judge the canonical form, which a template can lead around.
#[tokio::test]
async fn no_value_is_offered_with_which_a_template_leads_to_another_spelling() {
    let templates = ["file://{host}/{+path}", "file:{+path}", "http://{host}/{+path}", "x://{a}/{b}"];
    let server = with_session(move |method, message| match method {
        "resources/templates/list" => {
            let entry = |template| json!({ "uriTemplate": template, "name": template });
            Reply::Result(json!({ "resourceTemplates": templates.map(entry) }))
        }
        "completion/complete" => {
            let values =
                if message["params"]["argument"]["name"] == "path" { json!(["s/x", "a?b"]) } else { json!(["s"]) };
            Reply::Result(json!({ "completion": { "values": values, "total": 7, "hasMore": true } }))
        }
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let nothing: &[&str] = &[];
    for (template, name, context, expected) in [
        ("file://{host}/{+path}", "path", Some(("host", "")), &["s/x"][..]),
        ("file://{host}/{+path}", "path", Some(("host", "localhost")), nothing),
        ("file://{host}/{+path}", "host", None, nothing),
        ("file:{+path}", "path", None, nothing),
        ("http://{host}/{+path}", "path", Some(("host", "h.example")), &["s/x", "a?b"]),
        // The expansion is another host: `u%40h.example`.
        ("http://{host}/{+path}", "path", Some(("host", "u@h.example")), &["s/x", "a?b"]),
        ("http://{host}/{+path}", "path", Some(("host", "H.EXAMPLE.:080")), nothing),
        ("http://{host}/{+path}", "path", None, &["s/x", "a?b"]),
        ("x://{a}/{b}", "b", None, &["s"]),
    ] {
        let context: Vec<_> = context.into_iter().map(|(name, value)| Argument::new(name, value)).collect();
        let completed = up.complete(template, &Argument::new(name, ""), &context).await.unwrap();
        assert_eq!(completed.values, expected, "{template} {context:?}");
        let is_whole = template.starts_with(['h', 'x']) && !expected.is_empty();
        assert_eq!((completed.total, completed.has_more), (is_whole.then_some(7), is_whole), "{template} {context:?}");
    }
}

#[tokio::test]
async fn two_spellings_of_one_uri_are_dropped() {
    let server = with_session(|method, message| match method {
        "resources/list" => page(&["x:a%2Cb", "x:a,b", "x:c"], None),
        "resources/read" => text(uri(message), ""),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    // The first one is listed before the second is known.
    assert_eq!(listed(&*up).await.unwrap(), ["x:a,b", "x:c"]);
    assert_eq!(listed(&*up).await.unwrap(), ["x:c"]);
    assert_eq!(up.read("x:a,b").await, Err(Failure::NotFound));
    assert_eq!(up.stat("x:a,b").await, Err(Failure::NotFound));
}

#[tokio::test]
async fn what_does_not_exist_is_not_found_however_the_upstream_says_so() {
    let server = with_session(|method, message| match (method, uri(message)) {
        ("resources/read", "x:1") => Reply::Error(-32002, "?"),
        ("resources/read", "x:2") => Reply::Error(-32602, "Resource x:2 not found"),
        ("resources/read", "x:3") => Reply::Error(0, "Unknown resource: x:3"),
        ("resources/read", "x:4") => Reply::Result(json!({ "contents": [] })),
        ("resources/read", "x:5") => Reply::Error(-32603, "the database is down"),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    for path in ["x:1", "x:2", "x:3", "x:4"] {
        assert_eq!(up.read(path).await, Err(Failure::NotFound), "{path}");
        assert_eq!(up.stat(path).await, Err(Failure::NotFound), "{path}");
    }
    assert!(matches!(up.read("x:5").await, Err(Failure::Internal(_))));
}

#[tokio::test]
async fn a_server_without_sessions_is_asked_first_and_says_how_long_answers_last() {
    let server = stateless(|method, message| match method {
        "resources/list" => Reply::Result(json!({ "resultType": "complete", "ttlMs": 500, "cacheScope": "public",
            "resources": [{ "uri": "x:a", "name": "a" }] })),
        "resources/read" => Reply::Result(json!({ "resultType": "complete", "ttlMs": 500, "cacheScope": "private",
            "contents": [{ "uri": uri(message), "text": "1" }] })),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let entry = up.list(None, None, 1).await.unwrap().entries.remove(0);
    assert_eq!((entry.ttl, entry.subscribable), (Some(Duration::from_millis(500)), true));
    assert_eq!(up.read("x:a").await.unwrap()[0].entry.ttl, Some(Duration::ZERO));
    assert_eq!(server.count("initialize"), 0);
    let calls = server.calls.lock();
    let (_, params) = calls.iter().find(|(method, _)| method == "resources/read").unwrap();
    assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
}

#[tokio::test]
async fn servers_of_all_revisions_with_sessions_are_served() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let server = Scripted::new(move |message| match message["method"].as_str().unwrap_or_default() {
            "initialize" => Reply::Result(json!({
                "protocolVersion": revision,
                "capabilities": { "resources": { "subscribe": true } },
                "serverInfo": { "name": "old", "version": "1" },
            })),
            "notifications/initialized" => Reply::Silence,
            "resources/list" => page(&["x:1"], None),
            "resources/read" => text(uri(message), revision),
            _ => Reply::Error(-32601, "?"),
        });
        let up = server.connect("").await;
        assert_eq!(listed(&*up).await.unwrap(), ["x:1"], "{revision}");
        assert_eq!(up.read("x:1").await.unwrap()[0].body, Body::Text(revision.to_owned()));
        assert!(up.describe().watches, "{revision}");
    }
}

#[tokio::test]
async fn a_resource_is_asked_for_by_its_canonical_form_or_as_it_was_listed_and_by_nothing_else() {
    let server = with_session(|method, message| match method {
        "resources/list" => page(&["file://localhost/pub//a", "file:///pub/d/", "file:///pub/b"], None),
        "resources/read" => text(uri(message), uri(message)),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    assert_eq!(listed(&*up).await.unwrap(), ["file:///pub/a", "file:///pub/d/", "file:///pub/b"]);
    let read = async |path: &str| up.read(path).await.map(|mut contents| contents.remove(0).body);
    for (path, asked) in [
        ("file:///pub/a", "file://localhost/pub//a"),
        ("file:///pub/d/", "file:///pub/d/"),
        ("file:///pub/b", "file:///pub/b"),
        ("file:///secret/x", "file:///secret/x"),
        ("repo://s//b", "repo://s//b"),
    ] {
        assert_eq!(read(path).await, Ok(Body::Text(asked.to_owned())), "{path}");
    }
    let before = server.count("resources/read");
    let spellings = ["file:/secret/x", "file://localhost/secret/x", "file:////secret/x", "file:secret/x"];
    let others = ["file:///secret%2Fx", "file:///secret/x/", "file://h/secret/x", "http:h/x", "http://u@h/x"];
    for path in spellings.into_iter().chain(others) {
        assert_eq!(read(path).await, Err(Failure::NotFound), "{path}");
        assert_eq!(up.stat(path).await, Err(Failure::NotFound), "{path}");
    }
    assert_eq!(server.count("resources/read"), before);
}

#[tokio::test]
async fn a_server_that_lists_nothing_is_warned_of_unless_it_has_a_template() {
    for (templates, warnings) in [(json!([]), 1), (json!([{ "uriTemplate": "x:{a}", "name": "a" }]), 0)] {
        let server = with_session(move |method, _| match method {
            "resources/list" => page(&[], None),
            "resources/templates/list" => Reply::Result(json!({ "resourceTemplates": templates })),
            _ => Reply::Error(-32601, "?"),
        });
        let up = server.connect("").await;
        assert!(up.check().await.unwrap().is_empty(), "nothing has been listed yet");
        listed(&*up).await.unwrap();
        assert_eq!(up.check().await.unwrap().len(), warnings);
    }
}
