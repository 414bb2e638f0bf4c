//! The processes of a program, which are all processes below its supervisor: measuring and killing them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use procfs::process::{Process, Stat, Status, all_processes};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use super::sys;

/// The maximum number of measured processes.
const MAX_PROCESSES: usize = 65_536;
/// The maximum number of walks of a measurement.
const MAX_WALKS: usize = 8;
/// The maximum number of watches of epoll. The kernel counts them for the user, not for the namespace: at the user's
/// maximum, a host of the same user accepts no connection.
const MAX_WATCHES: usize = 65_536;
/// The maximum number of rounds in which the supervisor kills the remaining processes.
const MAX_ROUNDS: u32 = 2000;
/// The pause between two rounds.
const ROUND: Duration = Duration::from_millis(5);

/// The resource use of the processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Resident or swapped memory that is not backed by a file: of the processes themselves, shared memory that they
    /// have mapped, and page tables.
    pub(super) memory: u64,
    /// Processor time of running processes, and of ended children that they have waited for.
    pub(super) cpu: Duration,
    /// The number of processes and threads.
    pub(super) tasks: u64,
}

/// Returns all processes below `root`, without it.
fn below(root: i32) -> Vec<Process> {
    let mut found = Vec::new();
    let mut pending = vec![root];
    let mut table = None;
    while let Some(parent) = pending.pop() {
        let children = match children_of(parent) {
            Some(children) => children,
            // A kernel without `/proc/…/children`: read all processes once, and group them by parent.
            None => table.get_or_insert_with(processes_by_parent).get(&parent).cloned().unwrap_or_default(),
        };
        for child in children {
            if found.len() >= MAX_PROCESSES {
                return found;
            }
            if let Ok(process) = Process::new(child) {
                found.push(process);
                pending.push(child);
            }
        }
    }
    found
}

/// Returns the children of all threads of a process. None if the kernel does not support this; an ended process
/// has no children.
fn children_of(process: i32) -> Option<Vec<i32>> {
    let Ok(tasks) = Process::new(process).and_then(|process| process.tasks()) else { return Some(Vec::new()) };
    let mut all = Vec::new();
    for task in tasks.flatten() {
        match std::fs::read_to_string(format!("/proc/{process}/task/{}/children", task.tid)) {
            Ok(children) => all.extend(children.split_whitespace().filter_map(|id| id.parse::<i32>().ok())),
            // The thread has ended meanwhile, or the kernel has no such file.
            Err(_) if !std::path::Path::new("/proc/thread-self/children").exists() => return None,
            Err(_) => {}
        }
    }
    Some(all)
}

fn processes_by_parent() -> BTreeMap<i32, Vec<i32>> {
    let mut table = BTreeMap::<i32, Vec<i32>>::new();
    let stats = all_processes().into_iter().flatten().flatten().filter_map(|process| process.stat().ok());
    for stat in stats {
        table.entry(stat.ppid).or_default().push(stat.pid);
    }
    table
}

/// Returns the number of a user's processes and threads.
pub(super) fn tasks_of(user: u32) -> u64 {
    let of_user = |process: &Process| process.status().is_ok_and(|status| status.ruid == user);
    let processes = all_processes().into_iter().flatten().flatten().filter(of_user);
    let threads = processes.filter_map(|process| u64::try_from(process.stat().ok()?.num_threads).ok());
    threads.fold(0, u64::saturating_add)
}

/// Measures the processes below this one.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// The processor time of each running process itself, by its id and its start.
    running: BTreeMap<(i32, u64), Duration>,
    /// The last measured times of the processes that have ended. The kernel adds the time of a process only to a parent
    /// that waits for it.
    ended: Duration,
}

