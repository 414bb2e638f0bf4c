//! The audit log on a full disk.

use std::fs::File;
use std::io::Write;

use mcp_host_tests::has_user_namespaces;

use super::*;

/// The audit log's file, as the test sees it, on a disk that only the server uses.
struct Disk {
    audit: PathBuf,
    filler: PathBuf,
}

impl Disk {
    fn of(server: &RawStdio, config: &WrittenConfig) -> Self {
        let path = |name: &str| server.path_in_namespace(&config.dir().join("disk").join(name));
        Self { audit: path("audit.jsonl"), filler: path("filler") }
    }

    /// Fills the disk to the last byte.
    fn fill(&self) {
        let mut filler = File::create(&self.filler).unwrap();
        while filler.write_all(&[0; 512]).is_ok() {}
    }

    /// Frees the space again.
    fn free(&self) {
        fs::remove_file(&self.filler).unwrap();
    }
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

async fn start(on_full: &str) -> (WrittenConfig, RawStdio) {
    let config = ConfigFile::new().audit("file", "disk/audit.jsonl").audit("on-full", on_full);
    let config = config.audit("max-size", "64MiB").plugin(Plugin::misbehaving("m"));
    let config = config.append("\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = { file = \"admin.token\" }\n").write();
    fs::write(config.dir().join("admin.token"), TOKEN).unwrap();
    let server = RawStdio::start_with_disk("32M", &config, REVISION).await;
    (config, server)
}

/// Returns the sequence numbers of the lines, which must be in order.
fn sequences(lines: &[Value]) -> Vec<u64> {
    let numbers: Vec<_> = lines.iter().map(|line| line["sequence"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    numbers
}

#[tokio::test]
async fn requests_without_space_for_their_line_are_refused_until_there_is_some() {
    if !has_user_namespaces() {
        return;
    }
    let (config, mut server) = start("refuse").await;
    let disk = Disk::of(&server, &config);
    let line = server.log_line("administration at ").await;
    let is_failing = async || {
        let url = format!("{}/metrics", line.split_whitespace().last().unwrap());
        let metrics = reqwest::get(url).await.unwrap().text().await.unwrap();
        metrics.lines().any(|sample| sample == "mcp_host_audit_failing{} 1")
    };
    let ready = async || {
        let url = format!("{}/readyz", line.split_whitespace().last().unwrap());
        let request = reqwest::Client::new().get(url).bearer_auth(TOKEN);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let status = async || {
        let url = format!("{}/api/v1/status", line.split_whitespace().last().unwrap());
        let answer = reqwest::Client::new().get(url).bearer_auth(TOKEN).send().await.unwrap();
        answer.json::<Value>().await.unwrap()["audit"].clone()
    };
    assert!(!is_failing().await);
    assert_eq!(ready().await, (200, "ready\n".to_owned()));
    server.read("misbehaving://m/good").await.unwrap();
    wait_for_lines(&disk.audit, 1).await;
    disk.fill();
    let mut answered = 1;
    let refused = loop {
        match server.read("misbehaving://m/good").await {
            Ok(text) => assert_eq!(text, "good"),
            Err(error) => break error,
        }
        answered += 1;
    };
    assert_eq!(refused["code"], -32603);
    assert_eq!(refused["data"], json!({ "kind": "unavailable", "retryAfterMs": 1000 }));
    let reason = refused["message"].as_str().unwrap();
    assert!(!["file", "disk", "space", "audit"].iter().any(|word| reason.contains(word)), "{reason}");
    server.log_line("the audit log cannot be written").await;
    assert!(is_failing().await);
    let (code, reason) = ready().await;
    assert!(code == 503 && reason.contains("disk/audit.jsonl has not been written since "), "{reason}");
    assert!(reason.contains("No space left on device") && reason.contains("`audit.on-full`"), "{reason}");
    let failing = status().await;
    assert!(failing["failure"]["reason"].as_str().unwrap().contains("No space left"), "{failing}");
    assert!(failing["file"].as_str().unwrap().ends_with("disk/audit.jsonl") && failing["refuses"] == true, "{failing}");
    let mut refusals = 1;
    for method in ["resources/list", "resources/templates/list"] {
        server.request(method, json!({})).await.error();
        refusals += 1;
    }
    let url = format!("{}/api/v1/plugins/m/reset", line.split_whitespace().last().unwrap());
    let action = reqwest::Client::new().post(url).bearer_auth(TOKEN).send().await.unwrap();
    let (code, action) = (action.status().as_u16(), action.json::<Value>().await.unwrap());
    refusals += 1;
    let error = action["error"].as_str().unwrap();
    assert!(code == 503 && error.contains("disk/audit.jsonl cannot be written: "), "{action}");
    assert!(error.contains("No space left on device"), "{action}");
    assert!(action["help"].as_str().unwrap().contains("`on-full = \"drop\"`"), "{action}");

    disk.free();
    server.log_line("the audit log is written again").await;
    server.read("misbehaving://m/good").await.unwrap();
    assert_eq!(ready().await.0, 200);
    let written = status().await;
    assert_eq!((&written["failure"], &written["refused_requests"]), (&Value::Null, &json!(refusals)), "{written}");
    // One line for each answered request, and one with the number of refused requests.
    let lines = wait_for_lines(&disk.audit, answered + 2).await;
    assert_eq!(sequences(&lines), (2..=answered as u64 + 3).collect::<Vec<_>>());
    let counts: Vec<_> = lines.iter().filter_map(|line| line["refused_requests"].as_u64()).collect();
    assert_eq!(counts, [refusals]);
    server.end().await;
}

#[tokio::test]
async fn lines_that_are_dropped_are_counted_and_the_count_is_told_once_there_is_space() {
    if !has_user_namespaces() {
        return;
    }
    let (config, mut server) = start("drop").await;
    let disk = Disk::of(&server, &config);
    server.read("misbehaving://m/good").await.unwrap();
    wait_for_lines(&disk.audit, 1).await;
    disk.fill();
    // More than the queue's capacity: 4 MiB.
    let uri = format!("misbehaving://m/{}", "x".repeat(4000));
    let requests = 2500;
    for _ in 0..requests {
        assert!(server.read(&uri).await.unwrap_err()["message"].is_string());
    }
    assert_eq!(server.read("misbehaving://m/good").await.unwrap(), "good", "requests are answered");
    disk.free();
    server.log_line("the audit log is written again").await;
    wait_until("the count is told", || lines(&disk.audit).iter().any(|line| line["dropped_lines"].is_u64())).await;
    let lines = lines(&disk.audit);
    let dropped = lines.last().unwrap()["dropped_lines"].as_u64().unwrap();
    assert!(dropped > 0, "{dropped}");
    assert_eq!(lines.len() as u64 + dropped, requests + 3, "each line was written or counted");
    assert_eq!(sequences(&lines).last(), Some(&(requests + 4)), "and has a number");
    server.end().await;
}

#[tokio::test]
async fn requests_are_refused_as_well_when_standard_error_is_closed() {
    let config = ConfigFile::new().audit("stderr", true).audit("on-full", "refuse");
    let config = config.plugin(Plugin::misbehaving("m")).write();
    let (mut server, unread) = RawStdio::start_with_raw_stderr(&config, REVISION).await;
    server.read("misbehaving://m/good").await.unwrap();
    drop(unread);
    let refused = loop {
        if let Err(error) = server.read("misbehaving://m/good").await {
            break error;
        }
    };
    assert_eq!(refused["data"], json!({ "kind": "unavailable", "retryAfterMs": 1000 }));
    server.end().await;
}
