//! Differences of two revisions, compared with `git diff`.

use crate::repo::{Repo, is_invalid, text};
use mcp_provider::{Failure, Provider, path};

/// Returns the expected text of a diff.
fn expected(repo: &Repo, range: &str, paths: &[&str]) -> String {
    let diff = |format: &[&str]| {
        let options = ["diff", "--no-renames", "--full-index"];
        String::from_utf8_lossy(&repo.git([&options, format, &[range, "--"], paths].concat())).into_owned()
    };
    let files = diff(&["--name-status"]);
    if files.is_empty() { files } else { format!("{files}\n{}", diff(&["--patch"])) }
}

#[test]
fn the_differences_of_two_revisions_are_those_of_git_diff() {
    for repo in [Repo::varied(), Repo::branched()] {
        let git = repo.open();
        let revs = ["main", "main~2", "main~9", "HEAD^{tree}"];
        for (a, b) in revs.iter().flat_map(|a| revs.iter().map(move |b| (a, b))) {
            let range = format!("{a}..{b}");
            let address = format!("diff/{}..{}", path::encode_segment(a), path::encode_segment(b));
            assert_eq!(text(&git, &address), expected(&repo, &range, &[]), "{range}");
            for file in ["dir", "dir/b", "grows.txt", "many", "src"] {
                let found = git.read(&format!("{address}?path={}", path::encode_segment(file)));
                match found {
                    Ok(contents) => {
                        let expected = expected(&repo, &range, &[file]);
                        assert_eq!(contents[0].as_text().unwrap(), expected, "{range} {file}");
                    }
                    Err(failure) => {
                        assert_eq!((failure, expected(&repo, &range, &[file])), (Failure::NotFound, String::new()));
                    }
                }
            }
        }
        assert_eq!(text(&git, "diff/main~1.."), expected(&repo, "main~1..", &[]));
    }
}

#[test]
fn differences_of_ids_are_immutable_and_others_can_be_watched() {
    let repo = Repo::varied();
    let git = repo.open();
    let (one, other) = (repo.line(["rev-parse", "main~1"]), repo.head());
    assert!(git.stat(&format!("diff/{one}..{other}")).unwrap().ttl.is_some());
    for range in [format!("{one}..main"), format!("main~1..{other}")] {
        assert!(git.stat(&format!("diff/{range}")).unwrap().subscribable);
    }
}

#[test]
fn what_has_no_differences_is_refused() {
    let repo = Repo::varied();
    let git = repo.open();
    assert_eq!(git.read("diff/main..none"), Err(Failure::NotFound));
    assert_eq!(git.read("diff/main..main~1?path=never"), Err(Failure::NotFound));
    for path in ["diff/main", "diff/main...main~1", "diff/main..main~1?limit=1"] {
        assert!(is_invalid(git.read(path)), "{path}");
    }
}

#[test]
fn a_long_diff_is_truncated_and_says_where_the_rest_is() {
    let repo = Repo::varied();
    let git = repo.open_with(&[("max-diff", "300")]);
    let shown = text(&git, "diff/main~20..main");
    assert!(shown.contains("The diff is truncated to at most 300 bytes"), "{shown}");
}
