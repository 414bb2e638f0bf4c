//! The provider `results`, with writers that follow the protocol in its README.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision, StdioServer, TIMEOUT, content_bytes};
use rmcp::model::{ErrorCode, ResourceContents};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

const README: &str = include_str!("../../../../plugins/results/README.md");

/// Publishes at most 100 results, until it is killed. Each has a Markdown file of some 100 KB, whose first line is its
/// number of lines.
const WRITER_IN_PYTHON: &str = r#"
for n in range(100):
    lines = 5000 + n % 100
    content = (f"{lines}\n" + "a line of this result\n" * (lines - 1)).encode()
    publish(os.environ["RESULTS"], f"python/{os.getpid()}-{n}", "md", content, {"title": f"{lines}", "files": {"md": len(content)}})
"#;

/// The same, in the shell.
const WRITER_IN_SHELL: &str = r#"
n=0
while [ $n -lt 100 ]; do
    n=$((n + 1))
    lines=$((5000 + n))
    { echo $lines; yes 'a line of this result' | head -n $((lines - 1)); } > "$RESULTS/.input.$$.md"
    echo "{\"title\": \"$lines\"}" | publish "shell/$$-$n" "$RESULTS/.input.$$.md"
done
"#;

/// Returns the README's example in a language.
fn protocol(language: &str) -> &'static str {
    let (_, rest) = README.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// A writer. It is killed on drop.
struct Writer(Child);

impl Writer {
    fn start(results: &Path, language: &str) -> Self {
        let (program, script) = match language {
            "python" => ("python3", protocol("python").to_owned() + WRITER_IN_PYTHON),
            _ => ("sh", protocol("sh").to_owned() + WRITER_IN_SHELL),
        };
        let mut command = Command::new(program);
        // A new process group, so that the programs started by a shell are killed with it.
        command.args(["-c", &script]).env("RESULTS", results).stdin(Stdio::null()).process_group(0);
        Self(command.spawn().unwrap())
    }
}

