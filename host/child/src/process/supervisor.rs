//! The supervisor of a program: starts it, measures it, kills it, and tells how it ended.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, geteuid, kill_process, pidfd_open, set_child_subreaper, setsid,
    waitpid,
};

use super::cgroup::{Delegated, Group};
use super::init::{Progress, Streams, encode, init, start_outside};
use super::plan::Plan;
use super::{namespaces, sys, tree};
use crate::kernel::{Kernel, Lack};
use crate::message::{Answer, EndReason, Measured, Outcome, offer, receive, send};
use crate::spec::{Job, Limits, Sandbox};

/// How long the host may take to say what it wants to be started, and the program to start.
const START_TIME: Duration = Duration::from_secs(15);
/// How often the processes are measured.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the launcher has found on this machine.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) groups: Option<&'a Delegated>,
}

/// The supervisor of one program.
pub(super) struct Supervisor<'a> {
    connection: UnixStream,
    streams: Streams,
    surroundings: Surroundings<'a>,
}

/// A program that runs.
struct Running {
    /// Its init, or the program itself if it has none.
    process: Pid,
    has_init: bool,
    /// What init says of how the program ended.
    ended: std::io::PipeReader,
    lacks: Vec<Lack>,
    listener: Option<OwnedFd>,
    group: Option<Group>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(connection: UnixStream, streams: Streams, surroundings: Surroundings<'a>) -> Self {
        Self { connection, streams, surroundings }
    }

    /// Starts what the host asks for, if it is one of those or there are none, and waits for its end.
    pub(super) fn run(self, only: Option<&[Job]>) {
        // No signal of a terminal arrives, and the program has a session without one.
        let _ = setsid();
        let Self { connection, streams, surroundings } = self;
        if connection.set_read_timeout(Some(START_TIME)).is_err() {
            return;
        }
        let Ok(Some((job, _))) = receive::<Job>(&connection) else { return };
        let is_allowed = only.is_none_or(|only| only.contains(&job));
        let started = match is_allowed {
            true => start(&job, &connection, streams, surroundings),
            false => Err(
                "the config did not name it, with all that it is granted now, when the host started; restart the host"
                    .to_owned(),
            ),
        };
        // A host that has ended needs no answer, and its program is killed.
        match started {
            Err(reason) => {
                tree::kill_all();
                let _ = send(&connection, &Answer::Failed(reason), &[]);
            }
            Ok(running) => {
                let descriptors: Vec<_> = running.listener.iter().map(AsFd::as_fd).collect();
                let answer =
                    Answer::Started { lacks: running.lacks.clone(), process: running.process.as_raw_nonzero().get() };
                let is_told = send(&connection, &answer, &descriptors).is_ok();
                let outcome = running.supervise(&connection, &job.limits, is_told);
                let _ = send(&connection, &Answer::Ended(outcome), &[]);
            }
        }
    }
}

fn start(
    job: &Job,
    connection: &UnixStream,
    streams: Streams,
    surroundings: Surroundings<'_>,
) -> Result<Running, String> {
    let Surroundings { kernel, groups } = surroundings;
    let failed = |error: std::io::Error| format!("cannot start a process: {error}");
    let has_namespaces = kernel.namespaces && job.sandbox == Sandbox::Full;
    // Whatever is left of the program when it has ended is given to this process.
    set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| failed(error.into()))?;
    let plan = Plan::new(job, has_namespaces)?;
    let (progress, theirs) = UnixStream::pair().map_err(failed)?;
    let (ended, ended_writer) = std::io::pipe().map_err(failed)?;
    if has_namespaces {
        if !geteuid().is_root() {
            namespaces::enter_user_namespace().map_err(|error| format!("user namespace: {error}"))?;
        }
        namespaces::unshare_processes().map_err(|error| format!("process namespace: {error}"))?;
    }
    // Before the fork, and best effort: see the module.
    let group = groups.and_then(|groups| groups.group(&job.limits).ok());
    let Some(process) = sys::fork().map_err(failed)? else {
        sys::close(connection);
        sys::close(&progress);
        // A process that cannot enter it is limited by the rest.
        let _ = group.as_ref().map(Group::enter);
        match has_namespaces {
            true => init(&plan, streams, theirs, ended_writer),
            false => start_outside(&plan, streams, &theirs, job.sandbox),
        }
    };
    drop((streams, theirs, ended_writer));
    progress.set_read_timeout(Some(START_TIME)).map_err(failed)?;
    let mut running = Running { process, has_init: has_namespaces, ended, lacks: Vec::new(), listener: None, group };
    let mut is_ready = false;
    // The end of the stream is that the program runs, or that what was to become it has ended.
    while let Some((message, descriptors)) = receive(&progress).map_err(failed)? {
        match message {
            Progress::Failed(reason) => return Err(reason),
            Progress::Ready(lacks) => {
                is_ready = true;
                running.lacks = lacks;
                running.listener = descriptors.into_iter().next();
            }
        }
    }
    if is_ready { Ok(running) } else { Err("the process that becomes the program was killed".to_owned()) }
}

