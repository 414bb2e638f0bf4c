//! The cache of compiled components: a private directory, with a message authentication code in each file.
//!
//! The host runs compiled code unchecked, so it loads only code that its own compiler wrote for this very component.
//! Two mechanisms ensure this:
//!
//! - The directory and its files belong to this user alone ([`PrivateDir`]).
//! - Each file ends with the cost of an instance (module `static_content`) and an HMAC-SHA256 of the cost and the code
//!   (module `code_key`). The key is derived from a secret in the state directory, for this component and everything
//!   in the engine that compiled code depends on. The compiler writes both, and has only this key, not the secret. A
//!   component that takes over the compiler can authenticate code in its own name, for which the compiler is trusted
//!   anyway, but none in the name of another. A file that was damaged, truncated, renamed to another component's name
//!   or written without the key is compiled again, and this is logged.
//!
//! So code is complete and authentic as soon as the compiler has written it, even if no host is left to read it: the
//! next host finds it as [`PendingCode`], verifies it, and stores it. Opening a cache removes pending code that no
//! host has used for a day, such as the code of a component that no config names any more, and temporary files of
//! killed processes.
//!
//! A file's name is derived from the component, the engine and the secret, so a file is never stale, only unused, and
//! hosts with different state directories can share a cache without replacing each other's files. Without a usable
//! state directory there is no persistent secret: components are compiled for this process alone, and nothing is
//! stored.
//!
//! Verification takes one pass over the file: at most a millisecond for a component in Rust, tens of milliseconds for
//! one with an interpreter.

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hmac::Mac;
use mcp_host_base::log_target;
use mcp_host_base::private_dir::{self, PrivateDir, SECRET_LEN, random_secret};
use mcp_host_base::private_file::PrivateError;
use mcp_host_model::digest::Digest;
use wasmtime::component::Component;

use super::code_key::{CodeKey, Purpose, TRAILER_LEN};
use super::compiler::functions::{self, FunctionFiles};
use super::error::ComponentError;
use super::pending_code::PendingCode;
use super::static_content::StaticContent;

/// The name of the secret's file in the state directory.
const KEY_FILE: &str = "compiled.key";
/// The maximum size of a file that is read, in bytes: larger than the compiler may write.
const MAX_FILE_SIZE: u64 = 4 << 30;

/// The suffix of pending files, after the name of the file in the cache.
const PENDING: &str = ".pending";
/// The suffix of the names of all pending files.
const ANY_PENDING: &str = ".cwasm.pending";
/// The time after which the file of an abandoned compilation is removed.
const MAX_PENDING_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The private cache directory.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: PrivateDir,
    secret: [u8; SECRET_LEN],
    /// Whether another process can use the files that this one stores.
    is_persistent: bool,
}

/// The loaded code of a component.
#[derive(Clone, Debug)]
pub(crate) struct CompiledCode {
    pub(crate) component: Component,
    /// The cost of an instance.
    pub(crate) static_content: StaticContent,
}

/// The state of a component that is not in the cache.
pub(crate) enum Missing {
    /// Another process is compiling it.
    BeingCompiled,
    /// It was compiled meanwhile, or by a compiler that outlived its host.
    Compiled(CompiledCode),
    /// It must be compiled into this file.
    NotCompiled(PendingCode),
}

impl Cache {
    /// Opens the cache in this directory, and creates it if needed, with the secret that is stored in `state`.
    pub(crate) fn open(dir: &Path, state: Option<&Path>) -> Result<Self, ComponentError> {
        let secret = match state.map(load_secret) {
            Some(Ok(secret)) => Some(secret),
            Some(Err(ComponentError::CacheKey {
                file,
                source: error @ (PrivateError::Io(_) | PrivateError::NoDirectory { .. }),
            })) => {
                tracing::warn!(target: log_target::COMPILER, file = %file.display(), %error, "no key can be kept: components are compiled at each start");
                None
            }
            Some(Err(error)) => return Err(error),
            None => None,
        };
        let is_persistent = secret.is_some();
        let dir = PrivateDir::open(dir)
            .and_then(|dir| dir.check_parents().map(|()| dir))
            .map_err(|source| ComponentError::Cache { dir: dir.to_owned(), source: Arc::new(source) })?;
        remove_abandoned(&dir);
        Ok(Self { dir, secret: secret.unwrap_or_else(random_secret), is_persistent })
    }

    /// Returns the directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the key that authenticates the code of this component.
    pub(crate) fn code_key(&self, engine: &wasmtime::Engine, digest: &Digest) -> CodeKey {
        CodeKey::derive(&self.secret, Purpose::new(engine, digest))
    }

