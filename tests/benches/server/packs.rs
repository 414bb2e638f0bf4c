//! Reading out of git packs of any size: how long it takes, and in how much memory.
//!
//! The provider `git` reads through the host, over stdio, with `limits.memory = "64MiB"`. Beside it, `git cat-file
//! --batch` answers the same: one native process that keeps the pack mapped. The memory that a read takes is found by
//! lowering the limit until no answer comes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Plugin, WrittenConfig};
use rmcp::model::ProtocolVersion;

use crate::load::percentile;
use crate::options::Options;
use crate::pack::{self, Pack, SMALL};
use crate::pipe::PipeClient;
use crate::process::Program;
use crate::question::Question;
use crate::table;

/// Sizes of the packs, in MiB.
const SIZES: [usize; 3] = [1, 64, 1024];
/// Limits that are tried, in MiB, from above.
const LIMITS: [usize; 7] = [64, 32, 16, 8, 4, 3, 2];
const HEADER: [&str; 8] = [
    "pack MiB",
    "objects",
    "request",
    "median ms",
    "p99 ms",
    "ratio to 1 MiB",
    "`git cat-file` ms",
    "least memory MiB",
];

/// Measures all sizes.
pub(crate) async fn run(options: &Options) {
    let mut rows = Vec::new();
    let mut baselines = Vec::new();
    let mut peaks = Vec::new();
    for size in SIZES {
        let pack = Pack::of(size);
        let (bytes, objects) = pack.size();
        let config = config(&pack, 64);
        let (server, stdin, stdout) = Program::Host(&config).over_stdio();
        let client = PipeClient::connect(stdin, stdout, ProtocolVersion::V_2025_11_25).await;
        assert!(client.answer(&small()).await.contains(SMALL.trim_end()), "the file has its text");
        for (place, (question, object)) in questions().into_iter().enumerate() {
            let times = times(&client, &question, options.reads()).await;
            let median = percentile(&times, 0.5);
            if baselines.len() == place {
                baselines.push(median);
            }
            let native = object.map(|object| native_times(&pack, object, options.reads()));
            rows.push(vec![
                table::mebibytes(bytes),
                objects.to_string(),
                question.what.to_owned(),
                table::millis(median),
                table::millis(percentile(&times, 0.99)),
                table::ratio(median.as_secs_f64(), baselines[place].as_secs_f64()),
                native.map_or_else(|| "–".to_owned(), |times| table::millis(percentile(&times, 0.5))),
                least_memory(&pack, &question).await.map_or_else(|| "more than 64".to_owned(), |mib| mib.to_string()),
            ]);
        }
        peaks.push(format!("{} MiB ({size} MiB)", table::mebibytes(server.peak_memory())));
        server.end().await;
    }
    table::print("Git packs, with `limits.memory = \"64MiB\"`", &HEADER, rows);
    println!("\nPeak memory of the whole host process, by pack: {}.", peaks.join(", "));
}

fn small() -> Question {
    Question::read("read small.txt", "git://pack/blob/HEAD/small.txt", SMALL.len())
}

/// What is asked, and which object `git` is asked for in its place.
fn questions() -> [(Question, Option<&'static str>); 3] {
    let history = Question::read("read history.txt", "git://pack/blob/HEAD/history.txt", 5000);
    [
        (small(), Some("HEAD:small.txt")),
        (history, Some("HEAD:history.txt")),
        (Question::list("list the first page", 1000), None),
    ]
}

fn config(pack: &Pack, mebibytes: usize) -> WrittenConfig {
    let plugin = Plugin::git("pack", pack.path()).limit("memory", format!("{mebibytes}MiB"));
    ConfigFile::new().open().plugin(plugin).write()
}

async fn times(client: &PipeClient, question: &Question, number: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..number {
        let asked = Instant::now();
        client.ask(question).await;
        times.push(asked.elapsed());
    }
    times.sort_unstable();
    times
}

/// The lowest of the limits with which an answer comes.
async fn least_memory(pack: &Pack, question: &Question) -> Option<usize> {
    let mut least = None;
    for limit in LIMITS {
        let config = config(pack, limit);
        let (server, stdin, stdout) = Program::Host(&config).over_stdio();
        let client = PipeClient::connect(stdin, stdout, ProtocolVersion::V_2025_11_25).await;
        let answer = client.answer(question).await;
        server.end().await;
        if answer.contains("\"error\"") || answer.len() < question.least {
            break;
        }
        least = Some(limit);
    }
    least
}

/// How long `git cat-file --batch` takes.
fn native_times(pack: &Pack, object: &str, number: usize) -> Vec<Duration> {
    let mut native = CatFile::start(pack);
    let mut times: Vec<_> = (0..number)
        .map(|_| {
            let asked = Instant::now();
            native.read(object);
            asked.elapsed()
        })
        .collect();
    times.sort_unstable();
    native.end();
    times
}

/// `git cat-file --batch`, one process for all reads.
struct CatFile {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl CatFile {
    fn start(pack: &Pack) -> Self {
        let mut command = pack::git(pack.path());
        command.args(["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("git runs");
        let stdin = child.stdin.take().expect("it is a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Self { child, stdin, stdout }
    }

    fn read(&mut self, object: &str) {
        writeln!(self.stdin, "{object}").expect("git reads");
        let mut head = String::new();
        self.stdout.read_line(&mut head).expect("git answers");
        let size: usize = head.trim_end().rsplit(' ').next().and_then(|size| size.parse().ok()).expect("a size");
        let mut content = vec![0; size + 1];
        self.stdout.read_exact(&mut content).expect("the content");
    }

    fn end(mut self) {
        drop(self.stdin);
        self.child.wait().expect("git ends");
    }
}
