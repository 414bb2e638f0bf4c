//! Incremental compilation: reuses compiled functions of a component file's previous version, or of other components.
//!
//! A provider under development is compiled after each edit, and most of its functions are unchanged: an interpreter, a
//! standard library. Cranelift looks up each function by a hash of its input, and compiles the functions that are
//! missing. A component file that is compiled for the first time gets the functions of other component files, because
//! they may have the same interpreter.
//!
//! The functions are machine code, written by a compiler that a hostile component may have taken over: nobody verifies
//! that the code of a function was compiled from the input with its hash. So who uses a function trusts the component
//! that it was compiled for. Functions are used only if the host enables it, as `mcp-host dev` does, and not for
//! components that are pinned. All other component files that such hosts compile share functions, if they have the same
//! secret of the cache: they belong to one user, and the code of each runs in a process of this user that has the
//! secret. Components that are compiled by other hosts have no part in this.
//!
//! There is a file of functions for each component file, in the private directory of the cache. It ends with a tag
//! (HMAC-SHA256) under a key for this engine, which all these files have in common. A file that is damaged or has
//! another tag is not used.
//!
//! The child opens the files before it confines itself. It reads the functions of the component file's last compilation
//! as a whole. If there are none, it reads those of at most [`MAX_OTHERS`] other component files: the last written ones
//! whose size is [comparable](FunctionFiles::others), so that reading them takes a small part of the time of the
//! compilation. When the component is compiled, the child writes the component's functions, known and new ones, to a
//! second file, which the host then renames.
//!
//! Bounds: [`MAX_SIZE`] for a file. Opening a cache removes files that no compilation has written for [`MAX_AGE`], and
//! then the oldest ones beyond [`MAX_FILES`] and [`MAX_TOTAL_SIZE`].

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hmac::Mac;
use mcp_host_base::private_dir;
use parking_lot::Mutex;
use wasmtime::CacheStore;

use crate::code_key::CodeKey;

/// The environment variables of the child: the two files, the key of their tags, and the size of the component.
const FROM_ENV_VAR: &str = "MCP_HOST_COMPILER_FUNCTIONS";
const INTO_ENV_VAR: &str = "MCP_HOST_COMPILER_FUNCTIONS_NEXT";
const KEY_ENV_VAR: &str = "MCP_HOST_COMPILER_FUNCTIONS_KEY";
const SIZE_ENV_VAR: &str = "MCP_HOST_COMPILER_COMPONENT_SIZE";

/// The suffix of the files' names.
pub(crate) const ENDING: &str = ".functions";
/// The time after which an unused file is removed.
pub(crate) const MAX_AGE: Duration = Duration::from_hours(14 * 24);
/// The maximum size of a file in bytes. The file of a provider with CPython has 28 MB.
const MAX_SIZE: u64 = 512 << 20;
/// The maximum number of files that are left when a cache is opened.
pub(crate) const MAX_FILES: usize = 256;
/// The maximum size of the files that are left when a cache is opened, in bytes, together.
pub(crate) const MAX_TOTAL_SIZE: u64 = 1 << 30;
/// The maximum number of other component files whose functions are read.
const MAX_OTHERS: usize = 2;
/// The maximum size of each of them in bytes.
const MAX_OTHER_SIZE: u64 = 128 << 20;
/// The length of a tag in bytes.
const TAG_LEN: usize = 32;

/// The files of the functions of one component file.
#[derive(Clone)]
pub(crate) struct FunctionFiles {
    /// The file that the last compilation has written. Its name is `COMPONENT-ENGINE`: the files of other component
    /// files, for the same engine and with the same key, differ in the part before the first `-` only.
    pub(crate) from: PathBuf,
    /// The file that this compilation writes.
    pub(crate) into: PathBuf,
    /// The key of all files for this engine.
    pub(crate) key: CodeKey,
    /// The size of the component in bytes.
    pub(crate) component_size: u64,
}

