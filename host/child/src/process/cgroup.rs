//! Control groups (v2), if the host's own group is delegated to it: one group for each program.
//!
//! | file | additional effect |
//! |---|---|
//! | `memory.max`, no swap | limits memory between two measurements, and kernel memory: sockets, pipes, `/tmp` |
//! | `pids.max` | limits all processes, of other users, too |
//! | `cpu.stat` | includes the processor time of processes that were not waited for |
//! | `cgroup.kill` | kills all processes at the same time |
//!
//! A group counts as delegated if systemd marks it (`Delegate=`, which sets an extended attribute), or if it is the
//! root of a container's control groups, and in both cases only if it contains no processes except the host's. Only
//! leaves may have processes, so the host is moved to one (`mcp-host`) beside the programs (`program-N`).
//!
//! All of this is best effort: if it fails, the other limits hold.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{getpid, getppid};

use super::tree::Usage;
use crate::spec::Limits;

/// The group that the host is moved to.
const HOST: &str = "mcp-host";
/// The controllers that are used.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// The extended attributes that systemd sets on a delegated group.
const DELEGATED: [&str; 2] = ["user.delegate", "trusted.delegate"];
/// The maximum number of attempts to remove a group that still has processes.
const MAX_ROUNDS: u32 = 200;

/// A group that is delegated to the host.
#[derive(Debug)]
pub(super) struct Delegated {
    dir: PathBuf,
}

/// The group of a program. When this is dropped, the group is removed with all its processes.
#[derive(Debug)]
pub(super) struct Group {
    dir: PathBuf,
}

impl Delegated {
    /// Returns the host's own group, if it is delegated.
    pub(super) fn find() -> Option<Self> {
        let mount = mount_point(&fs::read_to_string("/proc/self/mounts").ok()?)?;
        let path = own_path(&fs::read_to_string("/proc/self/cgroup").ok()?)?;
        let dir = mount.join(path.trim_start_matches('/'));
        // An earlier launcher has moved the host.
        if let Some(parent) = dir.parent().filter(|_| dir.file_name().is_some_and(|name| name == HOST)) {
            let delegated = Self { dir: parent.to_owned() };
            return delegated.has_controllers("cgroup.subtree_control").then_some(delegated);
        }
        if !is_delegated(&dir) {
            return None;
        }
        let processes = [getpid().as_raw_nonzero().get(), getppid()?.as_raw_nonzero().get()];
        Self { dir }.prepare(&processes).ok().flatten()
    }

    /// Moves these processes to a leaf, and enables the controllers below. None if there are other processes in the
    /// group, or a controller is missing.
    fn prepare(self, processes: &[i32]) -> io::Result<Option<Self>> {
        let within = fs::read_to_string(self.dir.join("cgroup.procs"))?;
        let is_own = |line: &str| line.parse().is_ok_and(|process| processes.contains(&process));
        if !within.lines().all(is_own) || !self.has_controllers("cgroup.controllers") {
            return Ok(None);
        }
        let leaf = self.dir.join(HOST);
        match fs::create_dir(&leaf) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        for process in processes {
            write(&leaf.join("cgroup.procs"), &process.to_string())?;
        }
        let all = CONTROLLERS.map(|controller| format!("+{controller}")).join(" ");
        write(&self.dir.join("cgroup.subtree_control"), &all)?;
        Ok(Some(self))
    }

    fn has_controllers(&self, file: &str) -> bool {
        let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        CONTROLLERS.iter().all(|wanted| text.split_whitespace().any(|controller| controller == *wanted))
    }

    /// Creates a group for a program.
    pub(super) fn group(&self, limits: &Limits) -> io::Result<Group> {
        let group = Group { dir: self.dir.join(format!("program-{}", std::process::id())) };
        fs::create_dir(&group.dir)?;
        group.limit(limits)?;
        Ok(group)
    }
}

impl Group {
    fn limit(&self, limits: &Limits) -> io::Result<()> {
        // `/tmp` counts as memory of the group, too.
        write(&self.dir.join("memory.max"), &limits.memory.saturating_add(limits.temp).to_string())?;
        // A machine without swap has no such file.
        let _ = write(&self.dir.join("memory.swap.max"), "0");
        let _ = write(&self.dir.join("memory.oom.group"), "1");
        // Init counts in addition to the program's processes.
        write(&self.dir.join("pids.max"), &limits.processes.saturating_add(1).to_string())
    }

    /// Moves this process, and everything that it starts, to the group.
    pub(super) fn enter(&self) -> io::Result<()> {
        write(&self.dir.join("cgroup.procs"), "0")
    }

