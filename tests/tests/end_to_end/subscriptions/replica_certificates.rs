//! The certificate of a NATS server expires while clients listen: each replica polls for itself, and the log says why.

use std::time::Duration;

use mcp_host_tests::{CertificateAuthority, Folder, NatsServer, Plugin, TIMEOUT};
use tokio::time::timeout;

use super::replicas::{Replica, SHORT_LEASE, have_roles};

const EDITED: &str = "files://f/edited.txt";
/// A file that is never edited.
const STEADY: &str = "files://f/steady.txt";
const HEARS: &str = "mcp_host_cluster_hears{}";
const GAPS: &str = "mcp_host_plugin_poll_gaps_total{plugin=\"f\"}";

/// Edits the file, and reads until the client of each replica was notified. Returns how often each was notified of the
/// file that is never edited.
async fn edit_and_check(folder: &Folder, replicas: &mut [Replica], content: &str) -> Vec<u64> {
    folder.write("edited.txt", content);
    let mut steady = Vec::new();
    for replica in replicas {
        let mut count = 0;
        loop {
            let told = timeout(TIMEOUT, super::next_updated(&mut replica.wire)).await.expect("an update in time");
            if told == EDITED {
                break;
            }
            count += u64::from(told == STEADY);
        }
        steady.push(count);
    }
    steady
}

#[tokio::test]
async fn while_the_certificate_of_nats_has_expired_each_replica_polls_for_itself_and_the_log_says_why() {
    let authority = CertificateAuthority::new();
    let mut nats = NatsServer::start_with_certificate(&authority.issue("127.0.0.1")).await;
    let folder = Folder::with_files([("edited.txt", "a"), ("steady.txt", "a")]);
    let authorities = Folder::with_files([("authority.pem", authority.pem())]);
    let bundle = authorities.path().join("authority.pem");
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let plugin = Plugin::files("f", folder.path()).set("watch-interval", "500ms");
        let trusted = format!("{SHORT_LEASE}ca = {bundle:?}\n");
        replicas.push(Replica::serve_with(&nats, plugin, &[EDITED, STEADY], &trusted).await);
        have_roles(&replicas[..1], &["holding"]).await;
    }
    share(&replicas).await;
    for replica in &replicas {
        replica.knows(2, 0).await;
    }
    let mut steady = edit_and_check(&folder, &mut replicas, "xx").await;
    let mut add = |more: Vec<u64>| steady.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);

    // A connection outlives the certificate with which it began. It ends with its server, and there is no other.
    nats.kill().await;
    nats.set_certificate(&authority.issue_expired("127.0.0.1"));
    nats.restart().await;
    for replica in &replicas {
        let line = replica.wire.log_line("certificate expired").await;
        assert!(line.contains("WARN") && line.contains("NATS cannot be reached"), "{line}");
        assert!(line.contains("polls providers for itself"), "{line}");
    }
    have_roles(&replicas, &["alone", "alone"]).await;
    for replica in &replicas {
        replica.knows(1, 0).await;
        replica.value_is(HEARS, |hears| hears == 0).await;
    }
    for content in ["xxx", "xxxx"] {
        add(edit_and_check(&folder, &mut replicas, content).await);
    }

    // With a new certificate, they share their polls again.
    nats.kill().await;
    nats.set_certificate(&authority.issue("127.0.0.1"));
    nats.restart().await;
    for replica in &replicas {
        replica.wire.log_line("NATS is connected").await;
        replica.knows(2, 0).await;
        replica.value_is(HEARS, |hears| hears == 1).await;
    }
    share(&replicas).await;
    add(edit_and_check(&folder, &mut replicas, "xxxxx").await);
    let mut gaps = Vec::new();
    for replica in &replicas {
        gaps.push(replica.value(GAPS).await);
    }
    // A replica that may have missed changes notifies everything once; nothing else notifies of a file that is the
    // same.
    for (steady, gaps) in steady.iter().zip(&gaps) {
        assert!(steady <= gaps, "{steady} notifications for {gaps} gaps");
    }
    for replica in replicas {
        replica.wire.end().await;
    }
}

/// Waits until one replica polls for all, and the other one follows.
async fn share(replicas: &[Replica]) {
    let settle = async {
        loop {
            let mut roles = [replicas[0].role().await, replicas[1].role().await];
            roles.sort();
            if roles == ["following", "holding"] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, settle).await.expect("one replica polls for all, and the other one follows");
}
