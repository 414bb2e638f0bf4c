//! Change detection.

use crate::repo::Repo;
use git_provider::Git;
use mcp_provider::{Changes, Provider};

fn watched(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

fn poll_changes(git: &Git, paths: &[&str], since: Option<&str>) -> Changes {
    git.changes(&watched(paths), since).unwrap()
}

const ALL: [&str; 8] = [
    "blob/main/a",
    "blob/HEAD/b",
    "blob/feature/b",
    "tree/main/dir",
    "commit/main",
    "log/main?path=a",
    "refs",
    "blob/main/not-there-yet",
];

fn repo() -> Repo {
    let repo = Repo::new();
    ["a", "b", "dir/c"].iter().for_each(|file| repo.write(file, "1\n"));
    repo.commit("First");
    repo.git(["branch", "feature"]);
    repo
}

#[test]
fn nothing_changed_while_nothing_moved() {
    let repo = repo();
    let first = poll_changes(&repo.open(), &ALL, None);
    assert!(first.changed.is_empty() && !first.listing_changed);
    let second = poll_changes(&repo.open(), &ALL, Some(&first.token));
    assert_eq!(second, first);
    repo.git(["gc", "--quiet"]);
    repo.git(["pack-refs", "--all"]);
    let packed = poll_changes(&repo.open(), &ALL, Some(&first.token));
    assert!(packed.changed.is_empty() && !packed.listing_changed, "{packed:?}");
}

#[test]
fn exactly_what_became_another_object_changed() {
    let repo = repo();
    let git = repo.open();
    let first = poll_changes(&git, &ALL, None);
    repo.write("b", "2\n");
    repo.commit("Another b");
    let second = poll_changes(&git, &ALL, Some(&first.token));
    assert_eq!(second.changed, ["blob/HEAD/b", "commit/main", "log/main?path=a", "refs"]);
    assert!(second.listing_changed);
    repo.write("not-there-yet", "now\n");
    repo.write("dir/c", "2\n");
    repo.commit("More");
    let third = poll_changes(&git, &ALL, Some(&second.token));
    assert_eq!(third.changed, ["tree/main/dir", "commit/main", "log/main?path=a", "refs", "blob/main/not-there-yet"]);
    repo.git(["branch", "--delete", "--force", "feature"]);
    let fourth = poll_changes(&git, &ALL, Some(&third.token));
    assert_eq!((fourth.changed, fourth.listing_changed), (vec!["blob/feature/b".to_owned(), "refs".to_owned()], false));
}

#[test]
fn a_path_that_is_watched_only_now_changed_only_if_a_ref_did() {
    let repo = repo();
    let git = repo.open();
    let first = poll_changes(&git, &["blob/main/a"], None);
    assert!(poll_changes(&git, &["blob/main/a", "blob/main/b"], Some(&first.token)).changed.is_empty());
    repo.git(["tag", "new"]);
    assert_eq!(poll_changes(&git, &["blob/main/a", "blob/main/b"], Some(&first.token)).changed, ["blob/main/b"]);
}

#[test]
fn a_token_that_is_not_understood_means_that_all_may_have_changed() {
    let repo = repo();
    for token in ["", "nonsense", "9.1.2.3"] {
        let changes = poll_changes(&repo.open(), &ALL, Some(token));
        assert_eq!(
            (changes.changed.as_slice(), changes.listing_changed),
            (watched(&ALL).as_slice(), true),
            "{token:?}"
        );
    }
}

#[test]
fn a_token_stays_small_however_much_is_watched() {
    let repo = repo();
    let git = repo.open();
    let many: Vec<String> = (0..5000).map(|n| format!("blob/main/{n}")).collect();
    let first = git.changes(&many, None).unwrap();
    assert!(first.token.len() <= 65536);
    assert!(git.changes(&many, Some(&first.token)).unwrap().changed.is_empty());
    repo.write("77", "x\n");
    repo.commit("One of them");
    assert!(git.changes(&many, Some(&first.token)).unwrap().changed.contains(&many[77]));
}

#[test]
fn a_repository_without_a_commit_can_be_watched_until_it_has_one() {
    let repo = Repo::new();
    let git = repo.open();
    let first = poll_changes(&git, &["blob/main/a", "log/HEAD"], None);
    repo.write("a", "1\n");
    repo.commit("First");
    let second = poll_changes(&git, &["blob/main/a", "log/HEAD"], Some(&first.token));
    assert_eq!((second.changed.len(), second.listing_changed), (2, true));
}

#[test]
fn a_short_id_that_becomes_ambiguous_changed() {
    let repo = repo();
    let git = repo.open();
    let id = repo.head();
    let path = format!("commit/{}", &id[..4]);
    let first = poll_changes(&git, &[&path], None);
    // An object with the same prefix, whose file need not even be valid.
    let directory = repo.dir.join(".git/objects").join(&id[..2]);
    std::fs::write(directory.join(format!("{}{}", &id[2..4], "0".repeat(36))), "").unwrap();
    assert_eq!(poll_changes(&git, &[&path], Some(&first.token)).changed, [path]);
}