    /// Returns the files of compiled functions of a component file: of its last version, and for this one, which has
    /// the given size.
    pub(crate) fn functions(&self, engine: &wasmtime::Engine, file: &Path, component_size: u64) -> FunctionFiles {
        let file = Digest::compute(file.as_os_str().as_encoded_bytes());
        let purpose = Purpose::new(engine, &file);
        let key = CodeKey::derive_for_functions(&self.secret, purpose.engine_hash);
        let from = self.path(purpose).with_extension(functions::ENDING.trim_start_matches('.'));
        let into = from.with_extension(format!("next{}", functions::ENDING));
        FunctionFiles { from, into, key, component_size }
    }

    /// Returns the compiled component, if it is in the cache and authentic.
    pub(crate) fn load(&self, engine: &wasmtime::Engine, digest: &Digest) -> Option<CompiledCode> {
        match self.find(engine, digest) {
            Ok(component) => Some(component),
            Err(PrivateError::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let file = self.path(Purpose::new(engine, digest));
                tracing::warn!(target: log_target::COMPILER, file = %file.display(), %error, "a cached component is not usable: compiling it again");
                None
            }
        }
    }

    fn find(&self, engine: &wasmtime::Engine, digest: &Digest) -> Result<CompiledCode, PrivateError> {
        let file = self.dir.open_file(&self.name(Purpose::new(engine, digest)))?;
        Ok(self.verify_and_load(engine, &file, digest)?)
    }

    /// Begins compiling a component, unless another process is compiling or has compiled it.
    pub(crate) fn begin(&self, engine: &wasmtime::Engine, digest: &Digest) -> io::Result<Missing> {
        if !self.is_persistent {
            return self.begin_unlocked().map(Missing::NotCompiled);
        }
        let name = format!("{}{PENDING}", self.name(Purpose::new(engine, digest)));
        let path = self.dir.path().join(&name);
        let file = match self.dir.lock_file(&name) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(Missing::BeingCompiled),
            Err(error) => {
                tracing::warn!(target: log_target::COMPILER, file = %path.display(), %error, "a compilation cannot be locked, and is lost if the host ends before it");
                return self.begin_unlocked().map(Missing::NotCompiled);
            }
        };
        let mut pending = PendingCode::locked(file, path);
        // The previous owner of the lock has stored it.
        if let Ok(component) = self.find(engine, digest) {
            pending.discard();
            return Ok(Missing::Compiled(component));
        }
        if let Ok(component) = self.verify_and_load(engine, pending.file(), digest) {
            self.persist(engine, digest, pending)?;
            return Ok(Missing::Compiled(component));
        }
        pending.truncate()?;
        Ok(Missing::NotCompiled(pending))
    }

    /// Begins compiling a component that other processes may compile at the same time.
    pub(crate) fn begin_unlocked(&self) -> io::Result<PendingCode> {
        self.dir.new_file().map(PendingCode::temporary)
    }

    /// Atomically stores the code that a compiler has written, and loads it.
    ///
    /// # Errors
    ///
    /// The code was not written by a compiler of this version for this engine (`ErrorKind::InvalidData`), or the disk
    /// fails. Then nothing is stored.
    pub(crate) fn store(
        &self,
        engine: &wasmtime::Engine,
        digest: &Digest,
        pending: PendingCode,
    ) -> io::Result<CompiledCode> {
        match self.verify_and_load(engine, pending.file(), digest) {
            Ok(component) => self.persist(engine, digest, pending).map(|()| component),
            Err(error) => {
                pending.discard();
                Err(error)
            }
        }
    }

    /// Moves verified code to its place, if another process can use it.
    fn persist(&self, engine: &wasmtime::Engine, digest: &Digest, pending: PendingCode) -> io::Result<()> {
        if !self.is_persistent {
            return Ok(());
        }
        pending.file().sync_all()?;
        let path = self.path(Purpose::new(engine, digest));
        if let Err(error) = pending.persist(&path) {
            tracing::warn!(
                target: log_target::COMPILER, file = %path.display(), %error,
                "a compiled component cannot be stored, and is compiled again at the next start: see which file is at its path"
            );
        }
        Ok(())
    }

    /// Loads the component of a file whose authentication code is valid.
    fn verify_and_load(&self, engine: &wasmtime::Engine, mut file: &File, digest: &Digest) -> io::Result<CompiledCode> {
        let length = file.metadata()?.len();
        if length > MAX_FILE_SIZE {
            return Err(invalid("it is larger than compiled code can be"));
        }
        let length = length.checked_sub(TRAILER_LEN).ok_or_else(|| invalid("it is cut off"))?;
        file.rewind()?;
        let static_content = self.code_key(engine, digest).verify(file, length)?;
        Ok(CompiledCode { component: deserialize(engine, file)?, static_content })
    }

    /// Returns the path of a file.
    fn path(&self, purpose: Purpose<'_>) -> PathBuf {
        self.dir.path().join(self.name(purpose))
    }

    /// Returns the name of a file. An authentication code in it depends on the secret.
    fn name(&self, purpose: Purpose<'_>) -> String {
        let mut mac = private_dir::mac(&self.secret);
        mac.update(b"mcp-host cache name 2");
        let key: String = mac.finalize().into_bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{:016x}-{key}.cwasm", purpose.digest.digits(), purpose.engine_hash)
    }
}

