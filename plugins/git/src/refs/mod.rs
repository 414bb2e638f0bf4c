//! Refs: branches, tags and other names of objects.
//!
//! A ref is a file below `refs/` (loose), or else a line of `packed-refs` ([`packed`]). It points to an object or to
//! another ref. Names are validated by git's rules (`git check-ref-format`) before a file is opened, which prevents
//! path traversal. In a repository of the format `reftable`, all refs are in tables instead ([`reftable`]). Refs that
//! the plugin's config hides do not exist for any caller ([`filter`]).
//!
//! Git may change refs concurrently. Git writes a ref to `packed-refs` before it deletes the loose file, so
//! `packed-refs` is read last: a ref that is being packed is found in one of the two.

mod filter;
mod list;
mod packed;
mod reftable;
mod state;

use crate::block_cache::BlockCache;
use crate::error::{Error, Result};
use crate::files;
use crate::layout::Layout;
use bstr::{BStr, BString, ByteSlice};
pub(crate) use filter::RefFilter;
use gix_hash::{Kind, ObjectId};
pub(crate) use list::RefIter;
use packed::PackedRefs;
use reftable::Stack;
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

/// The maximum length of a chain of symbolic refs: git's limit.
const MAX_SYMBOLIC_DEPTH: usize = 5;

/// The maximum size of a loose ref's file, in bytes.
const MAX_LOOSE_SIZE: u64 = 64 * 1024;

/// Git's search order for a short name (`gitrevisions`).
const SEARCH_RULES: [(&str, &str); 6] = [
    ("", ""),
    ("refs/", ""),
    ("refs/tags/", ""),
    ("refs/heads/", ""),
    ("refs/remotes/", ""),
    ("refs/remotes/", "/HEAD"),
];

/// The refs that each worktree has separately, in addition to `HEAD` and similar names.
const PER_WORKTREE: [&str; 3] = ["refs/bisect/", "refs/worktree/", "refs/rewritten/"];

/// The names that are always files, even in a repository with reftables.
const ALWAYS_FILES: [&str; 2] = ["FETCH_HEAD", "MERGE_HEAD"];

/// The storage of refs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefStorage {
    /// One file per ref, and `packed-refs`.
    Files,
    /// In reftables.
    Reftable,
}

/// The target of a ref.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// An object.
    Object(ObjectId),
    /// Another ref.
    Symbolic(BString),
}

/// A ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The full name.
    pub(crate) name: BString,
    /// The target.
    pub(crate) target: Target,
    /// The object that the target tag points to, if known without reading the tag.
    pub(crate) peeled: Option<ObjectId>,
    /// Whether the target is known not to be a tag, because `packed-refs` records no peeled object for it.
    pub(crate) is_non_tag: bool,
}

/// A fully resolved ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The full name of the last ref in the chain.
    pub(crate) name: BString,
    /// The object.
    pub(crate) id: ObjectId,
    /// The object that the tag points to, if `id` is known to be a tag.
    pub(crate) peeled: Option<ObjectId>,
}

/// The refs of a repository. They are read on demand; the file `packed-refs` stays open until it is replaced.
pub(crate) struct Refs<'r> {
    layout: &'r Layout,
    blocks: &'r Rc<BlockCache>,
    hash: Kind,
    storage: RefStorage,
    filter: &'r RefFilter,
    packed: RefCell<Option<CachedPackedRefs>>,
    /// The last opened reftables: the repository's and the worktree's.
    stacks: RefCell<[Option<Rc<Stack>>; 2]>,
}

/// The last opened `packed-refs`.
struct CachedPackedRefs {
    stamp: Stamp,
    refs: Option<Rc<PackedRefs>>,
}

/// The version of `packed-refs`: size and modification time; `None` if the file does not exist. Git replaces the file
/// as a whole.
type Stamp = Option<(u64, Option<SystemTime>)>;

impl<'r> Refs<'r> {
    /// Creates the refs of a repository.
    pub(crate) fn new(
        layout: &'r Layout,
        blocks: &'r Rc<BlockCache>,
        hash: Kind,
        storage: RefStorage,
        filter: &'r RefFilter,
    ) -> Self {
        Self { layout, blocks, hash, storage, filter, packed: RefCell::new(None), stacks: RefCell::default() }
    }

