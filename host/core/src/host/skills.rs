//! Skills in the façade: listing them, and single skills ([`crate::skills`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_base::log_target;
use mcp_host_base::text::quote;
use mcp_host_config::{Extension, Operation};
use mcp_host_engine::plugin::Fault;
use mcp_host_model::requester::{Permit, Requester};
use mcp_host_model::resource::{Error, Listing, MissingPlugin, ResourceContents};
use mcp_host_model::uri::Uri;
use tokio::time::timeout;

use super::Host;
use super::audit::RequestKind;
use super::generation::Generation;
use crate::access::{CredentialScopes, Policy, Principal};
use crate::audit::Facts;
use crate::catalog::PluginSlot;
use crate::response_cache::CachedPlugin;
use crate::skills::{self, BuildError, Candidate, FindError, ReadFile, Skill, SkillProblem, Wanted};

/// The name of a request for skills in records.
const SKILLS: RequestKind = RequestKind { name: "skills", returns_uris: true };

/// The number of files on a page after which no skill is added.
const PAGE_FILES: usize = 1024;
/// The time after which no skill is added to a page.
const PAGE_TIME: Duration = Duration::from_secs(10);
/// The maximum time that a request waits for a walk permit.
const MAX_WAIT: Duration = Duration::from_secs(10);

impl Generation {
    /// Returns whether a plugin may have skills, loaded or not.
    fn has_skills_of(&self, slot: &PluginSlot) -> bool {
        match &slot.plugin {
            Ok(plugin) => !plugin.skills().is_empty(),
            Err(_) => {
                let mut declared = self.config.plugins.iter();
                declared.any(|plugin| plugin.name.as_str() == slot.name && !plugin.skills.is_empty())
            }
        }
    }
}

impl Host {
    /// Returns whether the extension of skills (SEP-2640) is declared to the principal: a plugin that the principal
    /// may list and read in part has skills, or directories can be read, which requires the declaration.
    pub fn has_skills(&self, principal: &Principal) -> bool {
        let now = self.generation.load();
        if now.config.server.extensions.contains(&Extension::Sep2640DirectoryRead) {
            return true;
        }
        let policy = now.access.policy(principal);
        now.slots.iter().any(|slot| now.has_skills_of(slot) && may_see_skills(&policy, slot))
    }

    /// Lists one page of the skills of all plugins that the principal may list and read (SEP-2640, `skills/list`).
    ///
    /// A directory that is not a valid skill is left out; the log and `check` report why. The listing names a plugin
    /// that fails.
    ///
    /// # Errors
    ///
    /// The cursor does not belong to this listing and this principal.
    pub async fn skills(&self, principal: &Principal, cursor: Option<&str>) -> Result<Listing<Skill>, Error> {
        let facts = Facts::default();
        self.audited(principal, SKILLS, "", &facts, async {
            let now = self.generation.load_full();
            facts.set_generation(now.number);
            let start = cursor.map(|cursor| self.catalog.open_skill(principal, cursor)).transpose()?;
            let listing = self.skills_page(&now, principal, start).await?;
            facts.set_returned(listing.items.iter().map(|skill| skill.uri.as_str()));
            Ok(listing)
        })
        .await
    }

