//! Files, directories and listings.

use crate::repo::{LFS, Repo, is_invalid, list_all, open, read, text};
use mcp_provider::{Body, Failure, Provider, path};

/// Returns the entries of a tree according to git: mode, kind, id, path.
fn ls_tree(repo: &Repo, args: &[&str]) -> Vec<(String, String, String, Vec<u8>)> {
    let out = repo.git([&["ls-tree", "-z"], args].concat());
    let lines = out.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    let parse = |line: &[u8]| {
        let tab = line.iter().position(|byte| *byte == b'\t').unwrap();
        let words = String::from_utf8(line[..tab].to_vec()).unwrap();
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        (words[0].clone(), words[1].clone(), words[2].clone(), line[tab + 1..].to_vec())
    };
    lines.map(parse).collect()
}

#[test]
fn the_listing_has_every_file_in_gits_order() {
    for repo in [Repo::varied(), Repo::sha256().filled()] {
        let expected = ls_tree(&repo, &["-r", "HEAD"]);
        let git = repo.open();
        for limit in [1, 2, 7, 1000] {
            let listed = list_all(&git, None, limit);
            let paths: Vec<_> = listed.iter().map(|entry| entry.path.clone()).collect();
            let expected: Vec<_> = expected.iter().map(|file| format!("blob/HEAD/{}", path::encode(&file.3))).collect();
            assert_eq!(paths, expected, "pages of {limit}");
        }
        for (entry, (mode, _, id, _)) in list_all(&git, None, 50).iter().zip(&expected) {
            assert_eq!(
                (entry.meta["git/mode"].as_str(), entry.meta["git/object"].as_str()),
                (Some(&**mode), Some(&**id))
            );
        }
    }
}

#[test]
fn every_file_is_what_git_has_and_its_size_is_known_beforehand() {
    for repo in [Repo::varied(), Repo::sha256().filled()] {
        let git = repo.open();
        let listed = list_all(&git, None, 1000);
        for (entry, (_, kind, id, _)) in listed.iter().zip(ls_tree(&repo, &["-r", "HEAD"])) {
            if kind == "commit" {
                continue;
            }
            let expected = repo.git(["cat-file", "blob", &id]);
            let contents = read(&git, &entry.path);
            assert_eq!(contents.as_bytes(), expected, "{}", entry.path);
            assert_eq!(entry.size, Some(expected.len() as u64), "{}", entry.path);
            let is_text = std::str::from_utf8(&expected).is_ok();
            assert_eq!(matches!(contents.body, Body::Text(_)), is_text, "{}", entry.path);
        }
    }
}

#[test]
fn what_is_told_of_a_file_is_the_same_with_and_without_reading_it() {
    let repo = Repo::varied();
    let git = repo.open();
    for listed in list_all(&git, None, 1000) {
        let told = git.stat(&listed.path).unwrap();
        let mut read = read(&git, &listed.path).entry;
        if told.mime_type.is_none() {
            // The type of a file whose name has no extension is known only after reading it.
            assert!(read.mime_type.is_some());
            read.mime_type = None;
        }
        assert_eq!(told, read);
    }
}

#[test]
fn a_directory_lists_what_is_directly_in_it() {
    let repo = Repo::varied();
    let git = repo.open();
    for directory in ["", "src", "src/lib", "odd", "日本", "many"] {
        let tree = if directory.is_empty() { "main^{tree}".to_owned() } else { format!("main:{directory}") };
        let parent = format!("tree/main/{}", path::encode(directory));
        let expected = ls_tree(&repo, &[&tree]);
        for limit in [1, 3, 1000] {
            let listed = list_all(&git, Some(&parent), limit);
            let names: Vec<_> = listed.iter().map(|entry| entry.path.rsplit('/').next().unwrap().to_owned()).collect();
            let expected: Vec<_> = expected.iter().map(|entry| path::encode_segment(&entry.3)).collect();
            assert_eq!(names, expected, "{directory:?}, pages of {limit}");
        }
        for (entry, (_, kind, ..)) in list_all(&git, Some(&parent), 1000).iter().zip(&expected) {
            let is_tree = kind == "tree";
            assert_eq!((entry.listable, entry.path.starts_with("tree/main/")), (is_tree, is_tree), "{}", entry.path);
            assert_eq!(entry.mime_type.as_deref() == Some("inode/directory"), is_tree);
        }
    }
}

