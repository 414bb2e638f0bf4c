//! Splits of failed groups: a bulkhead around the paths that make a provider fail.
//!
//! A group that fails is [split](PathGroups::split), and both halves continue with its token; providers must accept a
//! token that covers more paths than the call. New paths are separated from those polled before, then the paths of one
//! client from other clients', then halves of one client's paths. So the paths that make a provider fail are isolated,
//! first from other clients' paths.
//!
//! Bounded: splits make at most [`MAX_GROUPS_OF_CLIENT`] groups of one client's paths, and [`MAX_SPLIT_GROUPS`] in
//! total. Beyond that, new failing paths of a client join one of its groups, and never stay with paths polled before;
//! any other failing group stays as it is.

use std::collections::HashMap;
use std::hash::Hash;

use mcp_host_model::uri::{Path, Uri};
use tokio::time::Instant;

use super::{GroupFailure, GroupId, PathGroup, PathGroups};
#[cfg(test)]
use crate::simulation::{Bug, is_planted};

/// The maximum number of groups, including those made by splits.
const MAX_SPLIT_GROUPS: usize = 256;
/// The maximum number of groups that splits of one client's paths make.
pub(super) const MAX_GROUPS_OF_CLIENT: usize = 16;

impl<C: Clone + Eq + Hash, F: Clone> PathGroups<C, F> {
    /// Splits a failed group. `clients` has the client of each of its watched paths, in the same order. Both halves may
    /// be polled immediately; paths that were polled before count as working until they fail themselves. Returns the
    /// working part, if there is one; none if the group is not split.
    pub(in crate::poll) fn split(&mut self, id: GroupId, clients: Vec<C>, now: Instant) -> Option<Option<GroupId>> {
        let (group, backoff) = (self.groups.get(&id)?, self.backoff);
        let fault = group.failure.as_ref()?.fault.clone();
        if group.watched.len() < 2 {
            return None;
        }
        let mut parts: Vec<_> = group.watched.iter().cloned().zip(clients).collect();
        let client = parts.first().map(|(_, client)| client.clone());
        let client = client.filter(|client| parts.iter().all(|(_, other)| other == client));
        let is_covered = |((_, path), _): &((Uri, Path), C)| self.is_covered(path);
        let covered = parts.iter().filter(|part| is_covered(part)).count();
        let is_new_and_old = covered > 0 && covered < parts.len();
        let middle = if is_new_and_old {
            parts.sort_by_key(|part| !is_covered(part));
            covered
        } else if let Some(client) = &client {
            if !self.may_add_for(client) {
                return None;
            }
            parts.len() / 2
        } else {
            by_client(&mut parts)
        };
        let rest = parts.split_off(middle);
        let token = group.token.clone();
        #[cfg(test)]
        let token = token.filter(|_| !is_planted(Bug::SplitWithoutToken));
        self.groups.remove(&id);
        let (mut works, mut last) = (None, id);
        for (number, part) in [parts, rest].into_iter().enumerate() {
            let client = part.first().map(|(_, client)| client.clone());
            let client = client.filter(|client| part.iter().all(|(_, other)| other == client));
            let mut watched: Vec<_> = part.into_iter().map(|(watched, _)| watched).collect();
            let paths: Vec<_> = watched.iter().map(|(_, path)| path.clone()).collect();
            // The paths polled before worked without the new ones.
            let is_suspect = !is_new_and_old || number > 0;
            // No token covers new paths, so they may join another failing group of their client, instead of staying
            // with the working paths.
            let joined = client.as_ref().filter(|_| is_new_and_old && is_suspect);
            let joined = joined.and_then(|client| self.failing_group_of(client, watched.len()));
            let half = match joined.and_then(|id| Some((id, self.groups.get_mut(&id)?))) {
                Some((id, group)) => {
                    group.watched.append(&mut watched);
                    id
                }
                None => {
                    let failure = is_suspect.then(|| GroupFailure::new(fault.clone(), now, backoff));
                    self.add(PathGroup { token: token.clone(), watched, failure, client, ..PathGroup::default() })
                }
            };
            works = works.or((!is_suspect).then_some(half));
            last = half;
            for path in paths {
                if let Some(member) = self.members.get_mut(&path) {
                    member.group = half;
                }
            }
        }
        // These paths are only remembered. It is not known whether they fail.
        for member in self.members.values_mut().filter(|member| member.group == id) {
            member.group = last;
        }
        Some(works)
    }

    /// Returns whether one more group of this client's paths may be added.
    fn may_add_for(&self, client: &C) -> bool {
        let of_client = self.groups.values().filter(|group| group.client.as_ref() == Some(client)).count();
        of_client < MAX_GROUPS_OF_CLIENT && self.groups.len() < MAX_SPLIT_GROUPS
    }

    /// If no group of this client's paths may be added, returns its failing group with the fewest paths and room for
    /// `more`.
    fn failing_group_of(&self, client: &C, more: usize) -> Option<GroupId> {
        if self.may_add_for(client) {
            return None;
        }
        let failing = self.groups.iter().filter(|(_, group)| {
            let len = group.watched.len().saturating_add(more);
            group.client.as_ref() == Some(client) && group.failure.is_some() && len <= self.max_paths
        });
        failing.min_by_key(|(id, group)| (group.watched.len(), **id)).map(|(id, _)| *id)
    }
}

/// Sorts paths by their clients, those with the fewest paths first, and returns the index for a split: between two
/// clients, nearest to the middle.
fn by_client<C: Clone + Eq + Hash>(parts: &mut [((Uri, Path), C)]) -> usize {
    // The number of a client's paths, and the index of the first.
    let mut orders: HashMap<C, (usize, usize)> = HashMap::new();
    for (index, (_, client)) in parts.iter().enumerate() {
        let (count, _) = orders.entry(client.clone()).or_insert((0, index));
        *count = count.saturating_add(1);
    }
    parts.sort_by_key(|(_, client)| orders.get(client).copied().unwrap_or_default());
    let middle = parts.len() / 2;
    let boundaries = parts.windows(2).enumerate().filter_map(|(index, pair)| match pair {
        [(_, one), (_, other)] if one != other => Some(index.saturating_add(1)),
        _ => None,
    });
    boundaries.min_by_key(|boundary| boundary.abs_diff(middle)).unwrap_or(middle)
}
