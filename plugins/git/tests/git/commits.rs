//! Commits and their diffs, compared with `git diff-tree` and `git apply`.

use crate::repo::{Repo, open, read, text};
use mcp_provider::{Failure, Provider};

/// Returns the diff in a shown commit.
fn diff(shown: &str) -> &str {
    shown.find("\ndiff --git ").map_or("", |start| &shown[start + 1..])
}

fn expected(repo: &Repo, id: &str) -> String {
    let options = ["diff-tree", "--root", "-p", "--full-index", "--no-renames", "--no-commit-id", "-r", id];
    String::from_utf8_lossy(&repo.git(options)).into_owned()
}

fn expected_status(repo: &Repo, id: &str) -> String {
    let options = ["diff-tree", "--root", "--name-status", "--no-renames", "--no-commit-id", "-r", id];
    String::from_utf8(repo.git(options)).unwrap()
}

#[test]
fn every_commit_is_shown_with_the_diff_that_git_makes() {
    for repo in [Repo::varied(), Repo::sha256().filled()] {
        let git = repo.open();
        let all = String::from_utf8(repo.git(["rev-list", "main~2"])).unwrap();
        for id in all.lines().take(10) {
            let shown = text(&git, &format!("commit/{id}"));
            assert_eq!(diff(&shown), expected(&repo, id));
            assert!(shown.contains(&format!("\n{}\ndiff", expected_status(&repo, id))), "{shown}");
        }
    }
}

/// Creates a repository whose last commit changes a file from `before` to `after`.
fn changed(repo: &Repo, before: &str, after: &str) -> String {
    repo.write("file.txt", before);
    repo.commit("Before");
    repo.write("file.txt", after);
    repo.commit("After")
}

#[test]
fn changes_of_all_sorts_are_shown_as_git_shows_them() {
    let repo = Repo::varied();
    let function = |name: &str, body: &str| format!("fn {name}() {{\n    {body}\n    1\n    2\n    3\n    4\n}}\n\n");
    let cases = [
        ("a\nb\nc\n", "a\nc\n"),
        ("a\nb\nc", "a\nb\nc\n"),
        ("a\nb\nc\n", "a\nb\nx"),
        ("", "a\n"),
        ("a\n", ""),
        ("a\r\nb\r\n", "a\nb\n"),
        (
            &*(function("a", "x") + &function("b", "x") + &function("c", "x")),
            &*(function("a", "x") + &function("c", "y")),
        ),
        (
            &*function("a", "x").repeat(9),
            &*(function("a", "x").repeat(4) + &function("z", "y") + &function("a", "x").repeat(5)),
        ),
    ];
    for (before, after) in cases {
        let id = changed(&repo, before, after);
        assert_eq!(diff(&text(&repo.open(), &format!("commit/{id}"))), expected(&repo, &id));
    }
}

#[test]
fn modes_kinds_and_odd_names_are_shown_as_git_shows_them() {
    let repo = Repo::varied();
    let check = |message: &str| {
        repo.git(["commit", "--quiet", "-m", message]);
        let shown = text(&repo.open(), "commit/HEAD");
        assert_eq!(diff(&shown), expected(&repo, "HEAD"), "{message}");
        assert!(shown.contains(&format!("\n{}\ndiff", expected_status(&repo, "HEAD"))), "{message}: {shown}");
    };
    repo.git(["update-index", "--chmod=+x", "README.md"]);
    check("A mode alone");
    repo.write("README.md", "other\n");
    repo.git(["update-index", "--chmod=-x", "README.md"]);
    repo.git(["add", "README.md"]);
    check("A mode and the content");
    let target = repo.line(["hash-object", "-w", "src.txt"]);
    repo.git(["update-index", "--cacheinfo", &format!("120000,{target},README.md")]);
    check("A link in the place of a file");
    repo.git(["update-index", "--cacheinfo", &format!("160000,{},vendor/sub", "2".repeat(40))]);
    check("A submodule");
    repo.git(["update-index", "--force-remove", "empty"]);
    check("An empty file goes");
    repo.git(["update-index", "--add", "--cacheinfo", &format!("100644,{target},odd/a \"b\"\tc")]);
    check("A name that must be quoted");
    repo.git(["update-index", "--add", "--cacheinfo", &format!("100644,{target},src.txt more")]);
    check("A name with a space");
    repo.git(["rm", "-r", "--quiet", "--cached", "src"]);
    repo.git(["update-index", "--add", "--cacheinfo", &format!("100644,{target},src")]);
    check("A file in the place of a directory");
    repo.write("binary.bin", b"\0\x01");
    repo.git(["add", "binary.bin"]);
    check("A binary file");
}

#[test]
fn what_is_shown_can_be_applied() {
    let repo = Repo::new();
    let mut state = 12345u32;
    let mut random = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let mut lines: Vec<String> = (0..200).map(|n| format!("line {}", n % 17)).collect();
    repo.write("file", lines.join("\n"));
    repo.commit("First");
    for round in 0..40 {
        for _ in 0..1 + random(12) {
            let at = random(lines.len() as u32) as usize;
            match random(3) {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, format!("line {}", random(17))),
                _ => lines[at] = format!("changed {}", random(5)),
            }
        }
        let end = if random(2) == 0 { "\n" } else { "" };
        repo.write("file", lines.join("\n") + end);
        let id = repo
            .commit(&format!("diff --git a/evil b/evil\n--- a/evil\n+++ b/evil\n@@ -0,0 +1 @@\n+x\n\nRound {round}"));
        let shown = text(&repo.open(), &format!("commit/{id}"));
        repo.git(["read-tree", &format!("{id}^")]);
        repo.git_with(["apply", "--cached", "--whitespace=nowarn"], shown.as_bytes());
        assert_eq!(repo.line(["write-tree"]), repo.line(["rev-parse", &format!("{id}^{{tree}}")]), "{shown}");
        repo.git(["read-tree", "HEAD"]);
    }
}

