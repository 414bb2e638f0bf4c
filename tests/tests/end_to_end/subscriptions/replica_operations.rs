//! An operator's view of replicas: the log, the metrics, the API and the command line agree, and commands do not count
//! as replicas. And the effects of a NATS client that publishes arbitrary messages.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use mcp_host_tests::{
    ConfigFile, Folder, HttpServer, NatsServer, Plugin, RawStdio, ReservedPort, Revision, TIMEOUT, WrittenConfig,
    host_command, run,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

const TOKEN: &str = "a-token-of-an-administrator-for-tests";
/// The subject on which replicas announce themselves.
const SUBJECT: &str = "mcp-host.1.test.replicas";

/// The config of a replica that serves a folder, with a cursor key and additional config.
fn config(nats: &NatsServer, folder: &Folder, key: &str, more: &str) -> WrittenConfig {
    config_of(ConfigFile::new(), nats, folder, key, &format!("lease = \"3s\"\n{more}"))
}

/// The same, with other keys of the config, and of its section `[cluster]`.
fn config_of(config: ConfigFile, nats: &NatsServer, folder: &Folder, key: &str, more: &str) -> WrittenConfig {
    let plugin = Plugin::files("f", folder.path()).set("polling", "shared").set("watch-interval", "500ms");
    let cluster = format!(
        "\n[server.cursor-key]\nfile = \"key\"\n\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = {{ file = \"token\" }}\n\n[cluster]\nname = \"test\"\nnats = [{:?}]\n{more}",
        nats.url()
    );
    let config = config.plugin(plugin).append(&cluster).write();
    fs::write(config.dir().join("key"), key.repeat(32)).unwrap();
    fs::write(config.dir().join("token"), TOKEN).unwrap();
    config
}

/// A replica.
struct Replica {
    wire: RawStdio,
    admin: String,
    config: WrittenConfig,
}

impl Replica {
    async fn start(config: WrittenConfig) -> Self {
        let wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
        let line = wire.log_line("administration at ").await;
        Self { wire, admin: line.split_whitespace().last().unwrap().to_owned(), config }
    }

    async fn cluster(&self) -> Value {
        let request = reqwest::Client::new().get(format!("{}/api/v1/cluster", self.admin)).bearer_auth(TOKEN);
        request.send().await.unwrap().json().await.unwrap()
    }

    async fn value(&self, series: &str) -> u64 {
        let metrics = reqwest::get(format!("{}/metrics", self.admin)).await.unwrap().text().await.unwrap();
        metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0)
    }

    /// Waits until the replica's report on the cluster fulfils a condition.
    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            loop {
                let cluster = self.cluster().await;
                if is_so(&cluster) {
                    return cluster;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(TIMEOUT, looking).await.unwrap_or_else(|_| panic!("it does not come to it that {what}"))
    }
}

fn folder() -> Folder {
    Folder::with_files([("a.txt", "text")])
}

