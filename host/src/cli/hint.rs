//! Suggestions for a URI that cannot be read or listed: what the same principal can do there instead.

use std::fmt::Write as _;

use futures::StreamExt;

use super::escape;
use crate::access::Principal;
use crate::host::Host;
use crate::resource::Error;

/// The number of templates that one hint names.
const MAX_TEMPLATES: usize = 8;

/// Returns a hint for a URI that could not be read, from its metadata, else from the templates of its plugin.
pub(super) async fn for_read(host: &Host, principal: &Principal, uri: &str, error: &Error) -> Option<String> {
    if !is_about_uri(error) {
        return None;
    }
    if host.metadata(principal, uri).await.is_ok_and(|entry| entry.listable) {
        return Some(format!("it can be listed: `mcp-host list {}`", escape::line(uri)));
    }
    templates(host, principal, uri).await
}

/// Returns a hint for a URI that could not be listed: read it, if it exists, else the templates of its plugin.
pub(super) async fn for_list(host: &Host, principal: &Principal, uri: &str, error: &Error) -> Option<String> {
    if !is_about_uri(error) {
        return None;
    }
    if host.metadata(principal, uri).await.is_ok_and(|entry| !entry.listable) {
        return Some(format!("it can be read: `mcp-host read {}`", escape::line(uri)));
    }
    templates(host, principal, uri).await
}

fn is_about_uri(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. } | Error::InvalidRequest { .. })
}

/// The templates below the mount that owns the URI.
async fn templates(host: &Host, principal: &Principal, uri: &str) -> Option<String> {
    let uri = host.normalize(uri)?;
    let plugin = host.plugins().into_iter().find(|plugin| uri.as_str().starts_with(plugin.mount.as_str()))?;
    let is_of_plugin = |template: &str| template.starts_with(plugin.mount.as_str());
    let all = host.templates_all(principal).filter_map(async |template| template.ok());
    let own = all.filter(|template| std::future::ready(is_of_plugin(template.uri_template.as_str())));
    let own: Vec<_> = own.take(MAX_TEMPLATES).collect().await;
    if own.is_empty() {
        return None;
    }
    let name = &plugin.name;
    let mut hint = format!("`mcp-host list` shows what there is; plugin `{name}` also has resources of these forms:");
    for template in own {
        // Writing to a string cannot fail.
        let _ = write!(hint, "\n  {}", escape::line(template.uri_template.as_str()));
        if let Some(title) = &template.title {
            let _ = write!(hint, "  ({})", escape::line(title));
        }
    }
    Some(hint)
}