impl Meter {
    /// Measures once.
    ///
    /// A process that ends after the children of its parent were listed may have left its memory to a child of its own,
    /// which has another parent then. So the processes are walked again, up to [`MAX_WALKS`] times, until none has
    /// ended meanwhile. Processes that were measured in an earlier walk are not measured again, so that a new one is
    /// measured as soon as it is listed.
    pub(super) fn measure(&mut self) -> Usage {
        let (mut usage, mut measured) = (Usage::default(), BTreeMap::new());
        for _ in 0..MAX_WALKS {
            let (walked, is_complete) = walk(&mut measured);
            usage.memory = usage.memory.max(walked.memory);
            usage.cpu = usage.cpu.max(walked.cpu);
            usage.tasks = walked.tasks;
            if is_complete {
                break;
            }
        }
        let mut running: BTreeMap<_, _> =
            measured.into_iter().map(|(id, process)| ((id, process.start), process.own)).collect();
        for (process, own) in std::mem::take(&mut self.running) {
            // A process may be missed once, while the kernel lists the children of its parent.
            if running.contains_key(&process) {
                continue;
            }
            if is_running(process) {
                running.insert(process, own);
            } else {
                self.ended = self.ended.saturating_add(own);
            }
        }
        let own = running.values().fold(self.ended, |sum, own| sum.saturating_add(*own));
        usage.cpu = usage.cpu.max(own);
        self.running = running;
        usage
    }
}

/// The measurement of one process.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    /// The time of its start, which tells it from another process with the same id.
    start: u64,
    /// Its processor time.
    own: Duration,
    /// The processor time of the children that it has waited for.
    waited: Duration,
    /// Its memory in bytes.
    memory: u64,
    /// The number of its threads.
    tasks: u64,
    /// Whether it had ended.
    has_ended: bool,
}

impl Measurement {
    /// Measures a process. None if it does not exist any more.
    ///
    /// A process that has been started by `vfork` or `posix_spawn` has the memory of its parent until it calls `exec`.
    /// This memory counts for the parent only.
    fn of(id: i32, parent: i32) -> Option<Self> {
        let process = Process::new(id).ok()?;
        // If the process has memory now, it has had memory when it was compared.
        let is_of_parent = sys::have_same_memory(id, parent) && of_first_thread(&process).is_some();
        let resident = if is_of_parent { Some(0) } else { resident(&process) };
        let stat = process.stat().ok()?;
        let ticks = procfs::ticks_per_second().max(1);
        let time = |of: u64| Duration::from_millis(of.saturating_mul(1000).checked_div(ticks).unwrap_or(0));
        let of_children = [stat.cutime, stat.cstime].map(|ticks| u64::try_from(ticks).unwrap_or(0));
        Some(Self {
            start: stat.starttime,
            own: time(stat.utime.saturating_add(stat.stime)),
            waited: time(of_children.into_iter().fold(0, u64::saturating_add)),
            memory: match resident {
                Some(kibibytes) => kibibytes.saturating_mul(1024),
                None => stat.rss.saturating_mul(procfs::page_size()),
            },
            tasks: u64::try_from(stat.num_threads).unwrap_or(1),
            has_ended: is_over(&stat),
        })
    }
}

/// Walks the processes below this one, and measures those that are not in `measured`. Returns the resource use of the
/// walked ones, and whether none has ended during the walk.
fn walk(measured: &mut BTreeMap<i32, Measurement>) -> (Usage, bool) {
    let (mut usage, mut is_complete, mut count) = (Usage::default(), true, 0_usize);
    let (mut pending, mut table) = (vec![own_id()], None);
    while let Some(parent) = pending.pop() {
        let children = match children_of(parent) {
            Some(children) => children,
            None => table.get_or_insert_with(processes_by_parent).get(&parent).cloned().unwrap_or_default(),
        };
        // The children of a process that has ended have another parent.
        if children.is_empty()
            && let Some(process) = measured.get_mut(&parent).filter(|process| !process.has_ended)
            && Process::new(parent).and_then(|process| process.stat()).map_or(true, |stat| is_over(&stat))
        {
            process.has_ended = true;
            is_complete = false;
        }
        // The kernel lists the newest child last, which may be the first to end.
        for child in children.iter().rev() {
            let known = measured.get(child).copied();
            let Some(process) = known.or_else(|| Measurement::of(*child, parent)) else {
                is_complete = false;
                continue;
            };
            if known.is_none() {
                measured.insert(*child, process);
                is_complete &= !process.has_ended;
            }
            usage.memory = usage.memory.saturating_add(process.memory);
            usage.cpu = usage.cpu.saturating_add(process.own).saturating_add(process.waited);
            usage.tasks = usage.tasks.saturating_add(process.tasks);
            count = count.saturating_add(1);
            if count >= MAX_PROCESSES {
                return (usage, true);
            }
        }
        pending.extend(children);
    }
    (usage, is_complete)
}

