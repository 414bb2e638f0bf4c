//! A digest of all that decides what names stand for, to tell cheaply that nothing changed.

use crate::error::{Error, Result};
use crate::files;
use crate::refs::{MOST_BYTES, Refs};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::BufRead;

impl Refs<'_> {
    /// A digest of all refs, of `HEAD` and its like, and of where the history is cut off. While it stays the same,
    /// every name stands for what it stood for. It is taken over the files as they are, so another digest need not mean
    /// that anything changed.
    pub(crate) fn digest(&self) -> Result<u64> {
        let mut digest = DefaultHasher::new();
        let mut add = |bytes: &[u8]| {
            digest.write_usize(bytes.len());
            digest.write(bytes);
        };
        let mut loose = BTreeMap::new();
        self.loose(|name, content| drop(loose.insert(name, content)))?;
        for file in files::list(&self.layout.git_dir)? {
            let name = file.name;
            if !file.is_directory && super::is_valid(name.as_str().into()) {
                let content = files::read(&self.layout.git_dir.join(&name), MOST_BYTES).ok().flatten();
                loose.insert(name.into(), content.unwrap_or_default());
            }
        }
        for (name, content) in &loose {
            add(name);
            add(content);
        }
        if let Some(packed) = self.packed()? {
            let mut bytes = packed.bytes();
            loop {
                let piece = bytes.fill_buf().map_err(|error| Error::io(&self.layout.common_dir, error))?;
                let length = piece.len();
                if length == 0 {
                    break;
                }
                add(piece);
                bytes.consume(length);
            }
        }
        add(&self.layout.shallow()?);
        Ok(digest.finish())
    }
}
