//! Repositories in which some refs are hidden.

use crate::repo::{Repo, list_all, open, text, try_open};
use git_provider::Git;
use mcp_provider::{Argument, Failure, Provider, path};

const HIDE: &str = r#"{ "hide": ["refs/heads/secret", "refs/tags/secret-*"] }"#;

/// Creates a repository with a branch and a tag to hide, and returns it with the id of the branch's tip.
fn with_secrets() -> (Repo, String) {
    let repo = Repo::branched();
    repo.git(["checkout", "--quiet", "-b", "secret", "main~2"]);
    repo.write("secret.txt", "secret\n");
    repo.commit("A secret");
    repo.git(["tag", "-a", "secret-tag", "-m", "A secret tag"]);
    repo.write("secret.txt", "another secret\n");
    let secret = repo.commit("Another secret");
    repo.git(["checkout", "--quiet", "main"]);
    repo.git(["tag", "-a", "open-tag", "-m", "An open tag", "main~1"]);
    (repo, secret)
}

fn stat(git: &Git, rev: &str) -> Result<(), Failure> {
    git.stat(&format!("commit/{}", path::encode_segment(rev))).map(drop)
}

#[test]
fn what_only_hidden_refs_reach_is_found_by_no_name_and_no_id() {
    let (repo, secret) = with_secrets();
    let line = |rev: &str| repo.line(["rev-parse", rev]);
    let hidden = [
        "secret".to_owned(),
        "refs/heads/secret".to_owned(),
        "secret-tag".to_owned(),
        "ORIG_HEAD".to_owned(),
        secret.clone(),
        secret[..10].to_owned(),
        line("secret~1"),
        line("secret-tag"),
        format!("{secret}~2"),
    ];
    let open_revs = ["main".to_owned(), "side-1".to_owned(), line("main"), line("main~2"), line("side-3~2")];
    repo.git(["update-ref", "ORIG_HEAD", "secret"]);
    for graph in [false, true] {
        if graph {
            repo.git(["commit-graph", "write", "--reachable"]);
        }
        let git = repo.open_with(&[("refs", HIDE)]);
        for rev in &hidden {
            assert_eq!(stat(&git, rev), Err(Failure::NotFound), "{rev}");
            assert_eq!(git.read(&format!("blob/{rev}/secret.txt")), Err(Failure::NotFound), "{rev}");
        }
        for rev in open_revs.iter().chain([&line("main")[..10].to_owned(), &line("open-tag")]) {
            assert_eq!(stat(&git, rev), Ok(()), "{rev}");
        }
        // Trees and files cannot be named by id, wherever they are reachable from.
        assert_eq!(git.read(&format!("tree/{}", line("main^{tree}"))), Err(Failure::NotFound));
        assert!(git.read("tree/main%5E%7Btree%7D").is_ok());
        for shown in ["refs", "log/main?limit=1000"] {
            assert!(!text(&git, shown).contains("secret"), "{shown}");
        }
        let template = "commit/{rev}";
        let argument = Argument { name: "rev".to_owned(), value: String::new() };
        let values = git.complete(template, &argument, &[]).unwrap().values;
        assert!(values.contains(&"side-1".to_owned()) && !values.iter().any(|value| value.contains("secret")));
    }
    let all = repo.open();
    hidden.iter().for_each(|rev| assert_eq!(stat(&all, rev), Ok(()), "{rev}"));
}

#[test]
fn every_commit_is_found_by_its_id_exactly_if_git_reaches_it_from_a_served_ref() {
    let (repo, _) = with_secrets();
    let all = repo.git(["rev-list", "--all"]);
    let served = repo.line(["rev-list", "main", "open-tag"]);
    for graph in [false, true] {
        if graph {
            repo.git(["commit-graph", "write", "--reachable", "--changed-paths"]);
        }
        let git = repo.open_with(&[(
            "refs",
            r#"{ "allow": ["refs/heads/main", "refs/tags"], "hide": ["refs/tags/secret-tag"] }"#,
        )]);
        for id in String::from_utf8(all.clone()).unwrap().lines() {
            let expected = if served.contains(id) { Ok(()) } else { Err(Failure::NotFound) };
            assert_eq!(stat(&git, id), expected, "{id}");
        }
    }
}

#[test]
fn a_head_at_a_hidden_branch_lists_nothing() {
    let (repo, _) = with_secrets();
    repo.git(["checkout", "--quiet", "secret"]);
    let git = repo.open_with(&[("refs", HIDE)]);
    assert_eq!(stat(&git, "HEAD"), Err(Failure::NotFound));
    assert!(list_all(&git, None, 100).is_empty());
    assert!(!text(&git, "refs").contains("HEAD"));
    repo.git(["checkout", "--quiet", "--detach", "secret"]);
    assert_eq!(
        stat(&repo.open_with(&[("refs", r#"{ "allow": ["refs/heads/main"] }"#)]), "HEAD"),
        Err(Failure::NotFound)
    );
}

#[test]
fn refs_in_tables_are_hidden_likewise() {
    let repo = Repo::reftable("sha1").filled();
    repo.git(["checkout", "--quiet", "-b", "secret"]);
    let secret = repo.commit("A secret");
    repo.git(["checkout", "--quiet", "main"]);
    let git = repo.open_with(&[("refs", HIDE)]);
    for rev in ["secret", &secret] {
        assert_eq!(stat(&git, rev), Err(Failure::NotFound), "{rev}");
    }
    assert!(text(&git, "refs").contains("feature/x") && !text(&git, "refs").contains("secret"));
}

#[test]
fn what_is_no_list_of_refs_is_refused_with_what_is_expected() {
    let repo = Repo::new();
    for (refs, key) in [("main", "refs"), (r#"["main"]"#, "refs"), (r#"{ "hide": ["main"] }"#, "refs.hide")] {
        let Err(failure) = try_open(&repo.dir, &[("refs", refs)]) else { panic!("{refs} was accepted") };
        assert!(failure.to_string().contains(&format!("config key `{key}`: expected")), "{failure}");
    }
    drop(open(&repo.dir, &[("refs", "{}")]));
}
