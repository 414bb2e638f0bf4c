//! Loose objects: one file each, in directories named by the first byte of the id.

use crate::error::{Error, Result};
use crate::files;
use crate::odb::inflate::{self, Inflate};
use gix_hash::{Kind, ObjectId, Prefix, oid};
use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// The number of bytes inflated to find the header. A header is far shorter.
const HEADER: usize = 64;

/// The read buffer size, in bytes.
const BUFFER: usize = 16 * 1024;

/// A loose object with a parsed header.
pub(crate) struct Loose {
    /// The object's kind.
    pub(crate) kind: gix_object::Kind,
    /// The object's size in bytes.
    pub(crate) size: u64,
    path: PathBuf,
    stream: Inflate<BufReader<File>>,
    buffered: Vec<u8>,
}

impl Loose {
    /// Opens an object in an object directory; `None` if it does not exist.
    pub(crate) fn open(objects: &Path, id: &oid) -> Result<Option<Self>> {
        let hex = id.to_hex().to_string();
        let (directory, name) = hex.split_at_checked(2).unwrap_or_default();
        let path = objects.join(directory).join(name);
        let Some((file, _)) = files::open(&path)? else { return Ok(None) };
        let mut stream = Inflate::new(BufReader::with_capacity(BUFFER, file), 0);
        let mut begun = vec![0; HEADER];
        let length = stream.read_prefix(&mut begun).map_err(|error| Error::io(&path, error))?;
        begun.truncate(length);
        let (kind, size, header) =
            gix_object::decode::loose_header(&begun).map_err(|error| Error::corrupt(path.display(), error))?;
        begun.drain(..header.min(length));
        match size.checked_sub(begun.len() as u64) {
            Some(left) => stream.set_remaining(left),
            None => {
                return Err(Error::corrupt(path.display(), format!("it has more than the {size} bytes it declares")));
            }
        }
        Ok(Some(Self { kind, size, path, stream, buffered: begun }))
    }

    /// Reads the content, whose size the caller has checked against its limit.
    pub(crate) fn content(mut self) -> Result<Vec<u8>> {
        let left = self.size.saturating_sub(self.buffered.len() as u64);
        let read = inflate::read_remaining(&mut self.stream, &mut self.buffered, left);
        read.and_then(|()| expect_eof(self.stream.into_source())).map_err(|error| Error::io(&self.path, error))?;
        Ok(self.buffered)
    }
}

fn expect_eof(mut file: impl io::BufRead) -> io::Result<()> {
    match file.fill_buf()? {
        [] => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected bytes after its compressed data")),
    }
}

/// Calls `take` for each loose object whose id starts with a prefix, until it returns false.
pub(crate) fn for_each_with_prefix(
    objects: &Path,
    prefix: &Prefix,
    hash: Kind,
    mut take: impl FnMut(ObjectId) -> bool,
) -> Result<()> {
    let directory = format!("{:02x}", prefix.as_oid().first_byte());
    for file in files::list(&objects.join(&directory))? {
        let hex = format!("{directory}{}", file.name);
        let Some(id) = ObjectId::from_hex(hex.as_bytes()).ok().filter(|id| id.kind() == hash) else { continue };
        if prefix.cmp_oid(&id) == Ordering::Equal && !take(id) {
            break;
        }
    }
    Ok(())
}
