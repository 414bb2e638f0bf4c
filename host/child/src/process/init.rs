//! The process that becomes the program: started by init, process 1 of its namespaces, or directly if there are no
//! namespaces.

use std::convert::Infallible;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus, set_dumpable_behavior, set_parent_process_death_signal,
    wait,
};
use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::{landlock, limits, mounts, namespaces, privileges, seccomp, sys};
use crate::kernel::Lack;
use crate::message::send;
use crate::spec::Sandbox;

/// A message to the supervisor during the start of the program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Progress {
    /// The namespaces are ready. If the program has a proxy, a descriptor comes with the message.
    Ready(Vec<Lack>),
    /// The program cannot be started.
    Failed(String),
}

/// The streams of a program.
pub(super) type Streams = [OwnedFd; 3];

/// Returns a function that formats an error with the failed operation.
fn at<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}

/// The main function of init. `progress` is closed when the program is running; `ended` receives the program's end.
pub(super) fn init(plan: &Plan, streams: Streams, progress: UnixStream, ended: impl Write) -> ! {
    match start_inside(plan, streams, &progress) {
        Ok(program) => {
            drop(progress);
            reap_until_end(program, ended)
        }
        Err(reason) => fail(&progress, reason),
    }
}

/// The main function of the program if it has no namespaces.
pub(super) fn start_outside(plan: &Plan, streams: Streams, progress: &UnixStream, sandbox: Sandbox) -> ! {
    let started = set_parent_process_death_signal(Some(Signal::KILL)).map_err(at("death signal"));
    let started = started.and_then(|()| tell(progress, &Progress::Ready(Vec::new()), &[]));
    let started = started.and_then(|()| {
        if let Some(user) = plan.becomes() {
            user.enter().map_err(at("user"))?;
        }
        if sandbox == Sandbox::Full {
            privileges::drop_capabilities().map_err(at("capabilities"))?;
        }
        // Changing the user has reset the signal.
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(at("death signal"))
    });
    let started = started.and_then(|()| execute(plan, streams, sandbox, false));
    fail(progress, started.map_or_else(|reason| reason, |never| match never {}))
}

fn fail(progress: &UnixStream, reason: String) -> ! {
    // If this fails, the supervisor detects the end without the reason.
    let _ = tell(progress, &Progress::Failed(reason), &[]);
    sys::exit(1)
}

fn tell(progress: &UnixStream, message: &Progress, descriptors: &[BorrowedFd<'_>]) -> Result<(), String> {
    send(progress, message, descriptors).map_err(at("report to the supervisor"))
}

/// Creates the namespaces, and starts the program in them.
fn start_inside(plan: &Plan, streams: Streams, progress: &UnixStream) -> Result<Pid, String> {
    let end_with_supervisor = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(at("death signal"));
    end_with_supervisor()?;
    namespaces::unshare_rest().map_err(at("namespaces"))?;
    let mut lacks = mounts::build(plan)?;
    // Hides the name of the host's machine from the program.
    rustix::system::sethostname(b"sandbox").map_err(at("host name"))?;
    namespaces::set_up_loopback().map_err(at("loopback interface"))?;
    let listener = if plan.has_proxy() { Some(namespaces::listen_for_proxy().map_err(at("proxy"))?) } else { None };
    if let Some(user) = plan.becomes() {
        user.enter().map_err(at("user"))?;
        if let Err(error) = namespaces::enter_user_namespace() {
            lacks.push(Lack::UserNamespace(error.to_string()));
        }
    }
    namespaces::limit_user();
    privileges::drop_capabilities().map_err(at("capabilities"))?;
    // Otherwise the program, which has the same user, could write to the memory of init.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(at("dumps"))?;
    // Changing the user has reset the signal. If the supervisor has already ended, sending a message to it fails.
    end_with_supervisor()?;
    let descriptors: Vec<_> = listener.iter().map(AsFd::as_fd).collect();
    tell(progress, &Progress::Ready(lacks), &descriptors)?;
    drop(listener);
    let program = sys::fork().map_err(at("fork"))?;
    if let Some(program) = program {
        return Ok(program);
    }
    match execute(plan, streams, Sandbox::Full, true) {
        Ok(never) => match never {},
        Err(reason) => fail(progress, reason),
    }
}

/// Becomes the program.
fn execute(plan: &Plan, streams: Streams, sandbox: Sandbox, has_namespaces: bool) -> Result<Infallible, String> {
    let mut command = Command::new(plan.program());
    let [stdin, stdout, stderr] = streams;
    command.args(plan.arguments()).env_clear().envs(plan.environment()).stdin(stdin).stdout(stdout).stderr(stderr);
    let dir = if has_namespaces { "/tmp" } else { "/" };
    std::env::set_current_dir(dir).map_err(at("working directory"))?;
    sys::close_others_on_exec().map_err(at("close descriptors"))?;
    limits::apply(plan.limits(), plan.other_processes()).map_err(at("limits"))?;
    if sandbox == Sandbox::Full {
        landlock::confine(plan, has_namespaces).map_err(at("confinement"))?;
        // The last step, because it refuses the system calls that the other steps need.
        seccomp::confine(has_namespaces).map_err(at("seccomp"))?;
    }
    let error = command.exec();
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => " (it, or its interpreter, cannot be executed by the program's user)",
        io::ErrorKind::NotFound => {
            " (it, or its interpreter, is not among the program's files: install it in one directory)"
        }
        _ => "",
    };
    Err(format!("{}: {error}{hint}", plan.program().display()))
}

/// Reaps the processes that process 1 adopts, until the program ends. Then this process ends, and the kernel kills
/// the remaining processes of its namespace.
fn reap_until_end(program: Pid, mut ended: impl Write) -> ! {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if process == program => {
                let _ = ended.write_all(&encode(status));
                sys::exit(0);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => sys::exit(1),
        }
    }
}

/// Encodes the end of a process: whether by a signal, and its code or number.
pub(super) fn encode(status: WaitStatus) -> [u8; 5] {
    let (kind, number) = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (0, code),
        (None, Some(signal)) => (1, signal),
        (None, None) => (1, 0),
    };
    let [a, b, c, d] = number.to_le_bytes();
    [kind, a, b, c, d]
}
