//! The documentation is valid: its links to files, headings and tests resolve, and its snippets are parts of examples.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{BrokenLink, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

/// A link on a page.
struct Link {
    text: String,
    target: String,
}

/// A page: its links, the anchors of its headings, and its code spans.
#[derive(Default)]
struct Page {
    links: Vec<Link>,
    anchors: Vec<String>,
    /// The texts of code spans.
    code: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the README, and all pages of `docs/`.
fn pages() -> Vec<PathBuf> {
    let (mut pages, mut folders) = (vec![root().join("README.md")], vec![root().join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// Resolves an undefined label to a file of the same name, which does not exist either.
fn resolve_undefined_label<'t>(link: BrokenLink<'t>) -> Option<(CowStr<'t>, CowStr<'t>)> {
    matches!(link.link_type, LinkType::Reference).then(|| (link.reference, "".into()))
}

impl Page {
    fn parse(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap();
        let mut page = Self::default();
        let (mut link, mut heading) = (None::<Link>, None::<String>);
        for event in Parser::new_with_broken_link_callback(&text, Options::ENABLE_TABLES, Some(resolve_undefined_label))
        {
            if let Event::Code(code) = &event {
                page.code.push(code.to_string());
            }
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    link = Some(Link { text: String::new(), target: dest_url.into_string() });
                }
                Event::End(TagEnd::Link | TagEnd::Image) => page.links.extend(link.take()),
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.anchors.extend(heading.take().as_deref().map(anchor)),
                Event::Text(text) | Event::Code(text) => {
                    let shown = link.as_mut().map(|link| &mut link.text);
                    shown.into_iter().chain(&mut heading).for_each(|shown| shown.push_str(&text));
                }
                _ => {}
            }
        }
        page
    }
}

/// Returns the anchor of a heading, as forges generate it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

/// Returns the file and the heading that a link on the page leads to; `None` for a link out of the repository.
fn local_target<'l>(page: &Path, link: &'l Link) -> Option<(PathBuf, &'l str)> {
    if link.target.contains("://") || link.target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.target.split_once('#').unwrap_or((&link.target, ""));
    match file {
        "" => Some((page.to_owned(), heading)),
        file => Some((page.parent().unwrap().join(file), heading)),
    }
}

/// Returns whether the source contains a test with this name.
fn has_test(source: &Path, name: &str) -> bool {
    let source = fs::read_to_string(source).unwrap();
    let lines: Vec<_> = source.lines().map(str::trim_start).collect();
    lines.windows(2).any(|pair| {
        let [attribute, function] = pair else { return false };
        let function = function.trim_start_matches("async ").strip_prefix("fn ");
        let is_named = function.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('('));
        is_named && attribute.starts_with("#[") && attribute.contains("test")
    })
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let mut anchors = HashMap::new();
    let mut astray = Vec::new();
    for file in pages() {
        for link in Page::parse(&file).links {
            let Some((to, heading)) = local_target(&file, &link) else { continue };
            let is_there = to.exists()
                && (heading.is_empty() || {
                    let anchors = anchors.entry(to.clone()).or_insert_with(|| Page::parse(&to).anchors);
                    anchors.iter().any(|anchor| anchor == heading)
                });
            if !is_there {
                astray.push(format!("{}: {}", file.display(), link.target));
            }
        }
    }
    assert!(astray.is_empty(), "{astray:#?}");
}

