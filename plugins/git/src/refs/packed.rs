//! Packed refs: the file `packed-refs`.
//!
//! The file may contain hundreds of thousands of refs. Its header declares that it is sorted by name, so a ref is found
//! by binary search. A file without this declaration (git before 2012) is read from the start, and may have at most
//! [`MAX_UNSORTED`] bytes. Iteration starts after any name, in the order of the file.

use crate::block_cache::{BlockCache, BlockFile, Reader};
use crate::error::{Error, Result};
use crate::refs::{Reference, Target, is_valid};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::{Kind, ObjectId};
use std::cmp::Ordering;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::rc::Rc;

/// The maximum length of a line in bytes: an id and a name. Git limits a name to the length of a path.
const MAX_LINE: u64 = 8 * 1024;

/// The maximum size of an unsorted file in bytes. Every lookup reads the whole file.
const MAX_UNSORTED: u64 = 4 * 1024 * 1024;

/// The file `packed-refs`.
pub(crate) struct PackedRefs {
    file: BlockFile,
    hash: Kind,
    /// The offset of the first ref, after the header.
    start: u64,
    sorted: bool,
    /// Whether the peeled object is recorded for every ref that points to a tag.
    fully_peeled: bool,
}

impl PackedRefs {
    /// Opens the file in a directory; `None` if it does not exist.
    pub(crate) fn open(common_dir: &Path, cache: &Rc<BlockCache>, hash: Kind) -> Result<Option<Self>> {
        let Some(file) = BlockFile::open(&common_dir.join("packed-refs"), cache)? else { return Ok(None) };
        let mut packed = Self { file, hash, start: 0, sorted: false, fully_peeled: false };
        let header = packed.line(0)?;
        if header.starts_with(b"#") {
            packed.start = header.len() as u64;
            let declares = |trait_: &[u8]| header.trim_end().split_str(" ").any(|word| word == trait_);
            (packed.sorted, packed.fully_peeled) = (declares(b"sorted"), declares(b"fully-peeled"));
        }
        if !packed.sorted && packed.file.size() > MAX_UNSORTED {
            return Err(Error::Unsupported(format!(
                "{} is unsorted and has {} bytes, expected at most {MAX_UNSORTED}; rewrite it with \
                 `git pack-refs --all`",
                packed.file.path().display(),
                packed.file.size()
            )));
        }
        Ok(Some(packed))
    }

    /// Returns the ref with a name.
    pub(crate) fn find(&self, name: &BStr) -> Result<Option<Reference>> {
        let mut at = if self.sorted { self.lower_bound(name)? } else { self.start };
        while at < self.file.size() {
            let line = self.line(at)?;
            at = at.saturating_add(line.len() as u64);
            match name_of(&line).map(|found| found.cmp(name)) {
                Some(Ordering::Equal) => return self.parse(line.as_ref(), self.line(at)?.as_ref()).map(Some),
                Some(Ordering::Greater) if self.sorted => break,
                _ => {}
            }
        }
        Ok(None)
    }

