//! Checks of what a principal searches for, before it is looked up. What cannot match anything is an invalid request, whose message
//! names the parameter, what is expected, and what was found.
//!
//! They do not depend on what is indexed: a type or a language that no resource has at the moment is a search without results, and
//! so is a URI below a searched mount. A mount that the principal may not search is one that does not exist; of one that nobody can
//! search, because its plugin is not indexed, the message says what indexes it.

use super::generation::Generation;
use super::search::may_find;
use crate::access::{Policy, Principal};
use crate::config::search::{KindFilter, LanguageCode};
use crate::config::{Operation, nearest_mount};
use crate::plugin::PluginSlot;
use crate::quote::quote;
use crate::resource::Error;
use crate::search::{SearchRequest, SearchService, has_words, is_below};
use crate::uri::Mount;

/// The number of kinds that a message names.
const MAX_KINDS: usize = 8;

/// Checks a search, and brings its parameters into normal form.
pub(super) async fn check(
    now: &Generation,
    service: &SearchService,
    principal: &Principal,
    request: &mut SearchRequest,
) -> Result<(), Error> {
    check_query(now, &request.query)?;
    let policy = now.access.policy(principal);
    if let Some(within) = request.within.take() {
        request.within = Some(searched_uri(now, &policy, within)?);
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
                let known = match service.turn(principal).await {
                    Ok(turn) => service.values(turn, true, move |uri| may_find(&policy, uri)).await,
                    Err(busy) => Err(busy),
                };
                let known = known.unwrap_or_default();
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

/// Rejects a query that is too long, or has nothing to search for.
pub(super) fn check_query(now: &Generation, query: &str) -> Result<(), Error> {
    let (found, max) = (query.len(), SearchRequest::MAX_QUERY_LEN);
    if found > max {
        return Err(Error::InvalidRequest { message: format!("the query has {found} bytes, more than {max}") });
    }
    // The vector of a query without words may be near to something: an emoji has a meaning.
    let embeddings = now.config.search.as_ref().and_then(|search| search.embeddings.as_ref());
    let is_embedded = embeddings.is_some_and(|embeddings| embeddings.queries) && !query.trim().is_empty();
    if is_embedded || has_words(query) {
        return Ok(());
    }
    let found = found_text(query);
    let message = format!("the query: expected at least one word, of letters or digits, found {found}");
    Err(Error::InvalidRequest { message })
}

/// A URI of which something may be found, in normal form: one of a searched mount, or the beginning of some.
fn searched_uri(now: &Generation, policy: &Policy, within: String) -> Result<String, Error> {
    let mounts: Vec<_> = searched_mounts(now, policy).collect();
    if let Ok(routed) = now.route_for(policy, Operation::List, &within)
        && mounts.contains(&routed.mount)
    {
        return Ok(routed.uri.into());
    }
    // If nothing is searched at all, that is what the lookup says.
    if !now.has_search() || mounts.iter().any(|mount| is_below(mount.as_str(), &within)) {
        return Ok(within);
    }
    if let Some(message) = unsearched_plugin(now, policy, &within, &mounts) {
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

/// Says that the plugin that owns a URI, or the first below it, is not searched, and what changes that; none if the principal may find
/// nothing there anyway.
fn unsearched_plugin(now: &Generation, policy: &Policy, within: &str, searched: &[&Mount]) -> Option<String> {
    let owner = now.route_for(policy, Operation::List, within).ok().map(|routed| routed.mount);
    let may = |operation, slot: &&PluginSlot| policy.may_allow_below(operation, &slot.mount);
    let visible = now.slots.iter().filter(|slot| may(Operation::List, slot) && may(Operation::Read, slot));
    let mut slots = visible.filter(|slot| now.built_in(slot).is_none() && !searched.contains(&&slot.mount));
    let slot = slots.find(|slot| owner == Some(&slot.mount) || is_below(slot.mount.as_str(), within))?;
    let (name, found) = (quote(&slot.name), quote(within));
    let remedy = if now.config.plugins.iter().any(|plugin| plugin.mount == slot.mount) {
        "`search = {}` in its `[[plugin]]` in the server's config turns that on"
    } else {
        "the application that mounts it turns that on by `NativePlugin::search`"
    };
    Some(format!("`in`: nothing is found below {found}, because plugin {name} is not searched; {remedy}"))
}

/// The mounts of the plugins that are searched, loaded or not, and that the policy may let something be found of.
pub(super) fn searched_mounts<'a>(now: &'a Generation, policy: &'a Policy) -> impl Iterator<Item = &'a Mount> {
    let is_configured =
        |mount: &Mount| now.config.plugins.iter().any(|one| one.mount == *mount && one.search.is_some());
    let searched = now.slots.iter().filter(move |slot| slot.is_searched() || is_configured(&slot.mount));
    let may = |operation, mount| policy.may_allow_below(operation, mount);
    let mounts = searched.map(|slot| &slot.mount);
    mounts.filter(move |mount| may(Operation::List, mount) && may(Operation::Read, mount))
}

fn wrong(name: &str, expected: &str, value: &str) -> Error {
    Error::InvalidRequest { message: format!("`{name}`: expected {expected}; found {}", found_text(value)) }
}

fn found_text(text: &str) -> String {
    if text.trim().is_empty() { "an empty text".to_owned() } else { quote(text) }
}