    /// Resolves a short or full name by git's search order.
    pub(crate) fn resolve_short_name(&self, name: &BStr) -> Result<Option<Resolved>> {
        for (before, after) in SEARCH_RULES {
            let full: BString = [before.as_bytes(), name, after.as_bytes()].concat().into();
            if is_valid(full.as_ref())
                && let Some(resolved) = self.resolve(full.as_ref())?
            {
                return Ok(Some(resolved));
            }
        }
        Ok(None)
    }

    /// Resolves a ref by its full name; `None` if it, or another ref in its chain, does not exist.
    pub(crate) fn resolve(&self, name: &BStr) -> Result<Option<Resolved>> {
        let mut name = name.to_owned();
        for _ in 0..=MAX_SYMBOLIC_DEPTH {
            let Some(reference) = self.find(name.as_ref())? else { return Ok(None) };
            match reference.target {
                Target::Object(id) => return Ok(Some(Resolved { name, id, peeled: reference.peeled })),
                Target::Symbolic(next) => name = next,
            }
        }
        Err(Error::corrupt(
            format!("ref {name}"),
            format!("its chain has more than {MAX_SYMBOLIC_DEPTH} symbolic refs or a cycle"),
        ))
    }

    /// Returns the ref with a full name, unresolved; `None` if it is hidden.
    pub(crate) fn find(&self, name: &BStr) -> Result<Option<Reference>> {
        // Whether `HEAD` is served depends on its target.
        if !is_valid(name) || (name != "HEAD" && !self.filter.allows(name)) {
            return Ok(None);
        }
        let found = match self.storage {
            RefStorage::Reftable if !ALWAYS_FILES.iter().any(|file| name == file) => self.stack(name)?.find(name)?,
            _ => self.find_file(name)?,
        };
        let is_hidden_head = |found: &Reference| {
            name == "HEAD" && matches!(found.target, Target::Object(_)) && !self.filter.allows(name)
        };
        Ok(found.filter(|found| !is_hidden_head(found)))
    }

    /// Returns whether `HEAD` is hidden, or points to a hidden branch.
    pub(crate) fn hides_head(&self) -> Result<bool> {
        Ok(match self.find("HEAD".into())?.map(|head| head.target) {
            Some(Target::Symbolic(branch)) => !self.filter.allows(branch.as_ref()),
            Some(Target::Object(_)) => false,
            None => !self.filter.allows("HEAD".into()),
        })
    }

    fn find_file(&self, name: &BStr) -> Result<Option<Reference>> {
        if let Some(bytes) = self.path(name).map_or(Ok(None), |path| files::read(&path, MAX_LOOSE_SIZE))? {
            return self.parse(name, &bytes).map(Some);
        }
        self.packed()?.map_or(Ok(None), |packed| packed.find(name))
    }