    /// Iterates over all refs, in the order of the file. A damaged ref is an error item, and iteration continues after
    /// it.
    pub(crate) fn iter(&self) -> PackedIter<'_> {
        self.iter_from(self.start)
    }

    /// Iterates over the refs after a name, sorted by name.
    pub(crate) fn iter_after(&self, name: &BStr) -> Result<PackedIter<'_>> {
        if !self.sorted {
            let mut refs: Vec<Reference> =
                self.iter().filter_map(Result::ok).filter(|found| *found.name > *name).collect();
            refs.sort_unstable_by(|one, other| other.name.cmp(&one.name));
            return Ok(PackedIter { unsorted: refs, ..self.iter_from(self.file.size()) });
        }
        let mut iter = self.iter_from(self.lower_bound(name)?);
        iter.skip_past(name);
        Ok(iter)
    }

    fn iter_from(&self, at: u64) -> PackedIter<'_> {
        PackedIter { refs: self, reader: self.file.reader(at), lookahead: BString::default(), unsorted: Vec::new() }
    }

    /// Returns a reader of the whole file.
    pub(crate) fn bytes(&self) -> impl BufRead + '_ {
        self.file.reader(0)
    }

    /// Returns the offset of a line. All lines before it have lesser names.
    fn lower_bound(&self, name: &BStr) -> Result<u64> {
        let (mut start, mut end) = (self.start, self.file.size());
        // The search runs over lines, but positions are bytes: both bounds are always starts of lines.
        while start < end {
            let line_start = self.line_start(start.midpoint(end), start)?;
            let line = self.line(line_start)?;
            let next = line_start.saturating_add(line.len() as u64);
            match name_of(&line) {
                Some(found) if found < name => start = next,
                Some(_) => end = line_start,
                // A line with a peeled id belongs to the previous line.
                None if line_start > start => {
                    let before = self.line_start(line_start.saturating_sub(1), start)?;
                    match name_of(&self.line(before)?) {
                        Some(found) if found < name => start = next,
                        _ => end = before,
                    }
                }
                None => start = next,
            }
        }
        Ok(start)
    }

    /// Returns the start of the line that contains `at`, not before `min`.
    fn line_start(&self, at: u64, min: u64) -> Result<u64> {
        let from = at.saturating_sub(MAX_LINE).max(min);
        let mut before = vec![0; usize::try_from(at.saturating_sub(from)).unwrap_or_default()];
        self.file.read_exact(from, &mut before)?;
        match before.rfind_byte(b'\n') {
            Some(newline) => Ok(from.saturating_add(newline as u64).saturating_add(1)),
            None if from == min => Ok(min),
            None => Err(self.too_long()),
        }
    }

    /// Reads the line at `at`, with its newline; empty at the end of the file.
    fn line(&self, at: u64) -> Result<BString> {
        let mut line = Vec::new();
        let read = self.file.reader(at).take(MAX_LINE).read_until(b'\n', &mut line);
        read.map_err(|error| self.io(error))?;
        if line.len() as u64 == MAX_LINE {
            return Err(self.too_long());
        }
        Ok(line.into())
    }

    /// Parses the ref in a line, and its peeled id in the next line, if present.
    fn parse(&self, line: &BStr, after: &BStr) -> Result<Reference> {
        let damaged = || self.file.corrupt(format!("expected a ref, found {:?}", line.trim_end().as_bstr()));
        let name = name_of(line).filter(|name| is_valid(name)).ok_or_else(damaged)?;
        let id = line.split_once_str(" ").and_then(|(id, _)| self.id(id)).ok_or_else(damaged)?;
        let peeled = match after.strip_prefix(b"^") {
            Some(peeled) => Some(self.id(peeled.trim_end()).ok_or_else(damaged)?),
            None => None,
        };
        let is_no_tag = self.fully_peeled && peeled.is_none();
        Ok(Reference { name: name.to_owned(), target: Target::Object(id), peeled, is_non_tag: is_no_tag })
    }

    fn id(&self, hex: &[u8]) -> Option<ObjectId> {
        ObjectId::from_hex(hex).ok().filter(|id| id.kind() == self.hash)
    }

    fn too_long(&self) -> Error {
        self.file.corrupt(format!("a line is longer than {MAX_LINE} bytes"))
    }

    fn io(&self, error: io::Error) -> Error {
        Error::io(self.file.path(), error)
    }
}

/// An iterator over the refs of the file.
pub(crate) struct PackedIter<'p> {
    refs: &'p PackedRefs,
    reader: Reader<'p>,
    /// The line that was read but not consumed.
    lookahead: BString,
    /// The refs of an unsorted file, in reverse order.
    unsorted: Vec<Reference>,
}

impl PackedIter<'_> {
    /// Skips the refs up to and including the one with this name.
    fn skip_past(&mut self, name: &BStr) {
        while let Ok(line) = self.line()
            && !line.is_empty()
        {
            if name_of(&line).is_some_and(|found| found > name) {
                self.lookahead = line;
                break;
            }
        }
    }

    /// Reads the next line; empty at the end of the file.
    fn line(&mut self) -> Result<BString> {
        if !self.lookahead.is_empty() {
            return Ok(std::mem::take(&mut self.lookahead));
        }
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        read.map_err(|error| self.refs.io(error))?;
        if line.len() as u64 == MAX_LINE {
            return Err(self.refs.too_long());
        }
        Ok(line.into())
    }

    /// Ends the iteration.
    fn end(&mut self) {
        self.reader = self.refs.file.reader(self.refs.file.size());
    }
}

impl Iterator for PackedIter<'_> {
    type Item = Result<Reference>;

    fn next(&mut self) -> Option<Result<Reference>> {
        if let Some(reference) = self.unsorted.pop() {
            return Some(Ok(reference));
        }
        loop {
            let read = self.line().and_then(|line| {
                // A line with a peeled id was consumed with its ref, or belongs to a skipped ref.
                if line.is_empty() || line.starts_with(b"^") || line.trim().is_empty() {
                    return Ok((line, BString::default()));
                }
                let after = self.line()?;
                Ok((line, after))
            });
            let (line, after) = match read {
                Ok((line, _)) if line.is_empty() => return None,
                Ok(read) => read,
                Err(error) => {
                    self.end();
                    return Some(Err(error));
                }
            };
            if line.starts_with(b"^") || line.trim().is_empty() {
                continue;
            }
            let reference = self.refs.parse(line.as_ref(), after.as_ref());
            if !after.starts_with(b"^") {
                self.lookahead = after;
            }
            return Some(reference);
        }
    }
}