/// Kills the writer (`kill -9`) at an arbitrary point.
impl Drop for Writer {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Returns the number of published results of a writer.
fn published(results: &Path, language: &str) -> usize {
    let Ok(entries) = fs::read_dir(results.join(language)) else { return 0 };
    entries.filter(|entry| entry.as_ref().unwrap().path().to_str().unwrap().ends_with(".meta.json")).count()
}

fn plugin(folder: &Folder) -> Plugin {
    Plugin::results("r", folder.path()).set("watch-interval", "100ms")
}

/// Publishes a result in a simpler way, for tests without concurrent readers.
fn write(folder: &Folder, id: &str, metadata: &Value) {
    folder.write(format!("{id}.md"), format!("# {id}\n"));
    folder.write(format!(".{id}.meta"), metadata.to_string());
    fs::rename(folder.path().join(format!(".{id}.meta")), folder.path().join(format!("{id}.meta.json"))).unwrap();
}

/// Returns the time after a number of seconds, in the form of the metadata.
fn after(seconds: u64) -> String {
    let output =
        Command::new("date").args(["--utc", "--date", &format!("{seconds} seconds"), "+%FT%TZ"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Reads every result, and asserts that it is complete. Returns the number of results.
async fn read_all(server: &StdioServer) -> usize {
    let uris = server.client().uris().await;
    for uri in &uris {
        let contents = server.client().read(uri).await.unwrap();
        let text = String::from_utf8(content_bytes(&contents[0])).unwrap();
        let lines: usize = text.lines().next().unwrap().parse().unwrap();
        assert_eq!(text.lines().count(), lines, "{uri}");
        assert!(text.ends_with("result\n"), "{uri}");
    }
    uris.len()
}

#[tokio::test]
async fn a_result_of_a_writer_that_is_killed_at_any_time_is_whole_or_not_there() {
    let folder = Folder::with_files::<&str, &str>([]);
    let config = ConfigFile::new().plugin(plugin(&folder)).write();
    let server = StdioServer::start(&config).await;
    let mut seen = 0;
    for round in 0..20 {
        let language = if round % 2 == 0 { "python" } else { "shell" };
        let writer = Writer::start(folder.path(), language);
        let began = Instant::now();
        while published(folder.path(), language) == 0 && began.elapsed() < TIMEOUT {
            // The kill hits the next result, at a different point each time.
            tokio::time::sleep(Duration::from_millis(1 + round)).await;
        }
        seen += read_all(&server).await;
        drop(writer);
        seen += read_all(&server).await;
        // Few results keep the next rounds short.
        let _ = fs::remove_dir_all(folder.path().join(language));
    }
    assert!(seen >= 40, "{seen}");
    server.end().await;
}

#[tokio::test]
async fn what_has_expired_is_gone_and_subscribers_are_told_without_a_change_of_any_file() {
    let folder = Folder::with_files::<&str, &str>([]);
    write(&folder, "lasting", &json!({}));
    // The server must start and list the result before it expires.
    write(&folder, "brief", &json!({ "expires": after(15) }));
    // There are no directory events, and the interval is long, so only the time that the provider returned triggers a
    // poll.
    let plugin = Plugin::results("r", folder.path()).set("watch-interval", "1h");
    let mut wire = RawStdio::start(&ConfigFile::new().plugin(plugin).write(), Revision::V_2025_11_25).await;
    let uris = |listed: &Value| -> Vec<String> {
        let resources = listed["resources"].as_array().unwrap();
        resources.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()).collect()
    };
    wire.subscribe("results://r/brief").await;
    let listed = wire.request("resources/list", json!({})).await.result().clone();
    assert_eq!(uris(&listed), ["results://r/brief", "results://r/lasting", "results://r/latest"]);
    let update = wire.notification("notifications/resources/updated").await;
    assert_eq!(update["params"]["uri"], "results://r/brief");
    assert!(wire.read("results://r/brief").await.is_err());
    let listed = wire.request("resources/list", json!({})).await.result().clone();
    assert_eq!(uris(&listed), ["results://r/lasting", "results://r/latest"]);
    wire.end().await;
}

#[tokio::test]
async fn confidence_is_the_priority_and_a_successor_takes_the_place() {
    let folder = Folder::with_files::<&str, &str>([]);
    write(&folder, "one", &json!({ "key": "sales", "confidence": 0.4, "created": "2025-01-01T00:00:00Z" }));
    let two = json!({
        "key": "sales", "confidence": 0.9, "created": "2025-01-02T00:00:00Z", "supersedes": "one", "title": "Sales",
        "expires": after(3600),
    });
    write(&folder, "two", &two);
    folder.write("two.csv", "a,b\n1,2\n");
    let server = StdioServer::start(&ConfigFile::new().plugin(plugin(&folder)).write()).await;
    let resources = server.client().resources().await;
    let two = resources.iter().find(|resource| resource.uri == "results://r/two").unwrap();
    let annotations = two.annotations.as_ref().unwrap();
    assert!((annotations.priority.unwrap() - 0.9).abs() < 0.001);
    assert_eq!(annotations.last_modified.as_deref(), Some("2025-01-02T00:00:00Z"));
    assert!(resources.iter().all(|resource| resource.uri != "results://r/one"), "it is superseded");
    for uri in ["results://r/latest", "results://r/by/sales", "results://r/two"] {
        let contents = server.client().read(uri).await.unwrap();
        let types: Vec<_> = contents.iter().map(content_type).collect();
        assert_eq!(types, [("results://r/two", "text/markdown"), ("results://r/two", "text/csv")], "{uri}");
    }
    assert_eq!(server.client().text("results://r/one").await, "# one\n", "its URI still works");
    server.end().await;
}

fn content_type(contents: &ResourceContents) -> (&str, &str) {
    let (ResourceContents::TextResourceContents { uri, mime_type, .. }
    | ResourceContents::BlobResourceContents { uri, mime_type, .. }) = contents
    else {
        panic!("{contents:?}")
    };
    (uri, mime_type.as_deref().unwrap_or_default())
}

#[tokio::test]
async fn a_rule_for_a_result_holds_however_it_is_found() {
    let folder = Folder::with_files::<&str, &str>([]);
    write(&folder, "open", &json!({ "key": "k", "created": "2025-01-01T00:00:00Z" }));
    write(&folder, "secret", &json!({ "key": "k", "created": "2025-01-02T00:00:00Z" }));
    let rule = "[[rule]]\nprincipals = [\"local\"]\nallow = [\"**\"]\ndeny = [\"results://r/secret\"]\n";
    let server = StdioServer::start(&ConfigFile::new().plugin(plugin(&folder)).append(rule).write()).await;
    for uri in ["results://r/secret", "results://r/latest", "results://r/by/k"] {
        assert_eq!(server.client().read_error(uri).await.code, ErrorCode(-32002), "{uri}");
    }
    assert_eq!(server.client().text("results://r/open").await, "# open\n");
    server.end().await;
}
