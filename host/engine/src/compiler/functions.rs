//! Incremental compilation: reuses the compiled functions of a component file's previous version.
//!
//! A provider under development is compiled after each edit, and most of its functions are unchanged: an interpreter, a
//! standard library. Cranelift looks up each function by a hash of its input, and compiles the functions that are
//! missing.
//!
//! The functions are machine code, written by a compiler that a hostile component may have taken over. So they are used
//! for one file only, whose versions have one author, and only if the host enables it, as `mcp-host dev` does. They are
//! never shared between components. The file is in the private directory of the cache, and ends with a tag
//! (HMAC-SHA256) under a key for this component file and this engine. A file that is damaged or has another tag is not
//! used.
//!
//! The child opens two files before it confines itself. It reads the file of the last compilation as a whole. When the
//! component is compiled, it writes the component's functions to the second file, which the host then renames. Opening
//! a cache removes files that no compilation has used for [`MAX_AGE`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hmac::Mac;
use mcp_host_base::private_dir;
use parking_lot::Mutex;
use wasmtime::CacheStore;

use crate::code_key::CodeKey;

/// The environment variables of the child: the two files, and the key of their tags.
const FROM_ENV_VAR: &str = "MCP_HOST_COMPILER_FUNCTIONS";
const INTO_ENV_VAR: &str = "MCP_HOST_COMPILER_FUNCTIONS_NEXT";
const KEY_ENV_VAR: &str = "MCP_HOST_COMPILER_FUNCTIONS_KEY";

/// The suffix of the files' names.
pub(crate) const ENDING: &str = ".functions";
/// The time after which an unused file is removed.
pub(crate) const MAX_AGE: Duration = Duration::from_hours(14 * 24);
/// The maximum size of a file in bytes. The file of a provider with CPython has 28 MB.
const MAX_SIZE: u64 = 512 << 20;
/// The length of a tag in bytes.
const TAG_LEN: usize = 32;

/// The files of the functions of one component file.
#[derive(Clone)]
pub(crate) struct FunctionFiles {
    /// The file that the last compilation has written.
    pub(crate) from: PathBuf,
    /// The file that this compilation writes.
    pub(crate) into: PathBuf,
    pub(crate) key: CodeKey,
}

impl FunctionFiles {
    /// Returns the environment variables of the child.
    pub(super) fn variables(&self) -> [(&'static str, std::ffi::OsString); 3] {
        let Self { from, into, key } = self;
        [(FROM_ENV_VAR, from.into()), (INTO_ENV_VAR, into.into()), (KEY_ENV_VAR, key.to_text().into())]
    }

    /// Reads the environment variables of this process.
    pub(super) fn from_variables() -> Option<Self> {
        let path = |name| std::env::var_os(name).map(PathBuf::from);
        let key = std::env::var(KEY_ENV_VAR).ok().and_then(|text| CodeKey::from_text(&text))?;
        Some(Self { from: path(FROM_ENV_VAR)?, into: path(INTO_ENV_VAR)?, key })
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

/// The functions of the last compilation and of this one.
pub(super) struct Functions {
    known: Arc<KnownFunctions>,
    into: File,
    key: CodeKey,
}

impl Functions {
    /// Opens both files. Without the first, all functions are compiled; without the second, none are kept.
    pub(super) fn open(files: FunctionFiles) -> io::Result<Self> {
        let FunctionFiles { from, into, key } = files;
        let known = KnownFunctions::read(&from, &key).unwrap_or_default();
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

/// The functions of the last compilation, by key.
#[derive(Debug, Default)]
struct KnownFunctions {
    functions: HashMap<Vec<u8>, Vec<u8>>,
    used: Mutex<Used>,
}

/// The functions of the component that is being compiled.
#[derive(Debug, Default)]
struct Used {
    /// The keys of reused functions.
    known: HashSet<Vec<u8>>,
    new: HashMap<Vec<u8>, Vec<u8>>,
}

impl Used {
    fn encode(&self, functions: &HashMap<Vec<u8>, Vec<u8>>) -> postcard::Result<Vec<u8>> {
        let known = self.known.iter().filter_map(|key| functions.get_key_value(key));
        postcard::to_allocvec(&known.chain(&self.new).collect::<HashMap<_, _>>())
    }
}

impl KnownFunctions {
    /// Reads a file, and verifies its tag.
    fn read(path: &Path, key: &CodeKey) -> io::Result<Self> {
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
        let functions = postcard::from_bytes(entries).map_err(|_| invalid())?;
        Ok(Self { functions, used: Mutex::default() })
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
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn files(dir: &Path) -> FunctionFiles {
        FunctionFiles {
            from: dir.join("a.functions"),
            into: dir.join("a.functions.next"),
            key: CodeKey::from_bytes(KEY),
        }
    }

    fn get(functions: &Functions, key: &[u8]) -> Option<Vec<u8>> {
        functions.known.get(key).map(Cow::into_owned)
    }

    #[test]
    fn the_functions_of_a_component_are_those_of_the_next_compilation_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
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
        let files = files(dir.path());
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
}
