//! Kernel confinement of the host's processes: seccomp, and Landlock with `server.confine`.

use std::fs;

use mcp_host_tests::{
    CertificateAuthority, ConfigFile, Connection, Folder, GitRepo, HttpServer, MockOrigin, Plugin, RawStdio, Reply,
    ReservedPort, Revision, Rule, TokenIssuer, WrittenConfig, component, fixture, run,
};
use serde_json::{Value, json};

const REVISION: Revision = Revision::V_2025_11_25;

fn confined() -> ConfigFile {
    ConfigFile::new().server("confine", true)
}

async fn check(config: &WrittenConfig) -> (Value, String) {
    let path = config.path();
    let arguments = |more: &[&str]| {
        let all = ["check", "--config", path.to_str().unwrap()].into_iter().chain(more.iter().copied());
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    (run(arguments(&["--json"])).await.success().json(), run(arguments(&[])).await.success().text())
}

/// Returns whether the kernel has Landlock with TCP. If not, it asserts that the report says so, and the test that
/// needs it is skipped with a message.
async fn kernel_confines(config: &WrittenConfig) -> bool {
    let (report, _) = check(config).await;
    let abi = &report["confinement"]["landlock_abi"];
    let confines = abi.as_u64().is_some_and(|abi| abi >= 4);
    if !confines {
        assert_eq!(report["confinement"]["server"]["landlock"], !abi.is_null(), "{report}");
        eprintln!("skipped: the kernel has Landlock {abi}, and this needs version 4");
    }
    confines
}

#[tokio::test]
async fn check_says_what_holds_on_this_kernel() {
    let (report, text) = check(&ConfigFile::new().plugin(Plugin::sample("a")).write()).await;
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let has_seccomp = own.contains("Seccomp:");
    let has_landlock = !report["confinement"]["landlock_abi"].is_null();
    let expected = json!({
        "no_new_privs": true,
        "seccomp": has_seccomp,
        "landlock_abi": report["confinement"]["landlock_abi"],
        "compiler": { "seccomp": has_seccomp, "landlock": has_landlock },
        "server": { "seccomp": has_seccomp, "landlock": false },
    });
    assert_eq!(report["confinement"], expected);
    let line = text.lines().find(|line| line.starts_with("confinement: ")).expect("one line says what holds");
    assert!(line.contains("no new privileges: yes"), "{line}");

    let (report, _) = check(&confined().plugin(Plugin::sample("a")).write()).await;
    assert_eq!(report["confinement"]["server"]["landlock"], has_landlock);
    let warnings = report["warnings"].as_array().unwrap();
    let warned = warnings.iter().any(|warning| warning.as_str().unwrap().contains("`server.confine` has no effect"));
    assert_eq!(warned, !has_landlock, "{warnings:?}");
}

#[tokio::test]
async fn every_thread_of_a_server_has_no_new_privileges_and_filtered_system_calls() {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).write();
    let wire = RawStdio::start(&config, REVISION).await;
    let privileges = wire.thread_statuses("NoNewPrivs:");
    assert!(privileges.len() > 4 && privileges.iter().all(|value| value == "1"), "{privileges:?}");
    let has_seccomp = fs::read_to_string("/proc/self/status").unwrap().contains("Seccomp:");
    let filtered = if has_seccomp { wire.thread_statuses("Seccomp:") } else { Vec::new() };
    assert!(filtered.iter().all(|value| value == "2"), "{filtered:?}");
    wire.end().await;
}

