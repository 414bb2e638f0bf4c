//! The info of this server: its name and its capabilities.
//!
//! Exactly the existing capabilities are announced, as far as the revision defines them. A capability of plugins is
//! announced only to principals that may see a part of such a plugin, because it would reveal the plugin to others.
//!
//! | capability | when |
//! |---|---|
//! | `resources` | always; `listChanged` in it always, as a reload may change the listing; `subscribe` when a provider of the principal reports changes |
//! | `completions` | always, from 2025-03-26 on; the method is older than its capability |
//! | `logging` | in revisions with sessions |
//! | `prompts`, `tools` | when the config announces them; the lists are empty. `tools` also when the config has tools |
//! | `experimental` | with `sep-2093` in it, when that extension is enabled: SEP-2093 defines no capability, and this member is for features outside the revisions |
//! | `extensions` | with `io.modelcontextprotocol/skills` in it, when directories can be read or a plugin of the principal has skills, from 2026-07-28 on |

use mcp_host_config::{AdvertisedCapability, Config, Extension, Operation};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use serde_json::{Map, Value, json};

use super::revision::Revision;
use super::session::Agreement;

/// The `_meta` key of the server's name.
const SERVER_INFO_META_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// The skills extension (SEP-2640).
const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// Returns the agreement with a client whose `initialize` requests this revision, and the result.
pub(super) fn initialize(host: &Host, config: &Config, principal: &Principal, requested: &str) -> (Agreement, Value) {
    let requested = Revision::from_name(requested).filter(|revision| revision.has_sessions());
    let revision = requested.unwrap_or(Revision::LATEST_WITH_SESSIONS);
    let may_subscribe = host.supports_subscriptions(principal);
    let mut result = json!({
        "protocolVersion": revision.name(),
        "capabilities": capabilities(host, config, principal, revision, may_subscribe),
        "serverInfo": implementation(config, revision),
    });
    add_instructions(&mut result, config);
    (Agreement { revision, may_subscribe }, result)
}

/// Returns the result of `server/discover`.
pub(super) fn discover(host: &Host, config: &Config, principal: &Principal, revision: Revision) -> Value {
    let may_subscribe = host.supports_subscriptions(principal);
    // The capabilities depend on the resources that these operations are allowed on.
    let is_public = [Operation::List, Operation::Read, Operation::Subscribe].iter().all(|one| host.is_public(*one));
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": Revision::ALL.map(Revision::name),
        "capabilities": capabilities(host, config, principal, revision, may_subscribe),
        "ttlMs": 0,
        "cacheScope": if is_public { "public" } else { "private" },
        "_meta": server_info_meta(config, revision),
    });
    add_instructions(&mut result, config);
    result
}

/// Returns a `_meta` with the name of the server.
pub(super) fn server_info_meta(config: &Config, revision: Revision) -> Map<String, Value> {
    Map::from_iter([(SERVER_INFO_META_KEY.to_owned(), implementation(config, revision))])
}

fn add_instructions(result: &mut Value, config: &Config) {
    if let (Some(instructions), Some(members)) = (&config.server.instructions, result.as_object_mut()) {
        members.insert("instructions".to_owned(), json!(instructions));
    }
}

fn implementation(config: &Config, revision: Revision) -> Value {
    let server = &config.server;
    let mut info = json!({ "name": server.name.as_str(), "version": env!("CARGO_PKG_VERSION") });
    if let (Some(title), Some(members)) =
        (server.title.as_ref().filter(|_| revision.has_titles()), info.as_object_mut())
    {
        members.insert("title".to_owned(), json!(title));
    }
    info
}

fn capabilities(
    host: &Host,
    config: &Config,
    principal: &Principal,
    revision: Revision,
    subscribe: bool,
) -> Map<String, Value> {
    let server = &config.server;
    let mut resources = json!({ "listChanged": true });
    if let Some(members) = resources.as_object_mut().filter(|_| subscribe) {
        members.insert("subscribe".to_owned(), json!(true));
    }
    let has_prompts = server.advertise.contains(&AdvertisedCapability::Prompts);
    let has_tools = server.advertise.contains(&AdvertisedCapability::Tools) || !server.tools.is_empty();
    let is_enabled = |extension| server.extensions.contains(&extension);
    let of_directories = is_enabled(Extension::Sep2640DirectoryRead);
    let of_skills = if of_directories { json!({ "directoryRead": true }) } else { json!({}) };
    let has_skills = revision.has_extensions() && host.has_skills(principal);
    let all = [
        ("resources", Some(resources)),
        ("completions", revision.has_completions_capability().then(|| json!({}))),
        ("logging", revision.has_logging().then(|| json!({}))),
        ("prompts", has_prompts.then(|| json!({}))),
        ("tools", has_tools.then(|| json!({}))),
        ("experimental", is_enabled(Extension::Sep2093).then(|| json!({ (Extension::Sep2093.name()): {} }))),
        ("extensions", has_skills.then(|| json!({ SKILLS_EXTENSION: of_skills }))),
    ];
    all.into_iter().filter_map(|(name, capability)| Some((name.to_owned(), capability?))).collect()
}