impl Running {
    /// Waits for the end, and brings it about above the limits, or when the host closes the connection.
    fn supervise(mut self, connection: &UnixStream, limits: &Limits, is_wanted: bool) -> Outcome {
        // The host has it now.
        self.listener = None;
        let mut outcome = Outcome { reason: EndReason::Killed, cpu: Duration::ZERO, memory: 0 };
        let killed_for = if is_wanted { self.wait(connection, limits, &mut outcome) } else { Some(EndReason::Killed) };
        if killed_for.is_some() {
            let _ = self.group.as_ref().map(Group::kill);
            let _ = kill_process(self.process, Signal::KILL);
        }
        let status = waitpid(Some(self.process), WaitOptions::empty()).ok().flatten().map(|(_, status)| status);
        tree::kill_all();
        let in_group = self.group.as_ref().map(Group::usage).unwrap_or_default();
        let was_out_of_memory = self.group.as_ref().is_some_and(Group::was_out_of_memory);
        outcome.reason = killed_for.unwrap_or_else(|| self.reason(status));
        outcome.cpu = outcome.cpu.max(tree::waited_cpu()).max(in_group.cpu);
        outcome.memory = outcome.memory.max(in_group.memory);
        // The kernel ends a process above its processor time by itself: first by a signal that can be ignored.
        outcome.reason = match (outcome.reason, limits.cpu) {
            (EndReason::Signal(signal), Some(_)) if signal == Signal::XCPU.as_raw() => EndReason::Cpu,
            // What it limits it counts by samples, so this may be less.
            (EndReason::Signal(signal), Some(cpu))
                if signal == Signal::KILL.as_raw() && outcome.cpu.saturating_mul(2) >= cpu =>
            {
                EndReason::Cpu
            }
            // Init was killed with the rest.
            (EndReason::Lost | EndReason::Signal(_), _) if was_out_of_memory => EndReason::Memory,
            (reason, _) => reason,
        };
        outcome
    }

    /// Returns at the end of the program, or with why it must be killed.
    fn wait(&self, connection: &UnixStream, limits: &Limits, outcome: &mut Outcome) -> Option<EndReason> {
        let Ok(process) = pidfd_open(self.process, PidfdFlags::empty()) else { return Some(EndReason::Killed) };
        let (mut next, mut told) = (Instant::now(), None);
        loop {
            let mut events =
                [PollFd::new(&process, PollFlags::IN), PollFd::new(connection, PollFlags::IN | PollFlags::RDHUP)];
            let left = next.saturating_duration_since(Instant::now());
            let left =
                Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(1), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut events, Some(&left)) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return Some(EndReason::Killed),
                Ok(_) => {}
            }
            let [has_ended, is_closed] = events.map(|event| !event.revents().is_empty());
            if has_ended {
                return None;
            }
            if is_closed {
                return Some(EndReason::Killed);
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now().checked_add(INTERVAL)?;
            let usage = tree::measure();
            outcome.memory = outcome.memory.max(usage.memory);
            // Children whose end nobody waits for take their time with them.
            let in_group = self.group.as_ref().map(Group::usage).unwrap_or_default();
            outcome.cpu = outcome.cpu.max(usage.cpu).max(in_group.cpu);
            let measured = Measured { memory: usage.memory, cpu: outcome.cpu, tasks: usage.tasks };
            // A host that does not read is not waited for.
            if told != Some(measured) && offer(connection, &Answer::Measured(measured)).is_ok() {
                told = Some(measured);
            }
            if usage.memory > limits.memory {
                return Some(EndReason::Memory);
            }
            if limits.cpu.is_some_and(|cpu| outcome.cpu > cpu) {
                return Some(EndReason::Cpu);
            }
        }
    }

    /// How the program ended by itself.
    fn reason(&mut self, status: Option<WaitStatus>) -> EndReason {
        let mut bytes = [0; 5];
        if self.has_init && self.ended.read_exact(&mut bytes).is_err() {
            return EndReason::Lost;
        }
        match (self.has_init, status) {
            (false, Some(status)) => bytes = encode(status),
            (false, None) => return EndReason::Lost,
            (true, _) => {}
        }
        let [kind, a, b, c, d] = bytes;
        let number = i32::from_le_bytes([a, b, c, d]);
        if kind == 0 { EndReason::Exit(number) } else { EndReason::Signal(number) }
    }
}
