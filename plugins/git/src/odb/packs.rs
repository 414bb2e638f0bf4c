//! The packs of one directory of objects, and which of them has an object.
//!
//! The multi-pack index is asked first, where there is one; then the index of each pack that it does not cover, the
//! pack that had the last object before the others. A repository may be repacked while it is served: what is not found
//! is looked for again after [`Packs::rescan_if_changed`], which looks into the directory only if that has changed: what a partial
//! clone lacks is asked for over and over.

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

/// The packs of one directory of objects.
pub(crate) struct Packs {
    directory: PathBuf,
    hash: Kind,
    cache: Rc<BlockCache>,
    pack_set: RefCell<Option<Rc<PackSet>>>,
    last_hit: RefCell<Option<Rc<Pack>>>,
    /// When the directory had changed last, as it was scanned.
    scanned_mtime: Cell<Option<SystemTime>>,
}

/// What a scan of the directory found.
struct PackSet {
    midx: Option<Midx>,
    /// The packs that the multi-pack index covers, in its order.
    covered: Vec<Rc<Pack>>,
    /// The others.
    others: Vec<Rc<Pack>>,
}

impl Packs {
    /// The packs of a directory, which is scanned when they are first needed.
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

    /// The pack that has an object, and the object's offset in it.
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
        // A multi-pack index that is damaged, or tells of a pack that is gone, hides none of its packs.
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
        // What is wrong with one pack matters only if the object may be in that one.
        fault.into_iter().chain(faults).next().map_or(Ok(None), Err)
    }

    /// The packed objects whose ids begin with a prefix, until `take` has had enough and returns false. An object that
    /// is in several packs may come several times.
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

    /// Looks into the directory again, if something came or went there. The packs that are still there stay open.
    pub(crate) fn rescan_if_changed(&self) -> Result<()> {
        let before = self.scanned_mtime.get();
        let is_same = self.pack_set.borrow().is_some() && before.is_some() && before == self.mtime();
        if is_same { Ok(()) } else { self.scan() }
    }

    fn mtime(&self) -> Option<SystemTime> {
        std::fs::metadata(&self.directory).ok().and_then(|metadata| metadata.modified().ok())
    }

    fn scan(&self) -> Result<()> {
        self.scanned_mtime.set(self.mtime());
        let listed = files::list(&self.directory)?;
        let midx =
            Midx::open(&self.directory.join("multi-pack-index"), &self.cache, self.hash).unwrap_or_else(|error| {
                log::warn!("the multi-pack index is not used: {error}");
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

/// The offset of an object in a pack, when its file is there.
fn offset(pack: &Pack, id: &oid) -> Result<Option<u64>> {
    let Some(index) = pack.index()? else { return Ok(None) };
    let Some(offset) = index.offset(id)? else { return Ok(None) };
    Ok(pack.data()?.map(|_| offset))
}

/// The pack of this number, when its file is there.
fn resolve_midx_entry(packs: &[Rc<Pack>], place: Option<(usize, u64)>) -> Result<Option<(Rc<Pack>, u64)>> {
    let Some((number, offset)) = place else { return Ok(None) };
    let Some(pack) = packs.get(number) else { return Ok(None) };
    match pack.data()? {
        Some(_) => Ok(Some((Rc::clone(pack), offset))),
        None => Err(Error::corrupt(pack.stem().display(), "the multi-pack index tells of it, and it is not there")),
    }
}
