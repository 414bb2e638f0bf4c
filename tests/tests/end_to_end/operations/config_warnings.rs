//! Warnings about a valid config: `check` prints them, and a server logs them.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use mcp_host_tests::{CertificateAuthority, ConfigFile, GitRepo, Plugin, RawStdio, Revision, Rule, run};

/// The warnings of `check` about the config as a whole.
async fn warnings(config: &mcp_host_tests::WrittenConfig) -> Vec<String> {
    let checked = run(["check", "--json", "--config", config.path().to_str().unwrap()]).await.success().json();
    checked["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn files_with_secrets_that_other_users_may_read_are_told_until_they_may_not() {
    let plugin = Plugin::sample("a").variable("API_TOKEN", "hunter2").variable("LANG", "ja");
    let config = ConfigFile::new().plugin(plugin).tls().allow_all().write();
    config.write_certificate(&CertificateAuthority::new().issue("localhost"));
    let files = [config.path(), config.dir().join("key.pem")];
    let said = files.clone().map(|file| {
        let file = file.display();
        format!("{file} holds a secret, and other users may read it (mode 0644); run `chmod 600 {file}`")
    });
    for file in files.iter().chain([&config.dir().join("cert.pem")]) {
        set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    }
    let mut found = warnings(&config).await;
    found.sort_unstable();
    let mut expected = said.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let log = RawStdio::start(&config, Revision::V_2025_11_25).await.end().await.log;
    for warning in &said {
        assert_eq!(log.matches(warning).count(), 1, "{log}");
    }
    assert!(!log.contains("hunter2"), "{log}");
    for file in &files {
        set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    }
    assert_eq!(warnings(&config).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_config_without_secrets_may_be_read_by_anybody() {
    let config = ConfigFile::new().plugin(Plugin::sample("a").variable("LANG", "ja")).allow_all().write();
    set_permissions(config.path(), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(warnings(&config).await, Vec::<String>::new());
}

#[tokio::test]
async fn rules_and_globs_that_others_make_idle_are_told() {
    let config = ConfigFile::new()
        .plugin(Plugin::sample("a"))
        .rule(Rule::for_principal("*").allow(["sample://a/docs/**"]).deny(["**/.env"]))
        .rule(Rule::for_principal("anonymous").allow(["sample://a/docs/b/**"]))
        .rule(Rule::for_principal("users/ada").allow(["sample://a/x/.env", "sample://a/y"]).operations(["read"]))
        .write();
    let found = warnings(&config).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("rule 2 (line "), "{found:?}");
    assert!(found[0].contains(" has no effect: other rules, such as rule 1 (line "), "{found:?}");
    assert!(found[1].starts_with("`allow` of rule 3 (line "), "{found:?}");
    assert!(found[1].contains("everything that it matches is denied, by `**/.env` of rule 1 (line "), "{found:?}");
}

#[tokio::test]
async fn a_glob_with_a_slash_where_a_listed_resource_has_an_encoded_one_is_told() {
    let repo = GitRepo::with_files([("README.md", "hello")]);
    repo.git(["branch", "feature/x"]);
    let config = ConfigFile::new()
        .plugin(Plugin::git("g", repo.path()).config("rev", "feature/x"))
        .rule(Rule::for_principal("*").allow(["git://g/blob/feature/x/**", "git://g/refs"]))
        .write();
    let found = warnings(&config).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let resource = "`git://g/blob/feature%2Fx/README.md`";
    assert!(found[0].contains("`git://g/blob/feature/x/**`") && found[0].contains(resource), "{found:?}");
}