    /// Kills all processes in the group. Not supported before Linux 5.14.
    pub(super) fn kill(&self) {
        let _ = write(&self.dir.join("cgroup.kill"), "1");
    }

    /// Returns the resource use of the group's processes.
    pub(super) fn usage(&self) -> Usage {
        let number = |file: &str, key: &str| {
            let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
            number_of(&text, key).unwrap_or(0)
        };
        let cpu = Duration::from_micros(number("cpu.stat", "usage_usec"));
        Usage { memory: number("memory.peak", ""), cpu, tasks: number("pids.current", "") }
    }

    /// Returns whether the kernel has killed a process because of the memory limit.
    pub(super) fn was_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.dir.join("memory.events")).unwrap_or_default();
        number_of(&events, "oom_kill").is_some_and(|kills| kills > 0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        for _ in 0..MAX_ROUNDS {
            // The group has processes until the kernel has removed them.
            if fs::remove_dir(&self.dir).is_ok() || !self.dir.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Writes to a file that the kernel has created.
fn write(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}

/// Returns the number after a key, or the only number.
fn number_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line?.trim().parse().ok()
}

/// Returns the mount point of the version 2 hierarchy.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    let mut all = mounts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    all.find_map(|fields| match fields.as_slice() {
        [_, path, "cgroup2", ..] => Some(PathBuf::from(path)),
        _ => None,
    })
}

/// Returns the group of this process in the version 2 hierarchy.
fn own_path(groups: &str) -> Option<String> {
    groups.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

fn is_delegated(dir: &Path) -> bool {
    let is_marked = DELEGATED.iter().any(|name| {
        let mut value = [0; 8];
        rustix::fs::getxattr(dir, *name, &mut value).is_ok_and(|length| value.get(..length) == Some(b"1"))
    });
    // The root of a container's hierarchy has this file, the root of the machine's does not.
    let is_of_container = || own_group_is_root() && dir.join("cgroup.events").exists();
    is_marked || is_of_container()
}

fn own_group_is_root() -> bool {
    fs::read_to_string("/proc/self/cgroup").ok().and_then(|groups| own_path(&groups)).is_some_and(|path| path == "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with files as the kernel would create them.
    fn hierarchy(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn the_host_is_moved_to_a_leaf_unless_others_are_in_its_group() {
        let files = [
            ("cgroup.procs", "10\n11\n"),
            ("cgroup.controllers", "cpu memory pids\n"),
            ("cgroup.subtree_control", ""),
            ("mcp-host/cgroup.procs", ""),
        ];
        let dir = hierarchy(&files);
        let of = |processes: &[i32]| Delegated { dir: dir.path().to_owned() }.prepare(processes).unwrap();
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(of(&[10]).is_none());
        assert_eq!(text("mcp-host/cgroup.procs"), "");
        assert!(of(&[10, 11]).is_some());
        assert_eq!(text("cgroup.subtree_control"), "+memory +pids");
        fs::write(dir.path().join("cgroup.controllers"), "cpu pids\n").unwrap();
        assert!(of(&[10, 11]).is_none(), "there is no controller of memory");
    }

    #[test]
    fn a_group_has_the_limits_of_its_program_and_says_what_it_used() {
        let files = [
            ("memory.max", ""),
            ("pids.max", ""),
            ("memory.peak", "4096\n"),
            ("cpu.stat", "usage_usec 1500\nuser_usec 1\n"),
            ("memory.events", "low 0\noom 2\noom_kill 1\n"),
        ];
        let dir = hierarchy(&files);
        let group = Group { dir: dir.path().to_owned() };
        group.limit(&Limits { memory: 1000, temp: 24, processes: 7, ..Limits::default() }).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("memory.max")).unwrap(), "1024");
        assert_eq!(fs::read_to_string(dir.path().join("pids.max")).unwrap(), "8");
        assert_eq!(group.usage(), Usage { memory: 4096, cpu: Duration::from_micros(1500), tasks: 0 });
        assert!(group.was_out_of_memory());
        fs::write(dir.path().join("memory.events"), "oom 2\noom_kill 0\n").unwrap();
        assert!(!group.was_out_of_memory());
        std::mem::forget(group);
    }

    #[test]
    fn the_hierarchy_and_the_own_group_are_read_from_proc() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs ro 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount_point(mounts).unwrap(), Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(own_path("8:pids:/\n0::/system.slice/a.service\n").unwrap(), "/system.slice/a.service");
        assert_eq!(own_path("8:pids:/\n"), None);
    }
}
