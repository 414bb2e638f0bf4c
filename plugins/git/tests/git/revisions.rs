//! Revision names, ids, and refs.

use crate::repo::{Repo, is_invalid, read, text};
use git_provider::Git;
use mcp_provider::{Failure, Provider, path};

/// Returns the commit to which the provider resolves a revision.
fn commit(git: &Git, rev: &str) -> Result<String, Failure> {
    let entry = git.stat(&format!("commit/{}", path::encode_segment(rev)))?;
    Ok(entry.meta["git/object"].as_str().unwrap().to_owned())
}

/// Returns the object to which git resolves a revision.
fn expected(repo: &Repo, rev: &str) -> String {
    repo.line(["rev-parse", "--verify", "--quiet", &format!("{rev}^{{commit}}")])
}

#[test]
fn a_revision_is_what_git_takes_it_for() {
    for repo in [Repo::varied(), Repo::sha256().filled()] {
        repo.git(["update-ref", "refs/remotes/origin/main", "HEAD~5"]);
        repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
        repo.git(["update-ref", "refs/notes/commits", "HEAD~6"]);
        for packed in [false, true] {
            if packed {
                repo.git(["pack-refs", "--all"]);
            }
            let git = repo.open();
            for rev in [
                "HEAD",
                "main",
                "heads/main",
                "refs/heads/main",
                "feature/x",
                "v1.0",
                "tags/v1.0",
                "light",
                "origin",
                "origin/main",
                "remotes/origin/main",
                "refs/remotes/origin/HEAD",
                "notes/commits",
            ] {
                assert_eq!(commit(&git, rev), Ok(expected(&repo, rev)), "{rev}, packed: {packed}");
            }
            let head = repo.head();
            for length in [7, 8, 20, head.len() - 1, head.len()] {
                assert_eq!(commit(&git, &head[..length]), Ok(head.clone()), "{length} digits");
            }
            assert_eq!(commit(&git, &head[..12].to_uppercase()), Ok(head));
        }
    }
}

#[test]
fn operators_lead_where_git_has_them_lead() {
    let repo = Repo::branched();
    repo.git(["tag", "-a", "v1", "-m", "One", "main~1"]);
    repo.git(["tag", "-a", "v1-again", "-m", "A tag of a tag", "v1"]);
    let head = repo.head();
    for graph in [false, true] {
        if graph {
            repo.git(["commit-graph", "write", "--reachable"]);
        }
        let git = repo.open();
        for rev in [
            "main~2",
            "main~",
            "HEAD^",
            "@",
            "@~^2",
            "main^^",
            "main~1^2~1",
            "main^0",
            "v1^{}",
            "v1-again^{}~1",
            "v1^{commit}^",
            "side-1~0",
            &format!("{head}~4"),
            &format!("{}~1^2", &head[..9]),
        ] {
            assert_eq!(commit(&git, rev), Ok(expected(&repo, rev)), "{rev}");
        }
        for rev in ["main~100", "main^2", "v1^{tree}", "v1^{blob}", "main^{tag}", "none~1"] {
            assert_eq!(commit(&git, rev), Err(Failure::NotFound), "{rev}");
        }
        let object = |path: &str| git.stat(path).unwrap().meta["git/object"].clone();
        assert_eq!(object("tree/main~2%5E%7Btree%7D/dir"), object("tree/main~2/dir"));
    }
    let git = repo.open();
    for rev in ["main@{yesterday}", "@{u}", "main@{1}", "main:a", "main^{/Root}", "main^!"] {
        assert!(is_invalid(commit(&git, rev)), "{rev}");
    }
    assert!(git.stat(&format!("commit/{head}~1")).unwrap().ttl.is_some());
    assert!(git.stat("commit/main~1").unwrap().subscribable);
}

#[test]
fn a_name_of_several_refs_is_the_one_that_git_takes() {
    let repo = Repo::varied();
    let names = ["refs/both", "refs/tags/both", "refs/heads/both", "refs/remotes/both"];
    for (n, name) in names.iter().enumerate() {
        repo.git(["update-ref", name, &format!("HEAD~{}", n + 1)]);
    }
    for packed in [false, true] {
        if packed {
            repo.git(["pack-refs", "--all"]);
        }
        let git = repo.open();
        for rev in ["both", "heads/both", "tags/both", "remotes/both"] {
            assert_eq!(commit(&git, rev), Ok(expected(&repo, rev)), "{rev}");
        }
    }
    for name in &names[..3] {
        repo.git(["update-ref", "-d", name]);
        assert_eq!(commit(&repo.open(), "both"), Ok(expected(&repo, "both")), "without {name}");
    }
}

