//! Warnings about a valid config: `check` prints them, and a server logs them.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use mcp_host_tests::{
    CertificateAuthority, ConfigFile, Folder, GitRepo, HttpServer, Plugin, RawStdio, Revision, Rule, run,
};

/// A principal, and a group whose only member is `anonymous`.
const NAMES: &str = "\n[[principal]]\nname = \"ci\"\n\
    token-sha256 = \"60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752\"\n\
    [[group]]\nname = \"guests\"\nprincipals = [\"anonymous\"]\n";

/// Returns the warnings of `check` about the config as a whole.
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
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("rule 2 (line "), "{found:?}");
    assert!(found[0].contains(" has no effect: other rules, such as rule 1 (line "), "{found:?}");
    assert!(found[1].starts_with("`allow` of rule 3 (line "), "{found:?}");
    assert!(found[1].contains("everything that it matches is denied, by `**/.env` of rule 1 (line "), "{found:?}");
    let unknown = " names `users/ada`, and no `[[issuer]]` and no `http.client-ca` of that name can bring it";
    assert!(found[2].starts_with("rule 3 (line ") && found[2].contains(unknown), "{found:?}");
}

#[tokio::test]
async fn a_glob_that_matches_nothing_that_is_listed_is_noted_with_what_was_meant() {
    let folder = Folder::with_files([("private/keys.txt", "a"), ("plan.md", "b"), ("prod.env.md", "c")]);
    let notes = async |deny: &[&str]| {
        let rule = Rule::for_principal("*").deny_globs(deny.iter().map(|glob| (*glob).to_owned()).collect());
        let config = ConfigFile::new().plugin(Plugin::files("f", folder.path())).rule(rule).write();
        let checked = run(["check", "--json", "--strict", "--config", config.path().to_str().unwrap()]).await;
        let checked = checked.success().json();
        let notes = checked["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_owned());
        notes.collect::<Vec<_>>()
    };
    let right = ["files://f/private/**", "**/plan.md", "files://f/*.md", "**", "**/.env", "**/*.pem"];
    assert_eq!(notes(&right).await, Vec::<String>::new());
    let wrong = notes(&["files://f/privte/**", "files://f/plan.nd", "files://f/*.pem", "**/paln.md"]).await;
    assert_eq!(wrong.len(), 4, "{wrong:#?}");
    assert!(wrong[0].starts_with("`deny` of rule 1 (line "), "{wrong:#?}");
    assert!(
        wrong[0].contains("has `files://f/privte/**`, which matches nothing that is known: none of the 2 resources"),
        "{wrong:#?}"
    );
    for (note, meant) in wrong.iter().zip(["files://f/private", "files://f/plan.md", "", "files://f/plan.md"]) {
        match meant {
            "" => assert!(!note.contains("did you mean"), "{note}"),
            meant => assert!(note.contains(&format!("did you mean `{meant}`?")), "{note}"),
        }
    }
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

#[tokio::test]
async fn a_server_that_anybody_may_use_is_warned_of_and_so_is_a_certificate_that_clients_reject() {
    let public = ConfigFile::new().plugin(Plugin::sample("a")).tls().http("hosts", vec!["mcp.example.com"]);
    let public = public.rule(Rule::for_principal("ci").allow(["**"])).rule(Rule::for_principal("*").allow(["**"]));
    let config = public.server("http", "0.0.0.0:8443").append(NAMES).write();
    let authority = CertificateAuthority::new();
    config.write_certificate(&authority.issue("localhost"));
    let found = warnings(&config).await;
    let expected = [
        "allows something to `*`, which includes clients without credentials, and other machines can reach the server",
        "the certificate of `http.tls` is not for `mcp.example.com`",
        "key.pem holds a secret",
        "no rule names the group `guests`",
        "rule 1 (line ",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(found.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{found:?}");
    assert!(found[0].starts_with("rule 2 (line "), "{found:?}");

    let server = HttpServer::start_at(&config, "0.0.0.0:0").await;
    for warning in &found {
        server.log_line(warning).await;
    }
    config.write_certificate(&authority.issue_expired("mcp.example.com"));
    server.log_line("the certificate of `http.tls` expired at 2020-01-02T00:00:00Z, so clients reject it").await;
    let log = server.end().await.log;
    assert_eq!(log.matches("is not for `mcp.example.com`").count(), 1, "{log}");
}

#[tokio::test]
async fn names_that_no_rule_gives_anything_are_told() {
    let config = || ConfigFile::new().plugin(Plugin::sample("a")).server("http", "127.0.0.1:8080").append(NAMES);
    let nothing = "no rule allows a client over HTTP anything, so nobody sees a resource there";
    let group = "no rule names the group `guests`";
    let found = warnings(&config().rule(Rule::for_principal("local").allow(["**"])).write()).await;
    assert!(found.len() == 2 && found[0].contains(nothing) && found[1].contains(group), "{found:?}");
    let denied =
        config().rule(Rule::for_principal("anonymous").allow(["**"])).rule(Rule::for_principal("ci").deny(["**"]));
    let found = warnings(&denied.write()).await;
    let principal = "no rule allows the principal `ci` anything";
    assert!(found.len() == 2 && found[0].contains(group) && found[1].contains(principal), "{found:?}");
}

#[tokio::test]
async fn files_of_the_host_that_a_plugin_or_all_users_reach_are_told() {
    let folder = Folder::with_files([("a.md", "hello")]);
    let audit = folder.path().join("audit.jsonl");
    let config = ConfigFile::new()
        .plugin(Plugin::notes("notes", folder.path()))
        .audit("file", audit.to_str().unwrap())
        .allow_all()
        .write();
    let found = warnings(&config).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let said = format!(
        "the audit log {} is in a directory that `grants.dirs` of plugin `notes` grants",
        audit.canonicalize().unwrap_or_else(|_| folder.path().canonicalize().unwrap().join("audit.jsonl")).display()
    );
    assert!(found[0].starts_with(&said), "{found:?}");
    set_permissions(config.path(), Permissions::from_mode(0o646)).unwrap();
    let found = warnings(&config).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].starts_with("all users may write to ") && found[1].contains("(mode 0646)"), "{found:?}");
    assert_eq!(run(["check", "--strict", "--config", config.path().to_str().unwrap()]).await.code(), 1);
}

#[tokio::test]
async fn names_that_are_no_hosts_below_a_mount_without_one_are_told() {
    let folder = Folder::with_files([("README.md", "hello"), ("a.md", "hello")]);
    for (mount, is_told) in [("files://", true), ("files:///", false)] {
        let config =
            ConfigFile::new().plugin(Plugin::files("docs", folder.path()).set("mount", mount)).allow_all().write();
        let checked = run(["check", "--json", "--config", config.path().to_str().unwrap()]).await.success().json();
        let warnings = checked["plugins"][0]["warnings"].to_string();
        assert_eq!(warnings.contains("`files://readme.md` is listed, and not found"), is_told, "{warnings}");
        assert_eq!(warnings.contains("mount it at `files:///`"), is_told, "{warnings}");
    }
}

#[tokio::test]
async fn a_saved_search_below_a_mount_that_is_not_there_is_told() {
    let folder = Folder::with_files([("a.md", "hello")]);
    let config = ConfigFile::new().plugin(Plugin::files("docs", folder.path()).searched()).allow_all();
    let saved = "\n[[search.saved]]\nname = \"todo\"\nquery = \"TODO\"\nwithin = \"files://dogs/\"\n";
    let found = warnings(&config.append(saved).write()).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("saved search `todo`") && found[0].contains("`files://docs/`"), "{found:?}");
}