/// Returns the name in a line `ID NAME`.
fn name_of(line: &[u8]) -> Option<&BStr> {
    let line = line.trim_end_with(|c| c == '\n' || c == '\r');
    line.split_once_str(" ").filter(|_| !line.starts_with(b"^")).map(|(_, name)| name.as_bstr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(content: &str) -> (tempfile::TempDir, PackedRefs) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("packed-refs"), content).unwrap();
        let packed = PackedRefs::open(dir.path(), &BlockCache::new(), Kind::Sha1).unwrap().unwrap();
        (dir, packed)
    }

    fn id(n: usize) -> String {
        format!("{n:040x}")
    }

    fn many(sorted: &str) -> String {
        let mut content = format!("# pack-refs with: peeled fully-peeled {sorted}\n");
        for n in 0..3000 {
            content += &format!("{} refs/tags/v{n:05}\n", id(n));
            if n % 3 == 0 {
                content += &format!("^{}\n", id(n + 100_000));
            }
        }
        content
    }

    #[test]
    fn every_ref_is_found_sorted_or_not() {
        for sorted in ["sorted ", ""] {
            let (_dir, packed) = packed(&many(sorted));
            assert_eq!(packed.sorted, !sorted.is_empty());
            for n in (0..3000).step_by(if sorted.is_empty() { 500 } else { 1 }) {
                let found = packed.find(format!("refs/tags/v{n:05}").as_str().into()).unwrap().unwrap();
                assert_eq!(found.target, Target::Object(ObjectId::from_hex(id(n).as_bytes()).unwrap()));
                assert_eq!(found.peeled.map(|id| id.to_string()), (n % 3 == 0).then(|| id(n + 100_000)));
            }
            for absent in ["refs/heads/a", "refs/tags/v", "refs/tags/v00000a", "refs/tags/v02999a", "refs/zzz"] {
                assert_eq!(packed.find(absent.into()).unwrap(), None, "{absent}");
            }
        }
    }

    #[test]
    fn looking_one_up_reads_a_few_blocks_and_listing_reads_all() {
        let cache = BlockCache::new();
        let dir = tempfile::tempdir().unwrap();
        let mut content = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
        (0..50_000).for_each(|n| content += &format!("{} refs/heads/b{n:06}\n", id(n)));
        std::fs::write(dir.path().join("packed-refs"), &content).unwrap();
        let packed = PackedRefs::open(dir.path(), &cache, Kind::Sha1).unwrap().unwrap();
        assert!(packed.find("refs/heads/b031415".into()).unwrap().is_some());
        assert!(cache.bytes_read() < content.len() as u64 / 10, "{} of {}", cache.bytes_read(), content.len());
        let behind: Vec<_> =
            packed.iter_after("refs/heads/b031415".into()).unwrap().take(100).map(Result::unwrap).collect();
        assert_eq!((behind.len(), behind[0].name.to_str().unwrap()), (100, "refs/heads/b031416"));
        assert!(behind.iter().all(|found| found.is_non_tag));
        assert!(cache.bytes_read() < content.len() as u64 / 10, "{} of {}", cache.bytes_read(), content.len());
        assert_eq!(packed.iter().filter(Result::is_ok).count(), 50_000);
    }

    #[test]
    fn a_damaged_line_does_not_hide_those_after_it() {
        let content = format!("{} refs/heads/a\nnonsense\n{} refs/heads/b\n", id(1), id(2));
        let (_dir, packed) = packed(&content);
        let found: Vec<_> = packed.iter().map(|found| found.ok().map(|found| found.name.to_string())).collect();
        assert_eq!(found, [Some("refs/heads/a".to_owned()), None, Some("refs/heads/b".to_owned())]);
        assert!(packed.find("refs/heads/b".into()).unwrap().is_some());
    }

    #[test]
    fn an_empty_file_and_a_last_line_without_an_end_are_fine() {
        assert_eq!(packed("").1.find("refs/heads/a".into()).unwrap(), None);
        let (_dir, packed) = packed(&format!("{} refs/heads/a", id(1)));
        assert!(packed.find("refs/heads/a".into()).unwrap().is_some());
    }

    #[test]
    fn a_line_without_end_is_damage_and_not_read_on() {
        let (_dir, packed) = packed(&format!("# pack-refs with: sorted \n{}", "x".repeat(100_000)));
        assert!(matches!(packed.find("refs/heads/a".into()), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_large_file_that_is_not_sorted_is_refused_with_what_helps() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("packed-refs"), format!("{} refs/heads/a\n", id(1)).repeat(100_000)).unwrap();
        let Err(error) = PackedRefs::open(dir.path(), &BlockCache::new(), Kind::Sha1) else { panic!() };
        assert!(error.to_string().contains("git pack-refs --all"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn whatever_stands_in_the_file_it_never_panics(
            content in "[ \\^a-f0-9refs/\n#]{0,400}",
            sorted in proptest::bool::ANY,
        ) {
            let header = if sorted { "# pack-refs with: sorted \n" } else { "" };
            let (_dir, packed) = packed(&format!("{header}{content}"));
            let _ = packed.find("refs/heads/a".into());
            packed.iter().for_each(drop);
            packed.iter_after("refs/e".into()).into_iter().flatten().for_each(drop);
        }
    }
}
