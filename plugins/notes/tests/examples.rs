//! The example notes of this project have no faults.

use mcp_provider::{Config, Provider};
use notes_provider::Notes;

#[test]
fn the_example_notes_have_no_faults_and_are_in_two_languages() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/notes");
    let notes = Notes::open(&Config::from_pairs([("dir", dir)])).unwrap();
    let entries = notes.list(None, None, 100).unwrap().entries;
    assert!((8..=20).contains(&entries.len()));
    for entry in &entries {
        assert!(!entry.meta.contains_key("notes/faults"), "{entry:?}");
        assert_eq!(entry.title.is_some(), entry.mime_type.as_deref() == Some("text/markdown"), "{entry:?}");
    }
    let japanese = notes.list(Some("lang/ja"), None, 100).unwrap().entries;
    assert!(japanese.len() > 1 && japanese.iter().all(|entry| entry.priority.is_some()));
    assert!(notes.list(Some("lang/en"), None, 100).unwrap().entries.len() > japanese.len());
}
