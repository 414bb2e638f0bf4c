//! Delta chain resolution: from a packed object down its chain of deltas to a base that is stored whole, then back up.
//!
//! At most two versions are in memory, and the delta between them is applied while it is inflated. A chain has at most
//! [`MAX_DEPTH`] deltas, which is git's limit; it also detects cycles. Small versions are cached, because adjacent
//! objects in history share most of their chains.

use crate::error::{Error, Result};
use crate::odb::delta::{self, Sizes};
use crate::odb::inflate;
use crate::odb::pack::{Pack, PackData};
use clru::{CLruCache, CLruCacheConfig, WeightScale};
use gix_hash::{ObjectId, oid};
use gix_object::Kind;
use gix_pack::data::entry::Header;
use std::cell::RefCell;
use std::io::BufReader;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// The maximum number of deltas in a chain.
pub(crate) const MAX_DEPTH: usize = 4095;

/// The capacity of the cache in bytes. Each cached version has at most [`MAX_CACHED_OBJECT`].
const CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(4 * 1024 * 1024).unwrap();
const MAX_CACHED_OBJECT: usize = 128 * 1024;

/// The buffer size for inflating a delta, in bytes.
const BUFFER: usize = 4096;

/// An object's kind and content.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    /// The object's kind.
    pub(crate) kind: Kind,
    /// The object's content.
    pub(crate) data: Rc<Vec<u8>>,
}

/// The location of a base that a delta references by id.
pub(crate) enum Base {
    /// In a pack, at an offset.
    Packed(Rc<Pack>, u64),
    /// Elsewhere: already loaded.
    Loaded(Object),
}

/// Finds a base that a delta references by id; the argument is the delta's own pack.
pub(crate) type FindBase<'a> = &'a dyn Fn(&Rc<Pack>, &oid) -> Result<Option<Base>>;

struct ByLength;

impl WeightScale<(u32, u64), Object> for ByLength {
    fn weight(&self, _: &(u32, u64), object: &Object) -> usize {
        object.data.len()
    }
}

/// Reads packed objects, and caches small ones.
pub(crate) struct DeltaResolver {
    cache: RefCell<CLruCache<(u32, u64), Object, std::hash::RandomState, ByLength>>,
    max_size: u64,
}

/// A delta on the way down the chain, with its location.
struct Step {
    pack: Rc<Pack>,
    offset: u64,
}

impl DeltaResolver {
    /// Creates a resolver for objects of at most `max_size` bytes each.
    pub(crate) fn new(max_size: u64) -> Self {
        let kept = CLruCache::with_config(CLruCacheConfig::new(CACHE_SIZE).with_scale(ByLength));
        Self { cache: RefCell::new(kept), max_size }
    }

    /// Reads the object at an offset of a pack.
    pub(crate) fn object(&self, id: &oid, pack: Rc<Pack>, offset: u64, find: FindBase<'_>) -> Result<Object> {
        let mut steps = Vec::new();
        let mut object = self.descend(id, pack, offset, find, &mut steps)?;
        while let Some(step) = steps.pop() {
            object = self.ascend(id, &step, &object)?;
        }
        Ok(object)
    }

    /// Returns the size of the object at an offset of a pack, in bytes. A delta declares the size in its first bytes,
    /// so its base is not read.
    pub(crate) fn size(pack: &Pack, offset: u64) -> Result<u64> {
        let data = data(pack)?;
        let entry = data.entry(offset)?;
        if entry.header.is_base() {
            return Ok(entry.decompressed_size);
        }
        let sizes = Sizes::read(&mut data.content(&entry)).map_err(|error| data.io_error(offset, error))?;
        Ok(sizes.result)
    }

    /// Returns the kind of the object at an offset of a pack: the kind of the base at the end of its chain.
    pub(crate) fn kind(pack: Rc<Pack>, offset: u64, find: FindBase<'_>) -> Result<Kind> {
        let mut step = Step { pack, offset };
        for _ in 0..=MAX_DEPTH {
            let header = data(&step.pack)?.entry(step.offset)?.header;
            if let Some(kind) = header.as_kind() {
                return Ok(kind);
            }
            match base_of(&step, header, find)? {
                Base::Packed(pack, offset) => step = Step { pack, offset },
                Base::Loaded(object) => return Ok(object.kind),
            }
        }
        Err(too_deep(&step))
    }

