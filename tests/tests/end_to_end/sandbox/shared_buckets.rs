//! Key-value buckets that replicas share (`shared = true`), on real servers of NATS that fail.

use std::fs;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::join_all;
use mcp_host_tests::{
    Client, ConfigFile, FaultyLink, Folder, LinkFault, NatsCluster, NatsServer, Output, Plugin, StdioServer, TIMEOUT,
    WrittenConfig, run,
};
use tokio::time::{sleep, timeout};

/// The maximum time of a failing call: `limits.deadline` of the plugins. An operation on a bucket takes 5 s of it at most,
/// and a busy machine the rest.
const DEADLINE: Duration = Duration::from_mins(2);
/// The stream of the bucket `pages` of the plugin `a`.
const STREAM: &str = "KV_mcp-host-test-KV-a-pages";
const ADMIN_TOKEN: &str = "a-token-of-an-administrator-for-tests";

/// The config of a replica: a plugin `a` with the shared bucket `pages`, one `b` with a bucket of that name, and a
/// folder.
fn config(urls: &[String], folder: &Folder) -> WrittenConfig {
    config_with(urls, folder, Plugin::keyvalue("a").shared_bucket("pages", []))
}

fn config_with(urls: &[String], folder: &Folder, plugin: Plugin) -> WrittenConfig {
    let cluster = format!(
        "\n[server.cursor-key]\nfile = \"key\"\n\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = {{ file = \"token\" }}\n\n\
         [cluster]\nname = \"test\"\nnats = {urls:?}\nlease = \"3s\"\n"
    );
    let config = ConfigFile::new()
        .plugin(plugin.set("watch-interval", "1h").limit("deadline", "2m"))
        .plugin(Plugin::keyvalue("b").shared_bucket("pages", []).limit("deadline", "2m"))
        .plugin(Plugin::files("f", folder.path()))
        .append(&cluster)
        .write();
    fs::write(config.dir().join("key"), "11".repeat(32)).unwrap();
    fs::write(config.dir().join("token"), ADMIN_TOKEN).unwrap();
    config
}

fn folder() -> Folder {
    Folder::with_files([("x.txt", "still served")])
}

async fn text(client: &Client, path: &str) -> String {
    client.text(&format!("keyvalue://{path}")).await
}

/// The error of a call of the plugin `a`, which ends within its deadline.
async fn unavailable(client: &Client, path: &str) -> String {
    let began = Instant::now();
    let error = client.read_error(&format!("keyvalue://{path}")).await;
    assert!(began.elapsed() < DEADLINE, "{path}: {:?}", began.elapsed());
    assert_eq!(error.data.unwrap_or_default()["kind"], "unavailable", "{path}: {}", error.message);
    error.message.into_owned()
}

