//! Resolution of revisions: names and ids in a path.
//!
//! A revision is a full id, the name of a ref, or an abbreviated id, tried in this order (git's order, `gitrevisions`),
//! followed by any number of operators ([`spec`]): `main~2`, `HEAD^`, `v1.0^{}`.

mod spec;

use crate::commits::Commits;
use crate::error::{Error, Result};
use crate::repo::Repository;
use bstr::{BStr, ByteSlice};
use gix_hash::{ObjectId, Prefix, oid};
use gix_object::{Kind, TagRefIter};
pub(crate) use spec::{Operator, RevSpec};
use std::rc::Rc;

/// The maximum number of candidates listed for an ambiguous id.
const MAX_CANDIDATES: usize = 10;

/// The maximum length of a chain of tags.
pub(crate) const MAX_TAG_DEPTH: usize = 32;

/// A resolved revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rev {
    /// The object, which may be a tag.
    pub(crate) id: ObjectId,
    /// Whether the revision begins with a full id, and is therefore immutable.
    pub(crate) is_full_id: bool,
}

impl Repository {
    /// Resolves a revision.
    pub(crate) fn rev(&self, rev: &BStr) -> Result<Rev> {
        let spec = RevSpec::parse(rev)?;
        let mut resolved = self.named(spec.name)?;
        for operator in &spec.operators {
            resolved.id = self.apply(resolved.id, operator)?;
        }
        Ok(resolved)
    }

    /// Resolves a revision without operators.
    fn named(&self, name: &BStr) -> Result<Rev> {
        let is_hex = name.iter().all(u8::is_ascii_hexdigit);
        if is_hex && name.len() == self.hash().len_in_hex() {
            let id = ObjectId::from_hex(name).map_err(|_| Error::NotFound)?;
            if !self.is_visible(&id)? {
                return Err(Error::NotFound);
            }
            return Ok(Rev { id, is_full_id: true });
        }
        if let Some(resolved) = self.refs().resolve_short_name(name)? {
            return Ok(Rev { id: resolved.id, is_full_id: false });
        }
        if is_hex && name.len() < self.hash().len_in_hex() {
            return Ok(Rev { id: self.resolve_short_id(name)?, is_full_id: false });
        }
        log::debug!("{name:?} is not a branch, tag or commit that is served");
        Err(Error::NotFound)
    }

    /// Applies an operator to an object.
    fn apply(&self, id: ObjectId, operator: &Operator) -> Result<ObjectId> {
        match operator {
            Operator::Ancestor(generations) => self.ancestor(id, *generations),
            Operator::Parent(0) => self.commit_of(id),
            Operator::Parent(number) => {
                let mut commits = Commits::new(self)?;
                let key = commits.key(&self.commit_of(id)?)?;
                let parents = commits.get(key)?.parents;
                let parent = number.checked_sub(1).and_then(|index| parents.get(index));
                commits.id(*parent.ok_or(Error::NotFound)?)
            }
            Operator::Peel(None) => Ok(self.peel(id, |_| {})?.0),
            Operator::Peel(Some(Kind::Commit)) => self.commit_of(id),
            Operator::Peel(Some(Kind::Tree)) => self.tree_of(id),
            Operator::Peel(Some(Kind::Blob)) => match self.peel(id, |_| {})? {
                (id, Kind::Blob) => Ok(id),
                _ => Err(Error::NotFound),
            },
            Operator::Peel(Some(Kind::Tag)) => match self.odb.kind(&id)? {
                Some(Kind::Tag) => Ok(id),
                _ => Err(Error::NotFound),
            },
            Operator::Exists => self.odb.kind(&id)?.map(|_| id).ok_or(Error::NotFound),
        }
    }

    /// Follows the first parents of a commit.
    fn ancestor(&self, id: ObjectId, generations: usize) -> Result<ObjectId> {
        let mut commits = Commits::new(self)?;
        let mut key = commits.key(&self.commit_of(id)?)?;
        let mut budget = self.budget(generations);
        for _ in 0..generations {
            if !budget.take() {
                return Err(Error::Unsupported(format!("~{generations} takes too long; use the commit's id")));
            }
            key = *commits.get(key)?.parents.first().ok_or(Error::NotFound)?;
        }
        commits.id(key)
    }

