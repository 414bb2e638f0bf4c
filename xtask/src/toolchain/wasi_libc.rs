//! The C library of `wasm32-wasip2`, from Debian's package `wasi-libc`.
//!
//! Only the files of the package are needed, so it is unpacked ([`unpack`](super::unpack)). Debian 13 is the first
//! release whose `wasi-libc` has the target; older releases use the package of Debian 13.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::TARGET;
use super::apt::Release;
use crate::progress::Step;

/// The first release whose package has the target, and its version.
const FIRST_RELEASE: (&str, u32) = ("trixie", 13);

/// Unpacks the library, and returns the folder of its objects and archives. `folder` is emptied first.
pub(crate) fn unpack(release: &Release, folder: &Path, step: &mut Step) -> Result<PathBuf> {
    let unpacked = super::unpack::unpack(&["wasi-libc"], release, suite(release), folder, step)?;
    let library = unpacked.join("usr/lib").join(TARGET);
    ensure!(
        library.join("libc.a").is_file(),
        "wasi-libc has no usr/lib/{TARGET}/libc.a; expected that of Debian {} or newer",
        FIRST_RELEASE.1
    );
    Ok(library)
}

/// Returns the suite of the package.
fn suite(release: &Release) -> &str {
    match release.version {
        Some(version) if version < FIRST_RELEASE.1 => FIRST_RELEASE.0,
        _ => &release.codename,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_release_takes_the_library_from_the_first_that_has_it() {
        assert_eq!(suite(&Release { version: Some(12), codename: "bookworm".to_owned() }), "trixie");
    }

    #[test]
    fn a_newer_release_takes_its_own() {
        assert_eq!(suite(&Release { version: Some(13), codename: "trixie".to_owned() }), "trixie");
        assert_eq!(suite(&Release { version: None, codename: "sid".to_owned() }), "sid");
    }
}
