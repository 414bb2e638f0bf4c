//! A valid file gives exactly its values.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::cluster::{NatsCredentials, NatsUrl, Polling, SessionPlace};
use super::super::grants::{AuthorizationGrant, ChannelName, ClientAuthentication};
use super::super::size::{GIB, KIB, MIB};
use super::*;

fn valid(name: &str) -> Config {
    Config::load_in(Path::new("tests/ui/valid").join(name), &environment()).unwrap()
}

/// The absolute path of a path below `tests/ui/valid`, as the config stores it.
fn path(relative: &str) -> PathBuf {
    std::path::absolute("tests/ui/valid").unwrap().join(relative)
}

#[test]
fn the_section_of_embeddings_is_read_whole() {
    let config = valid("everything.toml");
    let embeddings = config.search.unwrap().embeddings.unwrap();
    assert_eq!(embeddings.url.as_str(), "https://embeddings.example.com/v1/embeddings");
    assert_eq!(embeddings.key.unwrap().expose().as_str(), "from a variable");
    assert_eq!((embeddings.model.as_str(), embeddings.dimensions.get(), embeddings.shorten), ("small", 256, true));
    assert!(embeddings.queries && embeddings.ca.is_some());
    assert_eq!([embeddings.query_prefix, embeddings.passage_prefix], ["query: ", "passage: "]);
    let input_types = [embeddings.query_input_type, embeddings.passage_input_type];
    assert_eq!(input_types.map(Option::unwrap), ["query", "passage"]);
    assert_eq!([embeddings.tokens.to_string(), embeddings.query_rate.to_string()], ["200000/h", "5/s"]);
    assert_eq!((embeddings.batch.get(), embeddings.passages.get()), (16, 8));
    assert_eq!(embeddings.memory.bytes(), 512 << 20);
    let times = (embeddings.timeout.duration(), embeddings.query_timeout.duration());
    assert_eq!(times, (Duration::from_secs(60), Duration::from_millis(200)));
    assert!(config.plugins[0].search.as_ref().unwrap().embeddings);
}

#[test]
fn a_minimal_plugin_has_every_default() {
    let config = valid("minimal.toml");
    assert_eq!(config.server, Server::default());
    assert_eq!(config.server.name, "mcp-host");
    assert_eq!(config.server.page_size.get(), 1000);
    assert_eq!(config.server.page_bytes.bytes(), 2 * MIB);
    assert_eq!(config.rules, []);
    let [plugin] = &*config.plugins else { panic!("one plugin") };
    let name = "notes".parse().unwrap();
    assert_eq!(*plugin, Plugin::new(name, path("plugins/notes.wasm"), "notes:///".parse().unwrap()));
    assert_eq!(plugin.grants, Grants::default());
    assert!(plugin.config.is_empty());
}

#[test]
fn the_default_limits_are_those_of_the_documentation() {
    let limits = Limits::default();
    assert_eq!(limits.memory.bytes(), 64 * MIB);
    assert_eq!(limits.cpu.duration(), Duration::from_secs(1));
    assert_eq!(limits.deadline.duration(), Duration::from_secs(5));
    assert_eq!(limits.concurrency.get(), 8);
    assert_eq!(limits.queue.get(), 64);
    assert_eq!(limits.queue_timeout.duration(), Duration::from_secs(1));
    assert_eq!(limits.rate.to_string(), "10000/s");
    assert_eq!(limits.response_size.bytes(), 16 * MIB);
    assert_eq!((limits.response_items.get(), limits.listing_items.get()), (100_000, 1_000_000));
    assert_eq!(limits.log.bytes_per_minute(), 64 * KIB);
    assert_eq!((limits.http.concurrency.get(), limits.http.rate.to_string()), (8, "60/m".to_owned()));
    assert_eq!((limits.http.headers.bytes(), limits.http.body.bytes()), (64 * KIB, 16 * MIB));
    assert_eq!(limits.http.timeout.duration(), Duration::from_secs(10));
}

