//! Compares the table of lines in `docs/languages.md` with the sources.
//!
//! Blank lines and lines with only a comment do not count. Tests, build files and the SDKs do not count either.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A row of the table: the language, and the sources of each provider, below the root of the repository.
const ROWS: [(&str, [&[&str]; 4]); 6] = [
    (
        "Python",
        [
            &["examples/folder/python/app.py"],
            &["sdk-guest/templates/python/app.py"],
            &["examples/calendar/python/app.py"],
            &["examples/csv/python/app.py", "examples/csv/python/csv_text.py"],
        ],
    ),
    (
        "JavaScript",
        [
            &["examples/folder/javascript/app.js"],
            &["sdk-guest/templates/javascript/app.js"],
            &[],
            &["examples/csv/javascript/app.js", "examples/csv/javascript/csv.js"],
        ],
    ),
    (
        "TypeScript",
        [
            &["examples/folder/typescript/src/app.ts"],
            &["sdk-guest/templates/typescript/src/app.ts"],
            &[],
            &["examples/csv/typescript/src/app.ts", "examples/csv/typescript/src/csv.ts"],
        ],
    ),
    (
        "Go",
        [
            &["examples/folder/go/main.go"],
            &["sdk-guest/templates/go/main.go"],
            &["examples/calendar/go/main.go"],
            &[
                "examples/csv/go/main.go",
                "examples/csv/go/folder.go",
                "examples/csv/go/rows.go",
                "examples/csv/go/csv.go",
            ],
        ],
    ),
    (
        "Rust",
        [
            &["examples/folder/rust/src/lib.rs"],
            &["sdk-guest/templates/rust/src/lib.rs"],
            &[],
            &["examples/csv/rust/src/lib.rs", "examples/csv/rust/src/folder.rs", "examples/csv/rust/src/csv.rs"],
        ],
    ),
    (
        "C",
        [
            &["examples/folder/c/provider.c"],
            &["sdk-guest/templates/c/provider.c"],
            &[],
            &["examples/csv/c/provider.c", "examples/csv/c/csv.c", "examples/csv/c/csv.h"],
        ],
    ),
];

const HEADER: &str = "| language | folder, by functions | folder, by `mcp-host new` | calendar, by functions | CSV files |\n|---|---|---|---|---|\n";

/// The same providers as MCP servers without a host. They have no completion, no updates and no sandbox, and FastMCP
/// has no pages.
const COMPARED: [(&str, [&[&str]; 2]); 2] = [
    ("FastMCP", [&["examples/folder/fastmcp/server.py"], &["examples/calendar/fastmcp/server.py"]]),
    ("rmcp", [&["examples/folder/rmcp/main.rs"], &[]]),
];

const COMPARED_HEADER: &str = "| without a host | folder | calendar |\n|---|---|---|\n";

/// The maximum number of lines of a provider of functions.
const GOALS: [(&str, usize); 8] = [
    ("examples/folder/python/app.py", 30),
    ("examples/folder/javascript/app.js", 30),
    ("examples/folder/typescript/src/app.ts", 30),
    ("examples/calendar/python/app.py", 90),
    ("examples/folder/go/main.go", 60),
    ("examples/folder/rust/src/lib.rs", 60),
    ("examples/folder/c/provider.c", 120),
    ("examples/calendar/go/main.go", 160),
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns the number of lines of code of a file. In Rust, the unit tests at the end do not count.
fn lines(file: &str) -> usize {
    let text = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let comments: &[&str] = if file.ends_with(".py") { &["#"] } else { &["//", "/*", "*"] };
    let is_code = |line: &&str| !line.is_empty() && !comments.iter().any(|comment| line.starts_with(comment));
    text.lines().map(str::trim).filter(is_code).count()
}

/// The number of lines of some sources together, in a table; nothing if there are none.
fn cell(sources: &[&str]) -> String {
    let count: usize = sources.iter().map(|file| lines(file)).sum();
    if sources.is_empty() { " |".to_owned() } else { format!(" {count} |") }
}

#[test]
fn the_table_of_the_docs_is_that_of_the_sources() {
    let mut table = HEADER.to_owned();
    for (language, providers) in ROWS {
        write!(table, "| {language} |").unwrap();
        writeln!(table, "{}", providers.map(cell).concat()).unwrap();
    }
    let docs = fs::read_to_string(root().join("docs/languages.md")).unwrap();
    assert!(docs.contains(&table), "docs/languages.md does not have this table:\n{table}");
}

#[test]
fn the_table_of_other_servers_is_that_of_the_sources() {
    let mut table = COMPARED_HEADER.to_owned();
    for (name, servers) in COMPARED {
        writeln!(table, "| {name} |{}", servers.map(cell).concat()).unwrap();
    }
    let docs = fs::read_to_string(root().join("docs/languages.md")).unwrap();
    assert!(docs.contains(&table), "docs/languages.md does not have this table:\n{table}");
}

#[test]
fn providers_of_functions_are_short() {
    for (file, most) in GOALS {
        assert!(lines(file) <= most, "{file} has {} lines of code, more than {most}", lines(file));
    }
}
