//! Texts stored in the bucket.

use crate::server::{Asked, FOLDER, file, is_folder_query, provider_with_store};
use drive_provider::Drive;
use mcp_provider::keyvalue::{Keys, MemoryStore, Store};
use mcp_provider::{Provider, Result};
use serde_json::{Value, json};
use std::cell::Cell;
use std::rc::Rc;

const DOCUMENT: &str = "application/vnd.google-apps.document";

/// A store that several providers share. It counts the bytes read.
#[derive(Clone, Default)]
struct Shared {
    store: Rc<MemoryStore>,
    read: Rc<Cell<usize>>,
}

impl Store for Shared {
    fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        let values = self.store.get_many(keys)?;
        self.read.set(self.read.get() + values.iter().flatten().map(Vec::len).sum::<usize>());
        Ok(values)
    }

    fn set_many(&self, values: &[(&str, &[u8])]) -> Result<()> {
        self.store.set_many(values)
    }

    fn delete_many(&self, keys: &[&str]) -> Result<()> {
        self.store.delete_many(keys)
    }

    fn keys(&self, cursor: Option<&str>) -> Result<Keys> {
        self.store.keys(cursor)
    }
}

/// Creates a provider of the document `d` with the given text and modification day in January.
fn provider(store: &Shared, day: u8, text: &str) -> (Drive, Asked) {
    let text = text.to_owned();
    let answer = move |path: &str, query: &str, _: usize| match path {
        "files/F" => file("F", FOLDER, "R"),
        "files/d" => {
            let mut document = file("d", DOCUMENT, "F");
            document["modifiedTime"] = format!("2026-01-{day:02}T00:00:00.000Z").into();
            document
        }
        "about" => json!({ "exportFormats": { DOCUMENT: ["text/markdown"] } }),
        "files" if is_folder_query(query) => json!({ "files": [] }),
        _ => json!({ "text": text }),
    };
    provider_with_store(answer, store.clone(), &[])
}

/// Returns a text of sections of about 3200 bytes each.
fn text(sections: usize) -> String {
    (0..sections).map(|n| format!("# Section {n}\n\n{}\n\n", "words of the section ".repeat(150))).collect()
}

fn read(drive: &Drive, path: &str) -> (String, Value) {
    let contents = drive.read(path).unwrap().remove(0);
    let headings = contents.entry.meta.get("drive/headings").cloned().unwrap_or_default();
    (contents.as_text().unwrap().to_owned(), headings)
}

fn exports(asked: &Asked) -> usize {
    asked.borrow().iter().filter(|url| url.contains("/export?")).count()
}

/// Returns the keys of the stored text, without the id.
fn kept(store: &Shared) -> Vec<String> {
    let keys = store.all_keys().unwrap();
    keys.iter().filter_map(|key| key.strip_prefix("text/d")).map(str::to_owned).collect()
}

#[test]
fn a_chunk_of_a_large_document_is_read_without_the_rest() {
    let (store, text) = (Shared::default(), text(650));
    let (drive, asked) = provider(&store, 1, &text);
    let count = drive.read("file/d").unwrap()[0].entry.meta["drive/chunks"].as_u64().unwrap();
    assert_eq!((exports(&asked), text.len() > 2_000_000, count), (1, true, 650));
    for number in [1, 325, count] {
        let (drive, asked) = provider(&store, 1, &text);
        let header = store.store.get("text/d").unwrap().unwrap().len();
        store.read.set(0);
        let section = usize::try_from(number).unwrap() - 1;
        let (chunk, headings) = read(&drive, &format!("file/d/chunk/{number}"));
        assert!(chunk.starts_with(&format!("# Section {section}\n")), "{chunk}");
        assert_eq!((headings, exports(&asked)), (json!([format!("Section {section}")]), 0));
        assert!(store.read.get() < header + (520 << 10), "{} of {}", store.read.get(), header);
    }
    let (drive, asked) = provider(&store, 1, &text);
    assert_eq!((read(&drive, "file/d").0 == text, exports(&asked)), (true, 0));
}

#[test]
fn a_document_that_changed_replaces_what_was_kept() {
    let store = Shared::default();
    let (before, after) = (text(300), text(100));
    assert_eq!(read(&provider(&store, 1, &before).0, "file/d").0.len(), before.len());
    let old = kept(&store);
    let (drive, asked) = provider(&store, 2, &after);
    assert_eq!((read(&drive, "file/d").0 == after, exports(&asked)), (true, 1));
    let new = kept(&store);
    assert_eq!((old.len(), new.len()), (1 + before.len().div_ceil(256 << 10), 1 + after.len().div_ceil(256 << 10)));
    assert!(new.iter().skip(1).all(|key| !old.contains(key)), "{new:?} {old:?}");
}

#[test]
fn a_text_of_which_a_part_is_missing_or_damaged_is_exported_again() {
    let (store, text) = (Shared::default(), text(300));
    assert_eq!(read(&provider(&store, 1, &text).0, "file/d").0.len(), text.len());
    let block = format!("text/d{}", kept(&store)[2]);
    for damage in [None, Some(b"short".as_slice()), Some(&[0xff; 256 << 10])] {
        match damage {
            Some(value) => store.set(&block, value).unwrap(),
            None => store.delete(&block).unwrap(),
        }
        let (drive, asked) = provider(&store, 1, &text);
        assert_eq!((read(&drive, "file/d").0 == text, exports(&asked)), (true, 1));
        let (drive, asked) = provider(&store, 1, &text);
        assert_eq!((read(&drive, "file/d").0 == text, exports(&asked)), (true, 0));
    }
}
