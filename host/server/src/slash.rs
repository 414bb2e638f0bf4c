//! The hint after a URI that names nothing: how a slash within a variable of a template is written.
//!
//! A provider has templates in which a variable is one segment among others (`blob/{rev}/{+path}`), and values of it have slashes
//! (the branch `feature/x`). Such a URI is not found, and nothing in that answer says why. The hint follows from the URI and from the
//! templates that the principal may see, so it is the same whether the resource exists and is hidden, or does not exist.

use mcp_host_config::Operation;
use mcp_host_model::resource::Error;
use mcp_resource_host::access::{CredentialScopes, Principal};
use mcp_resource_host::host::Host;
use mcp_resource_host::host::transport::slash_hint;

use super::error::{RpcError, to_rpc};
use super::revision::Revision;

/// The number of templates that are looked through.
const MAX_TEMPLATES: usize = 20;

/// Returns how a slash in the URI may have to be written; nothing if the credentials of the request are not for templates.
pub(super) async fn hint(host: &Host, principal: &Principal, uri: &str) -> Option<String> {
    if !CredentialScopes::current_include(Operation::Templates) {
        return None;
    }
    let (_, templates) = host.templates_at(principal, uri, MAX_TEMPLATES).await?;
    slash_hint(uri, &templates)
}

/// Converts the error of a read to a JSON-RPC error of that revision, with the hint.
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
