//! The cache of compiled components: a private directory, with a message authentication code in each file.
//!
//! Compiled code is machine code that the host runs unchecked, so only code that this host's own compiler wrote for
//! this very component is loaded. Two mechanisms ensure that:
//!
//! - The directory and its files belong to this user alone ([`PrivateDir`]).
//! - Each file ends with an HMAC-SHA256 of its purpose (the component's SHA-256, everything in the engine that compiled
//!   code depends on) and of the code. The key is stored in the state directory. A file that was damaged, truncated,
//!   renamed to another component's name or written without the key is compiled again, and that is logged.
//!
//! A file name is made from the component, the engine and the key, so a file is never stale, only unused, and hosts
//! with different state directories can share a cache without replacing each other's files. Without a usable state
//! directory there is no lasting key: then components are compiled for this process alone, and nothing is stored.
//!
//! Verification costs one pass over the file: a millisecond or less for a component in Rust, tens of milliseconds for
//! one with an interpreter.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use tempfile::NamedTempFile;
use wasmtime::component::Component;

use super::error::ComponentError;
use crate::digest::Digest;
use crate::log_target;
use crate::private_dir::{self, PrivateDir, PrivateError, SECRET_LEN, random_secret};

/// The name of the key file in the state directory.
const KEY_FILE: &str = "compiled.key";
/// The domain separator of the authentication codes: the key is valid for nothing else.
const DOMAIN: &[u8] = b"mcp-host compiled component 1";
/// The bytes of an authentication code, at the end of a file.
const TAG_LEN: u64 = 32;
/// The largest file that is read, in bytes: larger than the compiler may write.
const MAX_FILE_SIZE: u64 = 4 << 30;
/// The part of a file that is in memory while it is verified.
const CHUNK_SIZE: usize = 64 << 10;

/// The private cache directory.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: PrivateDir,
    key: [u8; SECRET_LEN],
    /// Whether another process can use the files that this one stores.
    is_persistent: bool,
}

/// The purpose of compiled code.
#[derive(Clone, Copy)]
struct Purpose<'a> {
    digest: &'a Digest,
    /// A hash of everything in the engine that compiled code depends on.
    engine_hash: u64,
}

impl Cache {
    /// Opens the cache in that directory, creating it if needed, with the key that is stored in `state`.
    pub(crate) fn open(dir: &Path, state: Option<&Path>) -> Result<Self, ComponentError> {
        let key = match state.map(load_key) {
            Some(Ok(key)) => Some(key),
            Some(Err(ComponentError::CacheKey { file, source: PrivateError::Io(error) })) => {
                tracing::warn!(target: log_target::COMPILER, file = %file.display(), %error, "no key can be kept: components are compiled at each start");
                None
            }
            Some(Err(error)) => return Err(error),
            None => None,
        };
        let is_lasting = key.is_some();
        let dir = PrivateDir::open(dir)
            .map_err(|source| ComponentError::Cache { dir: dir.to_owned(), source: Arc::new(source) })?;
        Ok(Self { dir, key: key.unwrap_or_else(random_secret), is_persistent: is_lasting })
    }

    /// Returns its directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the compiled component, if it is in the cache and authentic.
    pub(crate) fn load(&self, engine: &wasmtime::Engine, digest: &Digest) -> Option<Component> {
        let purpose = Purpose::new(engine, digest);
        let name = self.name(purpose);
        let loaded = self.dir.open_file(&name).and_then(|file| self.verify_and_load(engine, file, purpose));
        match loaded {
            Ok(component) => Some(component),
            Err(PrivateError::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let file = self.dir.path().join(name);
                tracing::warn!(target: log_target::COMPILER, file = %file.display(), %error, "a cached component is not usable: compiling it again");
                None
            }
        }
    }

    /// Creates a file to write compiled code to.
    pub(crate) fn new_file(&self) -> io::Result<NamedTempFile> {
        self.dir.new_file()
    }

