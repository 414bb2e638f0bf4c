//! The check of what replicas notify finds what is lost: when they stand still, and when a client of NATS does to them
//! what a bug would do that moves the token without polling.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcp_host_tests::{LEASE, Load, ReplicaSet, TIMEOUT};
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The promised maximum delay, with tolerance for a machine that runs other tests.
const BOUND: Duration = Duration::from_secs(60);
/// The time within which a change is told if another replica takes the lease.
const LATE: Duration = LEASE.saturating_mul(2);
/// The maximum number of attempts: if this process is paused for long enough, the balancer ends the streams of paused
/// replicas, or the replicas notice that nobody polls.
const ATTEMPTS: usize = 5;
/// The first resource that is a table.
const TABLE: &str = "main/t8/rows";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_finds_what_a_replica_that_stands_still_does_not_tell() {
    let mut set = ReplicaSet::start(Load::of_all(3, 6)).await;
    set.holder().await;
    set.round().await;
    let mut lost = 0;
    for _ in 0..ATTEMPTS {
        // What is notified twice has arrived.
        sleep(Duration::from_secs(1)).await;
        // The paused replicas' streams stay open until the balancer ends them, and receive nothing. Without time for
        // notifications, that counts as a loss.
        for index in 0..3 {
            set.signal(index, Signal::STOP);
        }
        let began = Instant::now();
        set.change();
        lost = set.verdict(Duration::ZERO).lost.iter().filter(|lost| lost.change.at >= began).count();
        for index in 0..3 {
            set.signal(index, Signal::CONT);
        }
        set.wait_until_all_listen().await;
        set.round().await;
        if lost == 6 {
            break;
        }
    }
    assert_eq!(lost, 6);
    assert!(set.end(BOUND).await.lost.is_empty());
}

/// What a client of NATS has received.
#[derive(Debug, Default)]
struct Heard {
    /// The subject of the plugin with the tables, once one of them has changed.
    subject: Option<String>,
    /// The last message that a round was written, of each subject.
    written: Vec<(String, Value)>,
}

impl Heard {
    fn hear(&mut self, subject: &str, message: Value) {
        match message["kind"].as_str() {
            Some("changes") if message["changed"].as_array().unwrap().iter().any(|path| path == TABLE) => {
                self.subject = Some(subject.to_owned());
            }
            Some("counted") => {
                self.written.retain(|(other, _)| other != subject);
                self.written.push((subject.to_owned(), message));
            }
            _ => {}
        }
    }
}

/// The part of a connection to NATS that sends, for the client and for the answers to each `PING`.
type Writer = Arc<tokio::sync::Mutex<OwnedWriteHalf>>;

async fn write(writer: &Writer, text: &str) {
    writer.lock().await.write_all(text.as_bytes()).await.unwrap();
}

/// Reads until the connection ends, and sends an item for each `PONG`.
async fn read(half: OwnedReadHalf, writer: Writer, heard: Arc<Mutex<Heard>>, pongs: mpsc::UnboundedSender<()>) {
    let mut connection = BufReader::new(half);
    let mut line = String::new();
    while connection.read_line(&mut line).await.is_ok_and(|length| length > 0) {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            // Nobody waits for it if the client is dropped.
            ["PONG"] => pongs.send(()).unwrap_or_default(),
            ["PING"] => write(&writer, "PONG\r\n").await,
            ["INFO", ..] => {}
            ["MSG", subject, .., length] => {
                let mut payload = vec![0; length.parse::<usize>().unwrap() + 2];
                connection.read_exact(&mut payload).await.unwrap();
                heard.lock().unwrap().hear(subject, serde_json::from_slice(&payload).unwrap());
            }
            _ => panic!("{line}"),
        }
        line.clear();
    }
}

/// A client of NATS that claims, in the name of the replica that polls the tables for all, rounds that nobody makes.
struct FalseHolder {
    writer: Writer,
    heard: Arc<Mutex<Heard>>,
    pongs: mpsc::UnboundedReceiver<()>,
    /// The task that reads, also while the test waits: NATS ends a connection that is not read, or answers no `PING`.
    _reading: JoinSet<()>,
}

impl FalseHolder {
    async fn connect(url: &str) -> Self {
        let connection = TcpStream::connect(url.trim_start_matches("nats://")).await.unwrap();
        let (half, writer) = connection.into_split();
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        write(&writer, "CONNECT {\"verbose\":false}\r\nSUB mcp-host.1.test.> 1\r\n").await;
        let (heard, (sender, pongs)) = (Arc::default(), mpsc::unbounded_channel());
        let mut reading = JoinSet::new();
        reading.spawn(read(half, writer.clone(), Arc::clone(&heard), sender));
        Self { writer, heard, pongs, _reading: reading }
    }

    /// Waits until the messages that its server has received so far are read.
    async fn listen(&mut self) {
        write(&self.writer, "PING\r\n").await;
        timeout(TIMEOUT, self.pongs.recv()).await.unwrap().expect("the connection to NATS has not ended");
    }

    /// Returns whether a table has changed.
    fn knows_the_tables(&self) -> bool {
        self.heard.lock().unwrap().subject.is_some()
    }

    /// Claims that the next round was made, has found nothing, and is written.
    async fn claim_round(&self) {
        let publication = {
            let Heard { subject, written } = &mut *self.heard.lock().unwrap();
            let wanted = subject.as_deref().expect("a table has changed");
            let (subject, message) = written.iter_mut().find(|(subject, _)| subject == wanted).expect("a holder");
            message["revision"] = (message["revision"].as_u64().unwrap() + 1).into();
            message["round"]["seq"] = (message["round"]["seq"].as_u64().unwrap() + 1).into();
            message["round"]["epoch"] = message["epoch"].clone();
            message["round"]["parts"] = 0.into();
            let text = message.to_string();
            format!("PUB {subject} {}\r\n{text}\r\n", text.len())
        };
        write(&self.writer, &publication).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_finds_what_is_not_told_when_rounds_are_claimed_that_nobody_makes() {
    const RESOURCES: usize = 10;
    let mut set = ReplicaSet::start(Load::of_all(RESOURCES, 12)).await;
    let mut liar = FalseHolder::connect(&set.nats.urls()[0]).await;
    while !liar.knows_the_tables() {
        set.round().await;
        liar.listen().await;
    }
    let mut is_lost = false;
    for _ in 0..ATTEMPTS {
        let holder = set.holder_of("t").await;
        // The others follow a holder that is dead.
        set.kill(holder).await;
        liar.listen().await;
        liar.claim_round().await;
        for _ in 0..RESOURCES {
            set.change();
        }
        let began = Instant::now();
        while began.elapsed() <= LATE {
            liar.listen().await;
            liar.claim_round().await;
            sleep(Duration::from_millis(100)).await;
        }
        is_lost = set.verdict(LATE).lost.iter().any(|lost| lost.change.uri.ends_with(TABLE));
        // Without these messages, another replica takes the lease, and finds the change by the token that is written.
        set.restart(holder).await;
        set.wait_until_all_listen().await;
        set.round().await;
        set.wait_until_told().await;
        if is_lost {
            break;
        }
    }
    assert!(is_lost, "the check has not found that a change was not told");
    let verdict = set.end(BOUND).await;
    assert_eq!((&verdict.lost[..], &verdict.foreign[..]), (&[][..], &[][..]));
}
