//! Completions do not depend on values that a principal may not see: hidden values do not displace visible ones.

use mcp_host_tests::{ConfigFile, Folder, GitRepo, Plugin, Rule, StdioServer, fixture};
use rusqlite::Connection;

/// The languages of `examples/csv`.
const LANGUAGES: [&str; 6] = ["rust", "python", "javascript", "typescript", "c", "go"];
/// The number of visible names, which come after the hidden ones.
const SHOWN: usize = 42;
/// The number of hidden tables: more than the database provider requests at once.
const TABLES: usize = 600;

const DENIED: [&str; 6] = [
    "files://f/aaa/**",
    "config://c/file/a*",
    "notes://diary/a*",
    "results://r/a*",
    "git://repo/**/a*",
    "db://shop/main/a*/**",
];

/// A completion: the template, the variable, the known variables, and the text before and after each name.
struct Completed {
    template: &'static str,
    variable: &'static str,
    known: &'static [(&'static str, &'static str)],
    before: &'static str,
    after: &'static str,
}

const COMPLETED: [Completed; 6] = [
    Completed {
        template: "files://f/{+path}{?lines,bytes,as}",
        variable: "path",
        known: &[],
        before: "pub/",
        after: ".md",
    },
    Completed { template: "config://c/file/{+path}", variable: "path", known: &[], before: "", after: ".toml" },
    Completed { template: "notes://diary/{+path}", variable: "path", known: &[], before: "", after: ".md" },
    Completed { template: "results://r/{+id}", variable: "id", known: &[], before: "", after: "" },
    Completed {
        template: "git://repo/blob/{rev}/{+path}",
        variable: "path",
        known: &[("rev", "main")],
        before: "",
        after: ".md",
    },
    Completed {
        template: "db://shop/{schema}/{table}/rows{?limit,after,columns,order,format}",
        variable: "table",
        known: &[("schema", "main")],
        before: "",
        after: "",
    },
];

fn shown() -> impl Iterator<Item = String> {
    (0..SHOWN).map(|number| format!("z{number:02}"))
}

/// The hidden names, then the visible ones.
fn names(hidden: usize) -> impl Iterator<Item = String> {
    (0..hidden).map(|number| format!("a{number:03}")).chain(shown())
}

/// Returns each completion, with whether there are more values.
async fn complete_all(hidden: usize) -> Vec<(Vec<String>, Option<bool>)> {
    let in_folder =
        |name: String| if name.starts_with('a') { format!("aaa/{name}.md") } else { format!("pub/{name}.md") };
    let files = Folder::with_files(names(hidden).map(|name| (in_folder(name), "")));
    let configuration = Folder::with_files(names(hidden).map(|name| (format!("{name}.toml"), "a = 1\n")));
    let notes = Folder::with_files(names(hidden).map(|name| (format!("{name}.md"), "# A note\n")));
    let results = Folder::with_files(names(hidden).flat_map(|name| {
        [
            (format!("{name}.meta.json"), "{\"created\":\"2025-01-01T00:00:00Z\"}".to_owned()),
            (format!("{name}.md"), format!("The result {name}.")),
        ]
    }));
    let repo = GitRepo::with_files(names(hidden).map(|name| (format!("{name}.md"), "text")));
    let database = Folder::with_files::<&str, &str>([]);
    let file = database.path().join("shop.db");
    let tables = names(if hidden > 100 { TABLES } else { hidden });
    let tables: Vec<_> = tables.map(|name| format!("CREATE TABLE {name} (id INTEGER PRIMARY KEY);")).collect();
    let writer = Connection::open(&file).unwrap();
    writer.execute_batch(&format!("BEGIN; {} COMMIT;", tables.concat())).unwrap();
    let config = ConfigFile::new()
        .plugin(Plugin::files("f", files.path()))
        .plugin(Plugin::configuration("c", configuration.path()))
        .plugin(Plugin::notes("diary", notes.path()))
        .plugin(Plugin::results("r", results.path()))
        .plugin(Plugin::git("repo", repo.path()))
        .plugin(Plugin::database("shop", format!("sqlite://{}", file.display())))
        .rule(Rule::for_principal("local").allow(["**"]).deny(DENIED))
        .write();
    let server = StdioServer::start(&config).await;
    let mut completed = Vec::new();
    for &Completed { template, variable, known, .. } in &COMPLETED {
        let completion = server.client().complete(template, (variable, ""), known).await;
        let completion = completion.unwrap_or_else(|error| panic!("{template}: {error:?}"));
        assert_eq!(completion.total, None, "{template}");
        completed.push((completion.values, completion.has_more));
    }
    server.end().await;
    completed
}

#[tokio::test]
async fn hidden_values_before_the_visible_ones_neither_displace_them_nor_are_told_of() {
    let few = complete_all(1).await;
    for (completed, (values, has_more)) in COMPLETED.iter().zip(&few) {
        let Completed { template, before, after, .. } = completed;
        for name in shown() {
            let value = format!("{before}{name}{after}");
            assert!(values.contains(&value), "{template}: {value} of {values:?}");
        }
        assert_eq!(*has_more, Some(false), "{template}");
    }
    // 42 visible values and 58 hidden ones are together the maximum of MCP.
    for hidden in [57, 58, 150] {
        let many = complete_all(hidden).await;
        for ((completed, few), many) in COMPLETED.iter().zip(&few).zip(&many) {
            assert_eq!(few, many, "{}: {hidden} hidden values", completed.template);
        }
    }
}

#[tokio::test]
async fn the_helpers_of_each_sdk_give_the_host_enough_values_to_choose_from() {
    let folder = Folder::with_files(names(150).map(|name| (format!("{name}.csv"), "a\n1\n")));
    let expected: Vec<_> = shown().map(|name| format!("{name}.csv")).collect();
    for language in LANGUAGES {
        let plugin = Plugin::new("csv", &fixture(&format!("csv-{language}")), "csv:///").dir(folder.path(), "/csv");
        let plugin = plugin.limit("deadline", "1m").limit("cpu", "10s").limit("memory", "256MiB");
        let rule = Rule::for_principal("local").allow(["**"]).deny(["csv:///a*", "csv:///a*/**"]);
        let server = StdioServer::start(&ConfigFile::new().plugin(plugin).rule(rule).write()).await;
        let template = "csv:///{file}/rows{?from,to,columns}";
        let completion = server.client().complete(template, ("file", ""), &[]).await.unwrap();
        assert_eq!((completion.values, completion.has_more), (expected.clone(), Some(false)), "{language}");
        server.end().await;
    }
}