#[test]
fn the_server_section_is_read_whole() {
    let server = valid("everything.toml").server;
    assert_eq!(server.name, "team-context");
    assert_eq!(server.title.as_deref(), Some("Team context"));
    assert_eq!(server.instructions.as_deref(), Some("Source of the kernel, and what we know about it."));
    assert_eq!(server.http.unwrap().socket_addr(), ([127, 0, 0, 1], 8080).into());
    assert_eq!(server.page_size.get(), 50);
    assert_eq!(server.page_bytes.bytes(), 512 * KIB);
    assert_eq!(server.cache, Some(path("cache")));
    assert_eq!(server.compile.memory.bytes(), 4 * GIB);
    assert_eq!(server.compile.cpu.duration(), Duration::from_secs(300));
    assert_eq!(server.compile.deadline.duration(), Duration::from_secs(90));
    assert_eq!(server.state, Some(path("home/state")));
    let mut key = [0; 32];
    key[31] = 0xff;
    let keys: Vec<_> = server.cursor_key.iter().map(|key| *key.expose()).collect();
    assert_eq!(keys, [key, [0x11; 32]]);
    assert_eq!(server.advertise, AdvertisedCapability::ALL);
    assert_eq!(server.extensions, Extension::ALL);
}

#[test]
fn the_audit_section_is_read_whole() {
    let audit = valid("everything.toml").audit.unwrap();
    let AuditDestination::File(file) = audit.destination else { panic!("it is a file") };
    assert_eq!((file.path, file.max_size.bytes(), file.keep.get()), (path("audit.jsonl"), GIB, 3));
    assert_eq!(audit.on_full, OnFull::Refuse);
    assert_eq!(valid("minimal.toml").audit, None);
    let of = |text: &str| {
        let config = fs::read_to_string("tests/ui/valid/minimal.toml").unwrap() + text;
        Config::parse_in(&config, Path::new("tests/ui/valid/mcp-host.toml"), &environment()).unwrap().audit.unwrap()
    };
    assert_eq!(of("[audit]\nfile = 'a'\n"), Audit::to_file(path("a")));
    assert_eq!(of("[audit]\nstderr = true\n"), Audit::to_stderr());
    assert_eq!(Audit::to_stderr().on_full, OnFull::Drop);
}

#[test]
fn the_section_of_the_log_is_read_whole() {
    let log = valid("everything.toml").log;
    assert_eq!(log.format, Some(LogFormat::Json));
    assert_eq!(log.filter.unwrap().as_str(), "warn, mcp_host::guest=debug");
    assert_eq!(valid("minimal.toml").log, Log::default());
}

#[test]
fn the_section_of_telemetry_is_read_whole() {
    let telemetry = valid("everything.toml").telemetry.unwrap();
    assert_eq!(telemetry.traces_url(), "https://collector.example.com/otlp/v1/traces");
    assert_eq!(telemetry.sample.to_string(), "0.25");
    let [(name, value)] = &*telemetry.headers.iter().collect::<Vec<_>>() else { panic!("one header") };
    assert_eq!((name.as_str(), value.expose().as_str()), ("authorization", "from a variable"));
    assert_eq!(valid("minimal.toml").telemetry, None);
    assert!(telemetry.ca.is_some());
}

#[test]
fn the_section_of_the_cluster_is_read_whole() {
    let config = valid("everything.toml");
    let cluster = config.cluster.unwrap();
    assert_eq!(cluster.name.as_str(), "prod");
    let urls: Vec<_> = cluster.nats.iter().map(NatsUrl::as_str).collect();
    assert_eq!(urls, ["tls://n1.example:4222", "nats://127.0.0.1:5222"]);
    let Some(NatsCredentials::Token(token)) = cluster.credentials else { panic!("a token") };
    assert_eq!(token.expose(), "from a variable");
    assert_eq!((cluster.lease.duration(), cluster.max_replicas.get()), (Duration::from_secs(5), 6));
    assert!(cluster.ca.is_some());
    assert_eq!(cluster.sessions, SessionPlace::Shared);
    assert_eq!(config.plugins[0].polling, Some(Polling::Shared));
    assert_eq!((valid("minimal.toml").cluster, valid("minimal.toml").plugins[0].polling), (None, None));
}

#[test]
fn the_section_of_development_is_read_whole() {
    let dev = valid("everything.toml").dev.unwrap();
    assert_eq!(dev.build.unwrap().as_str(), "cargo build --target wasm32-wasip2");
    assert_eq!(dev.watch.iter().map(WatchPattern::as_str).collect::<Vec<_>>(), ["src", "*.toml"]);
    assert_eq!(valid("minimal.toml").dev, None);
}