/// `cargo xtask docs` builds a site from the pages in the table of contents.
#[test]
fn the_table_of_contents_names_each_page() {
    let contents = root().join("docs/SUMMARY.md");
    let named: Vec<_> = Page::parse(&contents)
        .links
        .iter()
        .filter_map(|link| local_target(&contents, link)?.0.canonicalize().ok())
        .collect();
    let is_missing = |page: &PathBuf| *page != contents && !named.contains(&page.canonicalize().unwrap());
    let missing: Vec<_> = pages().into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md has no {missing:#?}");
}

/// Pages name a source by the end of its path (`plugin/call.rs`), and a source at the root of a host's crate by the
/// crate: `server/jsonrpc.rs` is `host/server/src/jsonrpc.rs`.
#[test]
fn every_source_that_a_page_names_is_there() {
    let listed = Command::new("git").args(["ls-files", "*.rs"]).current_dir(root()).output().unwrap();
    let sources: Vec<_> = String::from_utf8(listed.stdout).unwrap().lines().map(PathBuf::from).collect();
    let (mut named, mut astray) = (0, Vec::new());
    for file in pages() {
        for code in Page::parse(&file).code {
            if code.contains('/')
                && !code.contains("://")
                && code.ends_with(".rs")
                && !code.contains(char::is_whitespace)
            {
                named += 1;
                let of_crate =
                    code.split_once('/').map(|(name, path)| format!("host/{name}/src/{path}")).unwrap_or_default();
                if !sources.iter().any(|source| source.ends_with(&code) || source.ends_with(&of_crate)) {
                    astray.push(format!("{}: {code}", file.display()));
                }
            }
        }
    }
    assert!(astray.is_empty(), "{astray:#?}");
    assert!(named > 0);
}

/// A module whose documentation has a map (a table with the column `module`) must list all of its modules there.
#[test]
fn a_map_of_modules_names_all_of_them() {
    let listed = Command::new("git").args(["ls-files", "host/*.rs"]).current_dir(root()).output().unwrap();
    let (mut maps, mut missing) = (0, Vec::new());
    for file in String::from_utf8(listed.stdout).unwrap().lines() {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let head: String =
            text.lines().take_while(|line| line.starts_with("//!")).map(|line| format!("{line}\n")).collect();
        // In the CLI, each command is a module, and the map lists only the others.
        if !head.contains("//! | module | subject |") || file.starts_with("host/cli/") {
            continue;
        }
        maps += 1;
        let mut is_of_tests = false;
        for line in text.lines() {
            let declared =
                line.trim_start_matches("pub ").trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
            let name = declared.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
            if let Some(name) = name.filter(|_| !is_of_tests)
                && !head.contains(&format!("`{name}`"))
                && !head.contains(&format!("[`{name}"))
            {
                missing.push(format!("{file}: {name}"));
            }
            let is_attribute = line.starts_with("#[");
            is_of_tests = is_attribute && (is_of_tests || line.contains("(test") || line.contains("doc(hidden)"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(maps > 0);
}

/// On that page, the text of a link to a source is the end of its path, or the name of a test in it.
#[test]
fn every_test_on_the_page_of_practices_is_in_the_file_that_it_leads_to() {
    let file = root().join("docs/practices.md");
    let (mut tests, mut astray) = (0, Vec::new());
    for link in Page::parse(&file).links {
        let Some((to, _)) =
            local_target(&file, &link).filter(|(to, _)| to.extension().is_some_and(|kind| kind == "rs"))
        else {
            continue;
        };
        if to.ends_with(&link.text) {
            continue;
        }
        tests += 1;
        if !has_test(&to, &link.text) {
            astray.push(format!("{} in {}", link.text, link.target));
        }
    }
    assert!(astray.is_empty(), "{astray:#?}");
    assert!(tests > 0);
}

/// The names under which this project would publish its packages.
const OUR_PACKAGES: [&str; 5] =
    ["mcp-host-provider", "mcp-provider", "mcp-resource-host", "mcp-resource-host-cli", "mcp-host"];

/// The commands that download a package by name.
const DOWNLOADS: [&str; 7] = ["pip install", "npm install", "npm i", "npx", "cargo install", "cargo add", "uv add"];

/// Returns whether a line of text installs one of this project's packages by name. `npx` runs an installed package, and
/// downloads a missing one.
fn installs_our_package(line: &str) -> bool {
    DOWNLOADS.iter().any(|command| {
        line.split(command).skip(1).any(|behind| {
            let arguments = behind.split(['`', ';', '#', '|']).next().unwrap();
            let names = |word: &&str| OUR_PACKAGES.contains(&word.trim_matches(['(', ')', '"', '.', ',', ':']));
            // With files of packages, npx runs one of their commands.
            let has_files = *command == "npx" && arguments.contains(" --package ./");
            arguments.starts_with(' ')
                && !has_files
                && arguments.split_whitespace().take_while(|word| *word != "&&").any(|word| names(&word))
        })
    })
}

#[test]
fn no_text_installs_a_package_of_ours_by_a_name_that_anybody_may_register() {
    for line in
        ["pip install mcp-host-provider", "run `npm install mcp-host-provider`.", "npx mcp-host-provider build a.js"]
    {
        assert!(installs_our_package(line), "{line}");
    }
    for line in [
        "pip install ../notes/sdk",
        "npm install ./mcp-host-provider-0.1.0.tgz",
        "npx --package ./a.tgz -- mcp-host",
        "pip install mcp`, then mcp-host",
    ] {
        assert!(!installs_our_package(line), "{line}");
    }
    let listed = Command::new("git").args(["ls-files"]).current_dir(root()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let shown = [".md", ".rs", ".json", ".txt", ".toml", ".py", ".js", ".ts", ".html"];
    let own_text = ["tests/tests/docs.rs", "package-lock.json"];
    let mut found = Vec::new();
    for file in listed.lines().filter(|file| shown.iter().any(|end| file.ends_with(end))) {
        if own_text.iter().any(|own| file.ends_with(own)) {
            continue;
        }
        let Ok(text) = fs::read_to_string(root().join(file)) else { continue };
        let lines = text.lines().filter(|line| installs_our_package(line));
        found.extend(lines.map(|line| format!("{file}: {line}")));
        // A range of versions is looked up in the registry; a `file:` is not.
        if file.ends_with("package.json") && text.contains("\"mcp-host-provider\": \"^") {
            found.push(format!("{file}: a dependency on a version of mcp-host-provider"));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Returns the lines without their indentation.
fn unindented(text: &str) -> String {
    text.lines().map(|line| line.trim().to_owned() + "\n").collect()
}

/// Returns the Rust snippets on a page, without indentation.
fn rust_snippets(page: &str) -> Vec<String> {
    let page = fs::read_to_string(root().join(page)).unwrap();
    let snippets = page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    snippets.map(unindented).collect()
}

#[test]
fn the_provider_in_the_readme_is_taken_from_the_example_that_it_names() {
    let example = unindented(&fs::read_to_string(root().join("examples/hello-rust/src/lib.rs")).unwrap());
    let snippets = rust_snippets("README.md");
    assert!(!snippets.is_empty());
    for snippet in snippets {
        assert!(example.contains(&snippet), "examples/hello-rust does not have\n{snippet}");
    }
}

/// A line `// …` in a snippet stands for omitted lines.
#[test]
fn every_snippet_on_the_page_of_embedding_is_taken_from_an_example() {
    let examples = fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let examples = examples.filter(|file| file.extension().is_some_and(|kind| kind == "rs"));
    let examples: Vec<_> = examples.map(|file| unindented(&fs::read_to_string(file).unwrap())).collect();
    let snippets = rust_snippets("docs/embedding.md");
    assert!(!snippets.is_empty());
    for snippet in snippets {
        let is_taken_from = |example: &String| snippet.split("// …\n").all(|part| example.contains(part));
        assert!(examples.iter().any(is_taken_from), "no example has\n{snippet}");
    }
}
