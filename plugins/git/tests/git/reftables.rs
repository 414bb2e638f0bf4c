//! Repositories whose refs are in reftables.

use crate::repo::{Repo, open, text};
use mcp_provider::{Failure, Provider, path};
use std::fs;

fn show(repo: &Repo) -> String {
    String::from_utf8(repo.git(["show-ref", "--head", "--dereference"])).unwrap()
}

#[test]
fn refs_in_tables_are_those_that_git_shows() {
    for format in ["sha1", "sha256"] {
        let repo = Repo::reftable(format).filled();
        repo.git(["update-ref", "refs/remotes/origin/main", "HEAD~5"]);
        repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
        repo.git(["symbolic-ref", "refs/remotes/dangling", "refs/heads/none"]);
        let git = repo.open();
        assert_eq!(text(&git, "refs"), show(&repo), "{format}");
        // Deletions and changes are in newer tables, until git merges them.
        repo.git(["-c", "reftable.autocompaction=false", "update-ref", "refs/heads/main", "HEAD~1"]);
        repo.git(["branch", "-D", "feature/x"]);
        repo.git(["tag", "-a", "again", "-m", "x"]);
        assert_eq!(text(&git, "refs"), show(&repo), "{format}");
        repo.git(["pack-refs"]);
        assert_eq!(text(&git, "refs"), show(&repo), "{format}");
        for rev in ["HEAD", "main", "v1.0", "again", "origin", "tags/light", "main~2"] {
            let entry = git.stat(&format!("commit/{}", path::encode_segment(rev))).unwrap();
            assert_eq!(entry.meta["git/object"], repo.line(["rev-parse", &format!("{rev}^{{commit}}")]), "{rev}");
        }
        assert_eq!(git.stat("commit/feature%2Fx"), Err(Failure::NotFound));
    }
}

#[test]
fn thousands_of_refs_are_found_by_the_index() {
    let repo = Repo::reftable("sha1").filled();
    let ids = String::from_utf8(repo.git(["rev-list", "HEAD"])).unwrap();
    let ids: Vec<&str> = ids.lines().collect();
    let updates: String =
        (0..5000).map(|n| format!("create refs/tags/t{n:04}/of/many {}\n", ids[n % ids.len()])).collect();
    for block_size in ["4096", "512"] {
        if block_size == "4096" {
            repo.git_with(["update-ref", "--stdin"], updates.as_bytes());
        }
        repo.git(["-c", &format!("reftable.blockSize={block_size}"), "-c", "reftable.indexObjects=false", "pack-refs"]);
        let git = repo.open();
        for n in [0, 1, 17, 999, 2500, 4998, 4999] {
            let entry = git.stat(&format!("commit/t{n:04}%2Fof%2Fmany")).unwrap();
            assert_eq!(entry.meta["git/object"], ids[n % ids.len()], "{n}");
        }
        for name in ["t5000%2Fof%2Fmany", "t0000%2Fof", "a", "zzz"] {
            assert_eq!(git.stat(&format!("commit/{name}")), Err(Failure::NotFound), "{name}");
        }
        assert_eq!(text(&git, "refs"), show(&repo));
        let after = text(&git, "refs?after=refs%2Ftags%2Ft2500%2Fof%2Fmany");
        assert!(after.lines().next().unwrap().ends_with("refs/tags/t2501/of/many"), "{after}");
    }
}

#[test]
fn a_worktree_has_its_own_tables_beside_the_shared_ones() {
    let repo = Repo::reftable("sha1").filled();
    repo.git(["worktree", "add", "--quiet", "--detach", "../linked", "HEAD~2"]);
    let linked = repo.root.path().join("linked");
    let in_linked = |args: &[&str]| repo.line([&["-C", linked.to_str().unwrap()], args].concat());
    in_linked(&["update-ref", "refs/worktree/own", "HEAD~1"]);
    let git = open(&linked, &[]);
    assert_eq!(text(&git, "refs").trim_end(), in_linked(&["show-ref", "--head", "--dereference"]));
    assert_eq!(git.stat("commit/HEAD").unwrap().meta["git/object"], in_linked(&["rev-parse", "HEAD"]));
    assert!(!text(&repo.open(), "refs").contains("refs/worktree/own"));
}

#[test]
fn a_change_of_a_ref_in_a_table_is_a_change() {
    let repo = Repo::reftable("sha1").filled();
    let git = repo.open();
    let watched = ["blob/main/README.md".to_owned(), "refs".to_owned(), "blob/light/README.md".to_owned()];
    let first = git.changes(&watched, None).unwrap();
    repo.write("README.md", "changed\n");
    repo.commit("Change");
    let second = git.changes(&watched, Some(&first.token)).unwrap();
    assert_eq!(second.changed, ["blob/main/README.md", "refs"]);
}

#[test]
fn a_damaged_table_fails_and_never_panics() {
    let repo = Repo::reftable("sha1").filled();
    repo.git(["pack-refs"]);
    let tables = repo.dir.join(".git/reftable");
    let list = fs::read_to_string(tables.join("tables.list")).unwrap();
    let path = tables.join(list.lines().next().unwrap());
    let whole = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let git = repo.open();
    assert!(matches!(git.read("refs"), Err(Failure::Internal(_))), "a table is missing");
    for at in (0..whole.len()).step_by(3) {
        for value in [0, 0xff, whole[at].wrapping_add(1)] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            fs::write(&path, &damaged).unwrap();
            let git = repo.open();
            let _ = (git.read("refs"), git.stat("commit/main"), git.stat("commit/zzz"));
        }
        fs::write(&path, &whole[..at]).unwrap();
        let _ = repo.open().read("refs");
    }
}
