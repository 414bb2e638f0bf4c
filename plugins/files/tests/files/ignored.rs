//! Ignore rules, compared with git.

use super::Fixture;
use mcp_provider::{Failure, Provider, path};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn nested_and_negated_rules_hold_and_what_is_ignored_is_not_readable() {
    let files = [
        (".gitignore", "*.log\n/build/\nsecret\n"),
        ("a.log", ""),
        ("keep/.gitignore", "!a.log\n"),
        ("keep/a.log", ""),
        ("keep/b.log", ""),
        ("build/out.txt", ""),
        ("src/build/out.txt", ""),
        ("src/secret/key.txt", ""),
        (".git/info/exclude", "*.tmp\n"),
        ("x.tmp", ""),
        (".ignore", "drafts/\n!b.log\n"),
        ("drafts/d.md", ""),
        ("b.log", ""),
    ];
    let fixture = Fixture::new(files);
    assert_eq!(fixture.list(None, 99).unwrap(), ["b.log", "keep/a.log", "keep/b.log", "src/build/out.txt"]);
    for path in ["a.log", "build", "build/out.txt", "src/secret/key.txt", "x.tmp", "drafts/d.md"] {
        assert_eq!(fixture.provider.read(path), Err(Failure::NotFound), "{path}");
        assert_eq!(fixture.provider.stat(path), Err(Failure::NotFound), "{path}");
    }
    let fixture = Fixture::with_config(files, [("ignored", "true")]);
    assert_eq!(fixture.list(None, 99).unwrap().len(), 9);
    assert!(fixture.provider.read("build/out.txt").is_ok());
}

#[test]
fn a_link_to_what_is_ignored_or_hidden_leads_nowhere() {
    let fixture = Fixture::new([(".gitignore", "secret\n"), ("secret/key", "S"), (".env", "S"), ("ok/file", "fine")]);
    for (link, target) in [("a", "secret/key"), ("b", "secret"), ("c", ".env"), ("d", "ok"), ("e", "b/key")] {
        std::os::unix::fs::symlink(target, fixture.path(link)).unwrap();
    }
    for path in ["a", "b", "b/key", "c", "e"] {
        assert_eq!(fixture.provider.read(path), Err(Failure::NotFound), "{path}");
    }
    assert_eq!(fixture.list(Some(""), 9).unwrap(), ["d", "ok"]);
    assert_eq!(fixture.read("d/file").unwrap().as_text(), Some("fine"));
}

#[test]
fn rules_that_are_too_large_close_their_folder_and_no_other() {
    let fixture = Fixture::new([("a.md", ""), ("open/b.md", ""), ("closed/c.md", "")]);
    fixture.write("closed/.gitignore", "x\n".repeat(200_000));
    assert_eq!(fixture.list(None, 9).unwrap(), ["a.md", "open/b.md"]);
    assert!(matches!(fixture.provider.read("closed/c.md"), Err(Failure::Denied(_))));
}

fn git(fixture: &Fixture, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(fixture.path("")).args(arguments);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", "/nonexistent");
    command
}

/// Returns the files that git does not ignore.
fn tracked(fixture: &Fixture, files: &BTreeSet<String>) -> Vec<String> {
    let mut child = git(fixture, &["check-ignore", "--no-index", "--stdin", "-z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin: String = files.iter().map(|file| format!("{file}\0")).collect();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let ignored: BTreeSet<&str> = output.split_terminator('\0').collect();
    files.iter().filter(|file| !ignored.contains(file.as_str())).cloned().collect()
}

fn rules() -> impl Strategy<Value = String> {
    let atom = "(a|b|ab|日|\\*|a\\*|\\?b|\\*b|\\[ab\\]|\\[!a\\]|\\[\\[:alpha:\\]\\]|\\*\\*)";
    let line = format!("!?/?{atom}(/{atom}){{0,2}}/? {{0,2}}|#a|\\\\#a|\\\\!a|!|/|\\*\\*/a|a/\\*\\*|\\[a|\\\\a|a\\\\ ");
    let line = proptest::string::string_regex(&line).unwrap();
    proptest::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn exactly_what_git_ignores_is_not_served(
        files in proptest::collection::btree_set("((a|b|ab|日|#a|!a|a )/){0,3}(a|b|ab|bb|日|c)", 1..20),
        root in rules(), nested in rules(), deep in rules(), exclude in rules(),
    ) {
        // A name cannot be a file and a folder.
        let is_folder = |file: &String| files.iter().any(|other| other.starts_with(&format!("{file}/")));
        let files: BTreeSet<String> = files.iter().filter(|file| !is_folder(file)).cloned().collect();
        let fixture = Fixture::new(files.iter().map(|file| (file.as_str(), "")));
        prop_assert!(git(&fixture, &["init", "--quiet"]).status().unwrap().success());
        fixture.write(".git/info/exclude", exclude);
        fixture.write(".gitignore", root);
        for (folder, rules) in [("a", &nested), ("a/b", &deep), ("ab", &deep)] {
            if fixture.path(folder).is_dir() {
                fixture.write(&format!("{folder}/.gitignore"), rules);
            }
        }
        let mut expected: Vec<String> = tracked(&fixture, &files).iter().map(path::encode).collect();
        expected.sort();
        let mut served = fixture.list(None, 3).unwrap();
        for file in &files {
            let path = path::encode(file);
            prop_assert_eq!(fixture.provider.read(&path).is_ok(), served.contains(&path), "{}", file);
        }
        served.sort();
        prop_assert_eq!(served, expected);
    }
}