#[test]
fn issuers_and_client_authorities_are_read_whole() {
    use crate::http::CertificateName;
    use crate::issuer::{Jwks, SignatureAlgorithm};

    let config = valid("everything.toml");
    assert_eq!(config.http.public_url.unwrap().as_str(), "https://mcp.example.com/mcp");
    let [authority] = &*config.http.client_ca else { panic!("one authority") };
    assert_eq!((authority.name.as_str(), authority.principal_from), ("devices", CertificateName::Uri));
    let [corp, opaque, local] = &*config.issuers else { panic!("three issuers") };
    assert_eq!((corp.name.as_str(), corp.issuer.as_str()), ("corp", "https://login.example.com"));
    assert_eq!(corp.urls().map(|url| url.as_str()).collect::<Vec<_>>(), ["https://login.example.com/jwks"]);
    assert_eq!(corp.algorithms, [SignatureAlgorithm::Rs256, SignatureAlgorithm::EdDsa].into());
    assert_eq!(
        (corp.audiences.as_slice(), corp.clock_skew.duration()),
        (["mcp".to_owned()].as_slice(), Duration::from_secs(60))
    );
    assert_eq!(corp.principal_claim.to_string(), "email");
    assert_eq!(
        corp.group_claims.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["groups", "/realm_access/roles"]
    );
    assert_eq!(corp.scopes, ["mcp:read".parse().unwrap()]);
    assert_eq!(corp.operation_scopes[&Operation::Subscribe], ["mcp:subscribe".parse().unwrap()]);
    assert_eq!(corp.scope_includes[&"mcp:all".parse().unwrap()].len(), 2);
    assert!(corp.ca.is_some());
    let introspection = opaque.introspection.as_ref().unwrap();
    assert_eq!(
        (introspection.client_id.as_str(), introspection.client_secret.expose().as_str()),
        ("mcp-host", "from a variable")
    );
    assert_eq!((opaque.algorithms.len(), opaque.principal_claim.to_string()), (9, "sub".to_owned()));
    assert_eq!(format!("{:?}", local.jwks), "Some(File(KeySet(1)))");
    assert!(matches!(local.jwks, Some(Jwks::File(_))));
}

#[test]
fn how_http_is_spoken_is_read_whole() {
    let http = valid("everything.toml").http;
    assert_eq!(format!("{:?}", http.tls.unwrap()), "Tls(1)");
    let hosts: Vec<_> = http.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["mcp.example.com", "[::1]", "192.168.1.2"]);
    let pages: Vec<_> = http.cors.iter().map(ToString::to_string).collect();
    assert_eq!(pages, ["https://app.example.com", "https://*.example.com:8443"]);
    assert_eq!(http.keep_alive.duration(), Duration::from_secs(5));
    let limits = http.limits;
    assert_eq!((limits.body.bytes(), limits.headers.bytes()), (MIB, 16 * KIB));
    assert_eq!((limits.connections.get(), limits.sessions.get(), limits.streams.get()), (64, 32, 16));
    assert_eq!((limits.client_share.to_string(), limits.principal_share.to_string()), ("3/4".into(), "1/2".into()));
    assert_eq!((limits.rate.to_string(), limits.client_rate.to_string()), ("5000/s".into(), "100/s".into()));
    assert_eq!(limits.failed_authentications.to_string(), "10/m");
    assert_eq!(limits.subscription_memory.bytes(), 64 * KIB);
    assert_eq!((limits.response_memory.bytes(), limits.response_memory_per_connection.bytes()), (GIB, 16 * MIB));
    assert_eq!(limits.write_timeout.duration(), Duration::from_secs(5));
    assert_eq!(
        (limits.read_timeout.duration(), limits.idle_timeout.duration()),
        (Duration::from_secs(10), Duration::from_secs(60))
    );
    assert_eq!(limits.session_idle_timeout.duration(), Duration::from_secs(3600));
}

