//! The access rule for objects that a client names by id.
//!
//! Trees and files cannot be named by id: such a URI would bypass a rule that denies their path, and whether an object
//! is part of a served commit cannot be determined within a bound. They are served as parts of a commit. Commits and
//! tags can be named by id. If some refs are hidden, a commit must be reachable from a served ref, and a tag must be on
//! the chain of tags of a served ref. To the client, other objects do not exist.
//!
//! The walk from the refs skips commits whose generation number is not greater than the wanted commit's, so with a
//! commit-graph it visits only newer commits. Without one, it may visit all commits, and fails at a limit.

use crate::commits::{CommitKey, Commits, Generation};
use crate::error::{Error, Result};
use crate::repo::Repository;
use crate::rev::MAX_TAG_DEPTH;
use gix_hash::{ObjectId, oid};
use gix_object::{Kind, TagRefIter};
use std::collections::HashSet;

/// The maximum number of commits that are visited.
const MAX_COMMITS: usize = 200_000;

impl Repository {
    /// Returns whether an object may be named by its id.
    pub(crate) fn is_visible(&self, id: &oid) -> Result<bool> {
        match self.odb.kind(id)? {
            Some(Kind::Commit | Kind::Tag) if self.ref_filter.allows_all() => Ok(true),
            Some(Kind::Commit) => self.is_reachable(id),
            Some(Kind::Tag) => self.is_tag_of_a_ref(id),
            Some(Kind::Tree | Kind::Blob) | None => Ok(false),
        }
    }

    fn is_reachable(&self, id: &oid) -> Result<bool> {
        let mut commits = Commits::new(self)?;
        let wanted = commits.key(id)?;
        let wanted_generation = commits.get(wanted)?.generation;
        let mut seen = HashSet::new();
        let mut queue = Vec::new();
        let mut add = |key: CommitKey, queue: &mut Vec<CommitKey>| {
            if seen.insert(key) {
                queue.push(key);
            }
        };
        self.for_each_tip(|tip, peeled| {
            let commit = match peeled {
                Some(peeled) => peeled,
                None => match commits.key(&tip)? {
                    CommitKey::Graph(_) => tip,
                    CommitKey::Object(_) => self.peel(tip, |_| {})?.0,
                },
            };
            let key = commits.key(&commit)?;
            if matches!(key, CommitKey::Graph(_)) || self.odb.kind(&commit)? == Some(Kind::Commit) {
                add(key, &mut queue);
            }
            Ok(true)
        })?;
        if queue.contains(&wanted) {
            return Ok(true);
        }
        let mut budget = self.budget(MAX_COMMITS);
        while let Some(key) = queue.pop() {
            if !budget.take() {
                return Err(Error::Unsupported(
                    "the history is too long to determine what the served refs reach; write a commit-graph with `git \
                     commit-graph write --reachable`, or use the name of a ref"
                        .to_owned(),
                ));
            }
            // The parents of an unreadable commit are unknown.
            let Ok(commit) = commits.get(key) else { continue };
            let may_lead_there = match (commit.generation, wanted_generation) {
                (Generation::Known(_), Generation::Unknown) => matches!(wanted, CommitKey::Graph(_)),
                (Generation::Known(here), Generation::Known(there)) => here > there,
                (Generation::Unknown, _) => true,
            };
            if may_lead_there {
                if commit.parents.contains(&wanted) {
                    return Ok(true);
                }
                commit.parents.into_iter().for_each(|parent| add(parent, &mut queue));
            }
        }
        Ok(false)
    }

    fn is_tag_of_a_ref(&self, id: &oid) -> Result<bool> {
        let mut is_found = false;
        self.for_each_tip(|tip, _| {
            let mut at = tip;
            for _ in 0..MAX_TAG_DEPTH {
                if *at == *id || self.odb.kind(&at)? != Some(Kind::Tag) {
                    break;
                }
                let data = self.odb.get(&at, Kind::Tag)?;
                let target = TagRefIter::from_bytes(&data, self.hash()).target_id();
                at = target.map_err(|error| Error::corrupt(format!("tag {at}"), error))?;
            }
            is_found = *at == *id;
            Ok(!is_found)
        })?;
        Ok(is_found)
    }

    /// Calls `take` with the object of each served ref, and with the object that it points to, if known, until `take`
    /// returns false. A dangling ref is skipped.
    fn for_each_tip(&self, mut take: impl FnMut(ObjectId, Option<ObjectId>) -> Result<bool>) -> Result<()> {
        let refs = self.refs();
        let mut tips = HashSet::new();
        let mut take = |id, peeled| match take(id, peeled) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                log::warn!("ref skipped: {error}");
                true
            }
        };
        if let Some(head) = refs.resolve("HEAD".into())?
            && !take(head.id, head.peeled)
        {
            return Ok(());
        }
        refs.with_refs_after("".into(), |all| {
            for reference in all {
                if let Some(found) = refs.resolve(reference.name.as_ref())?
                    && tips.insert(found.id)
                    && !take(found.id, found.peeled.or(reference.peeled))
                {
                    break;
                }
            }
            Ok(())
        })
    }
}