#[test]
fn a_directory_that_is_read_names_nothing_that_is_in_it() {
    let repo = Repo::varied();
    let git = repo.open();
    for path in ["tree/main", "tree/main/src", "tree/main/odd"] {
        // The host writes the index, from the entries that the client may read.
        let directory = read(&git, path);
        assert_eq!((directory.as_text(), &directory.entry), (Some(""), &git.stat(path).unwrap()), "{path}");
        assert_eq!(directory.entry.mime_type.as_deref(), Some("inode/directory"));
    }
}

#[test]
fn a_link_is_shown_and_never_followed() {
    let repo = Repo::varied();
    let git = repo.open();
    let link = read(&git, "blob/main/outside");
    assert_eq!((link.as_text(), link.entry.mime_type.as_deref()), (Some("/etc/passwd"), Some("inode/symlink")));
    assert_eq!(text(&git, "blob/main/src/link"), "../README.md");
    assert_eq!(git.read("blob/main/src/link/x"), Err(Failure::NotFound));
}

#[test]
fn a_submodule_is_shown_as_the_commit_that_it_stands_at() {
    let repo = Repo::varied();
    let git = repo.open();
    let id = "1".repeat(40);
    let submodule = read(&git, "blob/main/vendor/sub");
    assert_eq!(submodule.as_text(), Some(&*format!("Subproject commit {id}\n")));
    assert_eq!(submodule.entry.mime_type.as_deref(), Some("text/x-git-submodule"));
    assert_eq!(submodule.entry.meta["git/object"], *id);
    assert!(is_invalid(git.read("tree/main/vendor/sub")));
    assert_eq!(git.read("blob/main/vendor/sub/file"), Err(Failure::NotFound));
}

#[test]
fn a_pointer_of_git_lfs_is_the_text_that_it_is() {
    let repo = Repo::varied();
    let git = repo.open();
    let pointer = read(&git, "blob/main/pointer.png");
    assert_eq!((pointer.as_text(), pointer.entry.mime_type.as_deref()), (Some(LFS), Some("text/plain")));
    assert_eq!(git.stat("blob/main/pointer.png").unwrap().mime_type.as_deref(), Some("text/plain"));
}

#[test]
fn types_come_from_names_and_else_from_the_content() {
    let repo = Repo::varied();
    let git = repo.open();
    let mime = |path: &str| read(&git, path).entry.mime_type.unwrap();
    assert_eq!(mime("blob/main/src/main.rs"), "text/x-rust");
    assert_eq!(mime("blob/main/%E6%97%A5%E6%9C%AC/%E3%83%A1%E3%83%A2.md"), "text/markdown");
    assert_eq!(mime("blob/main/empty"), "text/plain");
    repo.write("unknown", b"\xff");
    repo.write("go.mod", b"module a");
    repo.write("a.sql", b"SELECT 1");
    repo.commit("A file of a kind unknown");
    assert_eq!(mime("blob/main/unknown"), "application/octet-stream");
    assert_eq!((mime("blob/main/go.mod").as_str(), mime("blob/main/a.sql").as_str()), ("text/plain", "text/x-sql"));
}

#[test]
fn a_file_of_an_id_lasts_and_one_of_a_branch_can_be_watched() {
    let repo = Repo::varied();
    let git = repo.open();
    let fixed = git.stat(&format!("blob/{}/empty", repo.head())).unwrap();
    assert!(fixed.ttl.is_some() && !fixed.subscribable);
    for rev in ["main", "HEAD", "v1.0", &repo.head()[..10]] {
        let moving = git.stat(&format!("blob/{rev}/empty")).unwrap();
        assert!(moving.ttl.is_none() && moving.subscribable, "{rev}");
    }
}

#[test]
fn a_path_to_another_kind_of_object_is_refused_with_the_path_that_is_right() {
    let repo = Repo::varied();
    let git = repo.open();
    for (path, help) in [
        ("blob/main/src", "\"src\" is a directory: read tree/main/src"),
        ("tree/main/README.md", "\"README.md\" is no directory: read blob/main/README.md"),
        ("blame/main/src", "\"src\" is no file: only files have lines"),
    ] {
        assert_eq!(git.read(path), Err(Failure::invalid(help)));
        assert_eq!(git.stat(path), Err(Failure::invalid(help)));
        assert!(is_invalid(git.list(Some(path), None, 10)), "{path}");
    }
}

