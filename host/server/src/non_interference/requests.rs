//! Samples of every request.

use mcp_resource_host::host::Host;
use serde_json::{Value, json};

use super::principal;
use super::world::TEMPLATES;
use crate::method::supported_methods;
use crate::revision::Revision;

/// Methods whose parameters and results name no resource. Their information on plugins is compared by
/// [`capabilities`](super::capabilities).
const NAMELESS: [&str; 7] =
    ["initialize", "ping", "server/discover", "logging/setLevel", "prompts/list", "prompts/get", "tools/list"];
/// Methods that lead to notifications, which have separate tests.
const SUBSCRIPTIONS: [&str; 3] = ["resources/subscribe", "resources/unsubscribe", "subscriptions/listen"];

/// Each request of a client in a revision, with parameters of all kinds: URIs of the pool, and all templates.
///
/// # Panics
///
/// There is a method without samples. Add samples of it.
pub(super) fn samples(host: &Host, revision: Revision, pool: &[String]) -> Vec<(&'static str, Value)> {
    let mut samples = Vec::new();
    for method in supported_methods(host, &host.config(), &principal(), revision) {
        let uris = || pool.iter().map(|uri| json!({ "uri": uri }));
        match method {
            "resources/list" => samples.extend([json!({})].into_iter().chain(uris()).map(|params| (method, params))),
            "resources/templates/list" | "skills/list" => samples.push((method, json!({}))),
            "resources/read" | "resources/metadata" | "resources/directory/read" | "skills/get" => {
                samples.extend(uris().map(|params| (method, params)));
            }
            "completion/complete" => samples.extend(completions(pool).map(|params| (method, params))),
            "tools/call" => samples.extend(tool_calls(pool).map(|params| (method, params))),
            other => assert!(
                NAMELESS.contains(&other) || SUBSCRIPTIONS.contains(&other),
                "`{other}` has no samples here: add them, so that what it tells is compared"
            ),
        }
    }
    samples
}

/// Calls of all tools but the search tools.
fn tool_calls(pool: &[String]) -> impl Iterator<Item = Value> {
    let read = pool.iter().map(|uri| json!({ "name": "read_resource", "arguments": { "uri": uri } }));
    let list = pool.iter().map(|uri| json!({ "name": "list_resources", "arguments": { "uri": uri } }));
    [json!({ "name": "list_resources", "arguments": {} })].into_iter().chain(read).chain(list)
}

/// Completions of each variable of each template, with each of some contexts.
fn completions(pool: &[String]) -> impl Iterator<Item = Value> {
    let paths = pool.iter().filter_map(|uri| uri.strip_prefix("part://h/"));
    let paths: Vec<_> = paths.filter(|path| !path.contains('?') && !path.ends_with('/')).collect();
    let mut completions = Vec::new();
    for (template, variables) in TEMPLATES {
        for mount in ["part://h/", "hidden://h/", "all://h/", "nobody://h/"] {
            let uri = format!("{mount}{template}");
            for variable in variables.iter().copied().chain(["other"]) {
                let mut add = |typed: &str, context: Value| {
                    completions.push(json!({
                        "ref": { "type": "ref/resource", "uri": uri },
                        "argument": { "name": variable, "value": typed },
                        "context": { "arguments": context },
                    }));
                };
                add("", json!({}));
                add("", json!({ "path": "secret/b.txt", "rev": "secret" }));
                if mount != "part://h/" {
                    continue;
                }
                for typed in ["s", "secret/", "pub/", "../", "main", "7"] {
                    add(typed, json!({}));
                }
                for rev in ["main", "secret", "../secret"] {
                    add("", json!({ "rev": rev }));
                    add("", json!({ "rev": rev, "name": "b" }));
                    add("", json!({ "rev": rev, "ext": "md" }));
                }
                for path in paths.iter().filter(|_| template.contains("path")) {
                    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
                    add("", json!({ "path": path }));
                }
            }
        }
    }
    completions.into_iter()
}
