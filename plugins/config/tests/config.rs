//! The provider on directories on disk. The process's variables are served, too.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "code of tests"
)]

use config_provider::Configuration;
use mcp_provider::{Argument, Failure, Provider};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

type Fixture = folder::fixture::Fixture<Configuration>;

fn value(fixture: &Fixture, path: &str) -> Value {
    let contents = fixture.read(path).unwrap_or_else(|failure| panic!("{path}: {failure}"));
    serde_json::from_str(contents.as_text().unwrap()).unwrap()
}

fn changed(fixture: &Fixture, paths: &[&str], since: &str) -> (Vec<String>, bool, String) {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    let changes = fixture.changes(&paths, Some(since));
    (changes.changed, changes.listing_changed, changes.token)
}

#[test]
fn each_format_is_listed_and_read_as_json() {
    let fixture = Fixture::new([
        ("a.toml", "[server]\nport = 80\n"),
        ("b/c.yaml", "server: {port: 80}\n"),
        ("d.json", r#"{"server": {"port": 80}}"#),
        ("e.ini", "[server]\nport = 80\n"),
        (".env", "PORT=80\n"),
        ("README.md", "# no configuration\n"),
        (".git/config.toml", "a = 1\n"),
    ]);
    let listed = fixture.list(None, 3).unwrap();
    assert_eq!(listed[0..2], ["effective", "env"]);
    let files: Vec<&String> = listed.iter().filter(|path| path.starts_with("file/")).collect();
    assert_eq!(files, ["file/.env", "file/a.toml", "file/b/c.yaml", "file/d.json", "file/e.ini"]);
    for path in ["file/a.toml", "file/b/c.yaml", "file/d.json"] {
        assert_eq!(value(&fixture, path), json!({ "server": { "port": 80 } }), "{path}");
        assert_eq!(value(&fixture, &format!("{path}?pointer=/server/port")), json!(80));
        assert_eq!(fixture.read(&format!("{path}?pointer=/server/host")), Err(Failure::NotFound));
    }
    assert_eq!(value(&fixture, "file/e.ini"), json!({ "server": { "port": "80" } }));
    for path in ["file/README.md", "file/.git/config.toml", "file/none.toml", "other"] {
        assert_eq!(fixture.read(path), Err(Failure::NotFound), "{path}");
    }
    assert_eq!(
        fixture.list(Some("file"), 9).unwrap(),
        ["file/.env", "file/a.toml", "file/b", "file/d.json", "file/e.ini"]
    );
    assert_eq!(fixture.list(Some("file/b"), 9).unwrap(), ["file/b/c.yaml"]);
}

#[test]
fn the_entry_of_a_file_is_the_same_everywhere_and_has_the_size_of_its_values() {
    let fixture = Fixture::new([("a.toml", "password = \"hunter2\"\nx = 1\n")]);
    fixture.touch("a.toml", 1_736_694_058);
    let read = fixture.read("file/a.toml").unwrap();
    assert_eq!(read.entry.size, u64::try_from(read.as_bytes().len()).ok());
    assert_eq!(read.entry.last_modified.as_ref().unwrap().as_str(), "2025-01-12T15:00:58Z");
    assert_eq!(fixture.provider.stat("file/a.toml").unwrap(), read.entry);
    let mut cursor = None;
    let listed = loop {
        let page = fixture.provider.list(None, cursor.as_deref(), 1000).unwrap();
        if let Some(entry) = page.entries.into_iter().find(|entry| entry.path == "file/a.toml") {
            break entry;
        }
        cursor = page.next_cursor;
        assert!(cursor.is_some());
    };
    assert_eq!(listed, read.entry);
}

#[test]
fn layers_are_merged_and_each_value_has_its_origin() {
    let config = [
        ("defaults", r#"{"server": {"host": "localhost", "port": 80}, "debug": false}"#),
        ("layers", r#"["app.toml", "local.yaml", "absent.json", "broken.json"]"#),
        ("env-prefix", "CARGO_PKG_"),
    ];
    let fixture = Fixture::with_config(
        [
            ("app.toml", "name = \"x\"\n[server]\nport = 8080\n"),
            ("local.yaml", "server:\n  port: 9090\nlist: [1, 2]\n"),
            ("broken.json", "{"),
        ],
        config,
    );
    let effective = value(&fixture, "effective");
    assert_eq!(effective["values"]["server"], json!({ "host": "localhost", "port": 9090 }));
    assert_eq!(effective["values"]["name"], "config-provider", "the variable CARGO_PKG_NAME is above the files");
    let origins = &effective["origins"];
    assert_eq!(origins["/server/host"], json!({ "layer": "defaults" }));
    assert_eq!(
        origins["/server/port"],
        json!({ "layer": "file/local.yaml", "overrides": ["file/app.toml", "defaults"] })
    );
    assert_eq!(
        origins["/name"],
        json!({ "layer": "env CARGO_PKG_*", "variable": "CARGO_PKG_NAME", "overrides": ["file/app.toml"] })
    );
    let layers = effective["layers"].as_array().unwrap();
    assert_eq!(layers[3], json!({ "layer": "file/absent.json", "absent": true }));
    assert!(layers[4]["fault"].as_str().unwrap().starts_with("line 1: "), "{layers:?}");
    let part = value(&fixture, "effective?pointer=/server");
    assert_eq!(part["values"], effective["values"]["server"]);
    assert_eq!(part["origins"].as_object().unwrap().len(), 2);
    assert_eq!(fixture.read("effective?pointer=/nothing"), Err(Failure::NotFound));
}

#[test]
fn secrets_are_present_and_not_shown_in_files_parts_and_layers() {
    let config = [("layers", r#"["a.toml"]"#), ("public-keys", r#"["/db/token"]"#)];
    let fixture = Fixture::with_config(
        [("a.toml", "url = \"postgres://a:s3cr3t@db/x\"\n[db]\npassword = \"s3cr3t\"\ntoken = \"sample\"\n")],
        config,
    );
    for path in [
        "file/a.toml",
        "effective",
        "file/a.toml?pointer=/db",
        "file/a.toml?pointer=/db/password",
        "effective?pointer=/db",
    ] {
        let text = fixture.read(path).unwrap().as_text().unwrap().to_owned();
        assert!(!text.contains("s3cr3t") && text.contains("<redacted: 1 to 7 characters>"), "{path}: {text}");
    }
    assert_eq!(value(&fixture, "file/a.toml?pointer=/db/token"), "sample");
    let open = Fixture::with_config([("a.toml", "password = \"s3cr3t\"\n")], [("redact", "false")]);
    assert_eq!(value(&open, "file/a.toml"), json!({ "password": "s3cr3t" }));
}

#[test]
fn a_secret_that_is_in_a_key_or_copied_is_not_shown_in_values_origins_and_completions() {
    let config = [("layers", r#"["a.yaml", "b.env", "c.yaml"]"#)];
    let fixture = Fixture::with_config(
        [
            ("a.yaml", "urls: {\"https://u:hunter2key@h/\": 1}\nx: {password: &p hunter2alias}\ncopy: *p\n"),
            ("b.env", "DB_PASSWORD=hunter2env\nGREETING=\"hello $DB_PASSWORD!\"\n"),
            // The copy is still the lower layer's password.
            ("c.yaml", "DB_PASSWORD: other\n"),
            ("d.ini", "[url \"https://u:hunter2ini@github.com/\"]\na = b\n"),
        ],
        config,
    );
    for path in ["file/a.yaml", "file/b.env", "file/d.ini", "effective", "effective?pointer=/urls"] {
        let text = fixture.read(path).unwrap().as_text().unwrap().to_owned();
        assert!(!text.contains("hunter2") && text.contains("<redacted: "), "{path}: {text}");
    }
    let known = [Argument::new("path", "a.yaml")];
    for (template, known) in [("file/{+path}{?pointer}", &known[..]), ("effective{?pointer}", &[])] {
        let completion = fixture.provider.complete(template, &Argument::new("pointer", "/urls/"), known).unwrap();
        let shown = "/urls/https:~1~1u:<redacted: 8 to 15 characters>@h~1";
        assert_eq!(completion.values, [shown], "{template}");
    }
    let shown = "effective?pointer=/urls/https:~1~1u:%3Credacted:%208%20to%2015%20characters%3E@h~1";
    let part = value(&fixture, shown);
    assert_eq!((&part["values"], part["origins"].as_object().unwrap().len()), (&json!(1), 1));
}

#[test]
fn exactly_what_an_edit_concerns_has_changed() {
    let config = [("layers", r#"["a.toml", "b.toml"]"#)];
    let fixture =
        Fixture::with_config([("a.toml", "x = 1\ny = 1\n"), ("b.toml", "x = 2\n"), ("c.toml", "z = 1\n")], config);
    let paths = [
        "effective",
        "effective?pointer=/x",
        "file/a.toml",
        "file/a.toml?pointer=/y",
        "file/c.toml",
        "env",
        "env/PATH",
    ];
    let (_, _, start) = changed(&fixture, &paths, "");
    assert_eq!(changed(&fixture, &paths, &start), (Vec::new(), false, start.clone()));
    fixture.write("c.toml", "z = 22\n");
    let (now, listing, token) = changed(&fixture, &paths, &start);
    assert_eq!((now, listing), (vec!["file/c.toml".to_owned()], true));
    // The file's `x` is overridden, and `y` is unchanged.
    fixture.write("a.toml", "x = 333\ny = 1\n");
    let (now, _, token) = changed(&fixture, &paths, &token);
    assert_eq!(now, ["file/a.toml"]);
    fixture.write("a.toml", "x = 333\ny = 22\n");
    let (now, ..) = changed(&fixture, &paths, &token);
    assert_eq!(now, ["effective", "file/a.toml", "file/a.toml?pointer=/y"]);
}

#[test]
fn a_file_that_cannot_be_parsed_is_listed_with_its_fault() {
    let fixture = Fixture::with_config(
        [("bad.toml", "a = \n".to_owned()), ("big.json", " ".repeat(2000)), ("good.toml", "a = 1\n".to_owned())],
        [("max-file", "1000B")],
    );
    for (path, reason) in [("file/bad.toml", "line 1: "), ("file/big.json", "the file has 2000 bytes")] {
        let entry = fixture.provider.stat(path).unwrap();
        assert!(entry.meta["config/fault"].as_str().unwrap().starts_with(reason), "{entry:?}");
        assert_eq!(entry.size, None);
        let Err(Failure::Denied(fault)) = fixture.read(path) else { panic!("expected a failure") };
        assert!(fault.starts_with(reason), "{fault}");
    }
    assert_eq!(value(&fixture, "file/good.toml"), json!({ "a": 1 }));
}

#[test]
fn hostile_files_cost_little_and_are_refused() {
    let mut laughs = "a0: &a0 [lol]\n".to_owned();
    for n in 1..20 {
        laughs.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(",")));
    }
    let many: String = (0..60_000).map(|n| format!("k{n}=1\n")).collect();
    let fixture = Fixture::with_config(
        [
            ("laughs.yaml", laughs),
            ("deep.yaml", "[".repeat(1 << 19)),
            ("deep.json", "[".repeat(1 << 19)),
            ("wide.json", format!("{{\"{}\": [{}]}}", "k".repeat(400_000), vec!["{\"a\":1}"; 50_000].join(","))),
            ("many.toml", many),
            ("utf-16.toml", "\u{0}a\u{0}=".to_owned()),
        ],
        [("layers", r#"["wide.json", "many.toml"]"#)],
    );
    symlink("/etc/passwd", fixture.path("outside.toml")).unwrap();
    symlink("self.toml", fixture.path("self.toml")).unwrap();
    for path in ["laughs.yaml", "deep.yaml", "deep.json", "utf-16.toml", "outside.toml"] {
        assert!(matches!(fixture.read(&format!("file/{path}")), Err(Failure::Denied(_))), "{path}");
    }
    assert_eq!(fixture.read("file/self.toml"), Err(Failure::NotFound));
    assert!(matches!(fixture.read("effective"), Err(Failure::Denied(_))), "there are too many origins");
    assert!(fixture.read("effective?pointer=/k7").is_ok());
    fixture.list(None, 100).unwrap();
}

#[test]
fn pointers_into_nothing_or_without_end_are_answered() {
    let fixture = Fixture::new([("a.json", r#"{"a/b": {"m~n": [10, 20]}, "": 1}"#)]);
    for (pointer, expected) in [("/a~1b/m~0n/1", json!(20)), ("/", json!(1)), ("%2Fa~1b%2Fm~0n%2F0", json!(10))] {
        assert_eq!(value(&fixture, &format!("file/a.json?pointer={pointer}")), expected, "{pointer}");
    }
    let long = "/x".repeat(5000);
    for pointer in ["/a~1b/m~0n/2", "/a~1b/m~0n/-", "/a~1b/m~0n/01", long.as_str()] {
        assert_eq!(fixture.read(&format!("file/a.json?pointer={pointer}")), Err(Failure::NotFound), "{pointer}");
    }
    for pointer in ["a", "/~", "/~2"] {
        let read = fixture.read(&format!("file/a.json?pointer={pointer}"));
        assert!(matches!(read, Err(Failure::InvalidRequest(_))), "{pointer}");
    }
}

#[test]
fn paths_pointers_and_names_are_completed() {
    let fixture = Fixture::new([("app/a.toml", "[server]\nport = 1\nhosts = [\"a\", \"b\"]\n"), ("b.json", "{}")]);
    let complete = |template: &str, name: &str, typed: &str, known: &[Argument]| {
        fixture.provider.complete(template, &Argument::new(name, typed), known).unwrap().values
    };
    assert_eq!(complete("file/{+path}", "path", "", &[]), ["app", "b.json", "app/a.toml"]);
    let known = [Argument::new("path", "app/a.toml")];
    let template = "file/{+path}{?pointer}";
    assert_eq!(complete(template, "pointer", "", &known), ["/server"]);
    assert_eq!(complete(template, "pointer", "/server/", &known), ["/server/hosts", "/server/port"]);
    assert_eq!(complete(template, "pointer", "/server/hosts/", &known), ["/server/hosts/0", "/server/hosts/1"]);
    assert!(complete("env/{name}", "name", "PAT", &[]).contains(&"PATH".to_owned()));
}
