//! A component file on disk: its kind, its size, its digest, and the nesting of its components.
//!
//! Except for the headers of its sections, the file is neither parsed nor run, and never in memory as a whole: it is
//! read in small pieces to compute the digest. Later readers, such as the compiler, verify this digest.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use mcp_host_base::regular_file::{self, FileThreads};
use mcp_host_model::digest::Digest;

use super::config::MAX_COMPONENT_SIZE;
use super::custom_section;
use super::error::ComponentError;

/// The length of the preamble in bytes: the magic number, the version and the layer.
const PREAMBLE_LEN: usize = 8;

/// A file that may be a component.
#[derive(Debug)]
pub(crate) struct ComponentFile {
    pub(crate) path: PathBuf,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    /// Whether only this content is accepted, so that the file has no other version.
    pub(crate) is_pinned: bool,
    file: File,
}

impl ComponentFile {
    /// Opens and digests a file on one of these threads. Fails if the digest differs from the pinned one.
    pub(crate) async fn open(
        path: &Path,
        pinned: Option<Digest>,
        threads: &FileThreads,
    ) -> Result<Self, ComponentError> {
        let requested = path.to_owned();
        let looked = threads.run(move || Self::open_blocking(requested, pinned)).await;
        looked.unwrap_or_else(|error| Err(read_error(path, error)))
    }

    fn open_blocking(path: PathBuf, pinned: Option<Digest>) -> Result<Self, ComponentError> {
        let io_error = |source| read_error(&path, source);
        let mut file = regular_file::open(&path).map_err(io_error)?;
        if file.metadata().map_err(io_error)?.len() > MAX_COMPONENT_SIZE {
            return Err(too_large(path));
        }
        let mut head = Vec::with_capacity(PREAMBLE_LEN);
        file.by_ref().take(PREAMBLE_LEN as u64).read_to_end(&mut head).map_err(io_error)?;
        check_preamble(&path, &head)?;
        file.rewind().map_err(io_error)?;
        let (digest, size) =
            Digest::compute_reader(file.by_ref().take(MAX_COMPONENT_SIZE.saturating_add(1))).map_err(io_error)?;
        if size > MAX_COMPONENT_SIZE {
            return Err(too_large(path));
        }
        if let Some(expected) = pinned.filter(|expected| *expected != digest) {
            return Err(ComponentError::DigestMismatch { file: path, expected, found: digest });
        }
        match custom_section::find_excess(&file) {
            Some(what) => Err(ComponentError::TooLarge { file: path, what }),
            None => Ok(Self { path, digest, size, is_pinned: pinned.is_some(), file }),
        }
    }

    /// Returns the file, rewound, for a reader that verifies the digest.
    pub(crate) fn reopen(&self) -> io::Result<File> {
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        Ok(file)
    }
}

fn read_error(path: &Path, source: io::Error) -> ComponentError {
    ComponentError::Read { file: path.to_owned(), source }
}

fn too_large(file: PathBuf) -> ComponentError {
    ComponentError::TooLarge { file, what: format!("more than {}", bytesize::ByteSize(MAX_COMPONENT_SIZE)) }
}

/// Rejects files that are not components, with a clearer message than a compiler's.
fn check_preamble(file: &Path, head: &[u8]) -> Result<(), ComponentError> {
    let found = match head {
        // The magic number, then version and layer: 13 and 1 for a component, 1 and 0 for a core module.
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => return Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            "it is a core module; build it for `wasm32-wasip2`, or make a component of it with `mcp-host componentize`"
        }
        [0, b'a', b's', b'm', ..] => "it is WebAssembly of an unknown version",
        [] => "it is empty",
        _ => "it does not begin with the magic number of WebAssembly",
    };
    Err(ComponentError::NotAComponent { file: file.to_owned(), found: found.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0and more";

    fn write_temp(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn a_file_is_known_by_its_content_and_read_again_from_its_beginning() {
        let file = write_temp(COMPONENT);
        let looked = ComponentFile::open_blocking(file.path().to_owned(), None).unwrap();
        assert_eq!((looked.digest, looked.size), (Digest::compute(COMPONENT), COMPONENT.len() as u64));
        assert!(!looked.is_pinned);
        for _ in 0..2 {
            let mut again = Vec::new();
            looked.reopen().unwrap().read_to_end(&mut again).unwrap();
            assert_eq!(again, COMPONENT);
        }
    }

    #[test]
    fn a_file_that_differs_from_its_digest_is_refused_with_both() {
        let file = write_temp(COMPONENT);
        let look = |pinned| ComponentFile::open_blocking(file.path().to_owned(), Some(pinned));
        assert!(look(Digest::compute(COMPONENT)).unwrap().is_pinned);
        let (expected, found) = (Digest::compute(b"another"), Digest::compute(COMPONENT));
        let error = look(expected).unwrap_err().to_string();
        assert!(error.contains(&expected.to_string()) && error.contains(&found.to_string()), "{error}");
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_unread() {
        let file = write_temp(COMPONENT);
        file.as_file().set_len(MAX_COMPONENT_SIZE + 1).unwrap();
        let error = ComponentFile::open_blocking(file.path().to_owned(), None).unwrap_err();
        assert!(matches!(error, ComponentError::TooLarge { .. }), "{error}");
    }

    #[test]
    fn a_file_of_deeply_nested_components_is_refused_before_a_compiler_is_started() {
        let nested = (0..100).fold(COMPONENT[..8].to_vec(), |inner, _| {
            let size = u16::try_from(inner.len()).unwrap();
            // The section of a component, with its size in LEB128 of three bytes.
            let size = [size as u8 | 0x80, (size >> 7) as u8 | 0x80, (size >> 14) as u8];
            [&COMPONENT[..8], &[4][..], &size[..], &inner[..]].concat()
        });
        let error = ComponentFile::open_blocking(write_temp(&nested).path().to_owned(), None).unwrap_err();
        assert!(error.to_string().contains("nested more than 64 levels deep"), "{error}");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_for_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let error = ComponentFile::open_blocking(dir.path().to_owned(), None).unwrap_err();
        assert!(error.to_string().ends_with("it is a directory, not a regular file"), "{error}");
        ComponentFile::open_blocking("/dev/zero".into(), None).unwrap_err();
    }
}
