//! Suggestions for a URI that cannot be read, listed, watched, searched or explained: other operations of the same
//! principal on the URI, or similar URIs.
//!
//! A provider writes `{mount}` in a message where the host inserts the mount. If the message has relative paths
//! nevertheless, the hint has their URIs.

use std::fmt::Write as _;

use mcp_host_config::{Config, Operation};
use mcp_host_model::resource::Error;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use mcp_resource_host::host::transport::slash_hint;

use super::escape;

/// The maximum number of templates in one hint.
const MAX_TEMPLATES: usize = 8;
/// The maximum number of paths from a provider's message that are tried; each word has two forms.
const MAX_PATHS: usize = 8;

/// Returns a hint for a URI that could not be read, from its metadata or from the templates of its plugin.
pub(super) async fn for_read(host: &Host, principal: &Principal, uri: &str, error: &Error) -> Option<String> {
    if !is_about_uri(error) {
        return None;
    }
    if let Some(hint) = by_config(host, principal, Operation::Read, uri) {
        return Some(hint);
    }
    if host.is_listable(principal, uri).await == Some(true) {
        // A collection may return one of its resources, and the rules may deny that one only.
        let uri = escape::line(uri);
        return Some(format!("it can be listed; the listing has what the rules allow: `mcp-host list {uri}`"));
    }
    for_unknown(host, principal, uri, error).await
}

/// Returns a hint for a URI that could not be listed: to read the resource if it exists, or the templates of its
/// plugin.
pub(super) async fn for_list(host: &Host, principal: &Principal, uri: &str, error: &Error) -> Option<String> {
    if !is_about_uri(error) {
        return None;
    }
    if let Some(hint) = by_config(host, principal, Operation::List, uri) {
        return Some(hint);
    }
    if host.is_listable(principal, uri).await == Some(false) {
        return Some(format!("it can be read: `mcp-host read {}`", escape::line(uri)));
    }
    for_unknown(host, principal, uri, error).await
}

/// Returns a hint for a URI that could not be watched: the templates of its plugin if the resource does not exist.
pub(super) async fn for_watch(host: &Host, principal: &Principal, uri: &str, error: &Error) -> Option<String> {
    if !is_about_uri(error) {
        return None;
    }
    if is_prefix_mount(&host.config(), uri) {
        return Some(format!(
            "`{}` is a mount, and no resource; `mcp-host watch --listing` prints when the listing changes",
            escape::line(uri)
        ));
    }
    if let Some(hint) = by_config(host, principal, Operation::Subscribe, uri) {
        return Some(hint);
    }
    match error {
        Error::InvalidRequest { .. } => match for_unnotified(host, principal, uri) {
            Some(hint) => Some(hint),
            None => for_unknown(host, principal, uri, error).await,
        },
        _ => for_unknown(host, principal, uri, error).await,
    }
}

/// Whether a text is the mount `NAME+` of a plugin: a prefix of URIs, and not a URI.
fn is_prefix_mount(config: &Config, text: &str) -> bool {
    config.plugins.iter().any(|plugin| plugin.mount.is_prefix() && plugin.mount.as_str() == text)
}

/// The hint for an upstream that sends no notifications of changes.
fn for_unnotified(host: &Host, principal: &Principal, uri: &str) -> Option<String> {
    let explanation = host.explain(principal, Operation::Subscribe, uri).ok()?;
    let config = host.config();
    let plugin = config.plugins.iter().find(|plugin| plugin.name.as_str() == explanation.plugin)?;
    let upstream = plugin.upstream.as_ref()?;
    (!upstream.poll).then(|| {
        format!(
            "the server of upstream `{}` does not notify of changes; with `poll = true` in its `[[upstream]]` the host reads watched \
             resources again every `watch-interval`",
            plugin.name
        )
    })
}

/// Returns a hint for a URI below which no resource was found. If no mount owns the URI, there is no hint: the error
/// already names the nearest searchable mount, and the nearest of all mounts might contradict it.
pub(super) fn for_search(host: &Host, principal: &Principal, within: &str) -> Option<String> {
    match host.explain(principal, Operation::Read, within) {
        Err(Error::NotFound { .. }) => None,
        _ => by_config(host, principal, Operation::Read, within),
    }
}

