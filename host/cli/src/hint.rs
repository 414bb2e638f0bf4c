//! Suggestions for a URI that cannot be read, listed, watched, searched or explained: what the same principal can do there instead, or
//! where the URI may have been meant to point.
//!
//! A provider's message has the mount where the provider wrote `{mount}`. If it names paths all the same, the hint has their URIs.

use std::fmt::Write as _;

use mcp_host_config::{Config, Operation};
use mcp_host_model::resource::Error;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use mcp_resource_host::host::transport::slash_hint;

use super::escape;

/// The number of templates that one hint names.
const MAX_TEMPLATES: usize = 8;
/// The number of paths in a provider's message that are tried, two forms of each word.
const MAX_PATHS: usize = 8;

/// Returns a hint for a URI that could not be read, from its metadata, else from the templates of its plugin.
pub(super) async fn for_read(host: &Host, principal: &Principal, uri: &str, error: &Error) -> Option<String> {
    if !is_about_uri(error) {
        return None;
    }
    if let Some(hint) = by_config(host, principal, Operation::Read, uri) {
        return Some(hint);
    }
    if host.is_listable(principal, uri).await == Some(true) {
        // A collection may return one of its resources, which the rules may deny although they allow others.
        let uri = escape::line(uri);
        return Some(format!("it can be listed, as far as the rules allow what is in it: `mcp-host list {uri}`"));
    }
    for_unknown(host, principal, uri, error).await
}

/// Returns a hint for a URI that could not be listed: read it, if it exists, else the templates of its plugin.
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

/// Returns a hint for a URI that could not be watched: the templates of its plugin, if there is no such resource.
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

/// Whether a text is the mount `NAME+` of a plugin, which is in front of URIs and none itself.
fn is_prefix_mount(config: &Config, text: &str) -> bool {
    config.plugins.iter().any(|plugin| plugin.mount.is_prefix() && plugin.mount.as_str() == text)
}

/// What to do about an upstream that does not notify of changes.
fn for_unnotified(host: &Host, principal: &Principal, uri: &str) -> Option<String> {
    let explanation = host.explain(principal, Operation::Subscribe, uri).ok()?;
    let config = host.config();
    let plugin = config.plugins.iter().find(|plugin| plugin.name.as_str() == explanation.plugin)?;
    let upstream = plugin.upstream.as_ref()?;
    if plugin.has_views() {
        return Some(
            "nothing can be subscribed to where each principal sees its own content of an upstream".to_owned(),
        );
    }
    (!upstream.poll).then(|| {
        format!(
            "the server of upstream `{}` does not notify of changes; with `poll = true` in its `[[upstream]]` what is watched is read again \
             at its `watch-interval`",
            plugin.name
        )
    })
}

/// Returns a hint for a URI below which nothing was found. If no mount owns it, the error names the nearest of those that are
/// searched: a second mount, of all, would contradict it.
pub(super) fn for_search(host: &Host, principal: &Principal, within: &str) -> Option<String> {
    match host.explain(principal, Operation::Read, within) {
        Err(Error::NotFound { .. }) => None,
        _ => by_config(host, principal, Operation::Read, within),
    }
}

/// Returns a hint for a URI that no mount owns, or that the rules deny the principal. Whoever runs the command may read the config;
/// for a client such a resource does not exist.
fn by_config(host: &Host, principal: &Principal, operation: Operation, uri: &str) -> Option<String> {
    match host.explain(principal, operation, uri) {
        Ok(explanation) if !explanation.decision.is_allowed() => {
            let (name, uri) = (escape::line(principal.name()), escape::line(uri));
            Some(format!(
                "the rules do not allow `{name}` to {operation} it; \
                 `mcp-host explain --as {name} --op {operation} {uri}` says why"
            ))
        }
        Err(Error::NotFound { .. }) => Some(for_unmounted(&host.config(), uri)),
        _ => None,
    }
}

/// Returns a hint for a URI that no mount owns: the most similar mount.
pub(super) fn for_unmounted(config: &Config, uri: &str) -> String {
    match config.nearest_mount(uri) {
        Some(mount) => format!(
            "no plugin is mounted there; the most similar mount is `{mount}`, and `mcp-host list` shows the resources below all \
             mounts"
        ),
        None => "no plugin is mounted at all; `mcp-host check` says what the config has".to_owned(),
    }
}

/// The URI of the first path in a provider's message that is the path of a resource.
async fn for_path(host: &Host, principal: &Principal, uri: &str, message: &str) -> Option<String> {
    let mount = host.mount_of(uri)?;
    let words = message.split(|c: char| c.is_whitespace() || matches!(c, '`' | '"'));
    // As it stands, and without what may be punctuation.
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

/// The templates of the plugin whose mount owns the URI. An invalid request is answered with what is expected already, by paths.
async fn for_unknown(host: &Host, principal: &Principal, uri: &str, error: &Error) -> Option<String> {
    match error {
        Error::NotFound { .. } => {}
        Error::InvalidRequest { message } => match for_path(host, principal, uri, message).await {
            Some(hint) => return Some(hint),
            // A message about the form of paths.
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