    /// Calls a function with an iterator over the served refs after a name. An empty name starts at the beginning.
    pub(crate) fn with_refs_after<T>(
        &self,
        name: &BStr,
        show: impl FnOnce(&mut RefIter<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.storage == RefStorage::Reftable {
            return show(&mut RefIter::of_tables(self, self.tables_after(name)?));
        }
        let packed = self.packed()?;
        let packed = packed.as_ref().map(|packed| packed.iter_after(name)).transpose()?;
        show(&mut RefIter::of_files(self, packed, name))
    }

    /// Returns the current reftables that contain a ref.
    fn stack(&self, name: &BStr) -> Result<Rc<Stack>> {
        let directory = self.directory(name);
        let mut stacks = self.stacks.borrow_mut();
        let [of_repository, of_worktree] = &mut *stacks;
        let is_shared = directory == self.layout.common_dir;
        let stack = if is_shared { of_repository } else { of_worktree };
        if let Some(open) = stack
            && open.is_current(directory)?
        {
            return Ok(Rc::clone(open));
        }
        let opened = Stack::open(directory, self.blocks, self.hash, stack.as_deref())?;
        *stack = Some(Rc::clone(&opened));
        Ok(opened)
    }

    /// Parses the content of a loose ref.
    fn parse(&self, name: &BStr, content: &[u8]) -> Result<Reference> {
        let damaged = |fault: &dyn ToString| Error::corrupt(format!("ref {name}"), fault.to_string());
        let full = gix_ref::FullName::try_from(name).map_err(|error| damaged(&error))?;
        let reference = gix_ref::file::loose::Reference::try_from_path(full, content, self.hash)
            .map_err(|error| damaged(&error))?;
        let target = match reference.target {
            gix_ref::Target::Object(id) if id.kind() == self.hash => Target::Object(id),
            gix_ref::Target::Object(_) => return Err(damaged(&"its id has another hash kind")),
            gix_ref::Target::Symbolic(next) if is_valid(next.as_bstr()) => Target::Symbolic(next.into_inner()),
            gix_ref::Target::Symbolic(next) => {
                return Err(damaged(&format!("its target {next} is not a valid ref name")));
            }
        };
        Ok(Reference { name: name.to_owned(), target, peeled: None, is_non_tag: false })
    }

    /// Returns the current `packed-refs`.
    fn packed(&self) -> Result<Option<Rc<PackedRefs>>> {
        let metadata = fs::metadata(self.layout.common_dir.join("packed-refs")).ok();
        let stamp = metadata.map(|metadata| (metadata.len(), metadata.modified().ok()));
        if let Some(opened) = self.packed.borrow().as_ref().filter(|opened| opened.stamp == stamp) {
            return Ok(opened.refs.clone());
        }
        let refs = PackedRefs::open(&self.layout.common_dir, self.blocks, self.hash)?.map(Rc::new);
        self.packed.replace(Some(CachedPackedRefs { stamp, refs: refs.clone() }));
        Ok(refs)
    }

    /// Returns the path of a ref's file, if its name is a valid file name.
    fn path(&self, name: &BStr) -> Option<PathBuf> {
        Some(self.directory(name).join(name.to_str().ok()?))
    }

    fn directory(&self, name: &BStr) -> &Path {
        let shared = name.starts_with_str("refs/") && !PER_WORKTREE.iter().any(|prefix| name.starts_with_str(prefix));
        if shared { &self.layout.common_dir } else { &self.layout.git_dir }
    }
}

/// Returns whether a name is a valid full ref name: below `refs/`, or one like `HEAD`.
pub(crate) fn is_valid(name: &BStr) -> bool {
    let upper = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'_';
    (name.starts_with_str("refs/") || name.iter().all(upper)) && gix_validate::reference::name(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1234567890123456789012345678901234567890";

    struct Fixture {
        dir: tempfile::TempDir,
        layout: Layout,
        blocks: Rc<BlockCache>,
        filter: RefFilter,
    }

    fn fixture(files: &[(&str, &str)]) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let layout = Layout { git_dir: dir.path().to_owned(), common_dir: dir.path().to_owned() };
        Fixture { dir, layout, blocks: BlockCache::new(), filter: RefFilter::default() }
    }

    impl Fixture {
        fn refs(&self) -> Refs<'_> {
            Refs::new(&self.layout, &self.blocks, Kind::Sha1, RefStorage::Files, &self.filter)
        }

        fn name_of(&self, short: &str) -> Option<String> {
            self.refs().resolve_short_name(short.into()).unwrap().map(|resolved| resolved.name.to_string())
        }
    }

    #[test]
    fn a_ref_that_is_packed_between_two_looks_is_found_where_it_is_then() {
        let other = ID.replace('1', "9");
        let fixture = fixture(&[("refs/heads/a", ID), ("packed-refs", &format!("{other} refs/heads/a\n"))]);
        let refs = fixture.refs();
        let id = || refs.find("refs/heads/a".into()).unwrap().map(|found| found.target);
        let is = |id: &str| Some(Target::Object(ObjectId::from_hex(id.as_bytes()).unwrap()));
        refs.digest().unwrap();
        assert_eq!(id(), is(ID));
        // Like `git pack-refs`: first the new file replaces the old one, then the loose ref is deleted.
        fs::write(fixture.dir.path().join("aside"), format!("# pack-refs with: sorted \n{ID} refs/heads/a\n")).unwrap();
        fs::rename(fixture.dir.path().join("aside"), fixture.dir.path().join("packed-refs")).unwrap();
        fs::remove_file(fixture.dir.path().join("refs/heads/a")).unwrap();
        assert_eq!(id(), is(ID));
        let names =
            refs.with_refs_after("".into(), |all| Ok(all.map(|found| found.name.to_string()).collect::<Vec<_>>()));
        assert_eq!(names.unwrap(), ["refs/heads/a"]);
        fs::remove_file(fixture.dir.path().join("packed-refs")).unwrap();
        assert_eq!(id(), None);
    }

