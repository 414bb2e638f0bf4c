//! The same repository in every storage layout of git.

use crate::repo::{Repo, list_all, open, text, try_open};
use git_provider::Git;
use mcp_provider::{Failure, Provider};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Reads everything that is served of a repository: each file of some revisions, each commit, the log and the refs.
fn everything(git: &Git) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut add = |path: String| {
        let content = git.read(&path).unwrap_or_else(|failure| panic!("{path}: {failure}"));
        all.insert(path, content[0].as_bytes().to_vec());
    };
    for entry in list_all(git, None, 1000) {
        for rev in ["HEAD", "feature%2Fx"] {
            let path = entry.path.replacen("HEAD", rev, 1);
            if git.stat(&path).is_ok() {
                add(path);
            }
        }
    }
    let log = text(git, "log/main?limit=1000");
    for line in log.lines() {
        add(format!("commit/{}", line.split('\t').next().unwrap()));
        add(format!("blob/{}/grows.txt", line.split('\t').next().unwrap()));
        if line.ends_with("Line 0") {
            break;
        }
    }
    add("log/main?limit=1000".to_owned());
    add("refs".to_owned());
    all
}

fn packs(repo: &Repo, ending: &str) -> Vec<std::path::PathBuf> {
    let packs = fs::read_dir(repo.dir.join(".git/objects/pack")).unwrap();
    packs
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect()
}

/// Packs all objects, which are loose, into four packs.
fn several_packs(repo: &Repo) {
    let ids = repo.git(["cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered"]);
    let ids: Vec<_> = ids.split_inclusive(|byte| *byte == b'\n').collect();
    for some in ids.chunks(ids.len().div_ceil(4)) {
        repo.git_with(["pack-objects", "-q", ".git/objects/pack/pack"], &some.concat());
    }
    repo.git(["prune-packed", "-q"]);
    assert_eq!(packs(repo, "pack").len(), 4);
}

#[test]
fn it_does_not_matter_how_the_objects_are_kept() {
    for repo in [Repo::varied(), Repo::sha256().filled()] {
        repo.git(["repack", "-a", "-d", "-q"]);
        let all = everything(&repo.open());
        let pack = &packs(&repo, "pack")[0];
        let aside = repo.root.path().join("aside.pack");
        for (way, make) in storage_layouts() {
            // Unpacks everything, so that each layout starts from loose objects.
            let packs = repo.dir.join(".git/objects/pack");
            let _ = fs::rename(pack, &aside);
            fs::remove_dir_all(&packs).unwrap();
            fs::create_dir(&packs).unwrap();
            repo.git_with(["unpack-objects", "-q"], &fs::read(&aside).unwrap());
            make(&repo);
            assert!(repo.succeeds(["fsck", "--full", "--strict"]) || way.contains("without"), "{way}");
            assert!(everything(&repo.open()) == all, "{way}");
        }
    }
}