impl FunctionFiles {
    /// Returns the environment variables of the child.
    pub(super) fn variables(&self) -> [(&'static str, OsString); 4] {
        let Self { from, into, key, component_size } = self;
        [
            (FROM_ENV_VAR, from.into()),
            (INTO_ENV_VAR, into.into()),
            (KEY_ENV_VAR, key.to_text().into()),
            (SIZE_ENV_VAR, component_size.to_string().into()),
        ]
    }

    /// Reads the environment variables of this process.
    pub(super) fn from_variables() -> Option<Self> {
        Self::parse(std::env::var_os)
    }

    fn parse(variable: impl Fn(&'static str) -> Option<OsString>) -> Option<Self> {
        let text = |name| variable(name)?.into_string().ok();
        Some(Self {
            from: variable(FROM_ENV_VAR)?.into(),
            into: variable(INTO_ENV_VAR)?.into(),
            key: CodeKey::from_text(&text(KEY_ENV_VAR)?)?,
            component_size: text(SIZE_ENV_VAR)?.parse().ok()?,
        })
    }

    /// Returns the files of other component files to read, the last written one first.
    ///
    /// They have from a quarter of the size of the component to eight times that, and at most [`MAX_OTHER_SIZE`],
    /// because the compiler has all of them in memory. A file is as large as its component if that has CPython, and 2.4
    /// to 3.5 times as large if it is in JavaScript or Rust. The components of files beyond these bounds hardly have
    /// functions in common with this one, and reading the functions of a large component would take longer than
    /// compiling a small one.
    fn others(&self) -> Vec<PathBuf> {
        let name = self.from.file_name().and_then(OsStr::to_str);
        let engine = name.and_then(|name| name.split_once('-')).map(|(_, engine)| engine);
        let Some((dir, engine)) = self.from.parent().zip(engine) else { return Vec::new() };
        let comparable = self.component_size / 4..=self.component_size.saturating_mul(8).min(MAX_OTHER_SIZE);
        // Without the directory, all functions are compiled.
        let files = newest_first(dir, engine).unwrap_or_default().into_iter();
        let files = files.filter(|file| file.path != self.from && comparable.contains(&file.size));
        files.take(MAX_OTHERS).map(|file| file.path).collect()
    }

    /// Replaces the functions of the last compilation with the functions of this one.
    pub(crate) fn keep(&self) -> io::Result<()> {
        match std::fs::rename(&self.into, &self.from) {
            // The functions were too large, or the disk was full.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        }
    }
}

/// A file of functions in the directory of a cache.
struct StoredFile {
    path: PathBuf,
    size: u64,
    modified: SystemTime,
}

/// Returns the files of a directory whose names end with this text, the last written one first.
fn newest_first(dir: &Path, ending: &str) -> io::Result<Vec<StoredFile>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(|name| name.ends_with(ending)) {
            continue;
        }
        // Another process may rename or remove it at the same time.
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            files.push(StoredFile { path: entry.path(), size: metadata.len(), modified: metadata.modified()? });
        }
    }
    files.sort_by_key(|file| Reverse(file.modified));
    Ok(files)
}

/// Removes the files that were written first, so that at most `max_files` are left, which have at most `max_size` bytes
/// together. Returns the number of removed files.
pub(crate) fn remove_excess(dir: &Path, max_files: usize, max_size: u64) -> io::Result<usize> {
    let (mut size, mut removed) = (0_u64, 0_usize);
    for (newer, file) in newest_first(dir, ENDING)?.into_iter().enumerate() {
        size = size.saturating_add(file.size);
        // A compiler that has opened the file keeps it, and another process may have removed it.
        if (newer >= max_files || size > max_size) && std::fs::remove_file(file.path).is_ok() {
            removed = removed.saturating_add(1);
        }
    }
    Ok(removed)
}

/// The functions of earlier compilations and of this one.
pub(super) struct Functions {
    known: Arc<KnownFunctions>,
    into: File,
    key: CodeKey,
}

impl Functions {
    /// Reads the known functions, and opens the file for the functions of this compilation. Fails if that cannot be
    /// written.
    pub(super) fn open(files: FunctionFiles) -> io::Result<Self> {
        let known = KnownFunctions::find(&files);
        let FunctionFiles { into, key, .. } = files;
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        Ok(Self { known: Arc::new(known), into: options.open(into)?, key })
    }

