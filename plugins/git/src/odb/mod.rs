//! The object database: lookup by id or id prefix, metadata, and content.
//!
//! Objects are loose or packed, in the repository's own object directory or in an alternate. Every object that is read
//! is verified against its id, so a wrong index cannot substitute another object. An object larger than the [`Odb`]'s
//! limit is not read, nor is an object whose delta chain contains one.

mod alternates;
mod delta;
mod delta_chain;
mod index;
mod inflate;
mod loose;
mod midx;
mod pack;
mod packs;

use crate::block_cache::BlockCache;
use crate::error::{Error, Result};
use delta_chain::{Base, DeltaResolver};
pub(crate) use delta_chain::{Object, check_memory_budget};
use gix_hash::{ObjectId, Prefix, oid};
use gix_object::Kind;
use loose::Loose;
use pack::Pack;
use packs::Packs;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

/// The objects of a repository.
pub(crate) struct Odb {
    hash: gix_hash::Kind,
    own: Directory,
    alternates: OnceCell<Vec<Directory>>,
    blocks: Rc<BlockCache>,
    deltas: DeltaResolver,
    max_object_size: u64,
    /// The number of objects that were read.
    #[cfg(test)]
    pub(crate) reads: Rc<std::cell::Cell<usize>>,
}

/// An object directory.
struct Directory {
    path: PathBuf,
    packs: Packs,
}

/// The location of an object.
enum ObjectLocation {
    Packed(Rc<Pack>, u64),
    Loose(Box<Loose>),
}

/// The objects that an abbreviated id may mean.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// Some of them, sorted.
    pub(crate) ids: BTreeSet<ObjectId>,
    /// Whether there are more.
    pub(crate) has_more: bool,
}

impl Odb {
    /// Creates a database on an object directory. `max_object_size` is the limit for the size of each object, in bytes.
    pub(crate) fn new(objects: PathBuf, blocks: &Rc<BlockCache>, hash: gix_hash::Kind, max_object_size: u64) -> Self {
        let own = Directory::new(objects, blocks, hash);
        let (borrowed, blocks) = (OnceCell::new(), Rc::clone(blocks));
        Self {
            hash,
            own,
            alternates: borrowed,
            blocks,
            deltas: DeltaResolver::new(max_object_size),
            max_object_size,
            #[cfg(test)]
            reads: Rc::default(),
        }
    }

    /// Returns the hash kind of the object ids.
    pub(crate) fn hash(&self) -> gix_hash::Kind {
        self.hash
    }

    /// Returns the size of an object in bytes, without reading it.
    pub(crate) fn size(&self, id: &oid) -> Result<Option<u64>> {
        Ok(match self.locate(id)? {
            Some(ObjectLocation::Packed(pack, offset)) => Some(DeltaResolver::size(&pack, offset)?),
            Some(ObjectLocation::Loose(loose)) => Some(loose.size),
            None => None,
        })
    }

    /// Returns the kind of an object, without reading it.
    pub(crate) fn kind(&self, id: &oid) -> Result<Option<Kind>> {
        if id.is_empty_tree() {
            return Ok(Some(Kind::Tree));
        }
        Ok(match self.locate(id)? {
            Some(ObjectLocation::Packed(pack, offset)) => {
                Some(DeltaResolver::kind(pack, offset, &|pack, id| self.base(pack, id))?)
            }
            Some(ObjectLocation::Loose(loose)) => Some(loose.kind),
            None => None,
        })
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) fn find(&self, id: &oid) -> Result<Option<Object>> {
        #[cfg(test)]
        self.reads.set(self.reads.get() + 1);
        // Git treats the empty tree as present even if it is not stored.
        if id.is_empty_tree() {
            return Ok(Some(Object { kind: Kind::Tree, data: Rc::default() }));
        }
        let object = match self.locate(id)? {
            Some(ObjectLocation::Packed(pack, offset)) => {
                self.deltas.object(id, pack, offset, &|pack, id| self.base(pack, id))?
            }
            Some(ObjectLocation::Loose(loose)) => self.loose(id, *loose)?,
            None => return Ok(None),
        };
        let found = gix_object::compute_hash(self.hash, object.kind, &object.data)
            .map_err(|error| Error::corrupt(format!("object {id}"), error))?;
        if *found != *id {
            return Err(Error::corrupt(format!("object {id}"), format!("its content hashes to {found}")));
        }
        Ok(Some(object))
    }