    /// Stores the compiled code of a file from [`new_file`](Self::new_file) atomically, and loads it. Returns none, and
    /// stores nothing, if the code is not for this engine.
    pub(crate) fn store(
        &self,
        engine: &wasmtime::Engine,
        digest: &Digest,
        mut file: NamedTempFile,
    ) -> io::Result<Option<Component>> {
        let purpose = Purpose::new(engine, digest);
        self.seal(file.as_file_mut(), purpose)?;
        let Ok(component) = deserialize(engine, file.as_file()) else { return Ok(None) };
        if self.is_persistent {
            let path = self.dir.path().join(self.name(purpose));
            if let Err(error) = file.persist(&path) {
                tracing::warn!(
                    target: log_target::COMPILER, file = %path.display(), error = %error.error,
                    "a compiled component cannot be stored, and is compiled again at the next start: see what is at its path"
                );
            }
        }
        Ok(Some(component))
    }

    /// Appends the authentication code to the file, and syncs it.
    fn seal(&self, file: &mut File, purpose: Purpose<'_>) -> io::Result<()> {
        let length = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let mac = self.mac(file, length, purpose)?;
        file.write_all(&mac.finalize().into_bytes())?;
        file.sync_all()
    }

    /// Loads the component of a file whose authentication code is valid.
    fn verify_and_load(
        &self,
        engine: &wasmtime::Engine,
        mut file: File,
        purpose: Purpose<'_>,
    ) -> Result<Component, PrivateError> {
        let invalid = |message| io::Error::new(io::ErrorKind::InvalidData, message);
        let length = file.metadata()?.len();
        if length > MAX_FILE_SIZE {
            return Err(invalid("it is larger than compiled code can be").into());
        }
        let length = length.checked_sub(TAG_LEN).ok_or_else(|| invalid("it is cut off"))?;
        let mac = self.mac(&mut file, length, purpose)?;
        let mut tag = Vec::new();
        (&file).take(TAG_LEN).read_to_end(&mut tag)?;
        mac.verify_slice(&tag).map_err(|_| invalid("it is not what this host has compiled of this component"))?;
        Ok(deserialize(engine, &file)?)
    }

    /// Computes the authentication code of the next `length` bytes of the file.
    fn mac(&self, file: &mut File, length: u64, purpose: Purpose<'_>) -> io::Result<Hmac<Sha256>> {
        let mut mac = self.new_mac();
        mac.update(DOMAIN);
        mac.update(purpose.digest.bytes());
        mac.update(&purpose.engine_hash.to_le_bytes());
        let mut code = file.take(length);
        let mut chunk = vec![0; CHUNK_SIZE];
        loop {
            match code.read(&mut chunk)? {
                0 => return Ok(mac),
                read => mac.update(chunk.get(..read).unwrap_or_default()),
            }
        }
    }

    fn new_mac(&self) -> Hmac<Sha256> {
        private_dir::mac(&self.key)
    }

    /// Returns the name of a file. It includes the key as an authentication code of its own.
    fn name(&self, purpose: Purpose<'_>) -> String {
        let mut mac = self.new_mac();
        mac.update(b"mcp-host cache name 1");
        let key: String = mac.finalize().into_bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{:016x}-{key}.cwasm", purpose.digest.digits(), purpose.engine_hash)
    }
}

fn load_key(state: &Path) -> Result<[u8; SECRET_LEN], ComponentError> {
    let key = PrivateDir::open(state).and_then(|state| state.load_or_create_secret(KEY_FILE));
    key.map_err(|source| ComponentError::CacheKey { file: state.join(KEY_FILE), source })
}

impl<'a> Purpose<'a> {
    fn new(engine: &wasmtime::Engine, digest: &'a Digest) -> Self {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self { digest, engine_hash: hasher.finish() }
    }
}

/// Maps the code of an open file into memory. The bytes after the code are ignored.
fn deserialize(engine: &wasmtime::Engine, file: &File) -> io::Result<Component> {
    let path = descriptor_path(file);
    // SAFETY: the file is machine code that runs unchecked, so it must be the output of our own compiler. Its
    // authentication code proves that, or it has just been written; it is opened through the descriptor that was
    // verified; and only this user may write to it, who can do everything already that this process can.
    #[allow(unsafe_code, reason = "see above; there is no other way to load compiled code")]
    let component = unsafe { Component::deserialize_file(engine, path) };
    component.map_err(|error| io::Error::other(format!("{error:#}")))
}

