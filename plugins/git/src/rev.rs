//! Resolution of revisions: names and ids in a path.
//!
//! A revision is a full id, the name of a ref, or an abbreviated id, tried in this order, which is git's
//! (`gitrevisions`). Operators such as `main~2` are not supported.

use crate::error::{Error, Result};
use crate::repo::Repository;
use bstr::{BStr, BString, ByteSlice};
use gix_hash::{ObjectId, Prefix, oid};
use gix_object::{Kind, TagRefIter};
use std::rc::Rc;

/// The maximum number of candidates listed for an ambiguous id.
const MAX_CANDIDATES: usize = 10;

/// The maximum length of a chain of tags.
const MAX_TAG_DEPTH: usize = 32;

/// A resolved revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rev {
    /// The object, which may be a tag.
    pub(crate) id: ObjectId,
    /// Whether the revision is a full id, and therefore immutable.
    pub(crate) is_full_id: bool,
    /// The full name of the ref, if the revision is one.
    pub(crate) name: Option<BString>,
}

impl Repository {
    /// Resolves a revision.
    pub(crate) fn rev(&self, rev: &BStr) -> Result<Rev> {
        let is_hex = rev.iter().all(u8::is_ascii_hexdigit);
        if is_hex && rev.len() == self.hash().len_in_hex() {
            let id = ObjectId::from_hex(rev).map_err(|_| Error::NotFound)?;
            return Ok(Rev { id, is_full_id: true, name: None });
        }
        if let Some(resolved) = self.refs().resolve_short_name(rev)? {
            return Ok(Rev { id: resolved.id, is_full_id: false, name: Some(resolved.name) });
        }
        if is_hex && rev.len() < self.hash().len_in_hex() {
            return Ok(Rev { id: self.resolve_short_id(rev)?, is_full_id: false, name: None });
        }
        Err(Error::NotFound)
    }

    /// Returns the tree of the revision that is listed by default; `None` while there is no commit yet.
    pub(crate) fn default_tree(&self, rev: &BStr) -> Result<Option<ObjectId>> {
        match self.rev(rev).and_then(|rev| self.tree_of(rev.id)) {
            Ok(tree) => Ok(Some(tree)),
            Err(Error::NotFound) if self.refs().resolve("HEAD".into())?.is_none() => Ok(None),
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
        let candidates = self.odb.find_by_prefix(&prefix, MAX_CANDIDATES)?;
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
