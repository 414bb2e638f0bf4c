//! Hostile and unusual items on disk: links, huge lines, sparse files, deep directories, files that change.

use super::{EMPTY, Fixture, meta, number};
use mcp_provider::{Failure, Provider};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn links_that_leave_the_directory_are_refused_and_not_listed() {
    let fixture = Fixture::new([("a.md", ""), ("folder/b.md", "")]);
    std::fs::write(fixture.path("../secret.md"), "secret").unwrap();
    symlink("../secret.md", fixture.path("relative.md")).unwrap();
    symlink("../../secret.md", fixture.path("folder/deeper.md")).unwrap();
    symlink(fixture.path("a.md"), fixture.path("absolute.md")).unwrap();
    symlink("relative.md", fixture.path("twice.md")).unwrap();
    symlink("folder/../../secret.md", fixture.path("winding.md")).unwrap();
    symlink("/etc", fixture.path("etc")).unwrap();
    for path in ["relative.md", "folder/deeper.md", "absolute.md", "twice.md", "winding.md", "etc/passwd"] {
        assert!(matches!(fixture.provider.read(path), Err(Failure::Denied(_))), "{path}");
        assert!(matches!(fixture.provider.stat(path), Err(Failure::Denied(_))), "{path}");
    }
    assert_eq!(fixture.list(None, 9).unwrap(), ["a.md", "folder/b.md"]);
    assert_eq!(fixture.list(Some(""), 9).unwrap(), ["a.md", "folder"]);
}

#[test]
fn links_inside_the_directory_are_what_they_lead_to() {
    let fixture = Fixture::new([("folder/a.md", "A"), ("folder/deep/b.md", "B")]);
    symlink("folder/a.md", fixture.path("link.md")).unwrap();
    symlink("folder", fixture.path("other")).unwrap();
    symlink("../../folder/deep", fixture.path("folder/deep/up")).unwrap();
    symlink("../other/a.md", fixture.path("folder/through.md")).unwrap();
    assert_eq!(fixture.list(None, 9).unwrap(), ["folder/a.md", "folder/deep/b.md", "folder/through.md", "link.md"]);
    for (path, text) in
        [("link.md", "A"), ("other/a.md", "A"), ("folder/deep/up/b.md", "B"), ("folder/through.md", "A")]
    {
        assert_eq!(fixture.read(path).unwrap().as_text(), Some(text), "{path}");
    }
    assert_eq!(fixture.list(Some("other"), 9).unwrap(), ["other/a.md", "other/deep", "other/through.md"]);
}

#[test]
fn loops_of_links_end_no_listing() {
    let fixture = Fixture::new([("folder/a.md", "")]);
    symlink(".", fixture.path("folder/self")).unwrap();
    symlink("..", fixture.path("folder/up")).unwrap();
    symlink("b", fixture.path("a")).unwrap();
    symlink("a", fixture.path("b")).unwrap();
    symlink("c/x", fixture.path("c")).unwrap();
    symlink("nowhere", fixture.path("dangling")).unwrap();
    assert_eq!(fixture.list(None, 9).unwrap(), ["folder/a.md"]);
    for path in ["a", "b", "c", "dangling", "c/x"] {
        assert_eq!(fixture.provider.read(path), Err(Failure::NotFound), "{path}");
    }
    let around = format!("folder/{}a.md", "up/folder/".repeat(30));
    assert!(fixture.provider.read(&around).is_ok());
    let too_often = format!("folder/{}a.md", "up/folder/".repeat(50));
    assert_eq!(fixture.provider.read(&too_often), Err(Failure::NotFound));
}

#[test]
fn what_is_neither_file_nor_directory_is_not_there() {
    let fixture = Fixture::new([("a.md", "")]);
    let _socket = std::os::unix::net::UnixListener::bind(fixture.path("socket")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(fixture.path("pipe")).status().unwrap().success());
    assert_eq!(fixture.list(None, 9).unwrap(), ["a.md"]);
    for path in ["socket", "pipe"] {
        assert_eq!(fixture.provider.read(path), Err(Failure::NotFound), "{path}");
    }
}