#[tokio::test]
async fn that_nats_is_lost_and_back_is_in_the_log_and_everything_that_is_shown_agrees() {
    let mut nats = NatsServer::start().await;
    let folder = folder();
    let one = Replica::start(config(&nats, &folder, "11", "")).await;
    let other = Replica::start(config(&nats, &folder, "11", "")).await;
    one.until("rates are divided by two", |cluster| cluster["rate_divisor"] == 2).await;
    nats.kill().await;
    let lost = one.wire.log_line("the connection to NATS is lost").await;
    let address = nats.url().replace("nats://", "");
    assert!(lost.contains("WARN") && lost.contains(&address) && lost.contains("polls providers for itself"), "{lost}");
    let unreachable = one.wire.log_line("NATS cannot be reached").await;
    assert!(unreachable.contains("WARN") && unreachable.contains(&address), "{unreachable}");
    // The numbers are consistent at each moment.
    let began = Instant::now();
    loop {
        let cluster = one.cluster().await;
        let alive = cluster["replicas"]["items"].as_array().unwrap().iter().filter(|replica| replica["alive"] == true);
        assert_eq!(cluster["live"], alive.count(), "{cluster}");
        assert_eq!(cluster["rate_divisor"], 2, "{cluster}");
        if cluster["hears"] == false {
            assert_eq!(cluster["live"], 1, "{cluster}");
            break;
        }
        assert!(began.elapsed() < TIMEOUT, "{cluster}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let series = ["hears", "live_replicas", "rate_divisor", "differing_configs"];
    let mut values = Vec::new();
    for name in series {
        values.push(one.value(&format!("mcp_host_cluster_{name}{{}}")).await);
    }
    assert_eq!(values, [0, 1, 2, 0]);
    nats.restart().await;
    let back = one.wire.log_line("NATS is connected").await;
    assert!(back.contains("INFO") && back.contains(&address), "{back}");
    one.until("two are alive again", |cluster| cluster["live"] == 2 && cluster["hears"] == true).await;
    for replica in [one, other] {
        replica.wire.end().await;
    }
}

/// Sends requests from this address until one is refused, and returns how many were answered before: at most `max`.
async fn answered_requests(server: &HttpServer, address: IpAddr, max: usize) -> usize {
    let mut wire = server.uninitialized(Revision::V_2026_07_28).from_address(address);
    let mut answered = 0;
    while wire.request_builder("resources/list", json!({})).send().await.unwrap().status() == 200 {
        answered += 1;
        assert!(answered <= max, "the rate is not limited");
    }
    answered
}

#[tokio::test]
async fn each_replica_allows_a_client_its_part_of_a_rate() {
    const RATE: usize = 12;
    let nats = NatsServer::start().await;
    let folder = folder();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let limited = ConfigFile::new().http_limit("client-rate", format!("{RATE}/h")).allow_all();
        // A replica on a busy machine may be late, and does not count as gone for that.
        let config = config_of(limited, &nats, &folder, "11", "lease = \"1m\"\n");
        replicas.push((HttpServer::start(&config).await, config));
    }
    for (server, _) in &replicas {
        let line = server.log_line("administration at ").await;
        let metrics = format!("{}/metrics", line.split_whitespace().last().unwrap());
        let looking = async {
            let wanted = "mcp_host_cluster_rate_divisor{} 2";
            while !reqwest::get(&metrics).await.unwrap().text().await.unwrap().lines().any(|line| line == wanted) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(TIMEOUT, looking).await.expect("rates are divided by two");
    }
    for (server, _config) in &replicas {
        let mut answered: Vec<usize> = Vec::new();
        // The limits follow that number within a second, and a busy machine may be late. Each address is another client.
        while answered.last() != Some(&(RATE / 2)) {
            assert!(answered.len() < 30, "{answered:?}");
            tokio::time::sleep(Duration::from_secs(2)).await;
            let address = Ipv4Addr::from(0x7f00_0002 + answered.len() as u32);
            answered.push(answered_requests(server, address.into(), RATE).await);
        }
    }
    // When one has ended, the other one has the whole rate.
    for (server, _config) in replicas {
        server.end().await;
    }
}

#[tokio::test]
async fn that_a_server_has_no_jetstream_is_an_error_in_the_log() {
    let nats = NatsServer::start_without_jetstream().await;
    let folder = folder();
    let mut one = Replica::start(config(&nats, &folder, "11", "")).await;
    one.wire.request("resources/subscribe", json!({ "uri": "files://f/a.txt" })).await.result();
    let line = one.wire.log_line("has no JetStream").await;
    assert!(line.contains("ERROR") && line.contains("--jetstream"), "{line}");
    one.wire.end().await;
}

#[tokio::test]
async fn replicas_with_other_cursor_keys_are_told_of_in_the_log_the_metrics_and_the_api_and_the_keys_are_not() {
    let nats = NatsServer::start().await;
    let folder = folder();
    let one = Replica::start(config(&nats, &folder, "11", "")).await;
    let other = Replica::start(config(&nats, &folder, "22", "")).await;
    let cluster = one.until("the other key is noticed", |cluster| cluster["differing_cursor_keys"] == 1).await;
    assert_eq!(cluster["differing"], 0, "the configs are the same: {cluster}");
    let known = cluster["replicas"]["items"].as_array().unwrap();
    assert_eq!(known.iter().filter(|known| known["cursor_key_differs"] == true).count(), 1, "{cluster}");
    assert!(!cluster.to_string().contains("2222"), "{cluster}");
    assert_eq!(one.value("mcp_host_cluster_differing_cursor_keys{}").await, 1);
    let line = one.wire.log_line("has another `server.cursor-key` than this one").await;
    assert!(line.contains("WARN"), "{line}");
    let config = one.config.path();
    // The listener's port is chosen by the system, so the command reads it from a copy of the config.
    let copy = fs::read_to_string(&config).unwrap().replace("127.0.0.1:0", one.admin.trim_start_matches("http://"));
    let copied = one.config.dir().join("status.toml");
    fs::write(&copied, copy).unwrap();
    let status = run(["status", "--config", copied.to_str().unwrap()]).await.success().text();
    assert!(status.contains("another `server.cursor-key`"), "{status}");
    for replica in [one, other] {
        replica.wire.end().await;
    }
}

#[tokio::test]
async fn commands_of_one_call_are_no_replicas() {
    let nats = NatsServer::start().await;
    let folder = folder();
    let one = Replica::start(config(&nats, &folder, "11", "")).await;
    one.until("it is alive", |cluster| cluster["live"] == 1).await;
    let path = one.config.path();
    let listed = run(["list", "--config", path.to_str().unwrap()]).await.success().text();
    assert!(listed.contains("files://f/a.txt"), "{listed}");
    let mut command = host_command();
    command.args(["watch", "files://f/a.txt", "--config"]).arg(&path);
    let mut watch = command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut said = BufReader::new(watch.stderr.take().unwrap()).lines();
    while !timeout(TIMEOUT, said.next_line()).await.unwrap().unwrap().unwrap().contains("watching") {}
    for round in 2..6 {
        folder.write("a.txt", "x".repeat(round));
        timeout(TIMEOUT, printed.next_line()).await.unwrap().unwrap().expect("an update");
        let cluster = one.cluster().await;
        assert_eq!((&cluster["live"], &cluster["replicas"]["total"]), (&json!(1), &json!(1)), "{cluster}");
    }
    watch.kill().await.unwrap();
    one.wire.end().await;
}

#[tokio::test]
async fn one_client_of_nats_that_publishes_what_it_likes_is_bounded_in_what_it_does_to_a_replica() {
    let nats = NatsServer::start().await;
    let folder = folder();
    let mut one = Replica::start(config(&nats, &folder, "11", "max-replicas = 4\n")).await;
    one.wire.request("resources/subscribe", json!({ "uri": "files://f/a.txt" })).await.result();
    one.until("it is heard", |cluster| cluster["hears"] == true).await;
    let dropped = one.value("mcp_host_cluster_cache_drops_total{}").await;
    let began = Instant::now();
    for round in 0_u64..5 {
        let notices = (0..2000_u128).flat_map(|number| {
            let replica = format!("{:032x}", number + 1);
            let about = json!({
                "config": format!("{number}"), "version": "x", "machine": "x\n", "process": 1, "leases": 0, "named_leases": [],
                "cursor_keys": [format!("{number}")],
            });
            [
                json!({ "kind": "alive", "replica": replica, "sent": round * 7, "about": about }),
                json!({ "kind": "stale", "replica": replica, "number": round * 9 + 3, "plugin": "p" }),
                json!({ "kind": "session", "replica": replica, "number": round * 11 + 5, "session": "0".repeat(32) }),
                json!({ "kind": "left", "replica": replica, "sent": 1 }),
            ]
        });
        nats.publish(notices.map(|notice| (SUBJECT, notice.to_string().into_bytes()))).await;
        one.until("they are known", |cluster| cluster["live"].as_u64().unwrap() > 1000).await;
    }
    let cluster = one.until("rates are divided", |cluster| cluster["rate_divisor"].as_u64().unwrap() > 1).await;
    assert_eq!(cluster["rate_divisor"], 4, "by the maximum of the config");
    assert!(cluster["live"].as_u64().unwrap() <= 1025, "{}", cluster["live"]);
    // All cached responses are dropped at most once in a sixth of the lease.
    let drops = one.value("mcp_host_cluster_cache_drops_total{}").await - dropped;
    let most = began.elapsed().as_millis() / 500 + 2;
    assert!(u128::from(drops) <= most, "{drops} drops, and at most {most} are allowed");
    // The replica still serves, and still notifies changes.
    folder.write("a.txt", "changed");
    assert_eq!(super::next_updated(&mut one.wire).await, "files://f/a.txt");
    let exit = one.wire.end().await;
    for warning in ["has another config than this one", "has another `server.cursor-key`", "rates are divided by"] {
        let lines = exit.log.lines().filter(|line| line.contains(warning)).count();
        assert_eq!(lines, 1, "{warning}");
    }
}

#[tokio::test]
async fn the_example_runs_and_each_of_its_replicas_can_be_asked() {
    let nats = NatsServer::start().await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/cluster");
    let plugin = fs::canonicalize(example.join("../../target/plugins/files.wasm")).unwrap();
    let dir = Folder::with_files([("files/hello.txt", "hello")]);
    let mut replicas = Vec::new();
    for number in 1..=3 {
        let text = fs::read_to_string(example.join(format!("replica{number}.toml"))).unwrap();
        let admin = ReservedPort::new();
        let text = text
            .replace("nats://127.0.0.1:4222", &nats.url())
            .replace(&format!("127.0.0.1:946{number}"), &admin.address().to_string())
            .replace("../../target/plugins/files.wasm", plugin.to_str().unwrap());
        let file = format!("replica{number}.toml");
        dir.write(&file, &text);
        let file = dir.path().join(file);
        let mut command = host_command();
        command
            .args(["serve", "--http", "127.0.0.1:0", "--config"])
            .arg(&file)
            .env("MCP_HOST_CURSOR_KEY", "11".repeat(32));
        command.env("MCP_HOST_ADMIN_TOKEN", TOKEN);
        replicas.push((HttpServer::start_command(command).await, file, admin));
    }
    for (_, file, _) in &replicas {
        let looking = async {
            loop {
                let mut command = host_command();
                command.args(["status", "--config"]).arg(file).env("MCP_HOST_ADMIN_TOKEN", TOKEN);
                let output = command.output().await.unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                if String::from_utf8_lossy(&output.stdout).contains("example: 3 replicas alive") {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(TIMEOUT, looking).await.expect("each knows all");
    }
    for (server, ..) in replicas {
        server.end().await;
    }
}
