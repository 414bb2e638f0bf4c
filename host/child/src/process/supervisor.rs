//! The supervisor of a program: starts it, measures it, kills it, and reports its end.

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

/// The maximum time for the host to send the request, and for the program to start.
const START_TIME: Duration = Duration::from_secs(15);
/// The interval of measurements.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a count of watches, as a multiple of its duration: a count of very many descriptors takes at most a
/// quarter of a processor.
const WATCHES_PAUSE: u32 = 3;

/// The launcher's findings about this machine.
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

/// A running program.
struct Running {
    /// Its init, or the program itself without an init.
    process: Pid,
    has_init: bool,
    /// Receives the end of the program from init.
    ended: std::io::PipeReader,
    lacks: Vec<Lack>,
    listener: Option<OwnedFd>,
    group: Option<Group>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(connection: UnixStream, streams: Streams, surroundings: Surroundings<'a>) -> Self {
        Self { connection, streams, surroundings }
    }

    /// Starts the requested program, if it is in `only` or there is no such list, and waits for its end.
    pub(super) fn run(self, only: Option<&[Job]>) {
        // A new session, so that no signal of a terminal arrives, and the program has no terminal.
        let _ = setsid();
        let Self { connection, streams, surroundings } = self;
        if connection.set_read_timeout(Some(START_TIME)).is_err() {
            return;
        }
        let Ok(Some((job, _))) = receive::<Job>(&connection) else { return };
        let is_allowed = only.is_none_or(|only| only.contains(&job.without_hidden()));
        let started = match is_allowed {
            true => start(&job, &connection, streams, surroundings),
            false => Err(
                "the config did not name it, with all that it is granted now, when the host started; restart the host"
                    .to_owned(),
            ),
        };
        // If the host has ended, no answer is needed, and its program is killed.
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
    // The remaining processes of an ended program become children of this process.
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
    // Best effort, and before the fork: see module `cgroup`.
    let group = groups.and_then(|groups| groups.group(&job.limits).ok());
    let Some(process) = sys::fork().map_err(failed)? else {
        sys::close(connection);
        sys::close(&progress);
        // A process that cannot enter the group still has the other limits.
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
    // At the end of the stream, the program is running, or the process that should become it has ended.
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
    /// Waits for the end. Kills the program above its limits, or when the host closes the connection.
    fn supervise(mut self, connection: &UnixStream, limits: &Limits, is_wanted: bool) -> Outcome {
        // The host has received its own copy of the descriptor.
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
        // The kernel ends a process above its processor time first with `SIGXCPU`, which can be ignored, then with
        // `SIGKILL`.
        outcome.reason = match (outcome.reason, limits.cpu) {
            (EndReason::Signal(signal), Some(_)) if signal == Signal::XCPU.as_raw() => EndReason::Cpu,
            // The kernel samples the processor time, so the measured time may be below the limit.
            (EndReason::Signal(signal), Some(cpu))
                if signal == Signal::KILL.as_raw() && outcome.cpu.saturating_mul(2) >= cpu =>
            {
                EndReason::Cpu
            }
            // Init was killed with the other processes.
            (EndReason::Lost | EndReason::Signal(_), _) if was_out_of_memory => EndReason::Memory,
            (reason, _) => reason,
        };
        outcome
    }

    /// Returns none at the end of the program, or the reason why it must be killed.
    fn wait(&self, connection: &UnixStream, limits: &Limits, outcome: &mut Outcome) -> Option<EndReason> {
        let Ok(process) = pidfd_open(self.process, PidfdFlags::empty()) else { return Some(EndReason::Killed) };
        let (mut next, mut told, mut meter) = (Instant::now(), None, tree::Meter::default());
        let mut next_watches = next;
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
            let usage = meter.measure();
            outcome.memory = outcome.memory.max(usage.memory);
            // Without a control group, the processor time of children that are not waited for is measured until their
            // last second.
            let in_group = self.group.as_ref().map(Group::usage).unwrap_or_default();
            outcome.cpu = outcome.cpu.max(usage.cpu).max(in_group.cpu);
            let measured = Measured { memory: usage.memory, cpu: outcome.cpu, tasks: usage.tasks };
            // Does not wait for a host that does not read.
            if told != Some(measured) && offer(connection, &Answer::Measured(measured)).is_ok() {
                told = Some(measured);
            }
            if usage.memory > limits.memory {
                return Some(EndReason::Memory);
            }
            if limits.cpu.is_some_and(|cpu| outcome.cpu > cpu) {
                return Some(EndReason::Cpu);
            }
            let began = Instant::now();
            if began < next_watches {
                continue;
            }
            if tree::has_too_many_watches() {
                return Some(EndReason::Watches);
            }
            next_watches = Instant::now().checked_add(began.elapsed().saturating_mul(WATCHES_PAUSE))?;
        }
    }

    /// Returns how the program ended, if it was not killed.
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