/// Returns whether a process has ended. If only its first thread has, the state is the same.
fn is_over(stat: &Stat) -> bool {
    matches!(stat.state, 'Z' | 'X') && stat.num_threads <= 1
}

/// Returns whether a process with this id and this start exists.
fn is_running((process, start): (i32, u64)) -> bool {
    Process::new(process).and_then(|process| process.stat()).is_ok_and(|stat| stat.starttime == start)
}

/// Returns the memory of a process as [`Usage`] counts it, in KiB. None if the kernel does not tell it, or the process
/// has ended.
fn resident(process: &Process) -> Option<u64> {
    // A first thread that has ended has no memory any more. The other threads have the memory of the process.
    let of_other_threads = || process.tasks().ok()?.flatten().find_map(|task| memory_of(&task.status().ok()?));
    of_first_thread(process).or_else(of_other_threads)
}

/// Returns the same, unless the first thread of the process has ended.
fn of_first_thread(process: &Process) -> Option<u64> {
    memory_of(&process.status().ok()?)
}

/// Returns the memory of a thread, in KiB. None if it has ended.
fn memory_of(status: &Status) -> Option<u64> {
    // A kernel without swap, or without huge pages, does not have these.
    let [swapped, huge] = [status.vmswap, status.hugetlbpages].map(Option::unwrap_or_default);
    Some([status.rssanon?, status.rssshmem?, status.vmpte?, swapped, huge].into_iter().fold(0, u64::saturating_add))
}

/// Returns whether the processes below this one have more than [`MAX_WATCHES`]. Threads share the descriptors of their
/// process, because seccomp refuses other threads.
pub(super) fn has_too_many_watches() -> bool {
    let mut count = 0_usize;
    for process in below(own_id()) {
        // After its first thread has ended, only the other threads list the descriptors of a process.
        let mut threads = process.tasks().into_iter().flatten().flatten();
        let watches = threads.find_map(|thread| watches_of(&format!("/proc/{}/task/{}", thread.pid, thread.tid)));
        count = count.saturating_add(watches.unwrap_or(0));
        if count > MAX_WATCHES {
            return true;
        }
    }
    false
}

/// Returns the number of watches of a thread, but counts only a few more than [`MAX_WATCHES`]. None if it has no
/// descriptors.
fn watches_of(thread: &str) -> Option<usize> {
    let mut known = None;
    for descriptor in std::fs::read_dir(format!("{thread}/fd")).ok()?.flatten() {
        let count = known.get_or_insert(0_usize);
        let target = std::fs::read_link(descriptor.path());
        if !target.is_ok_and(|target| target.as_os_str() == "anon_inode:[eventpoll]") {
            continue;
        }
        let number = descriptor.file_name();
        let Ok(info) = File::open(format!("{thread}/fdinfo/{}", number.display())) else { continue };
        let lines = BufReader::new(info).lines().map_while(Result::ok);
        let watches = lines.filter(|line| line.starts_with("tfd:")).take(MAX_WATCHES.saturating_add(1)).count();
        *count = count.saturating_add(watches);
        if *count > MAX_WATCHES {
            break;
        }
    }
    known
}

/// Kills the processes below this one, which adopts orphans, and waits for them, until none is left.
pub(super) fn kill_all() {
    for _ in 0..MAX_ROUNDS {
        for process in below(own_id()) {
            // This fails for a process that has ended meanwhile.
            let _ = Pid::from_raw(process.pid).map(|id| kill_process(id, Signal::KILL));
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        std::thread::sleep(ROUND);
    }
}

/// Returns the processor time of all processes below this one that have been waited for.
pub(super) fn waited_cpu() -> Duration {
    let ticks = procfs::ticks_per_second().max(1);
    let Ok(stat) = Process::myself().and_then(|process| process.stat()) else { return Duration::ZERO };
    let used = [stat.cutime, stat.cstime].map(|ticks| u64::try_from(ticks).unwrap_or(0));
    let used = used.into_iter().fold(0_u64, u64::saturating_add);
    Duration::from_millis(used.saturating_mul(1000).checked_div(ticks).unwrap_or(0))
}

fn own_id() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}