#[tokio::test]
async fn a_confined_server_serves_files_repositories_pages_and_buckets_and_compiles_them() {
    let origin = MockOrigin::http().await;
    origin.serve("/page", Reply::ok("text/plain", "a page").cache_control("max-age=3600"));
    let host = format!("127.0.0.1:{}", origin.port());
    let web = Plugin::new("web", &component("http-cache"), "web://").bucket("pages").origin(&origin.origin());
    let repo = GitRepo::with_files([("README.md", "hello")]);
    let notes = Folder::with_files([("note.md", "# Note\n")]);
    let written = Folder::with_files([("f", "text")]);
    let writer = Plugin::new("faulty", &fixture("faulty"), "faulty://w/").writable_dir(written.path(), "/data", "1MiB");
    let cache = Folder::with_files([("empty", "")]);
    let config = confined()
        .server("cache", cache.path().join("compiled").to_str().unwrap())
        .plugin(web.config("plain-http", vec![host.clone()]))
        .plugin(Plugin::git("repo", repo.path()))
        .plugin(Plugin::notes("team", notes.path()))
        .plugin(writer)
        .write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    for _ in 0..2 {
        assert_eq!(wire.read(&format!("web://{host}/page")).await.unwrap(), "a page");
    }
    assert_eq!(wire.read("git://repo/blob/HEAD/README.md").await.unwrap(), "hello");
    assert!(wire.read("notes://team/note.md").await.unwrap().contains("# Note"));
    assert_eq!(wire.read("faulty://w/f").await.unwrap(), "text");
    let log = wire.end().await.log;
    let is_trouble = |line: &&str| line.contains("ERROR") || line.contains("WARN");
    let trouble: Vec<_> = log.lines().filter(is_trouble).collect();
    assert!(trouble.iter().all(|line| line.contains("`server.confine` has no effect")), "{log}");
    assert_eq!(origin.request_count("/page"), 1, "the second time it comes from the bucket");
}

#[tokio::test]
async fn a_confined_server_reloads_what_it_may_open_and_refuses_the_rest_but_not_its_rules() {
    let notes = Folder::with_files([("inner/a.md", "a"), ("b.md", "b")]);
    let components = Folder::with_files([("x.wasm", fs::read(component("hello")).unwrap())]);
    let elsewhere = Folder::with_files([("c.md", b"c".to_vec()), ("y.wasm", fs::read(fixture("raw")).unwrap())]);
    let hello = || Plugin::new("x", &components.path().join("x.wasm"), "x:///");
    let served = || confined().plugin(Plugin::notes("n", notes.path())).plugin(hello());
    let config = served().write();
    if !kernel_confines(&config).await {
        return;
    }
    let mut wire = RawStdio::start(&config, REVISION).await;
    assert_eq!(wire.read("x:///world").await.unwrap(), "Hello, world!");

    // Another component at the same path, and another directory below a granted one.
    fs::copy(fixture("misbehaving"), components.path().join("new")).unwrap();
    fs::rename(components.path().join("new"), components.path().join("x.wasm")).unwrap();
    wire.log_line("generation=2").await;
    assert_eq!(wire.read("x:///good").await.unwrap(), "good");
    config.replace(served().plugin(Plugin::notes("inner", &notes.path().join("inner"))));
    wire.log_line("generation=3").await;
    assert_eq!(wire.read("notes://inner/a.md").await.unwrap(), "a");

    // A directory, a component and a port that were not in the first config.
    let denied = || served().rule(Rule::for_principal("*").allow(["**"]).deny(["notes://n/b.md"]));
    let more = |plugin| denied().plugin(plugin);
    assert_eq!(wire.read("notes://n/b.md").await.unwrap(), "b");
    let beyond = [
        (Plugin::notes("c", elsewhere.path()), format!("read {}", elsewhere.path().display())),
        (Plugin::new("y", &elsewhere.path().join("y.wasm"), "y:///"), format!("{}/y.wasm", elsewhere.path().display())),
        (Plugin::sample("s").origin("https://docs.rs"), "connect to port 53, connect to port 443".to_owned()),
        (
            Plugin::new("w", &fixture("faulty"), "faulty://w/").writable_dir(notes.path(), "/data", "1MiB"),
            format!("write to {}", notes.path().display()),
        ),
    ];
    for (plugin, missing) in beyond {
        config.replace(more(plugin));
        let line = wire.log_line(&missing).await;
        assert!(line.contains("reload failed") && line.contains("`server.confine`"), "{line}");
        assert!(line.contains("restart"), "{line}");
        assert_eq!(wire.read("notes://inner/a.md").await.unwrap(), "a", "the plugins are those of before");
        assert!(wire.read("notes://n/b.md").await.is_err(), "the rules of the new config apply");
    }
    config.replace(served());
    wire.log_line("removed=\"inner\"").await;
    assert_eq!(wire.read("notes://n/b.md").await.unwrap(), "b");
    wire.end().await;
}

