//! The methods of each revision, and the error for a method that does not exist.

#[cfg(feature = "http")]
use std::borrow::Cow;

use rmcp::ErrorData;
use rmcp::model::ErrorCode;

#[cfg(feature = "http")]
use super::params::Params;
use super::params::truncate;
use super::revision::Revision;
#[cfg(feature = "http")]
use super::tools;
#[cfg(feature = "http")]
use crate::config::Operation;
use crate::config::{AdvertisedCapability, Extension};
use crate::host::Host;

/// The maximum length of a method's name in an error.
const MAX_QUOTED_METHOD: usize = 64;

/// Returns whether the method exists in that revision.
pub(super) fn is_supported(host: &Host, revision: Revision, method: &str) -> bool {
    supported_methods(host, revision).any(|name| name == method)
}

/// Returns the operations on resources that a request performs; none for the methods of the protocol itself.
///
/// The resources of search and context are made of what the principal may list and read, so a request for one performs these, too.
#[cfg(feature = "http")]
pub(super) fn operations(host: &Host, method: &str, params: Option<&Params>) -> Vec<Operation> {
    let of_method: &[Operation] = match (method, params) {
        ("resources/list" | "resources/directory/read", _) => &[Operation::List],
        ("resources/templates/list", _) => &[Operation::Templates],
        ("resources/read", _) => &[Operation::Read],
        ("resources/metadata", _) => &[Operation::Metadata],
        ("completion/complete", _) => &[Operation::Complete],
        ("resources/subscribe" | "subscriptions/listen", _) => &[Operation::Subscribe],
        ("tools/call", Some(Params::Tool(tool))) => tools::operations(tool.name.as_deref().unwrap_or_default()),
        _ => &[],
    };
    let mut operations = of_method.to_vec();
    if !of_method.is_empty() {
        let uris = requested_uris(params);
        let beside = uris.iter().map(|uri| host.performed_operations(uri)).find(|operations| !operations.is_empty());
        operations.extend(beside.into_iter().flatten());
    }
    operations
}

/// The URIs and templates that a request names.
#[cfg(feature = "http")]
fn requested_uris(params: Option<&Params>) -> Vec<Cow<'_, str>> {
    match params {
        Some(Params::Page { uri: Some(uri), .. } | Params::Resource { uri, .. }) => vec![uri.into()],
        Some(Params::Complete(complete)) => complete.template.iter().map(Cow::from).collect(),
        Some(Params::Listen(listen)) => listen.subscriptions.iter().flatten().map(Cow::from).collect(),
        Some(Params::Tool(tool)) => tools::requested_uri(tool).map(Cow::from).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the error for a method that does not exist, which lists those that do.
pub(super) fn method_not_found(host: &Host, revision: Revision, method: &str) -> ErrorData {
    let (method, revision_name) = (truncate(method, MAX_QUOTED_METHOD), revision.name());
    let known = supported_methods(host, revision).collect::<Vec<_>>().join(", ");
    let message = format!("method not found: `{method}`; in revision {revision_name} this server has {known}");
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

/// Returns the names of all methods in that revision.
pub(super) fn supported_methods(host: &Host, revision: Revision) -> impl Iterator<Item = &'static str> {
    let server = &host.config().server;
    let announces = |what| server.advertise.contains(&what);
    let has_on = |extension| server.extensions.contains(&extension);
    let groups: [(bool, &[&str]); 9] = [
        (revision.has_sessions(), &["initialize", "ping"]),
        (!revision.has_sessions(), &["server/discover"]),
        (true, &["resources/list", "resources/templates/list", "resources/read"]),
        (has_on(Extension::Sep2093), &["resources/metadata"]),
        (
            has_on(Extension::Sep2640DirectoryRead) && revision.has_extensions(),
            &["resources/directory/read", "skills/list", "skills/get"],
        ),
        (revision.has_sessions() && host.supports_subscriptions(), &["resources/subscribe", "resources/unsubscribe"]),
        (!revision.has_sessions(), &["subscriptions/listen"]),
        (true, &["completion/complete"]),
        (revision.has_logging(), &["logging/setLevel"]),
    ];
    let announced: [(bool, &[&str]); 2] = [
        (announces(AdvertisedCapability::Prompts), &["prompts/list", "prompts/get"]),
        (announces(AdvertisedCapability::Tools) || !server.tools.is_empty(), &["tools/list", "tools/call"]),
    ];
    groups.into_iter().chain(announced).filter(|(is_there, _)| *is_there).flat_map(|(_, names)| names.iter().copied())
}
