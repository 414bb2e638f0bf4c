//! The processes between the host and a program. Each has only one thread, so a forked child may call any function.
//!
//! ```text
//! host ── launcher ─┬─ supervisor ── init (process 1 of the namespaces) ── program ── its children
//!                   └─ supervisor ── …
//! ```
//!
//! | process | task | ends when |
//! |---|---|---|
//! | launcher | tries the features of the kernel; forks a supervisor for each request | the host closes its socket, or ends |
//! | [`supervisor`] | reads the request, starts the program, measures its processes once a second, kills them above their limits | its program has ended, the host closes the connection, or the host ends |
//! | [`init`] | creates the file system and the network of the program, drops its privileges, starts the program, reaps its orphans | the program has ended, or the supervisor has: then the kernel kills all processes of the namespace |
//!
//! Without namespaces there is no init. The supervisor adopts the orphans of the program (`PR_SET_CHILD_SUBREAPER`),
//! and kills them one by one.

mod cgroup;
mod hidden;
mod init;
mod landlock;
mod limits;
mod mounts;
mod namespaces;
mod plan;
mod privileges;
mod program_files;
mod seccomp;
mod supervisor;
mod sys;
mod tree;
mod trial;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::RecvFlags;
use rustix::process::WaitOptions;
use rustix::thread::set_no_new_privs;

use crate::message::{MAX_DESCRIPTORS, receive, receive_with, send};
use crate::spec::Job;

use self::supervisor::{Supervisor, Surroundings};

/// The first argument of a launcher.
pub(crate) const ARGUMENT: &str = "__launcher";
/// Set in a launcher, so that a program that does not call [`run_launcher`] does not start launchers recursively.
pub(crate) const ENV_VAR: &str = "MCP_HOST_LAUNCHER";

/// Becomes the launcher if a host started this process as one, and exits with the host. Otherwise returns immediately.
///
/// Must be among the first calls in the `main` of a program that starts a [`Launcher`](crate::Launcher) with
/// [`LauncherProgram::CurrentExe`](crate::LauncherProgram::CurrentExe): before other threads are created.
pub fn run_launcher() {
    let is_launcher = std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT);
    if is_launcher && std::env::var_os(ENV_VAR).is_some() {
        std::process::exit(i32::from(run().is_err()));
    }
}

/// Serves requests until the host ends.
fn run() -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    replace_standard_streams()?;
    set_no_new_privs(true)?;
    let Some((only, _)) = receive::<Option<Vec<Job>>>(&control)? else { return Ok(()) };
    let kernel = trial::kernel();
    let groups = cgroup::Delegated::find();
    send(&control, &kernel, &[])?;
    let mut request = 0;
    while let Some(descriptors) = receive_with(&control, &mut request, RecvFlags::empty())? {
        // Reap ended supervisors.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        // If this fails, the host sees that the connection is closed.
        let _ = fork_supervisor(
            &control,
            descriptors,
            Surroundings { kernel: &kernel, groups: groups.as_ref() },
            only.as_deref(),
        );
    }
    Ok(())
}

/// Replaces the standard streams, which would keep the control socket open in every process below this one.
fn replace_standard_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

fn fork_supervisor(
    control: &UnixStream,
    descriptors: Vec<OwnedFd>,
    surroundings: Surroundings<'_>,
    only: Option<&[Job]>,
) -> io::Result<()> {
    let descriptors = <[OwnedFd; MAX_DESCRIPTORS]>::try_from(descriptors);
    let [connection, streams @ ..] = descriptors.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    if sys::fork()?.is_none() {
        sys::close(control);
        Supervisor::new(connection.into(), streams, surroundings).run(only);
        sys::exit(0);
    }
    Ok(())
}
