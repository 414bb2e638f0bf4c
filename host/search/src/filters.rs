//! Validates search requests. A request that cannot match anything is rejected as invalid. The message names the
//! parameter, the expected value and the found value.
//!
//! The checks do not depend on the content of the index: a search for a type or a language that no resource has at the
//! moment, or for a URI below a searched mount, is valid and has no results. A mount that the principal may not search
//! is treated as nonexistent. If the plugin of a mount is not searched, the message explains how to enable search.

use std::sync::Arc;

use mcp_host_base::text::quote;
use mcp_host_config::nearest_mount;
use mcp_host_config::search::{KindFilter, LanguageCode};
use mcp_host_engine::plugin::MountedPlugin;
use mcp_host_model::principal::Principal;
use mcp_host_model::resource::Error;
use mcp_host_model::uri::Mount;

use super::host_view::HostView;
use super::query::has_words;
use super::request::SearchRequest;
use super::searched::is_below;
use super::service::{SearchService, has_search};

/// The maximum number of kinds in a message.
const MAX_KINDS: usize = 8;

/// Checks a search, and normalizes its parameters.
pub(super) async fn check(
    view: &Arc<dyn HostView>,
    service: &SearchService,
    principal: &Principal,
    request: &mut SearchRequest,
) -> Result<(), Error> {
    check_query(&**view, &request.query)?;
    if let Some(within) = request.within.take() {
        request.within = Some(searched_uri(&**view, within)?);
    }
    if let Some(language) = &mut request.language {
        let code = language.to_ascii_lowercase();
        let wrong = |_| wrong("lang", &LanguageCode::expected(), language);
        *language = code.parse::<LanguageCode>().map_err(wrong)?.to_string();
    }
    if let Some(kind) = &mut request.kind {
        match kind.to_ascii_lowercase().parse::<KindFilter>() {
            Ok(valid) => *kind = valid.to_string(),
            Err(_) => {
                let known = service.values_for(principal, true, view.clone()).await;
                let known: Vec<_> = known.iter().take(MAX_KINDS).map(|kind| quote(kind)).collect();
                let known =
                    if known.is_empty() { String::new() } else { format!(" (indexed are {})", known.join(", ")) };
                let expected = format!("{}{known}", KindFilter::EXPECTED);
                return Err(wrong("kind", &expected, kind));
            }
        }
    }
    Ok(())
}

/// Rejects a query that is too long or has no words.
pub(super) fn check_query(view: &dyn HostView, query: &str) -> Result<(), Error> {
    let (found, max) = (query.len(), SearchRequest::MAX_QUERY_LEN);
    if found > max {
        return Err(Error::InvalidRequest { message: format!("the query has {found} bytes, more than {max}") });
    }
    // The vector of a query without words may still be near to a text: an emoji has a meaning.
    let embeddings = view.config().search.as_ref().and_then(|search| search.embeddings.as_ref());
    let is_embedded = embeddings.is_some_and(|embeddings| embeddings.queries) && !query.trim().is_empty();
    if is_embedded || has_words(query) {
        return Ok(());
    }
    let found = found_text(query);
    let message = format!("the query: expected at least one word, of letters or digits, found {found}");
    Err(Error::InvalidRequest { message })
}

/// Normalizes a URI below which resources may be found: a URI of a searched mount, or a prefix of one.
fn searched_uri(view: &dyn HostView, within: String) -> Result<String, Error> {
    let mounts: Vec<_> = searched_mounts(view).collect();
    if let Some((mount, uri)) = view.route(&within)
        && mounts.contains(&mount)
    {
        return Ok(uri.into());
    }
    // If no plugin is searched at all, the lookup reports it.
    if !has_search(view.config(), view.plugins().iter().filter_map(|plugin| Some(&**plugin.loaded?)))
        || mounts.iter().any(|mount| is_below(mount.as_str(), &within))
    {
        return Ok(within);
    }
    if let Some(message) = unsearched_plugin(view, &within, &mounts) {
        return Err(Error::InvalidRequest { message });
    }
    let next = match nearest_mount(&within, mounts) {
        Some(mount) => format!("the nearest one is `{mount}`"),
        None => "there is none that you may search".to_owned(),
    };
    let found = found_text(&within);
    Err(Error::InvalidRequest {
        message: format!("`in`: expected a URI below a mount that is searched, found {found}; {next}"),
    })
}

/// The message for a URI whose plugin, or the first plugin below it, is not searched. None if the principal may not
/// find anything there anyway.
fn unsearched_plugin(view: &dyn HostView, within: &str, searched: &[&Mount]) -> Option<String> {
    let owner = view.route(within).map(|(mount, _)| mount);
    let is_built_in = |plugin: &MountedPlugin<'_>| plugin.loaded.is_some_and(|plugin| plugin.built_in().is_some());
    let plugins = view.plugins();
    let visible = plugins.iter().filter(|plugin| view.may_find_below(plugin.mount));
    let mut others = visible.filter(|plugin| !is_built_in(plugin) && !searched.contains(&plugin.mount));
    let plugin = others.find(|plugin| owner == Some(plugin.mount) || is_below(plugin.mount.as_str(), within))?;
    let (name, found) = (quote(plugin.name), quote(within));
    let remedy = if view.config().plugins.iter().any(|declared| declared.mount == *plugin.mount) {
        "`search = {}` in its `[[plugin]]` in the server's config turns that on"
    } else {
        "the application that mounts it turns that on by `NativePlugin::search`"
    };
    Some(format!("`in`: nothing is found below {found}, because plugin {name} is not searched; {remedy}"))
}

/// The mounts of searched plugins, loaded or not, below which the principal may find any resource.
pub(super) fn searched_mounts(view: &dyn HostView) -> impl Iterator<Item = &Mount> {
    let is_configured =
        |mount: &Mount| view.config().plugins.iter().any(|one| one.mount == *mount && one.search.is_some());
    let is_searched = move |plugin: &MountedPlugin<'_>| plugin.is_searched() || is_configured(plugin.mount);
    let searched = view.plugins().into_iter().filter(is_searched);
    searched.map(|plugin| plugin.mount).filter(|mount| view.may_find_below(mount))
}

fn wrong(name: &str, expected: &str, value: &str) -> Error {
    Error::InvalidRequest { message: format!("`{name}`: expected {expected}; found {}", found_text(value)) }
}

fn found_text(text: &str) -> String {
    if text.trim().is_empty() { "an empty text".to_owned() } else { quote(text) }
}
