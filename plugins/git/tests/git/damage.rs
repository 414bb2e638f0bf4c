//! Damaged and malicious repositories: every call ends, with a result or a typed failure.

use crate::repo::{Repo, list_all, open, try_open};
use mcp_provider::{Argument, Failure, Provider};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Creates a small repository with all objects in one pack.
fn packed() -> Repo {
    let repo = Repo::new();
    let line = |n: usize| format!("line {n} of a file\n");
    for n in 0..4 {
        repo.write("dir/file", (0..40 + n).map(line).collect::<String>());
        repo.write("a", format!("{n}\n"));
        repo.commit(&format!("Commit {n}"));
    }
    repo.git(["tag", "-a", "v1", "-m", "One"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
    repo.git(["multi-pack-index", "write"]);
    repo.git(["update-ref", "-d", "refs/heads/none"]);
    repo
}

/// Calls everything and returns the failures. Results are ignored: a call must return without a panic.
fn call_everything(dir: &Path) -> Vec<Failure> {
    let git = match try_open(dir, &[]) {
        Ok(git) => git,
        Err(failure) => return vec![failure],
    };
    let mut failures = Vec::new();
    for path in [
        "blob/main/dir/file",
        "blob/main/a",
        "tree/main",
        "tree/main/dir",
        "commit/main",
        "commit/v1",
        "refs",
        "log/main",
        "log/main?path=dir/file",
        "blob/v1/a",
        "commit/abcd",
        "commit/main~1%5E%7B%7D",
        "log/v1..main",
        "log/main?path=dir/file&follow=true",
        "diff/v1..main",
        "blame/main/dir/file",
    ] {
        failures.extend(git.read(path).err());
        failures.extend(git.stat(path).err());
    }
    failures.extend(git.list(None, None, 10).err());
    failures.extend(git.list(Some("tree/main"), None, 10).err());
    let watched = ["blob/main/a".to_owned(), "refs".to_owned(), "log/main".to_owned()];
    failures.extend(git.changes(&watched, None).err());
    let known = [Argument::new("rev", "main")];
    failures.extend(git.complete("blob/{rev}/{+path}", &Argument::new("path", "d"), &known).err());
    failures.extend(git.complete("blob/{rev}/{+path}", &Argument::new("rev", ""), &[]).err());
    failures
}

fn files(dir: &Path, name: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![dir.to_owned()];
    while let Some(directory) = directories.pop() {
        for file in fs::read_dir(directory).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if name(path.file_name().unwrap().to_str().unwrap()) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn overwrite(path: &Path, content: &[u8]) {
    // Git makes immutable files read-only.
    let _ = fs::remove_file(path);
    fs::write(path, content).unwrap();
}

/// Damages a file in many ways, and calls everything each time. Returns the number of calls that failed only with the
/// damage.
fn damage(repo: &Repo, path: &Path, step: usize) -> usize {
    let whole = fs::read(path).unwrap();
    let flipped = (0..whole.len()).step_by(step).map(|at| {
        let mut damaged = whole.clone();
        damaged[at] ^= [0x01, 0x80, 0xff][at % 3];
        damaged
    });
    let cut = (0..whole.len()).step_by(step * 5).map(|length| whole[..length].to_vec());
    let sound = call_everything(&repo.dir).len();
    let failed = flipped.chain(cut).filter(|damaged| {
        overwrite(path, damaged);
        call_everything(&repo.dir).len() > sound
    });
    let failed = failed.count();
    overwrite(path, &whole);
    failed
}

#[test]
fn a_damaged_pack_fails_and_never_panics() {
    let repo = packed();
    assert_eq!(call_everything(&repo.dir), vec![Failure::NotFound; 2], "only the id `abcd` is not there");
    let pack = &files(&repo.dir, |name| name.ends_with(".pack"))[0];
    assert!(damage(&repo, pack, 2) > 100);
}

#[test]
fn a_damaged_index_fails_and_never_panics() {
    let repo = packed();
    let midx = &files(&repo.dir, |name| name == "multi-pack-index")[0];
    damage(&repo, midx, 5);
    fs::remove_file(midx).unwrap();
    let index = &files(&repo.dir, |name| name.ends_with(".idx"))[0];
    damage(&repo, index, 5);
}

#[test]
fn damaged_refs_fail_and_never_panic() {
    let repo = packed();
    for name in ["HEAD", "packed-refs"] {
        assert!(damage(&repo, &repo.dir.join(".git").join(name), 1) > 5, "{name}");
    }
    damage(&repo, &repo.dir.join(".git/config"), 1);
}

#[test]
fn damaged_loose_objects_fail_and_never_panic() {
    let repo = Repo::new();
    repo.write("a", "a\n");
    repo.write("dir/file", "file\n");
    repo.commit("Loose");
    let mut failed = 0;
    for object in files(&repo.dir.join(".git/objects"), |name| name.len() == 38) {
        failed += damage(&repo, &object, 2);
    }
    assert!(failed > 50);
}

#[test]
fn an_object_under_the_id_of_another_is_not_served() {
    let repo = Repo::new();
    repo.write("a", "right\n");
    repo.write("b", "wrong\n");
    repo.commit("Two files");
    let path = |file: &str| {
        let id = repo.line(["rev-parse", &format!("main:{file}")]);
        repo.dir.join(".git/objects").join(&id[..2]).join(&id[2..])
    };
    let wrong = fs::read(path("b")).unwrap();
    overwrite(&path("a"), &wrong);
    let Err(Failure::Internal(fault)) = repo.open().read("blob/main/a") else { panic!("expected a fault") };
    assert!(fault.contains("its content hashes to"), "{fault}");
}

#[test]
fn what_is_damaged_is_named_for_the_log_and_not_for_the_client() {
    let repo = packed();
    let pack = &files(&repo.dir, |name| name.ends_with(".pack"))[0];
    let mut content = fs::read(pack).unwrap();
    let end = content.len() - 30;
    content[20..end].fill(0x55);
    overwrite(pack, &content);
    let Err(Failure::Internal(fault)) = repo.open().read("commit/main") else { panic!("expected a fault") };
    assert!(fault.contains(".pack at byte "), "{fault}");
}

/// Writes a tree that git does not create.
fn tree(repo: &Repo, entries: &[(&str, &str, &str)]) -> String {
    let mut content = Vec::new();
    for (mode, name, id) in entries {
        content.extend(format!("{mode} {name}\0").bytes());
        content.extend((0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()));
    }
    let id = repo.git_with(["hash-object", "-t", "tree", "-w", "--stdin", "--literally"], &content);
    String::from_utf8(id).unwrap().trim().to_owned()
}

/// Tags a tree, because a tree has no URI by its id.
fn name_root(repo: &Repo, tree: &str) {
    repo.git(["update-ref", "refs/tags/root", tree]);
}

fn blob(repo: &Repo) -> String {
    String::from_utf8(repo.git_with(["hash-object", "-w", "--stdin"], b"x\n")).unwrap().trim().to_owned()
}

#[test]
fn entries_that_no_path_can_name_are_passed_over() {
    let repo = Repo::new();
    let blob = blob(&repo);
    let names = ["", ".", "..", "a/b", "ok"];
    let root = tree(&repo, &names.map(|name| ("100644", name, blob.as_str())));
    name_root(&repo, &root);
    let git = repo.open_with(&[("rev", "root")]);
    let listed: Vec<_> = list_all(&git, None, 2).into_iter().map(|entry| entry.path).collect();
    assert_eq!(listed, ["blob/root/ok"]);
    assert_eq!(git.read("blob/root/a/b"), Err(Failure::NotFound));
}

#[test]
fn a_listing_of_a_tree_in_no_order_ends_all_the_same() {
    let repo = Repo::new();
    let blob = blob(&repo);
    let names = ["m", "z", "a", "m", "b", "zz", "a"];
    let root = tree(&repo, &names.map(|name| ("100644", name, blob.as_str())));
    name_root(&repo, &root);
    let git = repo.open_with(&[("rev", "root")]);
    for (parent, limit) in [None, Some("tree/root")].into_iter().flat_map(|parent| [1, 2, 3].map(|n| (parent, n))) {
        let mut cursor = None;
        let pages = (0..).map_while(|_| {
            let page = git.list(parent, cursor.as_deref(), limit);
            cursor = page.as_ref().ok()?.next_cursor.clone();
            cursor.clone()
        });
        assert!(pages.take(100).count() <= names.len());
    }
    let Err(Failure::Internal(fault)) = git.list(None, None, 10) else { panic!("expected a fault") };
    assert!(fault.contains("out of order"), "{fault}");
    assert_eq!(git.read("blob/root/b").unwrap()[0].as_text(), Some("x\n"));
}

#[test]
fn a_bomb_of_directories_is_nothing_and_a_bomb_of_files_is_paged() {
    let repo = Repo::new();
    let blob = blob(&repo);
    for (leaf, expected) in [(tree(&repo, &[]), (0, false)), (tree(&repo, &[("100644", "f", &blob)]), (20, true))] {
        let mut bomb = leaf;
        for _ in 0..12 {
            let names: Vec<_> = (0..10).map(|n| format!("d{n}")).collect();
            bomb = tree(&repo, &names.iter().map(|name| ("40000", name.as_str(), bomb.as_str())).collect::<Vec<_>>());
        }
        name_root(&repo, &bomb);
        let git = repo.open_with(&[("rev", "root")]);
        let page = git.list(None, None, 20).unwrap();
        assert_eq!((page.entries.len(), page.next_cursor.is_some()), expected);
    }
}

#[test]
fn many_directories_without_a_file_end_a_page_and_the_next_goes_on() {
    let repo = Repo::new();
    let blob = blob(&repo);
    // Each entry is a distinct tree that contains only an empty tree.
    let empty = tree(&repo, &[]);
    let lines: String = (0..6000).map(|n| format!("040000 tree {empty}\te{n}\n\n")).collect();
    let ids = String::from_utf8(repo.git_with(["mktree", "--batch"], lines.as_bytes())).unwrap();
    let barren: Vec<_> = ids.lines().enumerate().map(|(n, id)| (format!("d{n:04}"), id.to_owned())).collect();
    let mut entries: Vec<_> = barren.iter().map(|(name, id)| ("40000", name.as_str(), id.as_str())).collect();
    entries.push(("100644", "z", &blob));
    let root = tree(&repo, &entries);
    name_root(&repo, &root);
    let git = repo.open_with(&[("rev", "root")]);
    let first = git.list(None, None, 20).unwrap();
    assert!(first.entries.is_empty() && first.next_cursor.is_some());
    let second = git.list(None, first.next_cursor.as_deref(), 20).unwrap();
    assert_eq!((second.entries.len(), second.next_cursor), (1, None));
    assert_eq!(list_all(&git, None, 3).len(), 1);
}

#[test]
fn a_zip_bomb_is_read_no_further_than_its_header_says() {
    let repo = Repo::new();
    // Zeros, which a loose object compresses by a factor of a thousand.
    let bomb = vec![0; 64 << 20];
    let id = String::from_utf8(repo.git_with(["hash-object", "-w", "--stdin"], &bomb)).unwrap().trim().to_owned();
    name_root(&repo, &tree(&repo, &[("100644", "bomb", &id)]));
    let git = repo.open();
    let Err(Failure::Unavailable(retry)) = git.read("blob/root/bomb") else { panic!("expected a refusal") };
    assert!(retry.reason.contains(&bomb.len().to_string()), "{}", retry.reason);
}

#[test]
fn deltas_that_lead_in_a_circle_are_damage() {
    // Two deltas, each with the other as its base.
    let repo = Repo::new();
    let (a, b) = ([0xaa_u8; 20], [0xbb_u8; 20]);
    // A delta from 1 byte to 1 byte that copies it, as a stored zlib stream.
    let delta = [0x78, 0x01, 1, 4, 0, 0xfb, 0xff, 1, 1, 0x90, 1, 0x01, 0x9b, 0x00, 0x94];
    let mut pack = b"PACK\0\0\0\x02\0\0\0\x02".to_vec();
    let mut offsets = Vec::new();
    for base in [b, a] {
        offsets.push(pack.len() as u32);
        pack.push(0x74);
        pack.extend(base);
        pack.extend(delta);
    }
    pack.extend([0; 20]);
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    (0..256u32).for_each(|n| index.extend((u32::from(n >= 0xaa) + u32::from(n >= 0xbb)).to_be_bytes()));
    index.extend(a.iter().chain(&b));
    index.extend([0; 8]);
    offsets.iter().for_each(|offset| index.extend(offset.to_be_bytes()));
    index.extend([0; 40]);
    let directory = repo.dir.join(".git/objects/pack");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("pack-x.pack"), pack).unwrap();
    fs::write(directory.join("pack-x.idx"), index).unwrap();
    let Err(Failure::Internal(fault)) = repo.open().read(&format!("commit/{}", "aa".repeat(20))) else {
        panic!("expected a fault")
    };
    assert!(fault.contains("or a cycle"), "{fault}");
}

#[test]
fn links_and_pipes_in_the_place_of_files_hang_nothing() {
    let repo = packed();
    let heads = repo.dir.join(".git/refs/heads");
    assert!(Command::new("mkfifo").arg(heads.join("pipe")).status().unwrap().success());
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(".", heads.join("round")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", heads.join("passwd")).unwrap();
    }
    let git = open(&repo.dir, &[]);
    assert!(git.read("refs").is_ok());
    assert!(matches!(git.read("commit/pipe"), Err(Failure::Internal(_))));
    assert!(matches!(git.read("commit/passwd"), Err(Failure::Internal(_))));
}