    /// Follows the chain from an object to the first version that is stored whole or cached, and collects the deltas.
    fn descend(
        &self,
        id: &oid,
        pack: Rc<Pack>,
        offset: u64,
        find: FindBase<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<Object> {
        let mut step = Step { pack, offset };
        loop {
            let data = data(&step.pack)?;
            if let Some(object) = self.cache.borrow_mut().get(&(data.key(), step.offset)) {
                return Ok(object.clone());
            }
            let entry = data.entry(step.offset)?;
            if let Some(kind) = entry.header.as_kind() {
                self.check_memory_budget(id, entry.decompressed_size)?;
                let stream = data.content(&entry).into_source();
                let bytes = inflate::read_all(stream, entry.decompressed_size)
                    .map_err(|error| data.io_error(step.offset, error))?;
                return Ok(self.store(&step, kind, bytes, data.key()));
            }
            if steps.len() >= MAX_DEPTH {
                return Err(too_deep(&step));
            }
            let base = base_of(&step, entry.header, find)?;
            steps.push(step);
            match base {
                Base::Packed(pack, offset) => step = Step { pack, offset },
                Base::Loaded(object) => return Ok(object),
            }
        }
    }

    /// Applies one delta.
    fn ascend(&self, id: &oid, step: &Step, base: &Object) -> Result<Object> {
        let data = data(&step.pack)?;
        let entry = data.entry(step.offset)?;
        let mut delta = BufReader::with_capacity(BUFFER, data.content(&entry));
        let sizes = Sizes::read(&mut delta).map_err(|error| data.io_error(step.offset, error))?;
        self.check_memory_budget(id, sizes.result)?;
        let bytes = delta::apply(&base.data, sizes, &mut delta).map_err(|error| data.io_error(step.offset, error))?;
        Ok(self.store(step, base.kind, bytes, data.key()))
    }

    fn store(&self, step: &Step, kind: Kind, bytes: Vec<u8>, key: u32) -> Object {
        let object = Object { kind, data: Rc::new(bytes) };
        if object.data.len() <= MAX_CACHED_OBJECT {
            // Never rejected: it is smaller than the cache's capacity.
            let _ = self.cache.borrow_mut().put_with_weight((key, step.offset), object.clone());
        }
        object
    }

    fn check_memory_budget(&self, id: &oid, size: u64) -> Result<()> {
        check_memory_budget(id, size, self.max_size)
    }
}

/// Rejects an object that exceeds the memory limit for objects.
pub(crate) fn check_memory_budget(id: &oid, size: u64, max_size: u64) -> Result<()> {
    if size <= max_size {
        return Ok(());
    }
    Err(Error::TooLarge {
        what: format!("object {id}, or a version in its delta chain,"),
        size,
        limit: max_size,
        help: "raise the plugin's config key `max-blob` and its memory limit",
    })
}

/// Locates the base of a delta.
fn base_of(step: &Step, header: Header, find: FindBase<'_>) -> Result<Base> {
    match header {
        Header::OfsDelta { base_distance } => {
            let offset = Header::verified_base_pack_offset(step.offset, base_distance);
            let offset = offset.ok_or_else(|| corrupt(step, "its base is outside of the pack"))?;
            Ok(Base::Packed(Rc::clone(&step.pack), offset))
        }
        Header::RefDelta { base_id } => find(&step.pack, &base_id)?.ok_or_else(|| missing(step, base_id)),
        Header::Blob | Header::Tree | Header::Commit | Header::Tag => Err(corrupt(step, "it is not a delta")),
    }
}

fn data(pack: &Pack) -> Result<PackData<'_>> {
    pack.data()?.ok_or_else(|| Error::corrupt(pack.stem().display(), "the pack no longer exists"))
}

fn missing(step: &Step, base: ObjectId) -> Error {
    corrupt(step, format!("its base {base} is missing"))
}

fn too_deep(step: &Step) -> Error {
    corrupt(step, format!("its delta chain has more than {MAX_DEPTH} deltas or a cycle"))
}

fn corrupt(step: &Step, fault: impl ToString) -> Error {
    Error::corrupt(format!("{} at byte {}", step.pack.stem().with_extension("pack").display(), step.offset), fault)
}
