//! The origins of lines, compared with `git blame`.

use crate::repo::{Repo, is_invalid, read, text};
use mcp_provider::{Failure, Provider, path};

/// Returns the expected text of a blame.
fn expected(repo: &Repo, rev: &str, file: &str, lines: Option<&str>) -> String {
    let range = lines.map(|lines| format!("-L{lines}"));
    let mut args = vec!["blame", "--line-porcelain"];
    args.extend(range.as_deref());
    let porcelain = repo.git([&args, [rev, "--", file].as_slice()].concat());
    let porcelain = String::from_utf8(porcelain).unwrap();
    let (mut text, mut head, mut author) = (String::new(), Vec::new(), "");
    for line in porcelain.lines() {
        if let Some(content) = line.strip_prefix('\t') {
            let date = repo.line(["log", "-1", "--format=%aI", head[0]]);
            text += &format!("{}\t{date}\t{author}\t{}\t{content}\n", head[0], head[2]);
            head.clear();
        } else if head.is_empty() {
            head = line.split(' ').collect();
        } else if let Some(name) = line.strip_prefix("author ") {
            author = name;
        }
    }
    text
}

/// Creates a repository with a file that grows, shrinks, is renamed and is merged.
fn grown() -> Repo {
    let repo = Repo::new();
    let lines: Vec<String> = (0..60).map(|n| format!("line {n}\n")).collect();
    repo.write("a.txt", lines.concat());
    repo.commit("Add");
    for n in 0..8 {
        let mut changed: Vec<String> = String::from_utf8(repo.git(["show", "HEAD:a.txt"]))
            .unwrap()
            .split_inclusive('\n')
            .map(str::to_owned)
            .collect();
        changed[n * 5] = format!("changed {n}\n");
        changed.remove(n * 3 + 1);
        changed.insert(n * 7, format!("new {n}\nand {n}\n"));
        repo.write("a.txt", changed.concat());
        repo.commit(&format!("Change {n}"));
    }
    repo.git(["checkout", "--quiet", "-b", "side", "HEAD~3"]);
    let side = String::from_utf8(repo.git(["show", "HEAD:a.txt"])).unwrap();
    repo.write("a.txt", side + "at the end\n");
    repo.commit("Side");
    repo.git(["checkout", "--quiet", "main"]);
    repo.git(["merge", "--quiet", "--no-ff", "--no-edit", "side"]);
    repo.git(["mv", "a.txt", "b.txt"]);
    repo.commit("Rename");
    let all = String::from_utf8(repo.git(["show", "HEAD:b.txt"])).unwrap();
    repo.write("b.txt", all.replace("line 40\n", "line forty\nno end"));
    repo.commit("Last");
    repo
}

#[test]
fn each_line_comes_from_the_commit_that_git_blames() {
    let repo = grown();
    for graph in [false, true] {
        if graph {
            repo.git(["commit-graph", "write", "--reachable", "--changed-paths"]);
        }
        let git = repo.open();
        for (rev, file) in
            [("main", "b.txt"), ("main~1", "b.txt"), ("main~2", "a.txt"), ("side", "a.txt"), ("main~7", "a.txt")]
        {
            let shown = text(&git, &format!("blame/{rev}/{file}"));
            assert_eq!(shown, expected(&repo, rev, file, None), "{rev} {file}");
        }
        assert_eq!(text(&git, "blame/main/b.txt?lines=5-12"), expected(&repo, "main", "b.txt", Some("5,12")));
        assert_eq!(text(&git, "blame/main/b.txt?lines=50-"), expected(&repo, "main", "b.txt", Some("50,")));
        assert_eq!(text(&git, "blame/main/b.txt?lines=-3").lines().count(), 3);
        assert!(is_invalid(git.read("blame/main/b.txt?lines=1000-2000")));
    }
}

#[test]
fn files_of_all_sorts_have_origins_or_none() {
    let repo = Repo::varied();
    let git = repo.open();
    for file in ["README.md", "grows.txt", "日本/メモ.md", "src/lib/deep/er.rs", "many/file-007.txt", "empty"] {
        let shown = text(&git, &format!("blame/main/{}", path::encode(file)));
        assert_eq!(shown, expected(&repo, "main", file, None), "{file}");
    }
    for file in ["binary.bin", "src", "src/link", "vendor/sub"] {
        assert!(is_invalid(git.read(&format!("blame/main/{file}"))), "{file}");
    }
    assert_eq!(git.read("blame/main/none"), Err(Failure::NotFound));
}

#[test]
fn a_shallow_clone_blames_where_it_was_cut_off() {
    let origin = grown();
    let url = format!("file://{}", origin.dir.display());
    let dir = origin.root.path().join("clone");
    origin.git(["clone", "--quiet", "--depth=4", &url, dir.to_str().unwrap()]);
    let clone = Repo { dir, ..origin };
    let boundaries = std::fs::read_to_string(clone.dir.join(".git/shallow")).unwrap();
    let is_boundary = |line: &str| boundaries.lines().any(|id| line.starts_with(id));
    let expected = expected(&clone, "main", "b.txt", None);
    // Without `--porcelain`, `git blame` marks boundary commits with `^`.
    let expected: String = expected
        .lines()
        .map(|line| if is_boundary(line) { format!("^{line}\n") } else { format!("{line}\n") })
        .collect();
    assert!(expected.contains('^'), "{expected}");
    let blame = read(&clone.open(), "blame/main/b.txt");
    let (lines, end) = blame.as_text().unwrap().split_once("# ").unwrap();
    assert_eq!(lines, expected);
    assert!(end.starts_with("This is not complete, as the clone is shallow: "), "{end}");
    let notice = &blame.entry.meta["mcp-host/notices"][0];
    assert_eq!((&notice["kind"], &notice["inText"]), (&"incomplete".into(), &true.into()));
}
