//! What a server says of itself: the answers of the handshake, reduced to what the host uses.
//!
//! rmcp and the host keep such an answer for as long as its connection, and an upstream may have hundreds of
//! connections. An answer may be as long as a message. So texts are truncated, and capabilities without a use and
//! metadata are removed, before rmcp receives the answer.

use mcp_host_base::text::{prefix, truncate};
use rmcp::model::{Implementation, JsonObject, ProtocolVersion, ServerCapabilities, ServerResult};
use serde_json::Value;

/// The maximum length of names, titles and versions in bytes.
const MAX_NAME: usize = 1 << 10;
/// The maximum length of the instructions in bytes.
const MAX_INSTRUCTIONS: usize = 64 << 10;
/// The maximum length of a revision of the protocol in bytes. All that the host supports are shorter.
const MAX_REVISION: usize = 64;

/// Reduces an answer of the handshake. Other results are not changed.
pub(crate) fn reduce(result: &mut ServerResult) {
    match result {
        ServerResult::InitializeResult(result) => {
            reduce_revision(&mut result.protocol_version);
            reduce_capabilities(&mut result.capabilities);
            reduce_implementation(&mut result.server_info);
            reduce_text(&mut result.instructions, MAX_INSTRUCTIONS);
            result.meta = None;
        }
        ServerResult::DiscoverResult(result) => {
            reduce_capabilities(&mut result.capabilities);
            reduce_text(&mut result.instructions, MAX_INSTRUCTIONS);
            let described = result.server_info();
            result.meta = None;
            if let Some(mut described) = described {
                reduce_implementation(&mut described);
                result.set_server_info(described);
            }
        }
        _ => {}
    }
}

fn reduce_text(text: &mut Option<String>, max: usize) {
    *text = text.take().map(|text| truncate(text, max));
}

/// A revision that is too long is none of those that the host supports, also without its end.
fn reduce_revision(revision: &mut ProtocolVersion) {
    if revision.as_str().len() > MAX_REVISION {
        let text = Value::String(prefix(revision.as_str(), MAX_REVISION).to_owned());
        *revision = serde_json::from_value(text).unwrap_or_default();
    }
}

fn reduce_capabilities(capabilities: &mut ServerCapabilities) {
    capabilities.experimental = None;
    capabilities.extensions = None;
    for capability in [&mut capabilities.logging, &mut capabilities.completions] {
        *capability = capability.take().map(|_| JsonObject::new());
    }
}

fn reduce_implementation(implementation: &mut Implementation) {
    for text in [&mut implementation.name, &mut implementation.version] {
        *text = truncate(std::mem::take(text), MAX_NAME);
    }
    reduce_text(&mut implementation.title, MAX_NAME);
    implementation.description = None;
    implementation.icons = None;
    implementation.website_url = None;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reduced(result: Value) -> Value {
        let mut result = serde_json::from_value(result).unwrap();
        assert!(matches!(result, ServerResult::InitializeResult(_) | ServerResult::DiscoverResult(_)));
        reduce(&mut result);
        serde_json::to_value(result).unwrap()
    }

    #[test]
    fn answers_of_the_handshake_are_short_and_keep_what_is_used() {
        let long = "x".repeat(1 << 20);
        let capabilities = json!({ "resources": { "subscribe": true }, "completions": { "a": long }, "logging": { "a": long },
            "experimental": { "a": { "b": long } }, "extensions": { "a/b": { "c": long } } });
        let server = json!({ "name": long, "title": long, "version": long, "description": long, "websiteUrl": long,
            "icons": [{ "src": long }] });
        let initialized = json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": server,
            "instructions": long, "_meta": { "a": long } });
        let discovered = json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "instructions": long, "ttlMs": 0, "cacheScope": "public",
            "_meta": { "io.modelcontextprotocol/serverInfo": server, "a": long } });
        for result in [initialized.clone(), discovered] {
            let result = reduced(result);
            assert!(result.to_string().len() < 80 << 10, "{}", result.to_string().len());
            assert_eq!(result["capabilities"]["resources"], json!({ "subscribe": true }));
            assert_eq!(result["capabilities"]["completions"], json!({}));
            let server = result.get("serverInfo").unwrap_or(&result["_meta"]["io.modelcontextprotocol/serverInfo"]);
            assert!(server["name"].as_str().unwrap().starts_with("xxx"));
        }
        let mut unknown = initialized;
        unknown["protocolVersion"] = long.into();
        assert_eq!(reduced(unknown)["protocolVersion"], "x".repeat(MAX_REVISION));
    }

    #[test]
    fn a_usual_answer_is_unchanged() {
        let usual = json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": { "listChanged": true }, "completions": {} },
            "serverInfo": { "name": "a", "title": "A", "version": "1" }, "instructions": "Read a." });
        assert_eq!(reduced(usual.clone()), usual);
    }
}
