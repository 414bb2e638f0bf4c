//! Compilations outlive the host: a client over stdio may end the host seconds after it started it, and the next host
//! uses the same compilation.

use std::path::{Path, PathBuf};
use std::process::Stdio as Pipe;

use mcp_host_tests::{
    ConfigFile, Folder, GitRepo, Plugin, RawStdio, Revision, TIMEOUT, WrittenConfig, host_command, run, wait_until,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::support::wasm_fixtures;

const REVISION: Revision = Revision::V_2025_11_25;

/// The log message of a process that compiles a component.
const COMPILING: &str = "compiling a component";

/// A compiler process, which is killed when this is dropped.
struct CompilerProcess(OwnedFd);

impl CompilerProcess {
    /// Waits for the only child of a process.
    async fn of(host: &Child) -> Self {
        let id = host.id().expect("it runs");
        let child = || {
            let threads = std::fs::read_dir(format!("/proc/{id}/task")).ok()?.flatten();
            let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
            children.flat_map(|all| all.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).next()
        };
        wait_until("a compiler is started", || child().is_some()).await;
        let child = child().unwrap();
        // Earlier, the compiler may still be in the host's process group. It starts a thread after it has set its own
        // group and limits.
        let threads = || std::fs::read_dir(format!("/proc/{child}/task")).map_or(0, Iterator::count);
        wait_until("the compiler has begun", || threads() > 1).await;
        Self(pidfd_open(Pid::from_raw(child.parse().unwrap()).unwrap(), PidfdFlags::empty()).unwrap())
    }

    /// Waits for the end of the process, for at most `longest`, and returns whether it ended.
    async fn ends_within(&self, longest: std::time::Duration) -> bool {
        let (process, longest) = (self.0.try_clone().unwrap(), Timespec::try_from(longest).unwrap());
        let waiting = move || poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&longest)).unwrap() == 1;
        tokio::task::spawn_blocking(waiting).await.unwrap()
    }

    async fn runs(&self) -> bool {
        !self.ends_within(std::time::Duration::ZERO).await
    }
}

impl Drop for CompilerProcess {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = pidfd_send_signal(&self.0, Signal::KILL);
    }
}

/// A config whose plugin takes seconds to compile, with a separate cache.
fn config_of(repository: &GitRepo, cache: &Folder) -> WrittenConfig {
    let cache = cache.path().join("cache");
    ConfigFile::new().server("cache", cache.to_str().unwrap()).plugin(Plugin::git("a", repository.path())).write()
}

/// Starts a host as a client does, in a new process group, and returns it when it compiles.
async fn start_until_it_compiles(mut command: Command) -> (Child, CompilerProcess) {
    command.stdin(Pipe::piped()).stdout(Pipe::null()).stderr(Pipe::piped()).process_group(0);
    let mut host = command.spawn().unwrap();
    let mut log = BufReader::new(host.stderr.take().unwrap()).lines();
    while !log.next_line().await.unwrap().expect("it compiles").contains(COMPILING) {}
    let compiler = CompilerProcess::of(&host).await;
    (host, compiler)
}

fn serve(config: &Path) -> Command {
    let mut command = host_command();
    command.args(["serve", "--stdio", "--config"]).arg(config);
    command
}

/// Kills a host and all processes of its group, as the official Python client does.
async fn kill(mut host: Child) {
    let id = Pid::from_raw(host.id().unwrap().cast_signed()).unwrap();
    kill_process_group(id, Signal::KILL).unwrap();
    host.wait().await.unwrap();
}

/// Returns the files of a cache.
fn files(cache: &Folder) -> Vec<PathBuf> {
    std::fs::read_dir(cache.path().join("cache")).unwrap().map(|file| file.unwrap().path()).collect()
}

#[tokio::test]
async fn a_compilation_outlives_a_host_that_its_client_kills_and_the_next_start_uses_it() {
    let (repository, cache) = (GitRepo::with_files([("f", "text")]), Folder::with_files::<&str, &str>([]));
    let config = config_of(&repository, &cache);
    let (host, compiler) = start_until_it_compiles(serve(&config.path())).await;
    kill(host).await;
    assert!(compiler.runs().await, "it ended with its host");
    assert!(compiler.ends_within(TIMEOUT).await, "it does not end");
    let mut wire = RawStdio::start(&config, REVISION).await;
    assert_eq!(wire.read("git://a/blob/HEAD/f").await.unwrap(), "text");
    let log = wire.end().await.log;
    assert!(!log.contains(COMPILING), "{log}");
    assert_eq!(files(&cache).len(), 1, "{:?}", files(&cache));
}