/// Returns a path to an open file that stays valid when the file is renamed or removed.
fn descriptor_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::engine::config::codegen_config;

    const COMPONENT: &[u8] = b"(component)";
    const OTHER: &[u8] = b"(component (core module))";

    struct CacheFixture {
        dir: tempfile::TempDir,
        engine: wasmtime::Engine,
    }

    impl CacheFixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self { dir, engine: wasmtime::Engine::new(&codegen_config()).unwrap() }
        }

        fn cache(&self, state: Option<&str>) -> Cache {
            let state = state.map(|state| self.dir.path().join(state));
            Cache::open(&self.dir.path().join("cache"), state.as_deref()).unwrap()
        }

        fn store(&self, cache: &Cache, text: &[u8]) {
            let code = self.engine.precompile_component(&wat(text)).unwrap();
            let mut file = cache.new_file().unwrap();
            file.write_all(&code).unwrap();
            cache.store(&self.engine, &Digest::compute(text), file).unwrap().unwrap();
        }

        fn file(&self, cache: &Cache, text: &[u8]) -> PathBuf {
            cache.dir.path().join(cache.name(Purpose::new(&self.engine, &Digest::compute(text))))
        }

        fn loads(&self, cache: &Cache, text: &[u8]) -> bool {
            cache.load(&self.engine, &Digest::compute(text)).is_some()
        }
    }

    /// An empty component, or one with an empty core module.
    fn wat(text: &[u8]) -> Vec<u8> {
        let mut binary = b"\0asm\x0d\0\x01\0".to_vec();
        if text == OTHER {
            binary.extend(b"\x01\x08\0asm\x01\0\0\0");
        }
        binary
    }

    #[test]
    fn what_was_stored_is_found_by_the_next_start_with_the_same_key() {
        let caches = CacheFixture::new();
        caches.store(&caches.cache(Some("state")), COMPONENT);
        assert!(caches.loads(&caches.cache(Some("state")), COMPONENT));
        assert!(!caches.loads(&caches.cache(Some("state")), OTHER));
        assert!(!caches.loads(&caches.cache(Some("other")), COMPONENT), "another key is another host");
    }

    #[test]
    fn without_a_state_directory_nothing_is_stored() {
        let caches = CacheFixture::new();
        let cache = caches.cache(None);
        caches.store(&cache, COMPONENT);
        assert_eq!(std::fs::read_dir(cache.dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_differs_in_any_byte_is_not_run() {
        let caches = CacheFixture::new();
        let cache = caches.cache(Some("state"));
        caches.store(&cache, COMPONENT);
        let file = caches.file(&cache, COMPONENT);
        let sound = std::fs::read(&file).unwrap();
        for place in (0..sound.len()).step_by(sound.len() / 64).chain(sound.len() - 32..sound.len()) {
            let mut damaged = sound.clone();
            damaged[place] ^= 1;
            std::fs::write(&file, &damaged).unwrap();
            assert!(!caches.loads(&cache, COMPONENT), "byte {place}");
        }
        for length in [0, 31, 32, sound.len() - 1] {
            std::fs::write(&file, &sound[..length]).unwrap();
            assert!(!caches.loads(&cache, COMPONENT), "{length} bytes");
        }
        std::fs::write(&file, [&sound[..], b"x"].concat()).unwrap();
        assert!(!caches.loads(&cache, COMPONENT), "one byte more");
        std::fs::write(&file, &sound).unwrap();
        assert!(caches.loads(&cache, COMPONENT));
    }

    #[test]
    fn code_under_the_name_of_another_component_is_not_run() {
        let caches = CacheFixture::new();
        let cache = caches.cache(Some("state"));
        caches.store(&cache, COMPONENT);
        std::fs::copy(caches.file(&cache, COMPONENT), caches.file(&cache, OTHER)).unwrap();
        assert!(!caches.loads(&cache, OTHER));
    }

    #[test]
    fn a_file_that_others_may_write_to_is_not_run() {
        let caches = CacheFixture::new();
        let cache = caches.cache(Some("state"));
        caches.store(&cache, COMPONENT);
        let file = caches.file(&cache, COMPONENT);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o620)).unwrap();
        assert!(!caches.loads(&cache, COMPONENT));
    }
}
