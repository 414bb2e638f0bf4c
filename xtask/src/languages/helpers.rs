//! Compares the table of helpers in `docs/languages.md` with the SDKs.
//!
//! A cell has the names that a provider uses. The test fails if the SDK of that language no longer declares one of
//! them, or if the table in the docs differs. No cell is empty: all SDKs have each helper.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::files;

/// The languages of the table, each with the folder of its SDK and the texts that precede a declared name.
const LANGUAGES: [(&str, &str, &[&str]); 5] = [
    ("Python", "sdk-guest/python/src", &["def ", "class "]),
    ("JavaScript, TypeScript", "sdk-guest/js/src", &["function ", "class ", "type ", "  "]),
    ("Go", "sdk-guest/go", &["func ", "type ", ") "]),
    ("Rust", "sdk-guest/rust/src", &["fn ", "struct ", "trait ", "macro_rules! ", "mod "]),
    ("C", "sdk-guest/c/include", &["mcp_result ", "bool ", "char *", "void ", "} ", "#define "]),
];

/// A row: its purpose, and the names by language, in the order of [`LANGUAGES`]. A name `a.b` is the declaration of
/// `b`.
const ROWS: [(&str, [&str; 5]); 17] = [
    ("a function is a resource", ["FunctionProvider", "resource", "Functions", "Functions", "MCP_FUNCTIONS"]),
    ("arguments with types", ["resource", "integer", "Resource", "Args", "mcp_i64_argument"]),
    ("listing from an iterator", ["listing", "list", "List", "list", "mcp_listing_add"]),
    ("pages by key", ["paginate", "paginate", "Paginate", "keyset::page", "mcp_paginate"]),
    (
        "templates: match",
        [
            "PathTemplate.match",
            "PathTemplate.match",
            "PathTemplate.Match",
            "PathTemplate.matches",
            "mcp_template_match",
        ],
    ),
    (
        "templates: expand",
        [
            "PathTemplate.expand",
            "PathTemplate.expand",
            "PathTemplate.Expand",
            "PathTemplate.expand",
            "mcp_template_expand",
        ],
    ),
    (
        "changes by fingerprints",
        ["Changes.compare", "compareChanges", "CompareChanges", "Changes::compare", "mcp_changes_compare"],
    ),
    (
        "completion by what was typed",
        ["Completion.matching", "matching", "Matching", "Completion::matching", "mcp_completion_match"],
    ),
    (
        "segments of paths",
        ["encode_segment", "encodeSegment", "EncodeSegment", "path::encode_segment", "mcp_encode_segment"],
    ),
    ("config: numbers", ["Config.number", "Config.number", "Config.Float", "Config.parse", "mcp_config_f64"]),
    ("config: true or false", ["Config.boolean", "Config.boolean", "Config.Bool", "Config.parse", "mcp_config_bool"]),
    (
        "config: lists and tables",
        ["Config.json", "Config.json", "Config.JSON", "Config.deserialize", "mcp_config_json"],
    ),
    ("memo by file and time", ["memo", "memo", "Memo", "functions::Memo", "mcp_memo_get"]),
    ("buckets", ["Bucket", "Bucket", "Bucket", "Bucket", "mcp_bucket_open"]),
    (
        "JSON in buckets",
        ["Bucket.get_json", "Bucket.getJson", "Bucket.GetJSON", "JsonStore.get_json", "mcp_bucket_get_json"],
    ),
    ("SQL", ["sql.Database", "Database", "sql.Database", "sql::Database", "mcp_sql_query"]),
    ("work longer than a call", ["prepare", "progressOf", "Preparer", "Prepare", "mcp_prepare"]),
];

/// Whether a source declares a name.
fn declares(source: &str, before: &[&str], name: &str) -> bool {
    before.iter().any(|before| {
        let declaration = format!("{before}{name}");
        let mut next = source.split(&declaration).skip(1).map(|behind| behind.chars().next());
        next.any(|next| next.is_none_or(|c| !c.is_alphanumeric() && c != '_'))
    })
}

/// The declarations of an SDK: the text of its sources, without tests.
fn sources(root: &Path, folder: &str) -> String {
    let files = files(&[root.join(folder)]).unwrap();
    let is_source = |file: &&std::path::PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_generated = file.components().any(|part| part.as_os_str() == "bindings");
        [".py", ".ts", ".go", ".rs", ".h"].iter().any(|end| name.ends_with(end))
            && !name.contains("_test.")
            && !is_generated
    };
    files.iter().filter(is_source).map(|file| fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn the_table_of_helpers_is_that_of_the_sdks() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let sources = LANGUAGES.map(|(_, folder, _)| sources(root, folder));
    let languages: Vec<_> = LANGUAGES.iter().map(|(language, _, _)| *language).collect();
    let mut table = format!("| | {} |\n|---|{}\n", languages.join(" | "), "---|".repeat(LANGUAGES.len()));
    for (purpose, names) in ROWS {
        write!(table, "| {purpose} |").unwrap();
        for ((name, (language, _, before)), source) in names.iter().zip(LANGUAGES).zip(&sources) {
            let declared = name.rsplit(['.', ':']).next().unwrap_or_default();
            assert!(declares(source, before, declared), "{language} does not declare `{declared}`");
            write!(table, " `{name}` |").unwrap();
        }
        table.push('\n');
    }
    let docs = fs::read_to_string(root.join("docs/languages.md")).unwrap();
    assert!(docs.contains(&table), "docs/languages.md does not have this table:\n{table}");
}

#[test]
fn a_name_is_declared_where_it_stands_whole() {
    assert!(declares("pub fn page<T>(", &["fn "], "page"));
    assert!(!declares("pub fn pages(", &["fn "], "page"));
    assert!(!declares("page(", &["fn "], "page"));
}
