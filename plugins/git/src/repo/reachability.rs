//! Whether an object may be named by its id.
//!
//! A tree or a file may not: it would have a URI beside that of its path, which a rule that denies the path does not
//! match, and whether it is part of a commit that is served cannot be answered within any bound. They are served as
//! parts of a commit. A commit or a tag may; if not all refs are served, only a commit that is reachable from a ref that
//! is, and a tag that such a ref leads to. To the client, other objects do not exist.
//!
//! The walk from the refs visits no commit whose generation number is that of the commit or less, so that with a
//! commit-graph it visits those that are newer. Without one, it may visit all commits, up to a limit, where it fails.

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
            // A commit that cannot be read has no parents that are known.
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

    /// Calls `take` with the object of each ref that is served, and the one it points to if that is known, until it
    /// returns false. A ref that leads nowhere is skipped.
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