    /// Reads an object that another object references. It must have the given kind.
    pub(crate) fn get(&self, id: &oid, kind: Kind) -> Result<Rc<Vec<u8>>> {
        let object = self.find(id)?.ok_or_else(|| Error::Missing(id.to_owned()))?;
        if object.kind != kind {
            return Err(Error::corrupt(format!("object {id}"), format!("it is a {}, expected a {kind}", object.kind)));
        }
        Ok(object.data)
    }

    /// Returns up to `limit` objects whose ids start with a prefix and for which `is_wanted` holds.
    pub(crate) fn find_by_prefix(
        &self,
        prefix: &Prefix,
        limit: usize,
        is_wanted: impl Fn(&oid) -> Result<bool>,
    ) -> Result<Candidates> {
        let mut candidates = Candidates::default();
        let mut fault = None;
        let mut take = |id: ObjectId| {
            if candidates.ids.contains(&id) {
                return true;
            }
            match is_wanted(&id) {
                Ok(true) if candidates.ids.len() < limit => drop(candidates.ids.insert(id)),
                Ok(true) => candidates.has_more = true,
                Ok(false) => {}
                Err(error) => fault = Some(error),
            }
            !candidates.has_more && fault.is_none()
        };
        for directory in [&self.own].into_iter().chain(self.alternates()?) {
            directory.packs.for_each_with_prefix(prefix, &mut take)?;
            loose::for_each_with_prefix(&directory.path, prefix, self.hash, &mut take)?;
        }
        fault.map_or(Ok(candidates), Err)
    }

    fn locate(&self, id: &oid) -> Result<Option<ObjectLocation>> {
        if let Some(place) = self.locate_cached(id)? {
            return Ok(Some(place));
        }
        // The object may have been packed in the meantime.
        for directory in [&self.own].into_iter().chain(self.alternates()?) {
            directory.packs.rescan_if_changed()?;
        }
        self.locate_cached(id)
    }

    fn locate_cached(&self, id: &oid) -> Result<Option<ObjectLocation>> {
        if let Some(place) = self.own.locate(id)? {
            return Ok(Some(place));
        }
        for directory in self.alternates()? {
            if let Some(place) = directory.locate(id)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Returns the alternates. They are located on first use: when an object is not in the repository's own directory.
    fn alternates(&self) -> Result<&[Directory]> {
        if self.alternates.get().is_none() {
            let paths = alternates::alternates(&self.own.path)?;
            let directories = paths.into_iter().map(|path| Directory::new(path, &self.blocks, self.hash)).collect();
            return Ok(self.alternates.get_or_init(|| directories));
        }
        Ok(self.alternates.get().map(Vec::as_slice).unwrap_or_default())
    }

    /// Finds the base of a delta. The delta's own pack is searched first, because elsewhere the id may resolve to the
    /// delta itself.
    fn base(&self, pack: &Rc<Pack>, id: &oid) -> Result<Option<Base>> {
        if let Some(offset) = pack.index()?.map_or(Ok(None), |index| index.offset(id))? {
            return Ok(Some(Base::Packed(Rc::clone(pack), offset)));
        }
        Ok(match self.locate(id)? {
            Some(ObjectLocation::Packed(pack, offset)) => Some(Base::Packed(pack, offset)),
            Some(ObjectLocation::Loose(loose)) => Some(Base::Loaded(self.loose(id, *loose)?)),
            None => None,
        })
    }

    fn loose(&self, id: &oid, loose: Loose) -> Result<Object> {
        check_memory_budget(id, loose.size, self.max_object_size)?;
        Ok(Object { kind: loose.kind, data: Rc::new(loose.content()?) })
    }
}

impl Directory {
    fn new(path: PathBuf, blocks: &Rc<BlockCache>, hash: gix_hash::Kind) -> Self {
        let packs = Packs::new(path.join("pack"), blocks, hash);
        Self { path, packs }
    }

    /// Locates an object in this directory. Errors of a pack are reported only if the object is found nowhere else.
    fn locate(&self, id: &oid) -> Result<Option<ObjectLocation>> {
        let packed = self.packs.find(id);
        if let Ok(Some((pack, offset))) = packed {
            return Ok(Some(ObjectLocation::Packed(pack, offset)));
        }
        match Loose::open(&self.path, id)? {
            Some(loose) => Ok(Some(ObjectLocation::Loose(Box::new(loose)))),
            None => packed.map(|_| None),
        }
    }
}
