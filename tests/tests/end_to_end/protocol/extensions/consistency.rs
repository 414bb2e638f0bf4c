//! Consistency of metadata: a resource has the same description in listings, in `resources/metadata` and in reads.

use mcp_host_tests::{ConfigFile, Plugin, REVISIONS, RawStdio, Revision};
use serde_json::{Value, json};

use super::{DIRECTORY_READ, SEP_2093, config_with_sources, create_sources, list_all, uri_of, with_extensions};

/// Returns all listed resources, and the children of all resources that can be listed.
async fn all_resources(wire: &mut RawStdio) -> Vec<Value> {
    let mut all = list_all(wire, None).await;
    let mut below: Vec<_> =
        ["git://repo/tree/main", "notes://diary/", "notes://diary/tag", "sample://a/collection", "sample://a/album"]
            .map(str::to_owned)
            .into();
    while let Some(parent) = below.pop() {
        for resource in list_all(wire, Some(&parent)).await {
            if !all.iter().any(|known| known["uri"] == resource["uri"]) {
                if resource["capabilities"]["list"] == json!(true) {
                    below.push(uri_of(&resource).to_owned());
                }
                all.push(resource);
            }
        }
    }
    all
}

#[tokio::test]
async fn what_can_be_done_with_a_resource_can_be_done_and_nothing_else() {
    let (repo, notes) = create_sources();
    let config = with_extensions(&[SEP_2093], config_with_sources(&repo, &notes)).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for resource in all_resources(&mut wire).await {
        let asked = json!({ "uri": uri_of(&resource) });
        for (ability, method) in [("list", "resources/list"), ("subscribe", "resources/subscribe")] {
            let answer = wire.request(method, asked.clone()).await;
            match &resource["capabilities"][ability] {
                Value::Bool(true) => assert!(answer.result().is_object(), "{resource}"),
                Value::Bool(false) => assert_eq!(answer.error_code(), -32602, "{resource}"),
                other => panic!("{ability} is {other} of {resource}"),
            }
        }
    }
    wire.end().await;
}

#[tokio::test]
async fn a_listing_metadata_and_contents_say_the_same_of_a_resource_in_every_revision() {
    let (repo, notes) = create_sources();
    let config = with_extensions(&[SEP_2093], config_with_sources(&repo, &notes)).write();
    for revision in REVISIONS {
        let mut wire = RawStdio::start(&config, revision.clone()).await;
        for resource in all_resources(&mut wire).await {
            let metadata = wire.request("resources/metadata", json!({ "uri": uri_of(&resource) })).await;
            assert_eq!(metadata.result()["resource"], resource, "{revision}");
            let read = wire.request("resources/read", json!({ "uri": uri_of(&resource) })).await;
            let Some(own) =
                read.result()["contents"].as_array().unwrap().iter().find(|one| one["uri"] == resource["uri"])
            else {
                assert_eq!(resource["capabilities"]["list"], true, "only then is there nothing of its own: {resource}");
                continue;
            };
            let size = match (&own["text"], &own["blob"]) {
                (Value::String(text), Value::Null) => text.len(),
                (Value::Null, Value::String(blob)) => blob.trim_end_matches('=').len() * 3 / 4,
                _ => panic!("neither text nor blob: {own}"),
            };
            assert_eq!(own["size"], size, "it is that of this representation: {own}");
            let mut own = own.clone();
            let members = own.as_object_mut().unwrap();
            members.remove("text");
            members.remove("blob");
            // These two members describe the representation: the index of a folder is text, and has a size.
            for member in ["mimeType", "size"] {
                match resource.get(member) {
                    Some(value) => members.insert(member.to_owned(), value.clone()),
                    None => members.remove(member),
                };
            }
            assert_eq!(own, resource, "{revision}");
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn contents_of_others_come_with_listable_resources_alone() {
    let config = with_extensions(&[SEP_2093], ConfigFile::new().plugin(Plugin::sample("a"))).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for (path, uris) in [
        ("collection", ["collection/000", "collection/001"].as_slice()),
        ("album", &["album", "album", "album/cover"]),
        ("several", &["several", "several"]),
    ] {
        let read = wire.request("resources/read", json!({ "uri": format!("sample://a/{path}") })).await;
        let contents = read.result()["contents"].as_array().unwrap();
        let paths = contents.iter().map(|one| uri_of(one).trim_start_matches("sample://a/"));
        assert_eq!(paths.collect::<Vec<_>>(), uris, "{path}");
    }
    let folder = wire.request("resources/read", json!({ "uri": "sample://a/folder" })).await;
    assert_eq!(
        (folder.error_code(), &folder.error()["data"]["kind"]),
        (-32603, &json!("internal")),
        "nothing is its own"
    );
    let log = wire.end().await.log;
    assert!(log.contains("reading `folder`, which cannot be listed, gave contents of others"), "{log}");
}

#[tokio::test]
async fn of_several_formats_the_preferred_one_is_the_type_of_the_resource_and_each_content_has_its_own() {
    let config = with_extensions(&[SEP_2093], ConfigFile::new().plugin(Plugin::sample("a"))).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for (path, preferred, formats) in [
        ("several", "text/markdown", ["text/markdown", "application/json"].as_slice()),
        ("album", "text/plain", &["text/plain", "application/json", "image/png"]),
    ] {
        let asked = json!({ "uri": format!("sample://a/{path}") });
        let metadata = wire.request("resources/metadata", asked.clone()).await;
        assert_eq!(metadata.result()["resource"]["mimeType"], preferred);
        let read = wire.request("resources/read", asked).await;
        let contents = read.result()["contents"].as_array().unwrap();
        assert_eq!(contents.iter().map(|one| one["mimeType"].as_str().unwrap()).collect::<Vec<_>>(), formats);
    }
    wire.end().await;
}

#[tokio::test]
async fn without_plugins_that_tell_what_changes_nothing_says_that_it_can_be_subscribed_to() {
    let misbehaving = Plugin::misbehaving("u").config("list", "many").config("count", 3);
    let config = with_extensions(&[SEP_2093, DIRECTORY_READ], ConfigFile::new().plugin(misbehaving)).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for resource in list_all(&mut wire, None).await {
        assert_eq!(resource["capabilities"], json!({ "list": false, "subscribe": false }), "{resource}");
    }
    // The resource claims to be subscribable, but its provider does not support watching.
    let metadata = wire.request("resources/metadata", json!({ "uri": "misbehaving://u/switch" })).await;
    assert_eq!(metadata.result()["resource"]["capabilities"]["subscribe"], false);
    wire.end().await;
}