type StorageLayout = (&'static str, fn(&Repo));

/// Returns the storage layouts, from a repository in which all objects are loose.
fn storage_layouts() -> Vec<StorageLayout> {
    fn repack(repo: &Repo, config: &[&str]) {
        repo.git([config, &["repack", "-a", "-d", "-f", "-q", "--depth=50", "--window=50"]].concat());
        assert_eq!(packs(repo, "pack").len(), 1);
    }
    fn with_midx(repo: &Repo) {
        several_packs(repo);
        repo.git(["multi-pack-index", "write"]);
    }
    vec![
        ("loose", |_| {}),
        ("loose, not compressed", |repo| {
            let ids = repo.git(["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"]);
            let ids = String::from_utf8(ids).unwrap();
            for (id, kind) in ids.lines().filter_map(|line| line.split_once(' ')).take(40) {
                let content = repo.git(["cat-file", kind, id]);
                let path = repo.dir.join(".git/objects").join(&id[..2]).join(&id[2..]);
                fs::remove_file(path).unwrap();
                let write =
                    ["-c", "core.looseCompression=0", "hash-object", "-t", kind, "-w", "--stdin", "--literally"];
                repo.git_with(write, &content);
            }
        }),
        ("one pack with deltas", |repo| repack(repo, &[])),
        ("deltas that name their base", |repo| repack(repo, &["-c", "repack.useDeltaBaseOffset=false"])),
        ("an index of version 1", |repo| {
            if repo.hex() == 40 {
                repack(repo, &["-c", "pack.indexVersion=1"]);
            }
        }),
        ("64-bit offsets in the index", |repo| {
            repack(repo, &[]);
            let pack = packs(repo, "pack").remove(0);
            let index = pack.with_extension("idx");
            fs::remove_file(&index).unwrap();
            let (pack, index) = (pack.to_str().unwrap(), index.to_str().unwrap());
            repo.git(["index-pack", "--index-version=2,0x40", "-o", index, pack]);
        }),
        ("several packs", several_packs),
        ("a multi-pack index", with_midx),
        ("a multi-pack index, without the indexes of the packs", |repo| {
            with_midx(repo);
            packs(repo, "idx").into_iter().for_each(|path| fs::remove_file(path).unwrap());
        }),
        ("a multi-pack index, and packs that it does not know", |repo| {
            repo.git_with(["pack-objects", "-q", ".git/objects/pack/pack"], repo.head().as_bytes());
            repo.git(["multi-pack-index", "write"]);
            repo.git(["prune-packed", "-q"]);
            repo.git(["repack", "-d", "-q"]);
            assert_eq!(packs(repo, "pack").len(), 2);
        }),
        ("a multi-pack index of packs that are gone, without packs", |repo| {
            with_midx(repo);
            let midx = repo.dir.join(".git/objects/pack/multi-pack-index");
            let content = fs::read(&midx).unwrap();
            repack(repo, &[]);
            fs::write(&midx, content).unwrap();
        }),
        ("refs in a file", |repo| drop(repo.git(["pack-refs", "--all"]))),
        ("all that git's housekeeping does", |repo| drop(repo.git(["gc", "--quiet", "--aggressive", "--prune=now"]))),
    ]
}

#[test]
fn a_deep_chain_of_deltas_is_read() {
    let repo = Repo::new();
    let mut import = String::new();
    for n in 0..600 {
        let content = format!("{}{n}\n", "the same line again and again\n".repeat(20));
        import += &format!("commit refs/heads/main\ncommitter B <b@example.com> {n} +0000\ndata 1\nx\n");
        import += &format!("M 644 inline file\ndata {}\n{content}\n", content.len());
    }
    repo.git_with(["fast-import", "--quiet", "--depth=4095"], import.as_bytes());
    let git = repo.open();
    let oldest = repo.line(["rev-list", "--max-parents=0", "main"]);
    for rev in ["main", &oldest] {
        let expected = repo.git(["cat-file", "blob", &format!("{rev}:file")]);
        assert_eq!(text(&git, &format!("blob/{rev}/file")).as_bytes(), expected);
    }
}

#[test]
fn a_bare_repository_is_served_like_one_with_a_work_tree() {
    let repo = Repo::varied();
    let bare = repo.root.path().join("bare");
    repo.git(["clone", "--quiet", "--bare", repo.dir.to_str().unwrap(), bare.to_str().unwrap()]);
    let mut here = everything(&repo.open());
    let mut there = everything(&open(&bare, &[]));
    assert_eq!((here.remove("refs").is_some(), there.remove("refs").is_some()), (true, true));
    assert!(here == there);
}

#[test]
fn a_linked_worktree_has_its_own_head_and_shares_the_rest() {
    let repo = Repo::varied();
    let linked = repo.root.path().join("linked");
    repo.git(["worktree", "add", "--quiet", linked.to_str().unwrap(), "feature/x"]);
    repo.git(["pack-refs", "--all"]);
    let git = open(&linked, &[]);
    assert_eq!(text(&git, "log/HEAD"), text(&repo.open(), "log/feature%2Fx"));
    assert_eq!(text(&git, "log/main"), text(&repo.open(), "log/main"));
    let show = ["-C", linked.to_str().unwrap(), "show-ref", "--head", "--dereference"];
    assert_eq!(text(&git, "refs").as_bytes(), repo.git(show));
}

#[test]
fn objects_that_are_borrowed_from_another_repository_are_found() {
    let repo = Repo::varied();
    repo.git(["repack", "-a", "-d", "-q"]);
    let clone = repo.root.path().join("clone");
    repo.git(["clone", "--quiet", "--shared", "--branch=main", repo.dir.to_str().unwrap(), clone.to_str().unwrap()]);
    assert_eq!(text(&open(&clone, &[]), "log/main"), text(&repo.open(), "log/main"));
    let alternates = clone.join(".git/objects/info/alternates");
    fs::write(alternates, "../../../repo/.git/objects\n").unwrap();
    assert_eq!(text(&open(&clone, &[]), "blob/main/README.md"), "# Title\n\nText\n");
}

#[test]
fn a_repository_may_be_repacked_while_it_is_open() {
    let repo = Repo::varied();
    let git = repo.open();
    let log = text(&git, "log/main");
    repo.git(["gc", "--quiet", "--prune=now"]);
    assert_eq!(text(&git, "log/main"), log);
    repo.write("new", "new\n");
    repo.commit("Later");
    repo.git(["repack", "-a", "-d", "-q"]);
    repo.git(["multi-pack-index", "write"]);
    assert_eq!(text(&git, "blob/main/new"), "new\n");
    assert_eq!(text(&git, "log/main").lines().count(), log.lines().count() + 1);
}

#[test]
fn what_is_no_repository_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let reason = |dir: &Path| match try_open(dir, &[]) {
        Err(Failure::Unavailable(retry)) => retry.reason,
        _ => panic!("expected a refusal"),
    };
    assert!(reason(dir.path()).contains("no git repository"));
    assert!(reason(&dir.path().join("none")).contains("no such directory"));
}