#[test]
fn http_is_spoken_plainly_and_to_this_machine_only_unless_it_says_otherwise() {
    let http = valid("minimal.toml").http;
    assert_eq!((http.tls, http.hosts, http.cors), (None, vec![], vec![]));
    assert_eq!(http.keep_alive.duration(), Duration::from_secs(15));
    let limits = http.limits;
    assert_eq!((limits.body.bytes(), limits.headers.bytes()), (4 * MIB, 32 * KIB));
    assert_eq!((limits.connections.get(), limits.sessions.get(), limits.streams.get()), (1024, 1024, 1024));
    assert_eq!((limits.client_share.to_string(), limits.principal_share.to_string()), ("15/16".into(), "1/4".into()));
    assert_eq!((limits.rate.to_string(), limits.client_rate.to_string()), ("100000/s".into(), "10000/s".into()));
    assert_eq!(limits.failed_authentications.to_string(), "600/m");
    assert_eq!(limits.subscription_memory.bytes(), 512 * MIB);
    assert_eq!((limits.response_memory.bytes(), limits.response_memory_per_connection.bytes()), (512 * MIB, 64 * MIB));
    assert_eq!(limits.write_timeout.duration(), Duration::from_secs(30));
    assert_eq!(
        (limits.read_timeout.duration(), limits.idle_timeout.duration()),
        (Duration::from_secs(30), Duration::from_secs(120))
    );
    assert_eq!(limits.session_idle_timeout.duration(), Duration::from_secs(24 * 3600));
}

#[test]
fn the_files_of_a_certificate_are_among_those_that_a_config_depends_on() {
    let files = valid("everything.toml").files;
    assert!(files.contains(&path("tls/cert.pem")) && files.contains(&path("tls/key.pem")), "{files:?}");
}

#[test]
fn a_component_is_pinned_by_its_digest_in_either_case() {
    let config = valid("everything.toml");
    assert_eq!(config.plugins[0].digest, Some(Digest::compute(b"")));
    assert_eq!(config.plugins[1].digest, None);
}

