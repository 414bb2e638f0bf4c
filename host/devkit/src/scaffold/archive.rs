//! The archive that `build.rs` makes of the templates, the SDKs and the contract. It is uncompressed at first use.

use std::io::Read as _;
use std::iter;
use std::sync::LazyLock;

use flate2::read::ZlibDecoder;

/// The path of each file within the repository, and the end of its bytes, where the bytes of the next file begin.
const FILES: &[(&str, usize)] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The bytes of all files, compressed.
const COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/archive.zlib"));

/// The bytes of all files. The build script has compressed them, so they are not damaged.
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::new();
    let read = ZlibDecoder::new(COMPRESSED).read_to_end(&mut bytes);
    read.map(|_| bytes).unwrap_or_default()
});

/// Returns the files of the archive below a path, which ends with a slash, with paths relative to it.
pub fn below(folder: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let starts = iter::once(0).chain(FILES.iter().map(|(_, end)| *end));
    FILES.iter().zip(starts).filter_map(move |((path, end), start)| {
        let path = path.strip_prefix(folder)?;
        Some((path, BYTES.get(start..*end)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_each_file_whole() {
        assert_eq!(FILES.last().map(|(_, end)| *end), Some(BYTES.len()));
        for folder in ["sdk-guest/c/src/", "wit/"] {
            let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
            assert!(below(folder).count() > 1, "{folder}");
            for (path, bytes) in below(folder) {
                assert!(std::fs::read(format!("{repository}{folder}{path}")).unwrap() == bytes, "{folder}{path}");
            }
        }
    }
}
