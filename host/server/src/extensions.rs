//! Extensions: methods and members outside all revisions of MCP. Each is enabled by `server.extensions`; a disabled one
//! has no effect on the wire.
//!
//! | extension | adds | in revisions |
//! |---|---|---|
//! | SEP-2093 | `capabilities` of resources; contents with all members of a resource; `uri` of `resources/list`; `resources/metadata` | all |
//! | SEP-2640, directory reading | `resources/directory/read` | 2026-07-28, the revision that SEP-2640 is written for |
//! | SEP-2640 | `skills/list`, `skills/get` | the same; enabled by `skills` of a plugin, too |
//!
//! The methods have rows in the [table of methods](super::method). Results have the objects of [`wire`](super::wire)
//! plus the members of the extension ([`encode`]).
//!
//! SEP-2640 obliges a server with `resources/directory/read` to declare the extension of skills and to answer
//! `skills/list` and `skills/get`. Where no plugin has skills, the list is empty, and no skill is found.

mod encode;

use futures::FutureExt as _;
use mcp_host_config::Extension;
use mcp_host_model::resource::{Error, Footprint};
use mcp_resource_host::host::ListRequest;

use self::encode::ResultEncoder;
use super::error::{RpcError, to_rpc, to_rpc_with_hint};
use super::request::ExtensionRequest;
use super::request_context::{Outcome, RequestContext};

/// Executes a request.
pub(super) async fn execute(context: &RequestContext, request: ExtensionRequest) -> Result<Outcome, RpcError> {
    let RequestContext { host, config, principal, revision, .. } = context;
    let to_rpc = |error: Error| to_rpc(&error, *revision);
    let with_capabilities = config.server.extensions.contains(&Extension::Sep2093);
    let encoder = ResultEncoder { host, principal, revision: *revision, with_capabilities };
    let (listing, is_first) = match request {
        ExtensionRequest::List { uri, cursor } => {
            let request = ListRequest { parent: uri.as_deref(), cursor: cursor.as_deref() };
            (host.list(principal, request).await.map_err(to_rpc)?, cursor.is_none())
        }
        ExtensionRequest::Directory { uri, cursor } => {
            (host.list_directory(principal, &uri, cursor.as_deref()).await.map_err(to_rpc)?, cursor.is_none())
        }
        ExtensionRequest::Read(uri) => {
            let contents = match host.read_strict(principal, &uri).await {
                Ok(contents) => contents,
                Err(error) => return Err(to_rpc_with_hint(host, principal, error, *revision).await),
            };
            let footprint = contents.footprint();
            // The contents of a listable resource depend on the scopes of the token, and contain cursors for its
            // principal only.
            let is_public = host.is_read_public(&uri) && !contents.iter().any(|one| one.entry.listable);
            return Ok(Outcome::new(encoder.read_result(contents, is_public), footprint));
        }
        ExtensionRequest::Metadata(uri) => {
            let entry = host.metadata(principal, &uri).await.map_err(to_rpc)?;
            let footprint = entry.footprint();
            return Ok(Outcome::new(encoder.metadata_result(entry), footprint));
        }
        // Boxed: the state of their walks would be a part of each request.
        ExtensionRequest::Skills(cursor) => return skills(encoder, cursor).boxed().await.map_err(to_rpc),
        ExtensionRequest::Skill(uri) => return skill(encoder, uri).boxed().await.map_err(to_rpc),
    };
    let (footprint, missing) = (listing.items.footprint(), listing.missing.clone());
    Ok(Outcome { result: encoder.list_result(listing, is_first), footprint, missing })
}

async fn skills(encoder: ResultEncoder<'_>, cursor: Option<String>) -> Result<Outcome, Error> {
    let listing = encoder.host.skills(encoder.principal, cursor.as_deref()).await?;
    let (footprint, missing) = (listing.items.footprint(), listing.missing.clone());
    Ok(Outcome { result: encoder.skills_result(listing, cursor.is_none()), footprint, missing })
}

async fn skill(encoder: ResultEncoder<'_>, uri: String) -> Result<Outcome, Error> {
    let skill = encoder.host.skill(encoder.principal, &uri).await?;
    let footprint = skill.footprint();
    Ok(Outcome::new(encoder.skill_result(skill), footprint))
}
