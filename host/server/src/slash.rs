//! The hint for a URI that is not found: how to write a slash within a template variable.
//!
//! In some templates a variable is one segment among others (`blob/{rev}/{+path}`), although its values may have slashes (the branch
//! `feature/x`). A URI with such a slash is not found, and the error alone does not explain why. The hint depends only on the URI and
//! on the templates that the principal may see, so it is the same for a hidden resource and for one that does not exist.

use mcp_host_config::Operation;
use mcp_host_model::resource::Error;
use mcp_resource_host::access::{CredentialScopes, Principal};
use mcp_resource_host::host::Host;
use mcp_resource_host::host::transport::slash_hint;

use super::error::{RpcError, to_rpc};
use super::revision::Revision;

/// The maximum number of inspected templates.
const MAX_TEMPLATES: usize = 20;

/// Returns how a slash in the URI may have to be written. None if the credentials of the request do not allow templates.
pub(super) async fn hint(host: &Host, principal: &Principal, uri: &str) -> Option<String> {
    if !CredentialScopes::current_include(Operation::Templates) {
        return None;
    }
    let (_, templates) = host.templates_at(principal, uri, MAX_TEMPLATES).await?;
    slash_hint(uri, &templates)
}

/// Converts the error of a read to the JSON-RPC error of this revision, with the hint.
pub(super) async fn to_rpc_with_hint(host: &Host, principal: &Principal, error: Error, revision: Revision) -> RpcError {
    let hint = match &error {
        Error::NotFound { uri } => hint(host, principal, uri).await,
        _ => None,
    };
    let mut error = to_rpc(&error, revision);
    if let Some(hint) = hint {
        error.message = format!("{}; {hint}", error.message).into();
    }
    error
}
