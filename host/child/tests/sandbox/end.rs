//! The end of programs, with everything that they have started.

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use mcp_host_child::{EndReason, Launcher, LauncherProgram};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::io::AsyncWriteExt;

use crate::harness::{
    Ended, first_line, has_namespaces, launcher_path, marker, program, read, run, shell, sleepers, this_test,
    wait_for_sleepers,
};

/// Set in the process of a test that acts as a host: how long its program sleeps.
const HOST: &str = "MCP_HOST_CHILD_TEST_HOST";

/// Waits until these processes have ended.
pub(crate) fn wait_for_ends(processes: &[OwnedFd]) {
    for process in processes {
        poll(&mut [PollFd::new(process, PollFlags::IN)], None).unwrap();
    }
}

/// Returns handles to wait for the ends of processes.
pub(crate) fn handles(processes: Vec<i32>) -> Vec<OwnedFd> {
    let open = |id: i32| pidfd_open(Pid::from_raw(id).unwrap(), PidfdFlags::empty()).unwrap();
    processes.into_iter().map(open).collect()
}

#[tokio::test]
async fn a_program_speaks_over_its_streams_and_says_how_it_ended() {
    if !has_namespaces() {
        return;
    }
    let mut child = program(shell("read line; echo got $line; echo warned >&2; exit 7")).launch().await.unwrap();
    child.stdin.as_mut().unwrap().write_all(b"hello\n").await.unwrap();
    let said = read(child).await;
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("got hello\n", "warned\n"));
    assert_eq!(said.outcome.reason, EndReason::Exit(7));
    assert_eq!(run(shell("kill -SEGV $$")).await.outcome.reason, EndReason::Signal(11));
}

#[tokio::test]
async fn a_long_line_of_standard_error_is_cut_and_the_next_is_whole() {
    if !has_namespaces() {
        return;
    }
    let mut child =
        program(shell("head -c 100000 /dev/zero | tr '\\0' a >&2; echo >&2; echo next >&2; printf end >&2"))
            .launch()
            .await
            .unwrap();
    let mut lines = child.stderr.take().unwrap();
    let first = lines.next_line().await.unwrap();
    assert!(first.starts_with("aaaa") && first.ends_with('…') && first.len() < 9000, "{} bytes", first.len());
    assert_eq!(lines.next_line().await.unwrap(), "next");
    assert_eq!(lines.next_line().await.unwrap(), "end");
    assert_eq!(lines.next_line().await, None);
}

#[tokio::test]
async fn orphans_end_with_the_program() {
    if !has_namespaces() {
        return;
    }
    let marker = marker();
    let script = format!("setsid sh -c '(sleep {marker} & sleep {marker}) &' >/dev/null 2>&1; sleep 0.2; exit 0");
    let outcome = run(shell(&script)).await.outcome;
    assert_eq!(outcome.reason, EndReason::Exit(0));
    assert_eq!(sleepers(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn a_child_that_is_dropped_ends_with_all_of_its_processes() {
    if !has_namespaces() {
        return;
    }
    let marker = marker();
    // The program ignores all signals that can be ignored.
    let script = format!("trap '' TERM HUP INT PIPE; setsid sleep {marker} & sleep {marker} & echo started; wait");
    let mut child = program(shell(&script)).launch().await.unwrap();
    assert_eq!(first_line(&mut child).await, "started");
    let processes = handles(wait_for_sleepers(&marker, 2));
    drop(child);
    wait_for_ends(&processes);
    assert_eq!(sleepers(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn a_launch_that_is_given_up_starts_nothing_that_stays() {
    if !has_namespaces() {
        return;
    }
    let marker = marker();
    let program = program(shell(&format!("exec sleep {marker}")));
    for _ in 0..5 {
        let launch = program.launch();
        tokio::select! {
            biased;
            _ = launch => panic!("it cannot have started yet"),
            () = std::future::ready(()) => {}
        }
    }
    // A supervisor without a request ends. The next program is started after those supervisors.
    let mut child = program.launch().await.unwrap();
    assert_eq!(child.kill().await.reason, EndReason::Killed);
    wait_for_ends(&handles(sleepers(&marker)));
}

/// A host that is killed: it starts a program, and prints a line.
#[tokio::test]
async fn host_process() {
    let Some(marker) = std::env::var_os(HOST) else { return };
    let marker = marker.into_string().unwrap();
    let launcher = Launcher::start(&LauncherProgram::Program(launcher_path()), None).unwrap();
    let spec =
        shell(&format!("trap '' TERM HUP INT PIPE; setsid sleep {marker} & sleep {marker} & echo started; wait"));
    let mut child = launcher.program(spec).unwrap().launch().await.unwrap();
    assert_eq!(first_line(&mut child).await, "started");
    println!("\nready");
    std::future::pending::<()>().await;
}

#[test]
fn nothing_outlives_a_host_that_is_killed() {
    if !has_namespaces() {
        return;
    }
    let marker = marker();
    let host = this_test("end::host_process").env(HOST, &marker).stdout(Stdio::piped()).spawn().unwrap();
    let mut host = Ended(host);
    let mut lines = BufReader::new(host.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    let processes = handles(wait_for_sleepers(&marker, 2));
    // Dropping it sends SIGKILL.
    drop(host);
    wait_for_ends(&processes);
    assert_eq!(sleepers(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn nothing_outlives_a_supervisor_that_is_killed() {
    if !has_namespaces() {
        return;
    }
    let marker = marker();
    let mut child = program(shell(&format!("sleep {marker} & echo started; wait"))).launch().await.unwrap();
    assert_eq!(first_line(&mut child).await, "started");
    let [sleeper] = wait_for_sleepers(&marker, 1)[..] else { panic!("one process sleeps") };
    let processes = handles(vec![sleeper]);
    // The sleeper, its shell, init, the supervisor.
    let supervisor = parent(parent(parent(sleeper)));
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    wait_for_ends(&processes);
    assert_eq!(child.wait().await.reason, EndReason::Lost);
}

fn parent(process: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
}