#[tokio::test]
async fn a_confined_server_listens_and_takes_a_renewed_certificate_and_says_why_it_cannot_read_a_new_value() {
    let authority = CertificateAuthority::new();
    let served = || confined().plugin(Plugin::sample("a")).allow_all().tls();
    let config = served().write();
    config.write_certificate(&authority.issue("localhost"));
    if !kernel_confines(&config).await {
        return;
    }
    let server = HttpServer::start(&config).await;
    let uri = json!({ "uri": "sample://a/plain" });
    let revision = Revision::V_2026_07_28;
    let request = || server.uninitialized(revision.clone()).request_builder("resources/read", uri.clone());
    let mut connection = Connection::tls(server.address(), &authority, &["h2"]).await;
    assert_eq!(connection.send(request()).await.status(), 200);

    let other = CertificateAuthority::new();
    config.write_certificate(&other.issue("localhost"));
    server.log_line("http=true").await;
    let mut connection = Connection::tls(server.address(), &other, &["h2"]).await;
    assert_eq!(connection.send(request()).await.status(), 200);

    let elsewhere = Folder::with_files([("value", "secret")]);
    let value = elsewhere.path().join("value");
    config.replace(served().plugin(Plugin::sample("v").variable_from_file("V", &value)));
    server.log_line("restart it to read").await;
    server.end().await;
}

#[tokio::test]
async fn a_confined_server_keeps_its_issuers_and_its_audit_log_if_the_new_ones_need_more() {
    let (issuer, other) = (TokenIssuer::start().await, TokenIssuer::start().await);
    let port = ReservedPort::new();
    let notes = Folder::with_files([("a.md", "a"), ("b.md", "b")]);
    let (logs, elsewhere) = (Folder::with_files([("empty", "")]), Folder::with_files([("empty", "")]));
    let served = |keys: &TokenIssuer, logs: &Folder, denied: &str| {
        let entry = format!(
            "\n[[issuer]]\nname = \"corp\"\nissuer = \"{}\"\nalgorithms = [\"ES256\"]\njwks = \"{}\"\n",
            keys.identifier(),
            keys.origin().url("/jwks")
        );
        confined()
            .http("public-url", port.mcp_url())
            .audit("file", logs.path().join("audit.jsonl").to_str().unwrap())
            .plugin(Plugin::notes("n", notes.path()))
            .rule(Rule::for_principal("corp/ada").allow(["notes://n/**"]).deny([denied]))
            .append(&entry)
    };
    let config = served(&issuer, &logs, "notes://n/a.md").write();
    if !kernel_confines(&config).await {
        return;
    }
    let server = HttpServer::start_at(&config, &port.address().to_string()).await;
    let token = issuer.sign(&issuer.claims("ada", &port.mcp_url()));
    let list = async || {
        let mut wire = server.uninitialized(Revision::V_2026_07_28);
        let listed = wire.request_builder("resources/list", json!({})).bearer_auth(&token).send().await.unwrap();
        assert_eq!(listed.status(), 200);
        listed.text().await.unwrap()
    };
    assert!(list().await.contains("notes://n/b.md"));

    config.replace(served(&other, &elsewhere, "notes://n/b.md"));
    let line = server.log_line("reload failed").await;
    assert!(line.contains("keeping the current plugins and the current issuers and audit log; rules"), "{line}");
    assert!(line.contains(&format!("connect to port {}", other.origin().port())), "{line}");
    let listed = list().await;
    assert!(listed.contains("notes://n/a.md") && !listed.contains("notes://n/b.md"), "the new rules apply: {listed}");
    let absent = Plugin::new("absent", &elsewhere.path().join("absent.wasm"), "absent:///");
    config.replace(served(&other, &logs, "notes://n/a.md").plugin(absent));
    let line = server.log_line("and the new ones are tried again").await;
    assert!(line.contains("keeping the current plugins and the current issuers, and"), "{line}");
    let listed = list().await;
    assert!(listed.contains("notes://n/b.md") && !listed.contains("notes://n/a.md"), "the new rules apply: {listed}");
    assert_eq!(other.origin().requests(), []);
    assert!(!elsewhere.path().join("audit.jsonl").exists());
    let exit = server.end().await;
    assert!(!exit.log.contains("audit log cannot"), "{}", exit.log);
    let lines = fs::read_to_string(logs.path().join("audit.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 5, "three requests, the start and the end: {lines}");
}