    /// Returns the skill of a `SKILL.md` (SEP-2640, `skills/get`).
    ///
    /// # Errors
    ///
    /// There is no such skill for the principal, or it is not valid: [`Error::InvalidRequest`].
    pub async fn skill(&self, principal: &Principal, uri: &str) -> Result<Skill, Error> {
        let facts = Facts::default();
        self.audited(principal, SKILLS, uri, &facts, async {
            let no_skill = || Error::InvalidRequest { message: format!("there is no skill {}", quote(uri)) };
            let now = self.generation_for(principal, Operation::Read, uri, &facts).await;
            let target = now.resolve(principal, Operation::Read, uri, &facts).map_err(|_| no_skill())?;
            // Only files that the principal may also list are its files.
            if !(CredentialScopes::current_include(Operation::List)
                && target.policy.allows(Operation::List, &target.uri))
            {
                return Err(no_skill());
            }
            let plugin = target.slot.loaded()?;
            let directory = skills::directory_of(target.uri.as_str());
            let is_named = |directory: &&str| skills::is_named(plugin.skills(), directory);
            let directory = directory.filter(is_named).ok_or_else(no_skill)?;
            let _permit = walk_permit(principal, plugin).await?;
            let found = skills::find(plugin, Wanted::Only(directory), visibility(&target.policy)).await;
            let mut found = found.map_err(|error| find_error(&error, plugin.name(), uri))?;
            let candidate = found.candidates.remove(directory).ok_or_else(no_skill)?;
            let skill = build_skill(&now, principal, plugin, directory, candidate).await;
            let skill = skill.map_err(|error| match error {
                BuildError::Problem(problem) => {
                    Error::InvalidRequest { message: format!("there is no skill {}: {problem}", quote(uri)) }
                }
                BuildError::Fault(fault) => fault.into_client_error(plugin.name(), uri),
                BuildError::Time => Error::Unavailable {
                    plugin: plugin.name().to_owned(),
                    reason: error.to_string(),
                    retry_after: None,
                },
            });
            let skill = skill?.ok_or_else(no_skill)?;
            facts.set_returned(skill.files.iter().map(|file| file.uri.as_str()));
            Ok(skill)
        })
        .await
    }

    async fn skills_page(
        &self,
        now: &Generation,
        principal: &Principal,
        start: Option<(String, Option<String>)>,
    ) -> Result<Listing<Skill>, Error> {
        let mut listing = Listing { items: Vec::new(), next_cursor: None, missing: Vec::new() };
        if !CredentialScopes::current_include(Operation::List) {
            return Ok(listing);
        }
        let begun = Instant::now();
        let policy = now.access.policy(principal);
        let is_before_start = |slot: &&PluginSlot| start.as_ref().is_some_and(|(plugin, _)| slot.name < *plugin);
        let slots = now.slots.iter().filter(|slot| now.has_skills_of(slot));
        let (mut directories, mut files): (usize, usize) = (0, 0);
        for slot in slots.filter(|slot| may_see_skills(&policy, slot)).filter(|slot| !is_before_start(slot)) {
            // Each page begins at least one plugin, so that requests make progress.
            if directories > 0 && (files >= PAGE_FILES || begun.elapsed() > PAGE_TIME) {
                listing.next_cursor = Some(self.catalog.seal_skill(principal, &slot.name, None)?);
                return Ok(listing);
            }
            let plugin = match &slot.plugin {
                Ok(plugin) => plugin,
                Err(_) => {
                    listing.missing.push(missing(slot.unavailable_error(), &slot.name));
                    continue;
                }
            };
            let _permit = match walk_permit(principal, plugin).await {
                Ok(permit) => permit,
                Err(error) => {
                    listing.missing.push(missing(error, &slot.name));
                    continue;
                }
            };
            let after =
                start.as_ref().filter(|(plugin, _)| *plugin == slot.name).and_then(|(_, after)| after.as_deref());
            let found = match skills::find(plugin, Wanted::After(after), visibility(&policy)).await {
                Ok(found) => found,
                Err(error) => {
                    listing.missing.push(missing(find_error(&error, plugin.name(), ""), &slot.name));
                    continue;
                }
            };
            let mut last = None;
            for (directory, candidate) in found.candidates {
                if directories > 0 && (files >= PAGE_FILES || begun.elapsed() > PAGE_TIME) {
                    listing.next_cursor =
                        Some(self.catalog.seal_skill(principal, &slot.name, last.as_deref().or(after))?);
                    return Ok(listing);
                }
                directories = directories.saturating_add(1);
                match build_skill(now, principal, plugin, &directory, candidate).await {
                    Ok(None) => {}
                    Ok(Some(skill)) => {
                        files = files.saturating_add(skill.files.len());
                        listing.items.push(skill);
                    }
                    Err(error @ BuildError::Time) => {
                        // The remaining skills of this plugin would take as long.
                        let (plugin, reason) = (slot.name.clone(), error.to_string());
                        listing.missing.push(MissingPlugin { plugin, reason, retry_after: None });
                        last = None;
                        break;
                    }
                    Err(BuildError::Fault(fault)) => {
                        files = files.saturating_add(1);
                        if listing.missing.last().is_none_or(|missing| missing.plugin != slot.name) {
                            let error = fault.into_client_error(plugin.name(), "");
                            listing.missing.push(missing(error, &slot.name));
                        }
                    }
                    Err(BuildError::Problem(problem)) => {
                        // The manifest of the directory was read.
                        files = files.saturating_add(1);
                        log_problem(plugin.name(), &directory, &problem);
                    }
                }
                last = Some(directory);
            }
            if found.has_more
                && let Some(last) = last
            {
                listing.next_cursor = Some(self.catalog.seal_skill(principal, &slot.name, Some(&last))?);
                return Ok(listing);
            }
        }
        Ok(listing)
    }
}