/// Reads until the call succeeds.
async fn until_text(client: &Client, path: &str) -> String {
    let trying = async {
        loop {
            match client.read(&format!("keyvalue://{path}")).await {
                Ok(_) => return text(client, path).await,
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    };
    timeout(TIMEOUT, trying).await.unwrap_or_else(|_| panic!("{path} does not succeed"))
}

#[tokio::test]
async fn what_one_replica_writes_another_reads_and_increments_of_both_are_all_counted() {
    const EACH: usize = 40;
    let (nats, folder) = (NatsServer::start().await, folder());
    let configs = [config(&[nats.url()], &folder), config(&[nats.url()], &folder)];
    let [one, other] = [StdioServer::start(&configs[0]).await, StdioServer::start(&configs[1]).await];
    assert_eq!(text(one.client(), "a/set/pages/key?value=kept").await, "done");
    assert_eq!(text(other.client(), "a/get/pages/key").await, "kept");
    assert_eq!(text(other.client(), "a/swap/pages/key?from=kept&to=swapped").await, "true");
    assert_eq!(text(one.client(), "a/swap/pages/key?from=kept&to=lost").await, "false");
    assert_eq!(text(one.client(), "a/get/pages/key").await, "swapped");
    let increments = |client| join_all((0..EACH).map(move |_| text(client, "a/increment/pages/count")));
    let (of_one, of_other) = tokio::join!(increments(one.client()), increments(other.client()));
    let mut sums: Vec<usize> = of_one.into_iter().chain(of_other).map(|sum| sum.parse().unwrap()).collect();
    sums.sort_unstable();
    assert!(sums.iter().copied().eq(1..=2 * EACH), "each sum is returned once: {sums:?}");
    assert_eq!(text(other.client(), "a/get/pages/count").await, (2 * EACH).to_string());
    // Another plugin with the same component has another bucket of that name.
    assert_eq!(text(other.client(), "b/exists/pages/key").await, "false");
    // Batches, listings and any bytes, as on disk.
    assert_eq!(text(one.client(), "a/fill/pages?count=1500&size=10").await, "done");
    let first = text(other.client(), "a/keys/pages").await;
    let cursor = first.lines().nth(3).unwrap();
    assert_eq!(first.lines().next(), Some("1000"), "{first}");
    let second = text(other.client(), &format!("a/keys/pages?cursor={cursor}")).await;
    assert!(second.starts_with("502\n") && second.ends_with("\n-"), "{second}");
    assert_eq!(text(other.client(), "a/clear/pages?keys=key,count,absent").await, "done");
    assert_eq!(text(one.client(), "a/many/pages?keys=key,count").await, "-\n-");
    let all: Vec<u8> = (0..=u8::MAX).collect();
    assert_eq!(one.client().bytes("keyvalue://a/all-bytes/pages/all").await, all);
    assert_eq!(other.client().bytes("keyvalue://a/get/pages/all").await, all);
    assert_eq!(nats.messages_of(STREAM).await, 1501, "a key that was deleted leaves nothing");
    one.end().await;
    other.end().await;
    for config in &configs {
        assert!(!config.dir().join("state/keyvalue").exists(), "nothing is on disk");
    }
}

#[tokio::test]
async fn while_nats_is_gone_calls_on_buckets_fail_in_time_and_everything_else_is_served() {
    let (mut nats, folder) = (NatsServer::start().await, folder());
    let config = config(&[nats.url()], &folder);
    let server = StdioServer::start(&config).await;
    let client = server.client();
    assert_eq!(text(client, "a/increment/pages/count").await, "1");
    nats.kill().await;
    for path in ["a/get/pages/count", "a/increment/pages/count", "a/set/pages/x?value=1", "a/keys/pages"] {
        let message = unavailable(client, path).await;
        assert!(message.contains("the store of shared buckets cannot be reached; try again"), "{message}");
        assert!(!message.contains("127.0.0.1"), "no client learns of the servers: {message}");
        assert_eq!(client.text("files://f/x.txt").await, "still served");
    }
    nats.restart().await;
    // It was counted once, and the failed increments were not: they were never sent.
    assert_eq!(until_text(client, "a/get/pages/count").await, "1");
    assert_eq!(text(client, "a/increment/pages/count").await, "2");
    let log = server.end().await.log;
    assert!(log.contains("the shared buckets of a plugin cannot be reached"), "{log}");
    assert!(log.contains("calls of providers on shared buckets fail"), "{log}");
}

#[tokio::test]
async fn while_nats_is_silent_calls_on_buckets_fail_in_time_and_everything_else_is_served() {
    let (nats, folder) = (NatsServer::start().await, folder());
    let address = nats.url().strip_prefix("nats://").unwrap().parse().unwrap();
    let link = FaultyLink::start(address).await;
    let config = config(&[format!("nats://{}", link.address())], &folder);
    let server = StdioServer::start(&config).await;
    let client = server.client();
    text(client, "a/set/pages/key?value=1").await;
    for fault in [LinkFault::Stalled, LinkFault::HalfOpen, LinkFault::Cut] {
        let mut is_served_soon = false;
        // A busy machine may be late.
        for _ in 0..5 {
            link.set(fault);
            let calls = ["a/get/pages/key", "a/set/pages/other?value=1", "a/keys/pages", "b/get/pages/key"];
            let failing = join_all(calls.map(|path| unavailable(client, path)));
            let served = async {
                let began = Instant::now();
                assert_eq!(client.text("files://f/x.txt").await, "still served");
                began.elapsed() < Duration::from_secs(1)
            };
            (_, is_served_soon) = tokio::join!(failing, served);
            link.set(LinkFault::None);
            assert_eq!(until_text(client, "a/get/pages/key").await, "1");
            if is_served_soon {
                break;
            }
        }
        assert!(is_served_soon, "{fault:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn increments_that_were_answered_survive_the_death_of_the_leader_of_nats() {
    let (mut nats, folder) = (NatsCluster::start().await, folder());
    let configs = [config(&nats.urls(), &folder), config(&nats.urls(), &folder)];
    let [one, other] = [StdioServer::start(&configs[0]).await, StdioServer::start(&configs[1]).await];
    until_text(one.client(), "a/increment/pages/count").await;
    let before: u64 = text(other.client(), "a/get/pages/count").await.parse().unwrap();
    let leader = nats.leader().await.expect("a leader");
    let count = async |client: &Client| {
        let (mut answered, mut failed) = (0_u64, 0_u64);
        for _ in 0..60 {
            match client.read("keyvalue://a/increment/pages/count").await {
                Ok(_) => answered += 1,
                Err(_) => failed += 1,
            }
            sleep(Duration::from_millis(50)).await;
        }
        (answered, failed)
    };
    let kill = async {
        sleep(Duration::from_millis(500)).await;
        nats.kill(leader).await;
    };
    let (of_one, of_other, ()) = tokio::join!(count(one.client()), count(other.client()), kill);
    let (answered, failed) = (of_one.0 + of_other.0, of_one.1 + of_other.1);
    let after: u64 = until_text(one.client(), "a/get/pages/count").await.parse().unwrap();
    assert!(answered > 0, "{of_one:?} {of_other:?}");
    // An increment that failed may have been counted; one that was answered was.
    let counted = after - before;
    assert!((answered..=answered + failed).contains(&counted), "{counted} of {answered} and {failed}");
    one.end().await;
    other.end().await;
}

#[tokio::test]
async fn a_quota_holds_for_all_replicas_together_and_for_one_bucket_alone() {
    let (nats, folder) = (NatsServer::start().await, folder());
    let plugin = Plugin::keyvalue("a")
        .shared_bucket("pages", [])
        .shared_bucket("small", [("quota", "8KiB".into())])
        .shared_bucket("few", [("keys", 2.into())]);
    let configs = [plugin.clone(), plugin].map(|plugin| config_with(&[nats.url()], &folder, plugin));
    let [one, other] = [StdioServer::start(&configs[0]).await, StdioServer::start(&configs[1]).await];
    text(one.client(), "a/set/small/a?size=5000").await;
    let refused = unavailable(other.client(), "a/set/small/b?size=5000").await;
    assert!(
        refused.contains("quota exceeded: the shared bucket `small` may hold 8.0 KiB as NATS stores it"),
        "{refused}"
    );
    text(one.client(), "a/increment/few/a").await;
    text(other.client(), "a/increment/few/b").await;
    let refused = unavailable(one.client(), "a/increment/few/c").await;
    assert!(refused.contains("quota exceeded: the bucket `few` may hold 2 keys"), "{refused}");
    assert_eq!(text(one.client(), "a/increment/few/b").await, "2");
    text(one.client(), "a/set/pages/b?size=500000").await;
    let refused = unavailable(one.client(), "a/set/pages/c?size=1100000").await;
    assert!(refused.contains("a value of 1100000 bytes") && refused.contains("max_payload"), "{refused}");
    assert!(refused.contains("16.0 MiB"), "{refused}");
    text(other.client(), "a/delete/few/a").await;
    assert_eq!(text(one.client(), "a/increment/few/c").await, "1");
    one.end().await;
    other.end().await;
}

#[tokio::test]
async fn what_others_publish_into_a_bucket_harms_nobody() {
    let (nats, folder) = (NatsServer::start().await, folder());
    let config = config(&[nats.url()], &folder);
    let server = StdioServer::start(&config).await;
    let client = server.client();
    text(client, "a/set/pages/good?value=1").await;
    let subject = |token: &str| format!("$KV.mcp-host-test-KV-a-pages.{token}");
    let tokens =
        ["_w".to_owned(), "not.a.key".to_owned(), "=".to_owned(), "x".repeat(2000), URL_SAFE_NO_PAD.encode("theirs")];
    let subjects: Vec<_> = tokens.iter().map(|token| subject(token)).collect();
    nats.publish(subjects.iter().map(|subject| (subject.as_str(), vec![0xff; 100_000]))).await;
    timeout(TIMEOUT, async {
        while nats.messages_of(STREAM).await < 6 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(text(client, "a/keys/pages").await, "2\ngood\ntheirs\n-");
    assert_eq!(client.bytes("keyvalue://a/get/pages/theirs").await, vec![0xff; 100_000]);
    let refused = unavailable(client, "a/increment/pages/theirs").await;
    assert!(refused.contains("not an integer"), "{refused}");
    assert_eq!(text(client, "a/increment/pages/good").await, "2");
    let log = server.end().await.log;
    assert!(!log.contains("panicked"), "{log}");
}

async fn keyvalue(config: &WrittenConfig, words: &[&str]) -> Output {
    let path = config.path();
    let path = path.to_str().unwrap();
    let (command, rest) = words.split_first().unwrap();
    run(["keyvalue", command, "--config", path].iter().chain(rest).copied()).await
}

#[tokio::test]
async fn an_admin_sees_and_fills_a_shared_bucket_with_and_without_a_server() {
    let (mut nats, folder) = (NatsServer::start().await, folder());
    let config = config(&[nats.url()], &folder);
    keyvalue(&config, &["put", "a", "pages", "key", "by the admin"]).await.success();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    assert_eq!(text(client, "a/get/pages/key").await, "by the admin");
    text(client, "a/set/pages/other?value=by-the-guest").await;
    assert_eq!(keyvalue(&config, &["get", "a", "pages", "other"]).await.success().stdout, b"by-the-guest");
    assert_eq!(keyvalue(&config, &["list", "a", "pages"]).await.success().text(), "key\nother\n");
    assert_eq!(keyvalue(&config, &["list", "a", "pages", "--prefix", "o"]).await.success().text(), "other\n");
    let listed = keyvalue(&config, &["list", "a", "--json"]).await.success().json();
    assert_eq!((&listed["buckets"][0]["bucket"], &listed["buckets"][0]["keys"]), (&"pages".into(), &2.into()));
    let deleted = keyvalue(&config, &["delete", "a", "pages", "key", "absent"]).await.success();
    assert!(deleted.stderr.contains("there was no key `absent`"), "{}", deleted.stderr);
    assert_eq!(text(client, "a/exists/pages/key").await, "false");
    // A command that is no replica uses the same buckets.
    let path = config.path();
    let path = path.to_str().unwrap();
    let read = run(["read", "keyvalue://a/get/pages/other", "--config", path]).await.success();
    assert_eq!(read.stdout, b"by-the-guest");

    let line = server.log_line("administration at ").await;
    let admin = line.split_whitespace().last().unwrap();
    let request = reqwest::Client::new().get(format!("{admin}/api/v1/plugins/a")).bearer_auth(ADMIN_TOKEN);
    let plugin: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
    let bucket = &plugin["usage"]["buckets"][0];
    assert_eq!((&bucket["name"], &bucket["keys"]), (&"pages".into(), &1.into()), "{plugin}");
    let series = "mcp_host_plugin_bucket_keys{plugin=\"a\",bucket=\"pages\"} 1";
    let measured = async {
        while !reqwest::get(format!("{admin}/metrics")).await.unwrap().text().await.unwrap().contains(series) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, measured).await.expect("the bucket is measured");
    server.end().await;

    nats.kill().await;
    let failed = keyvalue(&config, &["get", "a", "pages", "other"]).await;
    assert_eq!(failed.code(), 1);
    assert!(failed.stderr.contains("the store of shared buckets cannot be reached"), "{}", failed.stderr);
    let checked = run(["check", "--config", path]).await;
    let report = format!("{}{}", checked.text(), checked.stderr);
    assert!(report.contains("its shared bucket `pages` cannot be used now"), "{report}");
}

#[tokio::test]
async fn a_recorded_call_on_a_shared_bucket_is_replayed_without_nats() {
    let (mut nats, folder) = (NatsServer::start().await, folder());
    let config = config(&[nats.url()], &folder);
    let (path, dir) = (config.path(), tempfile::tempdir().unwrap());
    let path = path.to_str().unwrap();
    keyvalue(&config, &["put", "a", "pages", "key", "recorded"]).await.success();
    for (number, read) in ["get/pages/key", "swap/pages/key?from=recorded&to=x", "keys/pages"].into_iter().enumerate() {
        let file = dir.path().join(number.to_string());
        let uri = format!("keyvalue://a/{read}");
        run(["read", &uri, "--config", path, "--log", "off", "--record", file.to_str().unwrap()]).await.success();
    }
    nats.kill().await;
    for number in 0..3 {
        let file = dir.path().join(number.to_string());
        let replayed = run(["replay", file.to_str().unwrap(), "--log", "off", "--json"]).await.success().json();
        assert_eq!(replayed["differing"], serde_json::json!([]), "{replayed}");
        assert!(replayed["calls"].as_u64() >= Some(2) && replayed["is_complete"] == true, "{replayed}");
    }
}
