//! Skills (SEP-2640): the official scenarios, a principal's view of a skill, and folders that are not served as skills.

use std::collections::BTreeMap;
use std::process::Stdio;

use mcp_host_tests::{
    ConfigFile, Folder, HttpServer, Plugin, RawStdio, Revision, Rule, TIMEOUT, client_program, component, node, run,
};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;
use toml::Table;

const PDF: &str = "---\nname: pdf\ndescription: Reads PDF files.\nmetadata:\n  version: \"1.0\"\n---\n# PDF\n";
const EXAMPLE: &str = include_str!("../../../../examples/skills.toml");
const LOG: &str = "---\nname: log\ndescription: Reads logs.\n---\nRead scripts/tail.sh.\n";

fn skills() -> Folder {
    Folder::with_files([
        ("pdf/SKILL.md", PDF),
        ("pdf/scripts/extract.py", "print(1)\n"),
        ("pdf/secret.txt", "for some\n"),
        ("log/SKILL.md", LOG),
        ("log/scripts/tail.sh", "tail -n 1\n"),
        ("README.md", "Skills of the team.\n"),
    ])
}

fn team(folder: &Folder) -> Plugin {
    let plugin = Plugin::new("team", &component("files"), "skill://team/");
    // Calls have long time limits, because they share the processors with all other tests.
    let plugin = plugin.limit("cpu", "10s").limit("deadline", "1m").limit("queue-timeout", "1m");
    plugin.dir(folder.path(), "/files").set("skills", vec!["skill://team/*"])
}

/// Returns the listed skills, by URI.
async fn list(wire: &mut RawStdio) -> BTreeMap<String, Value> {
    let mut skills = BTreeMap::new();
    let mut cursor = Value::Null;
    loop {
        let answer = wire.request("skills/list", json!({ "cursor": cursor })).await;
        let page = answer.result();
        assert!(page["ttlMs"].is_u64() && page["cacheScope"].is_string(), "{page}");
        for skill in page["skills"].as_array().unwrap() {
            assert!(skills.insert(skill["uri"].as_str().unwrap().to_owned(), skill.clone()).is_none(), "{skill}");
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            return skills;
        }
    }
}

/// Returns a file of a skill, as `skills/list` has it.
pub(crate) fn file_of_skill(uri: &str, content: &str) -> Value {
    let digest: String = ring::digest::digest(&ring::digest::SHA256, content.as_bytes())
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    json!({ "uri": uri, "digest": format!("sha256:{digest}"), "size": content.len() })
}