/// Removes the files of abandoned compilations, and the oldest functions beyond their bounds.
fn remove_abandoned(dir: &PrivateDir) {
    let dir_path = dir.path().display();
    for (ending, age) in [(ANY_PENDING, MAX_PENDING_AGE), (functions::ENDING, functions::MAX_AGE)] {
        let Some(since) = SystemTime::now().checked_sub(age) else { continue };
        match dir.remove_abandoned_files(ending, since) {
            Ok(0) => {}
            Ok(files) => {
                tracing::debug!(target: log_target::COMPILER, dir = %dir_path, files, "files of abandoned compilations were removed");
            }
            Err(error) => {
                tracing::debug!(target: log_target::COMPILER, dir = %dir_path, %error, "files of abandoned compilations cannot be searched");
            }
        }
    }
    if let Err(error) = functions::remove_excess(dir.path(), functions::MAX_FILES, functions::MAX_TOTAL_SIZE) {
        tracing::debug!(target: log_target::COMPILER, dir = %dir_path, %error, "files of functions cannot be searched");
    }
}

fn load_secret(state: &Path) -> Result<[u8; SECRET_LEN], ComponentError> {
    let secret = PrivateDir::open(state).and_then(|state| state.load_or_create_secret(KEY_FILE));
    secret.map_err(|source| ComponentError::CacheKey { file: state.join(KEY_FILE), source })
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Maps the code of an open file into memory. The bytes after the code are ignored.
fn deserialize(engine: &wasmtime::Engine, file: &File) -> io::Result<Component> {
    let path = descriptor_path(file);
    // SAFETY: the file is machine code that runs unchecked, so it must be the output of our own compiler. Its
    // authentication code proves this. It is opened through the descriptor that was verified. Only this user may write
    // to it, and this user can already do everything that this process can.
    #[allow(unsafe_code, reason = "see above; there is no other way to load compiled code")]
    let component = unsafe { Component::deserialize_file(engine, path) };
    component.map_err(|error| invalid(&format!("{error:#}")))
}

/// Returns a path to an open file that stays valid when the file is renamed or removed.
fn descriptor_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::{Codegen, codegen_config, engine_config};

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

        fn begin(&self, cache: &Cache, text: &[u8]) -> Missing {
            cache.begin(&self.engine, &Digest::compute(text)).unwrap()
        }

        /// Begins compiling, and writes as a compiler does.
        fn compile(&self, cache: &Cache, text: &[u8]) -> PendingCode {
            let Missing::NotCompiled(pending) = self.begin(cache, text) else { panic!("it is to be compiled") };
            let code = self.engine.precompile_component(&wat(text)).unwrap();
            let key = cache.code_key(&self.engine, &Digest::compute(text));
            let content = StaticContent::measure(&code).unwrap();
            key.write_code(&code, &content, pending.writer().unwrap()).unwrap();
            pending
        }

        fn store(&self, cache: &Cache, text: &[u8]) {
            let pending = self.compile(cache, text);
            cache.store(&self.engine, &Digest::compute(text), pending).unwrap();
        }

        fn files(&self, cache: &Cache) -> usize {
            std::fs::read_dir(cache.dir.path()).unwrap().count()
        }

        fn file(&self, cache: &Cache, text: &[u8]) -> PathBuf {
            cache.dir.path().join(cache.name(Purpose::new(&self.engine, &Digest::compute(text))))
        }

        fn loads(&self, cache: &Cache, text: &[u8]) -> bool {
            cache.load(&self.engine, &Digest::compute(text)).is_some()
        }
    }

    /// An empty component, or a component with an empty core module.
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
        assert_eq!(caches.files(&cache), 0);
    }

    #[test]
    fn code_that_was_written_when_no_host_was_left_is_found_by_the_next() {
        let caches = CacheFixture::new();
        // Dropped, as when a host ends.
        let pending = caches.compile(&caches.cache(Some("state")), COMPONENT);
        assert!(pending.can_outlive_host());
        drop(pending);
        let next = caches.cache(Some("state"));
        assert!(!caches.loads(&next, COMPONENT), "it is not in its place");
        assert!(matches!(caches.begin(&next, COMPONENT), Missing::Compiled(_)));
        assert!(caches.loads(&next, COMPONENT));
        assert_eq!(caches.files(&next), 1);
    }

    #[test]
    fn a_component_that_is_being_compiled_is_not_compiled_again_until_that_has_ended() {
        let caches = CacheFixture::new();
        let (first, second) = (caches.cache(Some("state")), caches.cache(Some("state")));
        let pending = caches.compile(&first, COMPONENT);
        let compiler = pending.writer().unwrap();
        drop(pending);
        assert!(matches!(caches.begin(&second, COMPONENT), Missing::BeingCompiled), "a compiler is left");
        assert!(matches!(caches.begin(&second, OTHER), Missing::NotCompiled(_)));
        drop(compiler);
        assert!(matches!(caches.begin(&second, COMPONENT), Missing::Compiled(_)));
    }

    #[test]
    fn a_compilation_that_nobody_has_gone_on_with_for_a_day_is_removed_by_the_next_start() {
        let caches = CacheFixture::new();
        let cache = caches.cache(Some("state"));
        let (running, abandoned) = (caches.compile(&cache, COMPONENT), caches.compile(&cache, OTHER));
        for (age, files) in [(MAX_PENDING_AGE / 2, 2), (2 * MAX_PENDING_AGE, 1)] {
            for pending in [&running, &abandoned] {
                pending.file().set_modified(SystemTime::now() - age).unwrap();
            }
            // As when a host ends while another one compiles.
            let left = abandoned.locked_path().unwrap();
            abandoned.file().unlock().unwrap();
            assert_eq!(caches.files(&caches.cache(Some("state"))), files);
            assert_eq!(left.exists(), files == 2);
        }
        assert!(running.locked_path().unwrap().exists());
    }

    #[test]
    fn a_temporary_file_of_a_host_that_was_killed_is_removed_after_a_day() {
        let caches = CacheFixture::new();
        let cache = caches.cache(None);
        let (file, path) = cache.dir.new_file().unwrap().keep().unwrap();
        for (age, is_left) in [(MAX_PENDING_AGE / 2, true), (2 * MAX_PENDING_AGE, false)] {
            file.set_modified(SystemTime::now() - age).unwrap();
            caches.cache(None);
            assert_eq!(path.exists(), is_left);
        }
    }

    #[test]
    fn component_files_have_a_key_for_functions_in_common_for_one_engine_and_one_secret() {
        let caches = CacheFixture::new();
        let (cache, other) = (caches.cache(Some("state")), caches.cache(Some("other")));
        let debuggable = wasmtime::Engine::new(&engine_config(Codegen::Debuggable)).unwrap();
        let functions = |cache: &Cache, engine: &wasmtime::Engine, file: &str| {
            let files = cache.functions(engine, Path::new(file), 1);
            let name = files.from.file_name().unwrap().to_str().unwrap().to_owned();
            let (component, engine) = name.split_once('-').unwrap();
            (component.to_owned(), engine.to_owned(), files.key.to_text())
        };
        let (component, engine, key) = functions(&cache, &caches.engine, "/a.wasm");
        let another = functions(&cache, &caches.engine, "/b.wasm");
        assert!(component != another.0);
        assert_eq!((&engine, &key), (&another.1, &another.2));
        for (cache, of_engine) in [(&other, &caches.engine), (&cache, &debuggable)] {
            let different = functions(cache, of_engine, "/a.wasm");
            assert!(engine != different.1 && key != different.2);
        }
    }

    #[test]
    fn functions_beyond_a_number_of_files_are_removed_by_the_next_start() {
        let caches = CacheFixture::new();
        let cache = caches.cache(None);
        for number in 0..functions::MAX_FILES + 3 {
            std::fs::write(cache.dir().join(format!("{number}{}", functions::ENDING)), "").unwrap();
        }
        assert_eq!(caches.files(&caches.cache(None)), functions::MAX_FILES);
    }

    #[test]
    fn code_that_is_not_complete_is_compiled_anew_in_the_same_file() {
        let caches = CacheFixture::new();
        let cache = caches.cache(Some("state"));
        let pending = caches.compile(&cache, COMPONENT);
        let written = pending.file().metadata().unwrap().len();
        pending.file().set_len(written - 1).unwrap();
        drop(pending);
        let again = caches.compile(&cache, COMPONENT);
        assert_eq!(again.file().metadata().unwrap().len(), written);
        cache.store(&caches.engine, &Digest::compute(COMPONENT), again).unwrap();
        assert_eq!(caches.files(&cache), 1);
    }

    #[test]
    fn code_of_another_component_is_neither_stored_nor_kept() {
        let caches = CacheFixture::new();
        let cache = caches.cache(Some("state"));
        let pending = caches.compile(&cache, COMPONENT);
        let refused = cache.store(&caches.engine, &Digest::compute(OTHER), pending).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        assert_eq!(caches.files(&cache), 0);
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