/// Returns a hint for a URI that no mount owns, or that the rules deny the principal. The user of the command may read
/// the config; for an MCP client such a resource does not exist.
fn by_config(host: &Host, principal: &Principal, operation: Operation, uri: &str) -> Option<String> {
    match host.explain(principal, operation, uri) {
        Ok(explanation) if !explanation.decision.is_allowed() => {
            let (name, uri) = (escape::line(principal.name()), escape::line(uri));
            Some(format!(
                "the rules do not allow `{name}` to {operation} it; \
                 `mcp-host explain --as {name} --op {operation} {uri}` shows why"
            ))
        }
        Ok(_) => None,
        Err(error) => for_unroutable(&host.config(), uri, &error),
    }
}

/// Returns a hint for a URI that belongs to no plugin because of this error: no mount owns it, or it has no scheme, such
/// as the name of a file.
pub(super) fn for_unroutable(config: &Config, uri: &str, error: &Error) -> Option<String> {
    match error {
        Error::NotFound { .. } => Some(for_unmounted(config, uri)),
        Error::InvalidRequest { .. } if !uri.contains(':') => {
            Some("`mcp-host list` shows the URIs of the resources".to_owned())
        }
        _ => None,
    }
}

/// Returns a hint for a URI that no mount owns: the most similar mount.
fn for_unmounted(config: &Config, uri: &str) -> String {
    match config.nearest_mount(uri) {
        Some(mount) => format!(
            "no plugin is mounted there; the most similar mount is `{mount}`, and `mcp-host list` shows the resources below all \
             mounts"
        ),
        None => "no plugin is mounted at all; `mcp-host check` shows the plugins of the config".to_owned(),
    }
}

/// The URI of the first path in a provider's message that is the path of a resource.
async fn for_path(host: &Host, principal: &Principal, uri: &str, message: &str) -> Option<String> {
    let mount = host.mount_of(uri)?;
    let words = message.split(|c: char| c.is_whitespace() || matches!(c, '`' | '"'));
    // The word as written, and without surrounding punctuation.
    let forms = words.flat_map(|word| [word, word.trim_matches(['.', ':', ',', ';', '\'', '(', ')'])]);
    let paths = forms.filter(|path| path.contains('/'));
    for path in paths.take(MAX_PATHS) {
        let Ok(composed) = mount.compose(path) else { continue };
        let named = composed.uri.as_str();
        if named != uri && host.is_listable(principal, named).await.is_some() {
            return Some(format!("the URI of `{}` is {}", escape::line(path), escape::line(named)));
        }
    }
    None
}

fn is_about_uri(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. } | Error::InvalidRequest { .. })
}

/// The templates of the plugin whose mount owns the URI. The message about an invalid request describes the expected
/// paths already.
async fn for_unknown(host: &Host, principal: &Principal, uri: &str, error: &Error) -> Option<String> {
    match error {
        Error::NotFound { .. } => {}
        Error::InvalidRequest { message } => match for_path(host, principal, uri, message).await {
            Some(hint) => return Some(hint),
            // The message describes the form of paths.
            None if message.contains('{') => {}
            None => return None,
        },
        _ => return None,
    }
    let (plugin, templates) = host.templates_at(principal, uri, MAX_TEMPLATES).await?;
    if templates.is_empty() {
        return None;
    }
    let mut hint = format!(
        "`mcp-host list` shows the resources; plugin `{plugin}` has resources of these forms, to `read` or to `list`:"
    );
    for template in &templates {
        // Writing to a string cannot fail.
        let _ = write!(hint, "\n  {}", escape::line(template.uri_template.as_str()));
        if let Some(title) = &template.title {
            let _ = write!(hint, "  ({})", escape::line(title));
        }
    }
    if let Some(slash) = slash_hint(uri, &templates) {
        let _ = write!(hint, "\n{}", escape::line(&slash));
    }
    Some(hint)
}
