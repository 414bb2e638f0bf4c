//! Completion of revisions and paths.

use crate::repo::Repo;
use git_provider::Git;
use mcp_provider::{Argument, Completion, Provider};

const BLOB: &str = "blob/{rev}/{+path}";
const TREE: &str = "tree/{rev}/{+path}";
const LOG: &str = "log/{rev}{?path,limit}";

fn complete(git: &Git, template: &str, name: &str, typed: &str, rev: Option<&str>) -> Completion {
    let known: Vec<_> = rev.map(|rev| Argument::new("rev", rev)).into_iter().collect();
    git.complete(template, &Argument::new(name, typed), &known).unwrap()
}

#[test]
fn revisions_complete_by_what_they_begin_with() {
    let repo = Repo::varied();
    repo.git(["update-ref", "refs/remotes/origin/main", "HEAD"]);
    let git = repo.open();
    assert_eq!(
        complete(&git, BLOB, "rev", "", None).values,
        ["HEAD", "feature/x", "main", "light", "v1.0", "origin/main"]
    );
    assert_eq!(complete(&git, BLOB, "rev", "feat", None).values, ["feature/x"]);
    assert_eq!(complete(&git, BLOB, "rev", "zzz", None).values, Vec::<String>::new());
    let git = repo.open_with(&[("rev", "main")]);
    assert_eq!(complete(&git, LOG, "rev", "", None).values[..2], ["main", "HEAD"]);
}

#[test]
fn a_branch_that_a_tag_hides_completes_to_what_names_it() {
    let repo = Repo::varied();
    repo.git(["tag", "main", "HEAD~1"]);
    let names = complete(&repo.open(), BLOB, "rev", "", None).values;
    assert!(names.contains(&"heads/main".to_owned()) && names.contains(&"main".to_owned()), "{names:?}");
}

#[test]
fn paths_complete_within_the_revision_and_directory_by_directory() {
    let repo = Repo::varied();
    let git = repo.open();
    assert_eq!(complete(&git, BLOB, "path", "src", Some("main")).values, ["src-more/", "src.txt", "src/"]);
    assert_eq!(complete(&git, BLOB, "path", "src/", Some("main")).values, ["src/lib/", "src/link", "src/main.rs"]);
    assert_eq!(complete(&git, BLOB, "path", "src/lib/deep/", Some("v1.0")).values, ["src/lib/deep/er.rs"]);
    assert_eq!(complete(&git, BLOB, "path", "日", Some("main")).values, ["日本/"]);
    assert_eq!(complete(&git, TREE, "path", "src", Some("main")).values, ["src-more/", "src/"]);
    assert_eq!(complete(&git, LOG, "path", "READ", None).values, ["README.md"]);
    assert_eq!(complete(&git, BLOB, "path", "many/file-029", Some("feature/x")).values, Vec::<String>::new());
    assert_eq!(complete(&git, BLOB, "path", "many/file-029", Some("main")).values, ["many/file-029.txt"]);
}

#[test]
fn what_leads_nowhere_completes_to_nothing() {
    let repo = Repo::varied();
    let git = repo.open();
    for (typed, rev) in
        [("none/", "main"), ("README.md/", "main"), ("../", "main"), ("/", "main"), ("a", "none"), ("a", "")]
    {
        assert!(complete(&git, BLOB, "path", typed, Some(rev)).values.is_empty(), "{typed:?} of {rev:?}");
    }
    assert!(complete(&git, LOG, "limit", "1", Some("main")).values.is_empty());
    assert!(complete(&Repo::new().open(), BLOB, "path", "", None).values.is_empty());
}

#[test]
fn every_completion_of_a_path_can_be_read() {
    let repo = Repo::varied();
    let git = repo.open();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        for name in complete(&git, BLOB, "path", &directory, Some("main")).values {
            if name.ends_with('/') {
                directories.push(name);
            } else {
                assert!(git.read(&format!("blob/main/{}", mcp_provider::path::encode(&name))).is_ok(), "{name:?}");
            }
        }
    }
}