#[test]
fn a_sparse_file_of_a_terabyte_is_read_by_parts() {
    let fixture = Fixture::new([("a.log", "first\nsecond\n")]);
    let mut file = File::options().append(true).open(fixture.path("a.log")).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all(b"\nthe last line\n").unwrap();
    let size = (1 << 40) + 15;
    let entry = fixture.provider.list(None, None, 9).unwrap().entries.remove(0);
    assert_eq!((entry.size, number(&entry, "files/total-bytes")), (None, Some(size)));
    let head = fixture.read("a.log").unwrap();
    assert_eq!(head.as_bytes().len(), 1 << 20);
    assert_eq!(meta(&head.entry, "files/next-range"), Some("bytes=1048576-"));
    assert_eq!(fixture.read("a.log?bytes=0-4").unwrap().as_bytes(), b"first");
    assert_eq!(fixture.read("a.log?bytes=-14").unwrap().as_bytes(), b"the last line\n");
}

#[test]
fn a_line_of_megabytes_continues_by_bytes_and_lines_far_down_are_found_or_refused() {
    let fixture = Fixture::new([("wide.txt", "日".repeat(1 << 20)), ("long.txt", "x\n".repeat(4 << 20))]);
    let head = fixture.read("wide.txt").unwrap();
    assert!(head.as_text().unwrap().chars().all(|c| c == '日'));
    assert_eq!(meta(&head.entry, "files/next-range"), Some("bytes=1048575-"));
    let far = fixture.read("long.txt?lines=4194304").unwrap();
    assert_eq!((far.as_text(), number(&far.entry, "files/total-lines")), (Some("x\n"), Some(4 << 20)));
    let Err(Failure::InvalidRequest(reason)) = fixture.read("long.txt?lines=4194305") else {
        panic!("expected a refusal")
    };
    assert!(reason.contains("4194304 lines"), "{reason}");
    let sparse = File::create(fixture.path("sparse.txt")).unwrap();
    sparse.set_len(2 << 30).unwrap();
    std::fs::write(fixture.path("text.txt"), "text\n".repeat(10_000)).unwrap();
    File::options().append(true).open(fixture.path("text.txt")).unwrap().set_len(2 << 30).unwrap();
    let Err(Failure::InvalidRequest(reason)) = fixture.read("text.txt?lines=99999") else {
        panic!("expected a refusal")
    };
    assert!(reason.contains("ask for `bytes`"), "{reason}");
}

#[test]
fn deep_directories_and_long_paths_are_left_out_and_end_no_listing() {
    let fixture = Fixture::new([("a.md", "")]);
    fixture.write(&("d/".repeat(60) + "deep.md"), "deep");
    fixture.write(&("e/".repeat(200) + "deeper.md"), "deeper");
    assert_eq!(fixture.list(None, 9).unwrap(), ["a.md".to_owned(), "d/".repeat(60) + "deep.md"]);
    assert_eq!(fixture.read(&("e/".repeat(200) + "deeper.md")).unwrap().as_text(), Some("deeper"));
}

#[test]
fn a_file_that_changes_while_it_is_read_is_one_of_its_states() {
    let fixture = Fixture::new([("a.txt", "a".repeat(200_000))]);
    let path = fixture.path("a.txt");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0_u32.. {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                let letter = if n % 2 == 0 { "b" } else { "a" };
                std::fs::write(path.with_extension("new"), letter.repeat(200_000 + usize::try_from(n).unwrap()))
                    .unwrap();
                std::fs::rename(path.with_extension("new"), &path).unwrap();
            }
        });
        for _ in 0..300 {
            let contents = fixture.read("a.txt").unwrap();
            let text = contents.as_text().unwrap();
            assert_eq!(contents.entry.size, u64::try_from(text.len()).ok());
            assert!(text.bytes().all(|byte| byte == text.as_bytes()[0]));
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_hundred_thousand_files_in_one_directory_are_listed_page_by_page() {
    let fixture = Fixture::new(EMPTY);
    (0..100_000).for_each(|n| drop(File::create(fixture.path(&format!("f{n:06}"))).unwrap()));
    let first = fixture.provider.list(None, None, 100).unwrap();
    assert_eq!(first.entries.len(), 100);
    let middle = fixture.provider.list(None, Some(":f050000"), 100).unwrap();
    assert_eq!(middle.entries[0].path, "f050001");
}