/// Returns whether a principal with this policy may list and read something of a plugin.
fn may_see_skills(policy: &Policy, slot: &PluginSlot) -> bool {
    [Operation::List, Operation::Read].iter().all(|operation| policy.may_allow_below(*operation, &slot.mount))
}

/// Waits for a permit to walk the listing of a plugin for the client.
async fn walk_permit(principal: &Principal, plugin: &CachedPlugin) -> Result<Permit, Error> {
    let permit = plugin.skill_state().walks.acquire(Some(Requester::current_or(principal)));
    let permit = timeout(MAX_WAIT, permit).await.ok().and_then(Result::ok);
    permit.ok_or_else(|| Error::Unavailable {
        plugin: plugin.name().to_owned(),
        reason: "too many requests for its skills are waiting".to_owned(),
        retry_after: Some(MAX_WAIT),
    })
}

/// Creates the skill of a directory, as visible to the principal.
async fn build_skill(
    now: &Generation,
    principal: &Principal,
    plugin: &CachedPlugin,
    directory: &str,
    candidate: Candidate,
) -> Result<Option<Skill>, BuildError> {
    let reader = VisibleFiles { now, principal, plugin };
    skills::build(directory, candidate, &plugin.skill_state().digests, &reader).await
}

/// The files of a plugin that a principal may read.
struct VisibleFiles<'a> {
    now: &'a Generation,
    principal: &'a Principal,
    plugin: &'a CachedPlugin,
}

impl ReadFile for VisibleFiles<'_> {
    async fn read(&self, uri: &Uri) -> Result<Vec<ResourceContents>, Fault> {
        let target = self.now.resolve(self.principal, Operation::Read, uri.as_str(), &Facts::default());
        let target = target.map_err(|_| Fault::NotFound)?;
        self.plugin.read(&target.path, target.read_filter()).await
    }
}

/// Returns a filter for the files that belong to the skills of a principal with this policy.
fn visibility(policy: &Arc<Policy>) -> impl Fn(&Uri) -> bool + Clone + Send + use<> {
    let policy = policy.clone();
    move |uri| policy.allows(Operation::List, uri) && policy.allows(Operation::Read, uri)
}

fn find_error(error: &FindError, plugin: &str, uri: &str) -> Error {
    match error {
        FindError::Listing(fault) => fault.clone().into_client_error(plugin, uri),
        FindError::Bounds => {
            Error::Unavailable { plugin: plugin.to_owned(), reason: error.to_string(), retry_after: None }
        }
    }
}

fn missing(error: Error, plugin: &str) -> MissingPlugin {
    let (reason, retry_after) = match error {
        Error::Unavailable { reason, retry_after, .. } => (reason, retry_after),
        _ => ("it failed; the server's log says why".to_owned(), None),
    };
    MissingPlugin { plugin: plugin.to_owned(), reason, retry_after }
}

fn log_problem(plugin: &str, directory: &str, problem: &SkillProblem) {
    tracing::debug!(target: log_target::PLUGIN, plugin, directory, %problem, "not served as a skill");
}