    /// Returns the store in which the compiler looks up functions.
    pub(super) fn store(&self) -> Arc<dyn CacheStore> {
        self.known.clone()
    }

    /// Writes the functions of the compiled component.
    pub(super) fn write(mut self) -> io::Result<()> {
        let entries = self.known.used.lock().encode(&self.known.functions).map_err(io::Error::other)?;
        let mut mac = private_dir::mac(self.key.bytes());
        mac.update(&entries);
        self.into.write_all(&entries)?;
        self.into.write_all(&mac.finalize().into_bytes())
    }
}

/// Compiled functions by their key, which is the hash of the input.
type FunctionsByKey = HashMap<Vec<u8>, Vec<u8>>;

/// The functions of earlier compilations.
#[derive(Debug)]
struct KnownFunctions {
    functions: FunctionsByKey,
    used: Mutex<Used>,
}

/// The functions of the component that is being compiled.
#[derive(Debug, Default)]
struct Used {
    /// The keys of reused functions.
    known: HashSet<Vec<u8>>,
    new: FunctionsByKey,
}

impl Used {
    fn encode(&self, functions: &FunctionsByKey) -> postcard::Result<Vec<u8>> {
        let known = self.known.iter().filter_map(|key| functions.get_key_value(key));
        postcard::to_allocvec(&known.chain(&self.new).collect::<HashMap<_, _>>())
    }
}

impl KnownFunctions {
    /// Reads the functions of the component file's last compilation, or, if there are none, of other component files.
    fn find(files: &FunctionFiles) -> Self {
        let functions = Self::read(&files.from, &files.key).unwrap_or_else(|_| {
            // Another process may replace or remove a file at the same time.
            let others = files.others().into_iter().filter_map(|other| Self::read(&other, &files.key).ok());
            others.flatten().collect()
        });
        Self { functions, used: Mutex::default() }
    }

    /// Reads a file, and verifies its tag.
    fn read(path: &Path, key: &CodeKey) -> io::Result<FunctionsByKey> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "it is not what this host has written");
        let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        let mut bytes = Vec::new();
        file.take(MAX_SIZE.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_SIZE {
            return Err(invalid());
        }
        let (entries, tag) = bytes.split_last_chunk::<TAG_LEN>().ok_or_else(invalid)?;
        let mut mac = private_dir::mac(key.bytes());
        mac.update(entries);
        mac.verify_slice(tag).map_err(|_| invalid())?;
        postcard::from_bytes(entries).map_err(|_| invalid())
    }
}

