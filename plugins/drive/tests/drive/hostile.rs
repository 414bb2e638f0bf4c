//! Servers whose answers never end, contradict themselves, or contain loops.

use crate::server::{FOLDER, file, is_folder_query, provider, provider_with_store};
use drive_provider::Drive;
use mcp_provider::keyvalue::{MemoryStore, Store};
use mcp_provider::{Argument, Failure, Provider, Result};
use serde_json::{Value, json};
use std::time::Duration;

/// Reads all pages of the default listing.
fn walk(drive: &Drive) -> Result<Vec<String>> {
    let (mut paths, mut cursor): (Vec<String>, Option<String>) = (Vec::new(), None);
    for _ in 0..10_000 {
        let page = drive.list(None, cursor.as_deref(), 100)?;
        paths.extend(page.entries.into_iter().map(|entry| entry.path));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(paths),
        }
    }
    panic!("the listing does not end: {} files", paths.len());
}

#[test]
fn a_listing_without_end_ends_after_max_files() {
    for page in [100, 1] {
        let answer = move |path: &str, query: &str, number: usize| match path {
            "files/F" => file("F", FOLDER, "R"),
            "files" if is_folder_query(query) => json!({ "files": [] }),
            _ => {
                let files: Vec<_> = (0..page).map(|n| file(&format!("f{number}-{n}"), "text/plain", "F")).collect();
                json!({ "files": files, "nextPageToken": format!("t{number}") })
            }
        };
        let (drive, _) = provider(answer, &[("max-files", "1000")]);
        assert_eq!(walk(&drive).unwrap().len(), 1001);
    }
}

#[test]
fn empty_pages_without_end_are_bounded() {
    let answer = |path: &str, query: &str, number: usize| match path {
        "files/F" => file("F", FOLDER, "R"),
        "files" if is_folder_query(query) => json!({ "files": [] }),
        _ => json!({ "files": [], "nextPageToken": format!("t{number}") }),
    };
    let (drive, asked) = provider(answer, &[("max-files", "100")]);
    assert_eq!(walk(&drive), Ok(vec!["folder/F".to_owned()]));
    assert!(asked.borrow().len() < 200, "{}", asked.borrow().len());
}

#[test]
fn a_tree_without_end_has_at_most_max_folders() {
    // Each folder contains itself, its parent and two new folders.
    let answer = |path: &str, query: &str, number: usize| match path {
        "files/F" => file("F", FOLDER, "F"),
        "files" if is_folder_query(query) => {
            let ids = query.split("%28%27").skip(1).map(|part| part.split("%27").next().unwrap().to_owned());
            let files: Vec<Value> = ids
                .flat_map(|id| {
                    let new = |n: usize| file(&format!("{number}-{n}-{}", &id[..id.len().min(20)]), FOLDER, &id);
                    [file(&id, FOLDER, &id), file("F", FOLDER, &id), new(1), new(2)]
                })
                .collect();
            json!({ "files": files })
        }
        _ => json!({ "files": [] }),
    };
    let (drive, asked) = provider(answer, &[("max-folders", "60")]);
    assert_eq!(walk(&drive), Ok(vec!["folder/F".to_owned()]));
    assert!(asked.borrow().len() < 40, "{}", asked.borrow().len());
}

#[test]
fn a_tree_whose_pages_never_end_is_unavailable() {
    let answer = |path: &str, _: &str, number: usize| match path {
        "files/F" => file("F", FOLDER, "R"),
        _ => json!({ "files": [], "nextPageToken": format!("t{number}") }),
    };
    let (drive, asked) = provider(answer, &[]);
    let failure = walk(&drive).unwrap_err();
    assert!(failure.to_string().contains("more than 200 requests"), "{failure}");
    assert_eq!(asked.borrow().len(), 200);
}

#[test]
fn files_that_were_not_asked_for_are_not_served() {
    let answer = |path: &str, query: &str, _: usize| match path {
        "files/F" => file("F", FOLDER, "R"),
        "files" if is_folder_query(query) => json!({ "files": [file("X", FOLDER, "Y")] }),
        "files/other" => file("another", "text/plain", "F"),
        _ => json!({ "files": [file("a", "text/plain", "F"), file("b", "text/plain", "X")] }),
    };
    let (drive, _) = provider(answer, &[]);
    assert_eq!(walk(&drive), Ok(vec!["folder/F".to_owned(), "file/a".to_owned()]));
    assert_eq!(drive.read("file/other").unwrap_err(), Failure::NotFound);
    assert_eq!(drive.stat("folder/X").unwrap_err(), Failure::NotFound);
}

#[test]
fn a_search_finds_and_completes_nothing_that_was_not_asked_for() {
    let answer = |path: &str, query: &str, _: usize| match path {
        "files/F" => file("F", FOLDER, "R"),
        "files" if is_folder_query(query) => json!({ "files": [] }),
        _ => json!({ "files": [file("a", "text/plain", "F"), file("b", "text/plain", "X")] }),
    };
    let (drive, _) = provider(answer, &[]);
    let found = drive.list(Some("search?q=plan"), None, 100).unwrap();
    assert_eq!(found.entries.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["file/a"]);
    // The host writes the index, from the entries that the client may read.
    assert_eq!(drive.read("search?q=plan").unwrap()[0].as_text(), Some(""));
    let completed = |template, name| drive.complete(template, &Argument::new(name, ""), &[]).unwrap().values;
    assert_eq!(completed("file/{id}{?bytes}", "id"), ["a"]);
    assert_eq!(completed("search{?q}", "q"), ["a"]);
}

