//! Real programs: their environment, their end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcp_host_config::{Config, Environment, Plugin, Views};
use mcp_host_model::caller::Caller;
use mcp_host_model::provider::{Body, Failure, Provider as _};
use serde_json::json;

use super::hostile::wait_for;
use super::scripted::{Reply, Scripted, text, with_session};

/// An upstream in shell that answers any request with a resource whose text is its environment, and writes its number
/// to a file.
const SERVER: &str = r#"
echo $$ > "$FILE"
sleep 1000 &
echo $! >> "$FILE"
echo "it began" >&2
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *server/discover*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"?"}}\n' "$id" ;;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"resources":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *resources/read*) printf '{"jsonrpc":"2.0","id":%s,"result":{"contents":[{"uri":"x:env","text":"%s"}]}}\n' "$id" "$(env | cut -d= -f1 | sort | tr '\n' ' ')" ;;
  esac
done
"#;

fn plugin(file: &Path) -> Plugin {
    let text = format!(
        "[[upstream]]\nname = 'up'\ncommand = ['/bin/sh', '-c', {}]\nsandbox = 'none'\nmount = 'up+'\n\
         grants.env = {{ FILE = '{}', PATH = '/usr/bin:/bin' }}",
        serde_json::to_string(SERVER).unwrap(),
        file.display()
    );
    let config = Config::parse_in(&text, Path::new("/etc/mcp-host.toml"), &Environment::empty());
    config.unwrap_or_else(|error| panic!("{error}")).plugins[0].clone()
}

/// Whether a process runs, and is no zombie.
fn is_running(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[tokio::test]
async fn a_program_has_the_granted_variables_alone_and_ends_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let up = mcp_host_upstream::connect(&plugin(&file)).await.unwrap();
    let Body::Text(environment) = up.read("x:env").await.unwrap().remove(0).body else { panic!("it is a text") };
    let own = ["_", "OLDPWD", "PWD", "SHLVL"];
    let names: Vec<_> = environment.split_whitespace().filter(|name| !own.contains(name)).collect();
    assert_eq!(names, ["FILE", "PATH"]);
    let pids = std::fs::read_to_string(&file).unwrap();
    let pids: Vec<_> = pids.lines().map(str::to_owned).collect();
    assert_eq!((pids.len(), pids.iter().all(|pid| is_running(pid))), (2, true));
    drop(up);
    let ended = wait_for(async || pids.iter().all(|pid| !is_running(pid)));
    tokio::time::timeout(Duration::from_secs(300), ended).await.unwrap();
}

#[tokio::test]
async fn a_program_that_is_no_server_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut plugin = plugin(&folder.path().join("pids"));
    let upstream = plugin.upstream.as_mut().unwrap();
    if let mcp_host_config::UpstreamSource::Command(command) = &mut upstream.source {
        command.arguments =
            vec!["-c".to_owned(), "echo no such token >&2; printf 'try \\033[1manother\\n\\n' >&2; exit 3".to_owned()];
    }
    let Err(error) = mcp_host_upstream::connect(&plugin).await else { panic!("it has ended") };
    assert_eq!(error.reason, "the program has ended: it exited with code 3");
    assert_eq!(error.last_errors, ["no such token", "try \\u{1b}[1manother"]);
}

#[tokio::test]
async fn a_reset_ends_the_back_off() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = is_down.clone();
    let session = with_session(|_, _| text("x:a", "a"));
    let server = Scripted::new(move |message| match down.load(Ordering::SeqCst) {
        true => Reply::End,
        false => session.answer(message),
    });
    let up = server.connect("").await;
    is_down.store(true, Ordering::SeqCst);
    server.end();
    // An attempt starts the program twice: for `server/discover`, and for `initialize`.
    let fails = wait_for(async || server.starts.load(Ordering::SeqCst) > 8);
    tokio::time::timeout(Duration::from_secs(300), fails).await.unwrap();
    is_down.store(false, Ordering::SeqCst);
    // The next attempt is in some seconds.
    up.reset();
    assert!(up.read("x:a").await.is_ok());
    assert_eq!(up.outage(), None);
}

#[tokio::test]
async fn with_views_each_principal_has_a_program_of_its_own_and_the_host_sees_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut plugin = plugin(&folder.path().join("pids"));
    let upstream = plugin.upstream.as_mut().unwrap();
    upstream.views = Views::Principal;
    if let mcp_host_config::UpstreamSource::Command(command) = &mut upstream.source {
        // Its text is its process.
        command.arguments = vec!["-c".to_owned(), SERVER.replace(r"$(env | cut -d= -f1 | sort | tr '\n' ' ')", "$$")];
    }
    let up = mcp_host_upstream::connect(&plugin).await.unwrap();
    assert_eq!((up.describe().watches, up.outage()), (false, None));
    let read = async |name: &'static str| {
        Caller::scope(Some(Caller::new(Some(name), [])), async {
            let contents = up.read("x:env").await.unwrap().remove(0);
            let Body::Text(process) = contents.body else { panic!("it is a text") };
            assert_eq!((contents.entry.ttl, contents.entry.subscribable), (None, false));
            process
        })
        .await
    };
    let (ada, eve) = (read("ada").await, read("eve").await);
    assert_ne!(ada, eve);
    assert_eq!((read("ada").await, read("eve").await), (ada.clone(), eve.clone()));
    assert_eq!(up.read("x:env").await, Err(Failure::NotFound));
    assert_eq!(Caller::scope(Some(Caller::new(None, [])), up.read("x:env")).await, Err(Failure::NotFound));
    drop(up);
    let ended = wait_for(async || [&ada, &eve].iter().all(|pid| !is_running(pid)));
    tokio::time::timeout(Duration::from_secs(300), ended).await.unwrap();
}

/// The timeout is the timeout of a connection, so the test takes half a minute.
#[tokio::test]
async fn a_program_that_never_answers_has_one_time_out_which_says_what_was_waited_for() {
    let silent = Scripted::new(|_| Reply::Silence);
    let began = Instant::now();
    let Err(error) = silent.try_connect("").await else { panic!("it is silent") };
    assert!(began.elapsed() < Duration::from_secs(55), "{:?}", began.elapsed());
    assert!(error.contains("does not answer over its standard output to `server/discover` or `initialize`"), "{error}");
    assert_eq!(silent.starts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_program_that_ends_is_unreachable_until_it_is_started_again() {
    let up = with_session(|_, _| Reply::Result(json!({})));
    let provider = up.connect("").await;
    assert_eq!(provider.outage(), None);
    up.end();
    let back = wait_for(async || up.starts.load(Ordering::SeqCst) == 2 && provider.outage().is_none());
    tokio::time::timeout(Duration::from_secs(300), back).await.unwrap();
}