#[test]
fn a_branch_that_looks_like_an_id_is_a_branch_unless_it_is_a_whole_one() {
    let repo = Repo::varied();
    let short = repo.head()[..8].to_owned();
    repo.git(["update-ref", &format!("refs/heads/{short}"), "HEAD~2"]);
    repo.git(["update-ref", &format!("refs/heads/{}", repo.head()), "HEAD~2"]);
    let git = repo.open();
    for rev in [short, repo.head()] {
        assert_eq!(commit(&git, &rev), Ok(expected(&repo, &rev)));
    }
}

#[test]
fn a_short_id_of_several_commits_is_refused_with_the_candidates() {
    let repo = Repo::new();
    // Enough commits that some share their first four digits.
    let commit_of = |n: usize| format!("commit refs/heads/many\ncommitter A <a@b> {n} +0000\ndata 0\n\n");
    repo.git_with(["fast-import", "--quiet"], (0..2000).map(commit_of).collect::<String>().as_bytes());
    repo.write("a", "a\n");
    repo.commit("Loose objects, too");
    let all = repo.git(["cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)"]);
    let all = String::from_utf8(all).unwrap();
    let ids: Vec<_> = all.lines().filter_map(|line| line.strip_prefix("commit ")).collect();
    let twice = ids.windows(2).find(|pair| pair[0][..4] == pair[1][..4]).unwrap();
    let prefix = &twice[0][..4];
    let Err(Failure::InvalidRequest(refusal)) = repo.open().read(&format!("commit/{prefix}")) else {
        panic!("expected a refusal")
    };
    let candidates = ids.iter().filter(|id| id.starts_with(prefix)).count();
    assert!(candidates <= 10 && refusal.matches(prefix).count() == candidates + 1, "{refusal}");
    assert!(twice.iter().all(|id| refusal.contains(id)), "{refusal}");
    assert_eq!(commit(&repo.open(), "fff"), Err(Failure::NotFound));
    assert_eq!(commit(&repo.open(), "ffffffffffffffffffff"), Err(Failure::NotFound));
}

#[test]
fn an_id_names_a_commit_or_a_tag_and_no_tree_or_file() {
    let repo = Repo::varied();
    let git = repo.open();
    let blob = repo.line(["rev-parse", "main:README.md"]);
    let tree = repo.line(["rev-parse", "main^{tree}"]);
    assert_eq!(commit(&git, &blob), Err(Failure::NotFound));
    assert_eq!(commit(&git, &tree), Err(Failure::NotFound));
    // A rule that denies a folder matches names, and not the ids of the folder's trees.
    for id in [&tree, &tree[..12], &blob, &blob[..12]] {
        for path in ["tree/ID", "blob/ID/README.md", "commit/ID", "log/ID", "diff/ID..main", "tree/ID%5E%7Btree%7D"] {
            assert_eq!(git.read(&path.replace("ID", id)), Err(Failure::NotFound), "{path}");
        }
    }
    assert_eq!(text(&git, "blob/main%5E%7Btree%7D/README.md"), text(&git, "blob/main/README.md"));
    let tag = repo.line(["rev-parse", "v1.0"]);
    assert_eq!(commit(&git, &tag), Ok(repo.line(["rev-parse", "v1.0^{commit}"])));
    repo.git(["tag", "-a", "again", "-m", "A tag of a tag", "v1.0"]);
    assert_eq!(commit(&git, "again"), Ok(repo.line(["rev-parse", "v1.0^{commit}"])));
    repo.git(["tag", "-a", "of-a-blob", "-m", "A tag of a blob", &blob]);
    assert_eq!(commit(&git, "of-a-blob"), Err(Failure::NotFound));
    assert_eq!(commit(&git, &"0".repeat(40)), Err(Failure::NotFound));
    assert!(is_invalid(git.read("commit/")));
}

#[test]
fn refs_are_those_that_git_shows() {
    for repo in [Repo::varied(), Repo::sha256().filled()] {
        repo.git(["update-ref", "refs/remotes/origin/main", "HEAD~5"]);
        repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
        repo.git(["symbolic-ref", "refs/remotes/dangling", "refs/heads/none"]);
        let show = || String::from_utf8(repo.git(["show-ref", "--head", "--dereference"])).unwrap();
        let git = repo.open();
        assert_eq!(text(&git, "refs"), show());
        repo.git(["pack-refs", "--all"]);
        repo.git(["update-ref", "refs/heads/main", "HEAD~1"]);
        repo.git(["tag", "-a", "loose", "-m", "x"]);
        assert_eq!(text(&git, "refs"), show());
        assert!(read(&git, "refs").entry.subscribable);
    }
}

#[test]
fn a_detached_head_is_the_commit_that_it_stands_at() {
    let repo = Repo::varied();
    repo.git(["checkout", "--quiet", "--detach", "HEAD~4"]);
    assert_eq!(commit(&repo.open(), "HEAD"), Ok(repo.head()));
}