#[test]
fn what_is_not_there_is_not_found_and_what_makes_no_sense_is_invalid() {
    let repo = Repo::varied();
    let git = repo.open();
    for path in [
        "blob/main/none",
        "blob/none/README.md",
        "blob/main/README.md/x",
        "tree/main/none",
        "commit/none",
        "log/none",
        "blob/main~100/README.md",
        "commit/HEAD%5E2",
        "blame/main/none",
        "diff/none..main",
    ] {
        assert_eq!(git.read(path), Err(Failure::NotFound), "{path}");
        assert_eq!(git.stat(path), Err(Failure::NotFound), "{path}");
        assert_eq!(git.list(Some(path), None, 10), Err(Failure::NotFound), "{path}");
    }
    for path in [
        "",
        "x",
        "blob/main/../x",
        "blob/main/a%2Fb",
        "blob/main/%00",
        "blob/main/a?b=c",
        "refs/heads/main",
        "commit/@%7B1%7D",
    ] {
        assert!(is_invalid(git.read(path)) && is_invalid(git.stat(path)), "{path}");
    }
    for path in ["blob/main/README.md", "refs", "commit/main", "log/main"] {
        assert!(is_invalid(git.list(Some(path), None, 10)), "{path}");
    }
    for cursor in ["..", "a//b", "%zz", "a%00"] {
        assert!(is_invalid(git.list(None, Some(cursor), 10)), "{cursor}");
        assert!(is_invalid(git.list(Some("tree/main"), Some("a%00"), 10)), "{cursor}");
    }
}

#[test]
fn a_page_begins_behind_its_cursor_whatever_became_of_it() {
    let repo = Repo::varied();
    let git = repo.open();
    let after = |cursor: &str| git.list(None, Some(cursor), 1).unwrap().entries[0].path.clone();
    assert_eq!(after("src/lib/gone"), "blob/HEAD/src/link");
    assert_eq!(after("src/lib"), "blob/HEAD/src/lib/deep/er.rs");
    assert_eq!(after("src"), "blob/HEAD/src-more/x");
    assert_eq!(after("src.txt"), "blob/HEAD/src/lib/deep/er.rs");
    assert_eq!(after("src/main.rs"), "blob/HEAD/vendor/sub");
    assert_eq!(after("src-"), "blob/HEAD/src-more/x");
    let last = path::encode("日本/メモ.md");
    assert!(git.list(None, Some(&last), 1).unwrap().entries.is_empty());
}

#[test]
fn a_repository_without_a_commit_lists_nothing() {
    let repo = Repo::new();
    for git in [repo.open(), repo.open_with(&[("rev", "main")])] {
        assert!(list_all(&git, None, 10).is_empty());
        assert_eq!(git.read("tree/HEAD"), Err(Failure::NotFound));
        assert_eq!(text(&git, "refs"), "");
    }
}

#[test]
fn the_revision_that_is_listed_is_the_configs() {
    let repo = Repo::varied();
    let git = repo.open_with(&[("rev", "feature/x")]);
    let listed = list_all(&git, None, 1000);
    assert!(listed.iter().all(|entry| entry.path.starts_with("blob/feature%2Fx/")));
    assert_eq!(listed.len(), ls_tree(&repo, &["-r", "feature/x"]).len());
    let git = repo.open_with(&[("rev", "gone")]);
    assert!(matches!(git.list(None, None, 10), Err(Failure::Unavailable(retry)) if retry.reason.contains("`rev`")));
}

#[test]
fn a_file_that_is_too_large_says_so_and_is_listed_all_the_same() {
    let repo = Repo::varied();
    repo.write("large", vec![b'x'; 5000]);
    repo.commit("Large");
    let git = repo.open_with(&[("max-blob", "4KiB")]);
    let Err(Failure::Unavailable(retry)) = git.read("blob/main/large") else { panic!("expected a refusal") };
    assert!(retry.reason.contains("5000 bytes") && retry.reason.contains("`max-blob`"), "{}", retry.reason);
    assert_eq!(git.stat("blob/main/large").unwrap().size, Some(5000));
    assert!(list_all(&git, None, 1000).iter().any(|entry| entry.size == Some(5000)));
    assert_eq!(text(&git, "blob/main/README.md"), "# Title\n\nText\n");
}

#[test]
fn a_large_directory_tree_is_paged_through_completely() {
    let repo = Repo::new();
    let mut import = "commit refs/heads/main\ncommitter B <b@example.com> 1 +0000\ndata 1\nx\n".to_owned();
    for n in 0..5000 {
        import += &format!("M 644 inline {}/{}/{n}\ndata 1\nx\n", n % 7, n % 31);
    }
    repo.git_with(["fast-import", "--quiet"], import.as_bytes());
    let listed = list_all(&open(&repo.dir, &[]), None, 333);
    let expected = ls_tree(&repo, &["-r", "main"]);
    assert_eq!(listed.len(), 5000);
    let names = |n: usize| format!("blob/HEAD/{}", path::encode(&expected[n].3));
    assert!(listed.iter().enumerate().all(|(n, entry)| entry.path == names(n)));
}
