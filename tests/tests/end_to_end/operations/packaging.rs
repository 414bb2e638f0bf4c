//! The files in `packaging/` are consistent with the program and with each other. `cargo xtask dist --verify` tests the
//! parts that need systemd.

use std::fs;
use std::path::Path;

use mcp_host_tests::{Folder, component, run};

fn packaging(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(file);
    fs::read_to_string(path).unwrap()
}

/// Returns the values of a unit's setting, without the names of the other units.
fn settings<'t>(unit: &'t str, name: &str) -> Vec<&'t str> {
    unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect()
}

#[tokio::test]
async fn the_examples_in_the_installed_config_are_valid() {
    let folder = Folder::with_files([("docs/a.md", "# A\n"), ("run/x", "")]);
    // An example is a comment whose text is a table header or a key.
    let is_example = |text: &str| {
        text.starts_with("[[") || text.split_once(" = ").is_some_and(|(key, _)| !key.contains(char::is_whitespace))
    };
    let installed = packaging("mcp-host.toml");
    let uncommented: Vec<_> = installed
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|text| is_example(text)).unwrap_or(line))
        .map(|line| line.replace("/srv/docs", folder.path().join("docs").to_str().unwrap()))
        .map(|line| line.replace("/run/mcp-host", folder.path().join("run").to_str().unwrap()))
        .map(|line| line.replace("\"files\"", &format!("{:?}", component("files"))))
        .collect();
    assert!(uncommented.iter().any(|line| line == "[[plugin]]"), "{uncommented:#?}");
    let config = folder.write("mcp-host.toml", uncommented.join("\n"));
    let checked = run(["check", "--strict", "--config", config.to_str().unwrap()]).await.success();
    assert!(checked.text().contains("files:///"), "{}", checked.text());
}

#[tokio::test]
async fn the_service_is_started_with_options_that_exist() {
    let service = packaging("systemd/mcp-host.service");
    let start = settings(&service, "ExecStart").concat();
    let words: Vec<_> = start.split_whitespace().collect();
    let ["/usr/bin/mcp-host", "serve", options @ ..] = words.as_slice() else { panic!("{start}") };
    let help = run(["serve", "--help"]).await.success().text();
    for option in options.iter().filter(|word| word.starts_with('-')) {
        assert!(help.contains(option), "there is no option {option}");
    }
    for page in settings(&service, "Documentation").concat().split_whitespace() {
        let command = page.trim_start_matches("man:mcp-host").trim_start_matches('-').trim_end_matches("(1)");
        run([command, "--help"].into_iter().filter(|word| !word.is_empty())).await.success();
    }
}

#[test]
fn the_service_has_the_user_directories_and_address_that_the_other_files_have() {
    let service = packaging("systemd/mcp-host.service");
    let user = settings(&service, "User").concat();
    assert!(packaging("systemd/mcp-host.sysusers").contains(&format!("\nu     {user} ")), "{user}");
    let runtime = format!("/run/{}", settings(&service, "RuntimeDirectory").concat());
    let temporary = packaging("systemd/mcp-host.tmpfiles");
    assert!(temporary.contains(&format!("\nd     {runtime} 0750 {user} {user} ")), "{temporary}");
    let config = packaging("mcp-host.toml");
    assert!(config.contains(&format!("\"unix:{runtime}/admin.sock\"")), "{config}");
    let address = settings(&packaging("systemd/mcp-host.socket"), "ListenStream").concat();
    assert!(config.contains(&format!("http = \"{address}\"")), "{config}");
}
