//! Standard error that is not read: a full pipe, or a closed one.

use mcp_host_tests::{ConfigFile, Plugin, RawStdio, Revision, WrittenConfig, fixture};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

/// More output than the pipe and the queue can hold: 8 MB.
const NOISY_URI: &str = "exhaust://h/noise?count=8000";

fn noisy_config() -> WrittenConfig {
    let noisy = Plugin::new("exhaust", &fixture("exhaust"), "exhaust://h/").limit("log", "16MiB/m");
    let noisy = noisy.limit("memory", "256MiB").limit("cpu", "30s").limit("deadline", "60s");
    ConfigFile::new().plugin(noisy).plugin(Plugin::misbehaving("good")).write()
}

#[tokio::test]
async fn a_noisy_guest_keeps_nobody_waiting_and_the_server_ends_though_nobody_reads_its_log() {
    for signal in [None, Some(Signal::TERM)] {
        let (mut server, unread) = RawStdio::start_with_raw_stderr(&noisy_config(), Revision::V_2025_11_25).await;
        assert_eq!(server.read(NOISY_URI).await.unwrap(), "survived");
        assert_eq!(server.read("misbehaving://good/good").await.unwrap(), "good");
        match signal {
            None => server.close_stdin(),
            Some(signal) => server.signal(signal),
        }
        server.wait_clean_exit().await;
        drop(unread);
    }
}

#[tokio::test]
async fn what_was_dropped_is_told_as_soon_as_somebody_reads() {
    let (mut server, unread) = RawStdio::start_with_raw_stderr(&noisy_config(), Revision::V_2025_11_25).await;
    assert_eq!(server.read(NOISY_URI).await.unwrap(), "survived");
    let mut lines = BufReader::new(unread).lines();
    let told = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("lines of the log were dropped") {
                return line;
            }
        }
        panic!("it does not tell")
    };
    let line = timeout(mcp_host_tests::TIMEOUT, told).await.unwrap();
    let count = line.split("lines=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(count.parse::<u64>().unwrap() > 1000, "{line}");
    server.end().await;
}

#[tokio::test]
async fn a_server_whose_standard_error_is_closed_goes_on() {
    let (mut server, unread) = RawStdio::start_with_raw_stderr(&noisy_config(), Revision::V_2025_11_25).await;
    drop(unread);
    assert_eq!(server.read(NOISY_URI).await.unwrap(), "survived");
    assert_eq!(server.read("misbehaving://good/good").await.unwrap(), "good");
    server.end().await;
}