#[test]
fn as_many_files_are_completed_as_the_host_chooses_from() {
    for (count, expected) in [(1000_usize, false), (1001, true)] {
        let answer = move |path: &str, query: &str, _: usize| match path {
            "files/F" => file("F", FOLDER, "R"),
            "files" if is_folder_query(query) => json!({ "files": [] }),
            _ => {
                assert!(query.contains("pageSize=1000"), "{query}");
                let files: Vec<_> =
                    (0..count.min(1000)).map(|n| file(&format!("n{n:04}"), "text/plain", "F")).collect();
                let mut page = json!({ "files": files });
                if count > 1000 {
                    page["nextPageToken"] = json!("more");
                }
                page
            }
        };
        let (drive, _) = provider(answer, &[]);
        let completion = drive.complete("file/{id}{?bytes}", &Argument::new("id", ""), &[]).unwrap();
        assert_eq!((completion.values.len(), completion.has_more), (1000, expected));
    }
}

#[test]
fn answers_without_end_are_refused() {
    for endless in ["{\"files\":[", "{\"files\":[{}],", "[", "\"", " ", "9"] {
        let answer = move |path: &str, _: &str, _: usize| match path {
            "files/F" => file("F", FOLDER, "R"),
            _ => json!({ "endless": endless }),
        };
        let (drive, _) = provider(answer, &[]);
        let failure = walk(&drive).unwrap_err();
        assert!(failure.to_string().contains("not what its API says"), "{endless}: {failure}");
    }
}

#[test]
fn errors_that_are_nonsense_are_told_by_their_status() {
    for (error, expected) in [
        (json!({ "status": 403 }), "denied"),
        (json!({ "status": 403, "error": { "message": "x".repeat(5000) } }), "denied"),
        (json!({ "status": 403, "error": { "errors": [{ "reason": 5 }] } }), "denied"),
        (json!({ "status": 418, "error": [] }), "unavailable"),
        (json!({ "status": 503, "endless": "x" }), "unavailable"),
        (json!({ "status": 401, "endless": "{" }), "denied"),
    ] {
        let (drive, _) = provider(move |_, _, _| error.clone(), &[]);
        let failure = walk(&drive).unwrap_err().to_string();
        assert!(failure.starts_with(expected) && failure.len() < 1000, "{failure}");
    }
}

#[test]
fn a_workbook_that_is_none_is_told() {
    let spreadsheet = "application/vnd.google-apps.spreadsheet";
    let workbook = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
    let answer = move |path: &str, query: &str, _: usize| match path {
        "files/F" => file("F", FOLDER, "R"),
        "files/s" => file("s", spreadsheet, "F"),
        "about" => json!({ "exportFormats": { spreadsheet: [workbook] } }),
        "files" if is_folder_query(query) => json!({ "files": [] }),
        _ => json!("no workbook"),
    };
    let (drive, _) = provider(answer, &[]);
    let failure = drive.read("file/s").unwrap_err();
    assert!(failure.to_string().contains("is not a readable workbook"), "{failure}");
}

#[test]
fn changes_that_never_end_are_told_in_rounds() {
    let answer = |path: &str, _: &str, number: usize| match path {
        "changes/startPageToken" => json!({ "startPageToken": "1" }),
        _ => json!({ "changes": [{ "fileId": "a" }], "nextPageToken": format!("{number}") }),
    };
    let (drive, asked) = provider(answer, &[]);
    let watched = ["file/a/chunk/2".to_owned(), "file/b".to_owned(), "folder/F".to_owned(), "x".to_owned()];
    let first = drive.changes(&watched, None).unwrap();
    assert!(first.changed.is_empty() && !first.listing_changed);
    let second = drive.changes(&watched, Some(&first.token)).unwrap();
    assert_eq!(second.changed, ["file/a/chunk/2", "folder/F"]);
    assert_eq!((second.poll_after, asked.borrow().len()), (Some(Duration::from_secs(1)), 11));
    let foreign = drive.changes(&watched, Some("of somebody else")).unwrap();
    assert_eq!((foreign.changed.len(), foreign.listing_changed), (4, true));
}

#[test]
fn a_clock_that_is_set_back_makes_nothing_fresh_for_long() {
    // Data with a time of storage in the future are fetched again.
    let stored = json!({ "at": 4_000_000_000_000_u64, "formats": {} });
    let store = MemoryStore::default();
    store.set("export-formats", stored.to_string().as_bytes()).unwrap();
    let document = "application/vnd.google-apps.document";
    let answer = move |path: &str, query: &str, _: usize| match path {
        "files/F" => file("F", FOLDER, "R"),
        "files/d" => file("d", document, "F"),
        "about" => json!({ "exportFormats": { document: ["text/plain"] } }),
        "files" if is_folder_query(query) => json!({ "files": [] }),
        _ => json!("text"),
    };
    let (drive, asked) = provider_with_store(answer, store, &[]);
    assert_eq!(drive.read("file/d").unwrap()[0].as_text(), Some("\"text\""));
    assert!(asked.borrow().iter().any(|url| url.contains("about?fields=exportFormats")));
}