    /// Returns the tree of the default revision; `None` while there is no commit.
    pub(crate) fn default_tree(&self, rev: &BStr) -> Result<Option<ObjectId>> {
        match self.rev(rev).and_then(|rev| self.tree_of(rev.id)) {
            Ok(tree) => Ok(Some(tree)),
            Err(Error::NotFound) if self.refs().resolve("HEAD".into())?.is_none() => {
                if self.refs().hides_head()? {
                    log::warn!(
                        "nothing is listed: `HEAD` is hidden by the config key `refs`; name a revision in `rev`"
                    );
                }
                Ok(None)
            }
            Err(Error::NotFound) => Err(Error::Unsupported(format!(
                "{rev} is not a branch, tag or commit of the repository; correct the plugin's config key `rev`"
            ))),
            Err(error) => Err(error),
        }
    }

    /// Peels an object to a commit.
    pub(crate) fn commit_of(&self, id: ObjectId) -> Result<ObjectId> {
        match self.peel(id, |_| {})? {
            (id, Kind::Commit) => Ok(id),
            _ => Err(Error::NotFound),
        }
    }

    /// Peels an object to a tree.
    pub(crate) fn tree_of(&self, id: ObjectId) -> Result<ObjectId> {
        match self.peel(id, |_| {})? {
            (id, Kind::Tree) => Ok(id),
            (id, Kind::Commit) => self.tree_of_commit(&id),
            _ => Err(Error::NotFound),
        }
    }

    /// Returns the tree of a commit.
    pub(crate) fn tree_of_commit(&self, id: &oid) -> Result<ObjectId> {
        let data = self.odb.get(id, Kind::Commit)?;
        let tree = gix_object::CommitRefIter::from_bytes(&data, self.hash()).tree_id();
        tree.map_err(|error| Error::corrupt(format!("commit {id}"), error))
    }

    /// Follows a chain of tags to the first object that is not a tag, and returns it with its kind. `on_the_way` is
    /// called with the content of each tag.
    pub(crate) fn peel(&self, id: ObjectId, mut on_the_way: impl FnMut(Rc<Vec<u8>>)) -> Result<(ObjectId, Kind)> {
        let mut at = id;
        for _ in 0..=MAX_TAG_DEPTH {
            let kind = match self.odb.kind(&at)? {
                Some(kind) => kind,
                // The first id comes from the client, the others from the repository.
                None if at == id => return Err(Error::NotFound),
                None => return Err(Error::Missing(at)),
            };
            if kind != Kind::Tag {
                return Ok((at, kind));
            }
            let data = self.odb.get(&at, Kind::Tag)?;
            let target = TagRefIter::from_bytes(&data, self.hash()).target_id();
            let target = target.map_err(|error| Error::corrupt(format!("tag {at}"), error))?;
            on_the_way(data);
            at = target;
        }
        Err(Error::corrupt(format!("tag {id}"), format!("its chain has more than {MAX_TAG_DEPTH} tags")))
    }

    fn resolve_short_id(&self, hex: &BStr) -> Result<ObjectId> {
        let prefix = hex.to_str().ok().and_then(|hex| Prefix::from_hex(hex).ok()).ok_or(Error::NotFound)?;
        let candidates = self.odb.find_by_prefix(&prefix, MAX_CANDIDATES, |id| self.is_visible(id))?;
        let mut ids = candidates.ids.iter();
        match (ids.next(), ids.next()) {
            (None, _) => Err(Error::NotFound),
            (Some(id), None) => Ok(*id),
            _ => Err(Error::Ambiguous {
                prefix: hex.to_string(),
                candidates: candidates.ids.iter().map(ToString::to_string).collect(),
                has_more: candidates.has_more,
            }),
        }
    }
}