#[tokio::test]
async fn the_official_scenarios_pass() {
    let folder = skills();
    let config = ConfigFile::new().server("extensions", vec!["sep-2640-directory-read"]).plugin(team(&folder));
    let config = config.allow_all().write();
    let server = HttpServer::start(&config).await;
    for name in ["sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"] {
        let results = tempfile::tempdir().unwrap();
        let mut command = Command::new(node());
        command.arg(client_program("tools/node_modules/@modelcontextprotocol/conformance/dist/index.js"));
        command.args(["server", "--url", server.url(), "--scenario", name, "--spec-version", "2026-07-28"]);
        // Extensions are in no revision, so the suite runs their scenarios only by name.
        command.args(["--force", "--output-dir"]).arg(results.path()).stdin(Stdio::null()).kill_on_drop(true);
        let output = timeout(TIMEOUT * 2, command.output()).await.expect("the suite ends").expect("the suite starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let mut folders = std::fs::read_dir(results.path()).unwrap();
        let folder = folders.next().unwrap_or_else(|| panic!("no results of {name}: {said}")).unwrap().path();
        let checks: Vec<Value> = serde_json::from_slice(&std::fs::read(folder.join("checks.json")).unwrap()).unwrap();
        let of = |status: &str| checks.iter().filter(|check| check["status"] == status).cloned().collect::<Vec<_>>();
        assert!(of("FAILURE").is_empty(), "{name}: {:#?}", of("FAILURE"));
        assert!(of("SKIPPED").is_empty(), "{name}: {:#?}", of("SKIPPED"));
        assert!(of("SUCCESS").len() >= 3, "{name}: {checks:#?}");
        // SHOULD: the name and the description of the resource come from the front matter. This provider takes them
        // from the file.
        let warned: Vec<_> = of("WARNING").iter().map(|check| check["id"].as_str().unwrap().to_owned()).collect();
        let expected = ["sep-2640-skillmd-metadata-name", "sep-2640-skillmd-metadata-description"];
        let expected = if name == "sep-2640-skills-manifest" { &expected[..] } else { &[] };
        assert_eq!(warned, expected, "{name}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_skill_has_its_files_with_digests_that_change_with_them() {
    let folder = skills();
    let config = ConfigFile::new().plugin(team(&folder)).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let discovered = wire.request("server/discover", json!({})).await;
    let extensions = &discovered.result()["capabilities"]["extensions"];
    assert_eq!(*extensions, json!({ "io.modelcontextprotocol/skills": {} }));

    let found = list(&mut wire).await;
    assert_eq!(found.keys().collect::<Vec<_>>(), ["skill://team/log/SKILL.md", "skill://team/pdf/SKILL.md"]);
    let pdf = &found["skill://team/pdf/SKILL.md"];
    let front_matter = json!({ "name": "pdf", "description": "Reads PDF files.", "metadata": { "version": "1.0" } });
    assert_eq!(pdf["frontmatter"], front_matter);
    let files = json!([
        file_of_skill("skill://team/pdf/SKILL.md", PDF),
        file_of_skill("skill://team/pdf/scripts/extract.py", "print(1)\n"),
        file_of_skill("skill://team/pdf/secret.txt", "for some\n"),
    ]);
    assert_eq!(pdf["resources"], files);
    let got = wire.request("skills/get", json!({ "uri": "skill://team/pdf/SKILL.md" })).await;
    assert_eq!(got.result()["skill"], *pdf);
    for uri in ["skill://team/README.md", "skill://team/pdf", "skill://team/none/SKILL.md", "skill://team/SKILL.md"] {
        assert_eq!(wire.request("skills/get", json!({ "uri": uri })).await.error_code(), -32602, "{uri}");
    }

    folder.write("pdf/scripts/extract.py", "print(2)\n");
    folder.write("pdf/more.md", "More.\n");
    let files = json!([
        file_of_skill("skill://team/pdf/SKILL.md", PDF),
        file_of_skill("skill://team/pdf/more.md", "More.\n"),
        file_of_skill("skill://team/pdf/scripts/extract.py", "print(2)\n"),
        file_of_skill("skill://team/pdf/secret.txt", "for some\n"),
    ]);
    assert_eq!(list(&mut wire).await["skill://team/pdf/SKILL.md"]["resources"], files);
    wire.end().await;
}

#[tokio::test]
async fn older_revisions_and_servers_without_skills_have_none_of_the_methods() {
    let folder = skills();
    let config = ConfigFile::new().plugin(team(&folder)).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    assert_eq!(wire.request("skills/list", json!({})).await.error_code(), -32601);
    wire.end().await;
    let config = ConfigFile::new().plugin(Plugin::files("team", folder.path())).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    assert_eq!(wire.request("skills/list", json!({})).await.error_code(), -32601);
    wire.end().await;
}

#[tokio::test]
async fn what_a_principal_may_not_read_is_no_part_of_a_skill() {
    let folder = skills();
    let rule = Rule::for_principal("local")
        .allow(["skill://team/**"])
        .deny(["skill://team/pdf/secret.txt", "skill://team/log/SKILL.md"]);
    let config = ConfigFile::new().plugin(team(&folder)).rule(rule).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let found = list(&mut wire).await;
    assert_eq!(found.keys().collect::<Vec<_>>(), ["skill://team/pdf/SKILL.md"]);
    let files = json!([
        file_of_skill("skill://team/pdf/SKILL.md", PDF),
        file_of_skill("skill://team/pdf/scripts/extract.py", "print(1)\n"),
    ]);
    assert_eq!(found["skill://team/pdf/SKILL.md"]["resources"], files);
    let denied = wire.request("skills/get", json!({ "uri": "skill://team/log/SKILL.md" })).await;
    let absent = wire.request("skills/get", json!({ "uri": "skill://team/nil/SKILL.md" })).await;
    assert_eq!(denied.error_code(), -32602);
    let message = |answer: &Value| answer["message"].as_str().unwrap().to_owned();
    assert_eq!(message(denied.error()).replace("log", "nil"), message(absent.error()));
    wire.end().await;
}

#[tokio::test]
async fn many_skills_come_in_pages() {
    let files = (0..70).map(|n| {
        let name = format!("s{n:02}");
        (format!("{name}/SKILL.md"), format!("---\nname: {name}\ndescription: Number {n}.\n---\n"))
    });
    let folder = Folder::with_files(files);
    let config = ConfigFile::new().plugin(team(&folder)).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    assert_eq!(list(&mut wire).await.len(), 70);
    let wrong = wire.request("skills/list", json!({ "cursor": "made up" })).await;
    assert_eq!(wrong.error_code(), -32602);
    wire.end().await;
}

#[tokio::test]
async fn a_directory_that_breaks_a_rule_is_left_out_and_a_check_says_why() {
    let folder = skills();
    folder.write("wrong/SKILL.md", "---\nname: right\ndescription: x\n---\n");
    folder.write("broken/SKILL.md", "---\nname: broken\ndescription: [\n---\n");
    folder.write("plain/SKILL.md", "# Plain\n");
    folder.write("large/SKILL.md", "---\nname: large\ndescription: x\n---\n");
    folder.write("large/data.txt", "0123456789\n".repeat(200_000));
    for n in 0..512 {
        folder.write(format!("many/{n}.txt"), "");
    }
    folder.write("many/SKILL.md", "---\nname: many\ndescription: x\n---\n");
    let config = ConfigFile::new().plugin(team(&folder)).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let found = list(&mut wire).await;
    assert_eq!(found.keys().collect::<Vec<_>>(), ["skill://team/log/SKILL.md", "skill://team/pdf/SKILL.md"]);
    wire.end().await;

    let checked = run(["check", "--config", config.path().to_str().unwrap()]).await;
    let said = checked.stderr.clone() + &checked.text();
    for (name, problem) in [
        ("wrong", "line 2: `name` is `right`, and the directory `wrong`"),
        ("broken", "line 3: expected YAML"),
        ("plain", "line 1: expected `---` as the first line"),
        ("large", "reading skill://team/large/data.txt returns a part of the file"),
        ("many", "it has 513 files, and may have 512"),
    ] {
        let line = format!("`skill://team/{name}/SKILL.md` is not served as a skill: {problem}");
        let unwrapped = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(unwrapped.contains(&line), "{line}\n{said}");
    }
}

#[tokio::test]
async fn who_may_not_list_gets_no_skill_and_the_provider_is_not_called_for_it() {
    // The plugin's listing traps.
    let plugin = Plugin::misbehaving("m").config("list", "trap").set("skills", vec!["**"]);
    let rule = Rule::for_principal("local").allow(["misbehaving://m/**"]).operations(["read"]);
    let config = ConfigFile::new().plugin(plugin.clone()).rule(rule.clone()).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    // A server without visible skills does not have these methods.
    for method in ["skills/get", "skills/list"] {
        let got = wire.request(method, json!({ "uri": "misbehaving://m/x/SKILL.md" })).await;
        assert_eq!(got.error_code(), -32601, "{method}: {:?}", got.error());
    }
    wire.end().await;

    let folder = Folder::with_files([("pdf/SKILL.md", "---\nname: pdf\ndescription: x\n---\n")]);
    let both = ConfigFile::new().plugin(plugin).plugin(team(&folder)).rule(rule);
    let config = both.rule(Rule::for_principal("local").allow(["skill://team/**"])).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let got = wire.request("skills/get", json!({ "uri": "misbehaving://m/x/SKILL.md" })).await;
    assert_eq!(got.error_code(), -32602, "{:?}", got.error());
    assert_eq!(list(&mut wire).await.keys().collect::<Vec<_>>(), ["skill://team/pdf/SKILL.md"]);
    wire.end().await;
}

#[tokio::test]
async fn a_skill_that_cannot_be_read_for_a_moment_is_said_to_be_missing() {
    let folder = Folder::with_files((0..6).map(|n| {
        let name = format!("s{n}");
        (format!("{name}/SKILL.md"), format!("---\nname: {name}\ndescription: Number {n}.\n---\n"))
    }));
    let config = ConfigFile::new().plugin(team(&folder).limit("rate", "4/h")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let answer = wire.request("skills/list", json!({})).await;
    let page = answer.result();
    assert!(page["skills"].as_array().unwrap().len() < 6, "{page}");
    let missing = &page["_meta"]["mcp-host/missing"];
    assert_eq!(missing.as_array().map(Vec::len), Some(1), "{page}");
    assert_eq!(missing[0]["plugin"], "team", "{page}");
    assert!(missing[0]["reason"].as_str().unwrap().contains("rate limit"), "{page}");
    wire.end().await;

    let checked = run(["check", "--config", config.path().to_str().unwrap()]).await;
    let said = (checked.stderr.clone() + &checked.text()).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("on were not checked: its files cannot be read: rate limit exceeded"), "{said}");
    assert_eq!(said.matches("is not served as a skill").count(), 0, "{said}");
}

#[tokio::test]
async fn the_example_serves_the_skills_of_a_repository() {
    // More than the provider returns by default.
    let large = "0123456789\n".repeat(100_000);
    let folder = Folder::with_files([
        ("skills/pdf/SKILL.md", PDF),
        ("skills/pdf/large.txt", large.as_str()),
        ("plugins/logs/skills/log/SKILL.md", LOG),
        ("template/SKILL.md", "---\nname: template\ndescription: It is none.\n---\n"),
        ("README.md", "Skills.\n"),
    ]);
    let example: Table = EXAMPLE.parse().unwrap();
    let mut plugin = example["plugin"][0].as_table().unwrap().clone();
    plugin["component"] = component("files").to_str().unwrap().into();
    plugin["grants"]["dirs"][0]["host"] = folder.path().to_str().unwrap().into();
    let plugin = Plugin::from_table(plugin).limit("cpu", "10s").limit("deadline", "1m").limit("queue-timeout", "1m");
    let config = ConfigFile::new().plugin(plugin).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let found = list(&mut wire).await;
    let manifests = ["skill://repository/plugins/logs/skills/log/SKILL.md", "skill://repository/skills/pdf/SKILL.md"];
    assert_eq!(found.keys().collect::<Vec<_>>(), manifests);
    let files =
        json!([file_of_skill(manifests[1], PDF), file_of_skill("skill://repository/skills/pdf/large.txt", &large),]);
    assert_eq!(found[manifests[1]]["resources"], files);
    wire.end().await;
}