    #[test]
    fn a_name_is_looked_for_in_the_order_that_git_has() {
        let all = ["refs/x", "refs/tags/x", "refs/heads/x", "refs/remotes/x", "refs/remotes/x/HEAD"];
        let fixture = fixture(&[]);
        for name in all.iter().rev() {
            let path = fixture.dir.path().join(name);
            // After the first round, the file's path is a directory.
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, ID).unwrap();
            assert_eq!(fixture.name_of("x").as_deref(), Some(*name));
        }
    }

    #[test]
    fn a_name_that_escapes_is_no_ref_and_its_file_is_not_looked_for() {
        let fixture = fixture(&[("HEAD", ID), ("config", ID), ("objects/x", ID), ("refs/heads/ok", ID)]);
        for name in
            ["config", "objects/x", "../x", "refs/../config", "refs/heads/../../config", "heads/ok/", "/", "", "a\0b"]
        {
            assert_eq!(fixture.name_of(name), None, "{name:?}");
        }
        assert_eq!(fixture.name_of("HEAD").as_deref(), Some("HEAD"));
        assert_eq!(fixture.name_of("heads/ok").as_deref(), Some("refs/heads/ok"));
    }

    #[test]
    fn refs_that_lead_out_of_the_repository_are_damage() {
        for target in ["../../etc/passwd", "refs/../config", "config", "/etc/passwd"] {
            let fixture = fixture(&[("HEAD", &format!("ref: {target}\n")), ("config", ID)]);
            assert!(matches!(fixture.refs().resolve("HEAD".into()), Err(Error::Corrupt { .. })), "{target}");
        }
    }

    #[test]
    fn refs_that_lead_in_a_circle_are_damage_and_five_steps_are_fine() {
        let circle = fixture(&[("HEAD", "ref: refs/heads/a"), ("refs/heads/a", "ref: HEAD")]);
        assert!(matches!(circle.refs().resolve("HEAD".into()), Err(Error::Corrupt { .. })));
        let steps: Vec<_> = (0..6).map(|n| (format!("refs/s/{n}"), format!("ref: refs/s/{}", n + 1))).collect();
        let mut files: Vec<_> = steps.iter().map(|(path, target)| (path.as_str(), target.as_str())).collect();
        files.push(("refs/s/6", ID));
        let steps = fixture(&files);
        assert!(steps.refs().resolve("refs/s/1".into()).unwrap().is_some());
        assert!(steps.refs().resolve("refs/s/0".into()).is_err());
    }

    #[test]
    fn a_branch_that_is_not_born_yet_comes_to_nothing() {
        let fixture = fixture(&[("HEAD", "ref: refs/heads/main\n")]);
        assert_eq!(fixture.refs().resolve("HEAD".into()).unwrap(), None);
    }

    #[test]
    fn garbage_in_a_ref_is_damage() {
        for garbage in ["", "\n", "12345\n", "not a ref\n", "ref:\n", "ref: \n"] {
            let fixture = fixture(&[("refs/heads/a", garbage)]);
            assert!(matches!(fixture.refs().find("refs/heads/a".into()), Err(Error::Corrupt { .. })), "{garbage:?}");
        }
        let long = format!("{ID}{ID}");
        assert!(fixture(&[("refs/heads/a", &long)]).refs().find("refs/heads/a".into()).is_err());
    }

    #[test]
    fn a_loose_ref_hides_the_packed_one() {
        let other = ID.replace('1', "2");
        let packed = format!("# pack-refs with: sorted \n{other} refs/heads/a\n{other} refs/heads/b\n");
        let fixture = fixture(&[("packed-refs", &packed), ("refs/heads/a", ID)]);
        let id = |name: &str| fixture.refs().resolve_short_name(name.into()).unwrap().unwrap().id.to_string();
        assert_eq!((id("a"), id("b")), (ID.to_owned(), other));
    }
}
