//! The packs of one object directory, and lookup of objects in them.
//!
//! The multi-pack index, if there is one, is searched first; then the index of each pack that it does not cover,
//! starting with the pack of the previous hit. A repository may be repacked while it is served: after a miss, the
//! directory is rescanned and the lookup is retried. [`Packs::rescan_if_changed`] does so only if the directory's
//! modification time changed, because objects that a partial clone lacks are looked up repeatedly.

use crate::block_cache::BlockCache;
use crate::error::{Error, Result};
use crate::files;
use crate::odb::midx::Midx;
use crate::odb::pack::Pack;
use gix_hash::{Kind, ObjectId, Prefix, oid};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::SystemTime;

/// The file name of the multi-pack index.
const MULTI_PACK_INDEX: &str = "multi-pack-index";

/// The packs of one object directory.
pub(crate) struct Packs {
    directory: PathBuf,
    hash: Kind,
    cache: Rc<BlockCache>,
    pack_set: RefCell<Option<Rc<PackSet>>>,
    last_hit: RefCell<Option<Rc<Pack>>>,
    /// The directory's modification time before the last scan, once a lookup has failed.
    scanned_mtime: Cell<Option<SystemTime>>,
}

/// The result of a directory scan.
struct PackSet {
    midx: Option<Midx>,
    /// The packs that the multi-pack index covers, in its order.
    covered: Vec<Rc<Pack>>,
    /// The other packs.
    others: Vec<Rc<Pack>>,
}

impl Packs {
    /// Creates the packs of a directory, which is scanned on first use.
    pub(crate) fn new(directory: PathBuf, cache: &Rc<BlockCache>, hash: Kind) -> Self {
        Self {
            directory,
            hash,
            cache: Rc::clone(cache),
            pack_set: RefCell::new(None),
            last_hit: RefCell::new(None),
            scanned_mtime: Cell::new(None),
        }
    }

    /// Finds the pack of an object, and the object's offset in it.
    pub(crate) fn find(&self, id: &oid) -> Result<Option<(Rc<Pack>, u64)>> {
        let found = self.pack_set()?;
        let mut fault = None;
        if let Some(midx) = &found.midx {
            match midx.locate(id).and_then(|place| resolve_midx_entry(&found.covered, place)) {
                Ok(None) => {}
                Ok(hit) => return Ok(hit),
                Err(error) => fault = Some(error),
            }
        }
        // If the multi-pack index is damaged or names a missing pack, the packs that it covers are searched one by one.
        let covered = found.covered.iter().filter(|_| fault.is_some());
        let last = self.last_hit.borrow().clone();
        let mut faults = Vec::new();
        for pack in last.iter().chain(&found.others).chain(covered) {
            match offset(pack, id) {
                Ok(Some(offset)) => {
                    self.last_hit.replace(Some(Rc::clone(pack)));
                    return Ok(Some((Rc::clone(pack), offset)));
                }
                Ok(None) => {}
                Err(error) => faults.push(error),
            }
        }
        // Errors of a pack matter only if the object may be in it.
        fault.into_iter().chain(faults).next().map_or(Ok(None), Err)
    }

    /// Calls `take` for each packed object whose id starts with a prefix, until it returns false. An object in several
    /// packs may be passed several times.
    pub(crate) fn for_each_with_prefix(&self, prefix: &Prefix, mut take: impl FnMut(ObjectId) -> bool) -> Result<()> {
        let found = self.pack_set()?;
        if let Some(midx) = &found.midx {
            midx.for_each_with_prefix(prefix, &mut take)?;
        }
        for pack in &found.others {
            if let Some(index) = pack.index()? {
                index.for_each_with_prefix(prefix, &mut take)?;
            }
        }
        Ok(())
    }

    /// Rescans the directory if its entries changed. Packs that still exist stay open.
    pub(crate) fn rescan_if_changed(&self) -> Result<()> {
        let mtime = self.mtime();
        let is_same = self.pack_set.borrow().is_some() && mtime.is_some() && mtime == self.scanned_mtime.get();
        if is_same {
            return Ok(());
        }
        self.scan()?;
        self.scanned_mtime.set(mtime);
        Ok(())
    }

    fn mtime(&self) -> Option<SystemTime> {
        std::fs::metadata(&self.directory).ok().and_then(|metadata| metadata.modified().ok())
    }

    fn scan(&self) -> Result<()> {
        let listed = files::list(&self.directory)?;
        let midx = match listed.iter().any(|file| file.name == MULTI_PACK_INDEX) {
            true => Midx::open(&self.directory.join(MULTI_PACK_INDEX), &self.cache, self.hash),
            false => Ok(None),
        };
        let midx = midx.unwrap_or_else(|error| {
            log::warn!("multi-pack index ignored: {error}");
            None
        });
        let before = self.pack_set.borrow_mut().take();
        let pack = |name: &str| {
            let stem = self.directory.join(name);
            let mut open = before.iter().flat_map(|found| found.covered.iter().chain(&found.others));
            let same = open.find(|pack| pack.stem() == stem);
            same.map_or_else(|| Rc::new(Pack::new(stem.clone(), &self.cache, self.hash)), Rc::clone)
        };
        let covered: Vec<_> = midx.iter().flat_map(Midx::packs).map(|name| pack(name)).collect();
        let known: BTreeSet<&str> = midx.iter().flat_map(Midx::packs).map(String::as_str).collect();
        let mut others: Vec<&str> = listed.iter().filter_map(|file| file.name.strip_suffix(".idx")).collect();
        others.retain(|name| !known.contains(name));
        others.sort_unstable();
        let others = others.into_iter().map(pack).collect();
        self.last_hit.replace(None);
        self.pack_set.replace(Some(Rc::new(PackSet { midx, covered, others })));
        Ok(())
    }

    fn pack_set(&self) -> Result<Rc<PackSet>> {
        if let Some(found) = self.pack_set.borrow().as_ref() {
            return Ok(Rc::clone(found));
        }
        self.scan()?;
        self.pack_set.borrow().as_ref().map(Rc::clone).ok_or(Error::NotFound)
    }
}

/// Returns the offset of an object in a pack, if the pack's file exists.
fn offset(pack: &Pack, id: &oid) -> Result<Option<u64>> {
    let Some(index) = pack.index()? else { return Ok(None) };
    let Some(offset) = index.offset(id)? else { return Ok(None) };
    Ok(pack.data()?.map(|_| offset))
}

/// Returns the pack with this number, if its file exists.
fn resolve_midx_entry(packs: &[Rc<Pack>], place: Option<(usize, u64)>) -> Result<Option<(Rc<Pack>, u64)>> {
    let Some((number, offset)) = place else { return Ok(None) };
    let Some(pack) = packs.get(number) else { return Ok(None) };
    match pack.data()? {
        Some(_) => Ok(Some((Rc::clone(pack), offset))),
        None => Err(Error::corrupt(pack.stem().display(), "the multi-pack index refers to it, but it does not exist")),
    }
}