#[test]
fn a_commit_tells_who_when_and_why() {
    let repo = Repo::varied();
    let commit = read(&repo.open(), "commit/v1.0");
    let shown = commit.as_text().unwrap();
    let id = repo.line(["rev-parse", "v1.0^{commit}"]);
    let parent = repo.line(["rev-parse", "v1.0^{commit}^"]);
    let date = repo.line(["show", "--quiet", "--format=%aI", &id]);
    let tagged = repo.line(["for-each-ref", "--format=%(taggerdate:iso-strict)", "refs/tags/v1.0"]);
    let head = format!(
        "tag v1.0\nTagger:     Bob <bob@example.com>\nTaggerDate: {tagged}\n\n    One\n\n    A release.\n\n\
         commit {id}\nparent {parent}\nAuthor:     Ada Lovelace <ada@example.com>\nAuthorDate: {date}\n\
         Commit:     Bob <bob@example.com>\nCommitDate: {date}\n\n    Line 29\n\n\
         M\tgrows.txt\nA\tmany/file-029.txt\n\ndiff --git"
    );
    assert!(shown.starts_with(&head), "{shown}\n---\n{head}");
    assert_eq!(commit.entry.title.as_deref(), Some("Line 29"));
    assert_eq!(commit.entry.mime_type.as_deref(), Some("text/x-diff"));
    assert!(commit.entry.last_modified.as_ref().unwrap().as_str().ends_with('Z'));
    assert_eq!(repo.open().stat("commit/v1.0").unwrap().meta, commit.entry.meta);
}

#[test]
fn a_merge_is_compared_with_its_first_parent() {
    let repo = Repo::varied();
    repo.git(["checkout", "--quiet", "-b", "side", "HEAD~2"]);
    repo.write("side", "side\n");
    repo.commit("Side");
    repo.git(["checkout", "--quiet", "main"]);
    repo.git(["merge", "--quiet", "--no-edit", "side"]);
    let shown = text(&repo.open(), "commit/main");
    let options = ["diff-tree", "-p", "--full-index", "--no-renames", "-r", "HEAD^1", "HEAD"];
    assert_eq!(diff(&shown), String::from_utf8(repo.git(options)).unwrap());
    assert!(shown.contains("differences from its first parent"), "{shown}");
}

#[test]
fn a_diff_that_is_too_long_ends_between_files_and_says_so() {
    let repo = Repo::new();
    for n in 0..20 {
        repo.write(&format!("file-{n:02}"), "some line\n".repeat(30));
    }
    let id = repo.commit("Twenty files");
    let whole = expected(&repo, &id);
    let commit = read(&repo.open_with(&[("max-diff", "2000")]), "commit/main");
    let shown = commit.as_text().unwrap();
    assert_eq!(commit.entry.meta["git/truncated"], true);
    assert_eq!(shown.matches("\nA\tfile-").count(), 20);
    let (diff, note) = diff(shown).split_once("\nThe diff is truncated").unwrap();
    assert!(diff.len() <= 2000 && whole.starts_with(diff) && whole[diff.len()..].starts_with("diff --git"), "{diff}");
    let left_out = 20 - diff.matches("diff --git").count();
    assert!(note.contains(&format!("{left_out} of the files")), "{note}");
}

#[test]
fn large_files_and_files_that_are_no_text_are_named_and_not_compared() {
    let repo = Repo::new();
    repo.write("large", "x\n".repeat(1 << 20));
    repo.write("latin", b"caf\xe9\n");
    repo.commit("Large");
    let shown = text(&repo.open(), "commit/main");
    assert!(
        shown.contains("Binary files /dev/null and b/large differ (not compared line by line: 2097152 bytes"),
        "{shown}"
    );
    assert!(shown.contains("+caf\u{fffd}\n"), "{shown}");
}

#[test]
fn content_that_a_partial_clone_lacks_is_said_to_be_missing() {
    let origin = Repo::varied();
    origin.git(["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", origin.dir.display());
    let clone = origin.root.path().join("clone");
    origin.git(["clone", "--quiet", "--bare", "--filter=blob:none", &url, clone.to_str().unwrap()]);
    let git = open(&clone, &[]);
    let Err(Failure::Unavailable(retry)) = git.read("blob/main/README.md") else { panic!("expected a refusal") };
    assert!(retry.reason.contains("partial clone"), "{}", retry.reason);
    let shown = text(&git, "commit/main");
    assert!(shown.contains("the content is missing from the repository"), "{shown}");
    assert!(git.list(None, None, 5).unwrap().entries.iter().all(|entry| entry.size.is_none()));
    assert_eq!(text(&git, "log/main"), text(&origin.open(), "log/main"));
}