#[test]
fn settings_are_strings_as_they_stand_and_json() {
    let config = valid("everything.toml");
    let settings: Vec<_> = config.plugins[1].config.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        settings,
        [
            ("at", "2025-01-12T15:00:58Z"),
            ("count", "16"),
            ("open", "true"),
            ("share", "0.5"),
            ("since", "2025-01-12"),
            ("tags", r#"["公開",1,[true]]"#),
            ("text", "as it stands"),
            ("where", r#"{"day":"2025-01-12","lang":"ja"}"#),
        ]
    );
}

#[test]
fn directories_are_granted_read_only_unless_it_says_otherwise() {
    let config = valid("everything.toml");
    let granted = |plugin: usize| -> Vec<_> {
        let dirs = config.plugins[plugin].grants.dirs.iter();
        dirs.map(|(guest, grant)| (guest.as_str(), grant.host.clone(), grant.mode)).collect()
    };
    assert_eq!(granted(0), [("/repo", path("src/linux"), Mode::ReadOnly)]);
    assert_eq!(
        granted(1),
        [
            ("/drafts", path("notes"), Mode::ReadWrite { quota: DirQuota::default() }),
            ("/notes", path("notes"), Mode::ReadWrite { quota: "1.5GiB".parse().unwrap() }),
            ("/shared", path("home/shared"), Mode::ReadOnly)
        ]
    );
}

#[test]
fn variables_are_granted_with_their_values() {
    let config = valid("everything.toml");
    let granted: Vec<_> =
        config.plugins[1].grants.env.iter().map(|(name, value)| (name.as_str(), value.expose().as_str())).collect();
    assert_eq!(granted, [("CERT", "from a file"), ("LANG", "ja"), ("TOKEN", "from a variable")]);
}

#[test]
fn origins_are_granted_with_what_stands_beside_them() {
    let config = valid("everything.toml");
    let grants = |plugin: usize| config.plugins[plugin].grants.http.iter();
    let origins: Vec<_> = grants(0).map(|grant| grant.origin.to_string()).collect();
    assert_eq!(origins, ["http://[::1]:8080", "https://docs.rs", "https://*.example.com:8443"]);
    assert!(grants(0).all(|grant| grant.headers.is_empty() && grant.ca.is_none() && !grant.trace));
    let api = grants(1).find(|grant| !grant.headers.is_empty()).unwrap();
    let names: Vec<_> = api.headers.keys().map(CredentialName::as_str).collect();
    assert_eq!((names, api.ca.is_some(), &api.oauth), (vec!["authorization", "x-api-key"], true, &None));
    assert!(api.trace);
}

#[test]
fn access_tokens_come_from_a_token_endpoint() {
    let config = valid("everything.toml");
    let source = |origin: &str| {
        config.plugins[1].grants.http.grant_for(&origin.parse().unwrap()).and_then(|grant| grant.oauth.clone()).unwrap()
    };
    let google = source("https://www.googleapis.com");
    assert_eq!(google.token_uri.as_str(), "https://oauth2.googleapis.com/token");
    assert_eq!(google.scopes, ["https://www.googleapis.com/auth/drive.readonly".parse().unwrap()]);
    let AuthorizationGrant::ServiceAccount { key, subject } = &google.grant else { panic!("{google:?}") };
    assert_eq!((key.email(), subject.as_deref()), ("reader@example.iam.gserviceaccount.com", Some("user@example.com")));
    let user = source("https://api.example.org");
    let AuthorizationGrant::RefreshToken { token, client } = &user.grant else { panic!("{user:?}") };
    assert_eq!((token.expose().as_str(), client.id.as_str()), ("from a variable", "mcp-host"));
    assert_eq!((client.authentication, user.ca.is_some()), (ClientAuthentication::Post, true));
    let own = source("https://api.example.net");
    let AuthorizationGrant::ClientCredentials(client) = &own.grant else { panic!("{own:?}") };
    assert_eq!(client.secret.as_ref().unwrap().expose(), "from a file");
    assert_eq!((own.token_uri.as_str(), own.scopes.len()), ("http://127.0.0.1:8080/token", 0));
    assert!(!format!("{google:?} {user:?} {own:?}").contains("from a"), "secrets are not shown");
}

#[test]
fn buckets_are_granted_with_their_quotas() {
    let config = valid("everything.toml");
    let buckets = config.plugins[0].grants.keyvalue.iter();
    let granted: Vec<_> =
        buckets.map(|(name, grant)| (name.as_str(), grant.quota.bytes(), grant.keys.get(), grant.shared)).collect();
    let expected = [("pages", 64 * MIB, 100_000, false), ("tokens", MIB, 100, false)];
    assert_eq!(granted, [expected.as_slice(), &[("visits", 64 * MIB, 100_000, true)]].concat());
    assert!(config.plugins[1].grants.keyvalue.is_empty());
}

#[test]
fn databases_are_granted_with_their_bounds() {
    let config = valid("everything.toml");
    let databases = &config.plugins[0].grants.sql;
    let shop = &databases[&"shop".parse().unwrap()];
    let schemas: Vec<_> = shop.schemas.iter().map(SchemaName::as_str).collect();
    assert_eq!((schemas, shop.ca.is_some(), shop.allow_writing_role), (vec!["api", "public"], true, true));
    assert_eq!((shop.max_rows.get(), shop.max_bytes.bytes(), shop.connections.get()), (500, MIB, 2));
    assert_eq!(shop.listen.as_ref().map(ChannelName::as_str), Some("shop_changed"));
    assert!(matches!(shop.url, SqlUrl::Postgresql(_)) && !format!("{shop:?}").contains("hunter2"));
    let local = &databases[&"local".parse().unwrap()];
    assert!(matches!(&local.url, SqlUrl::Sqlite(file) if file.is_absolute() && file.ends_with("shop.db")));
    assert!(config.plugins[1].grants.sql.is_empty());
}

#[test]
fn limits_are_read_as_people_write_them() {
    let config = valid("everything.toml");
    let limits = &config.plugins[0].limits;
    assert_eq!((limits.memory.bytes(), limits.deadline.duration()), (3 * GIB / 2, Duration::from_secs(2)));
    assert_eq!((limits.concurrency.get(), limits.log), (4, Default::default()));
    let limits = &config.plugins[1].limits;
    assert_eq!((limits.memory.bytes(), limits.response_size.bytes()), (128_000_000, MIB));
    assert_eq!(limits.log.bytes_per_minute(), KIB);
    assert_eq!(
        (limits.cpu.duration(), limits.deadline.duration()),
        (Duration::from_millis(250), Duration::from_secs(90))
    );
    assert_eq!((limits.concurrency.get(), limits.queue_timeout.duration()), (1, Duration::ZERO));
    assert_eq!((limits.handles.get(), limits.files.get(), limits.random_bytes.bytes()), (2048, 16, 64 * KIB));
    assert_eq!((limits.http.concurrency.get(), limits.http.rate.to_string()), (64, "1/h".to_owned()));
    assert_eq!((limits.http.headers.bytes(), limits.http.body.bytes()), (KIB, 256 * MIB));
    assert_eq!(limits.http.timeout.duration(), Duration::from_secs(120));
    assert_eq!((limits.queue.get(), limits.rate.to_string()), (0, "5/s".to_owned()));
    assert_eq!((limits.response_items.get(), limits.listing_items.get()), (1000, 50_000));
    let prepare = limits.prepare.as_ref().unwrap();
    assert_eq!((prepare.cpu.duration(), prepare.memory.bytes()), (Duration::from_secs(90), 256 * MIB));
    assert_eq!(config.plugins[0].limits.prepare, None, "nothing is prepared unless the config says so");
    let defaults = limits::PrepareLimits::default();
    assert_eq!((defaults.cpu.duration(), defaults.memory.bytes()), (Duration::from_secs(60), 64 * MIB));
}

#[test]
fn instances_are_fresh_unless_it_says_otherwise() {
    assert_eq!(valid("minimal.toml").plugins[0].instances, None);
    let [defaults, chosen] = &*valid("everything.toml").plugins else { panic!("two plugins") };
    let defaults = defaults.instances.as_ref().unwrap();
    let shown = |one: &InstanceReuse| (one.max_calls.get(), one.idle_timeout.duration(), one.max_idle.get());
    assert_eq!(shown(defaults), (128, Duration::from_secs(30), 4));
    assert_eq!(shown(chosen.instances.as_ref().unwrap()), (16, Duration::from_secs(300), 1));
}

#[test]
fn rules_are_read_in_their_order() {
    let [everyone, both] = &*valid("everything.toml").rules else { panic!("two rules") };
    assert_eq!(everyone.principals, [PrincipalSelector::Any]);
    assert_eq!(everyone.allow, []);
    assert_eq!(everyone.operations, BTreeSet::from(Operation::ALL));
    assert!(everyone.deny[1].matches("notes:///%E9%9D%9E%E5%85%AC%E9%96%8B/a.md"));
    assert_eq!(both.principals, [PrincipalSelector::Named(LOCAL.into()), PrincipalSelector::Named(ANONYMOUS.into())]);
    assert_eq!(both.allow[0].as_str(), "git://linux/**");
    assert_eq!(both.deny[0].to_string(), "git://linux/secret.txt");
    assert_eq!(both.operations, BTreeSet::from([Operation::List, Operation::Read]));
}

#[test]
fn inline_tables_sections_and_dotted_keys_say_the_same() {
    let inline = valid("inline.toml");
    assert_eq!(inline.plugins[0].grants.dirs.len(), 1);
    for other in ["sections.toml", "dotted.toml"] {
        assert_eq!(inline, Config { file: inline.file.clone(), ..valid(other) });
    }
}

#[test]
fn no_secret_is_seen_in_the_debug_output_of_a_config() {
    let shown = format!("{:?} {:?}", valid("everything.toml"), environment());
    assert!(!shown.contains("from a") && !shown.contains("255") && !shown.contains("00ff"), "{shown}");
    assert!(shown.contains("TOKEN"));
}

#[test]
fn plugins_that_clash_are_refused_without_a_file_too() {
    let plugin = |name: &str, mount: &str| Plugin::new(name.parse().unwrap(), "a.wasm", mount.parse().unwrap());
    let config = Config::new().plugin(plugin("linux", "git://linux/")).unwrap();
    let clash = |name, mount| config.clone().plugin(plugin(name, mount)).unwrap_err().to_string();
    assert_eq!(clash("linux", "git://other/"), "two plugins are named `linux`");
    assert_eq!(
        clash("drivers", "git://linux/drivers/"),
        "the mounts `git://linux/drivers/` of plugin `drivers` and `git://linux/` of plugin `linux` overlap"
    );
    assert_eq!(config.plugin(plugin("notes", "notes:///")).unwrap().plugins.len(), 2);
}