#[tokio::test]
async fn a_host_that_starts_while_another_process_compiles_waits_for_that() {
    let (repository, cache) = (GitRepo::with_files([("f", "text")]), Folder::with_files::<&str, &str>([]));
    let config = config_of(&repository, &cache);
    let (host, compiler) = start_until_it_compiles(serve(&config.path())).await;
    kill(host).await;
    let mut wire = RawStdio::start_before_plugins_load(&config, REVISION).await;
    // The read waits for the plugin.
    assert_eq!(wire.read("git://a/blob/HEAD/f").await.unwrap(), "text");
    assert!(!compiler.runs().await);
    let log = wire.end().await.log;
    assert!(!log.contains(COMPILING) && log.contains("waiting for another process"), "{log}");
}

#[tokio::test]
async fn a_compilation_whose_process_was_killed_with_its_host_begins_anew() {
    let (repository, cache) = (GitRepo::with_files([("f", "text")]), Folder::with_files::<&str, &str>([]));
    let config = config_of(&repository, &cache);
    let (host, compiler) = start_until_it_compiles(serve(&config.path())).await;
    kill(host).await;
    drop(compiler);
    let mut wire = RawStdio::start(&config, REVISION).await;
    assert_eq!(wire.read("git://a/blob/HEAD/f").await.unwrap(), "text");
    assert!(wire.end().await.log.contains(COMPILING));
    assert_eq!(files(&cache).len(), 1, "{:?}", files(&cache));
}

#[tokio::test]
async fn a_compiler_without_its_host_ends_at_its_deadline() {
    let folder = Folder::with_files([("slow.wasm", wasm_fixtures::hard_to_compile(1000, 300))]);
    let limits = toml::Table::from_iter([("deadline".to_owned(), "10s".into())]);
    let slow = Plugin::new("slow", &folder.path().join("slow.wasm"), "slow:///");
    let cache = folder.path().join("cache");
    let config = ConfigFile::new().server("cache", cache.to_str().unwrap()).server("compile", limits).plugin(slow);
    let config = config.write();
    let (host, compiler) = start_until_it_compiles(serve(&config.path())).await;
    kill(host).await;
    assert!(compiler.runs().await, "it ended with its host");
    assert!(compiler.ends_within(TIMEOUT).await, "it does not end");
}

#[tokio::test]
async fn a_compiler_whose_code_nobody_could_use_ends_with_its_host() {
    let folder = Folder::with_files([("slow.wasm", wasm_fixtures::hard_to_compile(1000, 300))]);
    let mut command = host_command();
    command.arg("inspect").arg(folder.path().join("slow.wasm"));
    // The directory for the key that authenticates the code does not exist.
    command.env("XDG_CACHE_HOME", folder.path()).env("XDG_STATE_HOME", "/proc/none");
    let (host, compiler) = start_until_it_compiles(command).await;
    kill(host).await;
    // Less than the default deadline of compilers.
    assert!(compiler.ends_within(std::time::Duration::from_secs(60)).await, "it outlived its host");
}

#[tokio::test]
async fn code_that_was_written_without_the_key_is_not_run_although_its_compilation_has_ended() {
    let (repository, cache) = (GitRepo::with_files([("f", "text")]), Folder::with_files::<&str, &str>([]));
    let config = config_of(&repository, &cache);
    let list = || run(["list".to_owned(), "--config".to_owned(), config.path().to_str().unwrap().to_owned()]);
    list().await.success();
    let [compiled] = files(&cache).try_into().expect("one component");
    // An attack by another process: code without a valid tag in the place of an unfinished compilation.
    let mut code = std::fs::read(&compiled).unwrap();
    *code.last_mut().unwrap() ^= 1;
    std::fs::rename(&compiled, compiled.with_added_extension("pending")).unwrap();
    std::fs::write(compiled.with_added_extension("pending"), code).unwrap();
    assert!(list().await.success().stderr.contains(COMPILING));
    assert_eq!(files(&cache), [compiled]);
}