impl CacheStore for KnownFunctions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let value = self.functions.get(key)?;
        self.used.lock().known.insert(key.to_vec());
        Some(Cow::Borrowed(value))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        self.used.lock().new.insert(key.to_vec(), value);
        true
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_model::digest::Digest;

    use super::*;
    use crate::compiler;
    use crate::config::Codegen;

    const KEY: [u8; 32] = [7; 32];

    /// A core module with an instance of it.
    const INTERPRETER: &str = r#"
        (core module $interpreter
            (func (export "step") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 3)))
            (func (export "run") (loop (br 0))))
        (core instance (instantiate $interpreter))"#;
    /// Another one.
    const OWN: &str = r#"
        (core module $own
            (func (export "mask") (param i64) (result i64) (i64.xor (local.get 0) (i64.const 5))))
        (core instance (instantiate $own))"#;

    /// The files of this component file, whose component has 100 bytes.
    fn files(dir: &Path, component: &str) -> FunctionFiles {
        FunctionFiles {
            from: dir.join(format!("{component}-1.functions")),
            into: dir.join(format!("{component}-1.next.functions")),
            key: CodeKey::from_bytes(KEY),
            component_size: 100,
        }
    }

    fn set_age(file: &Path, seconds: u64) {
        let file = File::options().write(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    /// Compiles a component that has functions with these keys, of one byte each, and returns the keys of those that
    /// are reused.
    fn compile(files: &FunctionFiles, keys: &[u8]) -> Vec<u8> {
        let functions = Functions::open(files.clone()).unwrap();
        let (known, new): (Vec<u8>, Vec<u8>) = keys.iter().copied().partition(|&key| get(&functions, &[key]).is_some());
        for key in new {
            functions.known.insert(&[key], b"code".to_vec());
        }
        functions.write().unwrap();
        files.keep().unwrap();
        known
    }

    /// Compiles a component, and returns its code, and how many functions are reused and new.
    fn compile_component(files: &FunctionFiles, content: &str) -> (Vec<u8>, usize, usize) {
        let component = wat::parse_str(format!("(component {content})")).unwrap();
        let functions = Functions::open(files.clone()).unwrap();
        let digest = Digest::compute(&component);
        let compiled = compiler::compile(component.as_slice(), digest, Codegen::Optimized, Some(&functions));
        let (code, _) = compiled.unwrap();
        let (reused, new) = {
            let used = functions.known.used.lock();
            (used.known.len(), used.new.len())
        };
        functions.write().unwrap();
        files.keep().unwrap();
        (code, reused, new)
    }

    fn get(functions: &Functions, key: &[u8]) -> Option<Vec<u8>> {
        functions.known.get(key).map(Cow::into_owned)
    }

    #[test]
    fn the_functions_of_a_component_are_those_of_the_next_compilation_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path(), "a");
        let first = Functions::open(files.clone()).unwrap();
        assert_eq!(get(&first, b"a"), None);
        for (key, value) in [(b"a", &b"code of a"[..]), (b"b", b""), (b"c", b"code of c")] {
            first.known.insert(key, value.to_vec());
        }
        first.write().unwrap();
        files.keep().unwrap();

        let second = Functions::open(files.clone()).unwrap();
        assert_eq!(get(&second, b"a").as_deref(), Some(&b"code of a"[..]));
        assert_eq!(get(&second, b"b").as_deref(), Some(&b""[..]));
        second.known.insert(b"d", b"code of d".to_vec());
        second.write().unwrap();
        files.keep().unwrap();

        let third = Functions::open(files.clone()).unwrap();
        assert_eq!(get(&third, b"c"), None, "the second component does not have it");
        assert_eq!(get(&third, b"d").as_deref(), Some(&b"code of d"[..]));
        drop(third);
        // Without a finished compilation there is nothing to keep.
        std::fs::remove_file(&files.into).unwrap();
        files.keep().unwrap();
        assert!(files.from.exists());
    }

    #[test]
    fn a_file_that_is_damaged_or_of_another_key_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path(), "a");
        let first = Functions::open(files.clone()).unwrap();
        first.known.insert(b"a", b"code".to_vec());
        first.write().unwrap();
        files.keep().unwrap();
        let written = std::fs::read(&files.from).unwrap();
        let other = FunctionFiles { key: CodeKey::from_bytes([8; 32]), ..files.clone() };
        assert_eq!(get(&Functions::open(other).unwrap(), b"a"), None);
        for length in 0..written.len() {
            std::fs::write(&files.from, &written[..length]).unwrap();
            assert_eq!(get(&Functions::open(files.clone()).unwrap(), b"a"), None, "{length}");
        }
        for at in 0..written.len() {
            let mut damaged = written.clone();
            damaged[at] ^= 1;
            std::fs::write(&files.from, damaged).unwrap();
            assert_eq!(get(&Functions::open(files.clone()).unwrap(), b"a"), None, "{at}");
        }
        std::fs::write(&files.from, &written).unwrap();
        assert!(get(&Functions::open(files).unwrap(), b"a").is_some());
    }

    #[test]
    fn a_second_component_with_the_same_module_reuses_its_functions_and_has_the_same_code_as_without() {
        let (dir, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = files(dir.path(), "a");
        let (_, reused, of_interpreter) = compile_component(&first, INTERPRETER);
        assert!(reused == 0 && of_interpreter > 0, "{reused} {of_interpreter}");

        let both = [INTERPRETER, OWN].concat();
        let component_size = std::fs::metadata(&first.from).unwrap().len();
        let second = FunctionFiles { component_size, ..files(dir.path(), "b") };
        let (code, reused, new) = compile_component(&second, &both);
        assert!(reused == of_interpreter && new > 0, "{reused} of {of_interpreter}, {new}");

        let (compiled, reused, all) = compile_component(&files(empty.path(), "b"), &both);
        assert_eq!((reused, all), (0, of_interpreter + new));
        assert!(code == compiled, "other code than without functions of another component");
    }

    #[test]
    fn a_component_file_without_functions_reuses_those_of_other_files_for_its_engine() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second, third] = ["a", "b", "c"].map(|component| files(dir.path(), component));
        assert_eq!(compile(&first, b"xy"), b"");
        assert_eq!(compile(&second, b"xz"), b"x");
        assert_eq!(compile(&second, b"xyz"), b"xz", "it has its own");
        assert_eq!(compile(&third, b"xyz"), b"xyz");
        std::fs::write(&second.from, "damaged").unwrap();
        std::fs::remove_file(&third.from).unwrap();
        assert_eq!(compile(&second, b"xyz"), b"xy");
        let other_engine = FunctionFiles { from: dir.path().join("d-2.functions"), ..files(dir.path(), "d") };
        let other_key = FunctionFiles { key: CodeKey::from_bytes([8; 32]), ..files(dir.path(), "e") };
        for other in [other_engine, other_key] {
            assert_eq!(compile(&other, b"xyz"), b"");
        }
    }

    #[test]
    fn of_other_files_the_last_written_ones_of_comparable_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second, third] = ["a", "b", "c"].map(|component| files(dir.path(), component));
        for (files, key, age) in [(&first, b"x", 30), (&second, b"y", 10), (&third, b"z", 20)] {
            compile(files, key);
            set_age(&files.from, age);
        }
        let written = std::fs::metadata(&first.from).unwrap().len();
        let others = |component_size| FunctionFiles { component_size, ..files(dir.path(), "d") }.others();
        assert_eq!(others(written), [second.from, third.from]);
        let (smallest, largest) = (written.div_ceil(8), 4 * written);
        for (component_size, number) in [(smallest - 1, 0), (smallest, 2), (largest, 2), (largest + 4, 0)] {
            assert_eq!(others(component_size).len(), number, "{component_size} and {written}");
        }
    }

    #[test]
    fn the_files_that_were_written_first_are_removed_beyond_a_number_and_beyond_a_size() {
        let dir = tempfile::tempdir().unwrap();
        for (name, age) in [("a.functions", 30), ("b.next.functions", 20), ("c.functions", 10), ("d.cwasm", 40)] {
            let file = dir.path().join(name);
            std::fs::write(&file, [0; 100]).unwrap();
            set_age(&file, age);
        }
        let left = || {
            let files = std::fs::read_dir(dir.path()).unwrap();
            let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(remove_excess(dir.path(), 3, 300).unwrap(), 0);
        assert_eq!(remove_excess(dir.path(), 2, 300).unwrap(), 1);
        assert_eq!(left(), ["b.next.functions", "c.functions", "d.cwasm"]);
        assert_eq!(remove_excess(dir.path(), 2, 199).unwrap(), 1);
        assert_eq!(left(), ["c.functions", "d.cwasm"]);
    }

    #[test]
    fn the_child_reads_the_variables_that_the_host_has_set() {
        let files = files(Path::new("/cache"), "a");
        let variables = HashMap::from(files.variables());
        let read = FunctionFiles::parse(|name| variables.get(name).cloned()).unwrap();
        assert_eq!((&read.from, &read.into, read.component_size), (&files.from, &files.into, files.component_size));
        assert_eq!(read.key.to_text(), files.key.to_text());
        for missing in variables.keys() {
            let incomplete = |name: &'static str| variables.get(name).filter(|_| name != *missing).cloned();
            assert!(FunctionFiles::parse(incomplete).is_none(), "{missing}");
        }
    }
}
