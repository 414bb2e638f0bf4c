//! The resource limits of a program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use mcp_host_child::{EndReason, Launcher, LauncherProgram};

use crate::harness::{
    first_line, has_namespaces, launcher_path, marker, program, python, run, run_with, shell, sleepers,
};

#[tokio::test]
async fn a_fork_bomb_ends_at_the_limit_of_processes() {
    if !has_namespaces() {
        return;
    }
    let script = r#"
import os, signal
count = 0
try:
    while True:
        if os.fork() == 0:
            signal.pause()
        count += 1
except OSError as error:
    print(count, error.errno)
"#;
    let Some(mut spec) = python(script) else { return };
    spec.limits.processes = 20;
    let said = run(spec).await;
    let (count, error) = said.stdout.trim().split_once(' ').unwrap_or_else(|| panic!("{said:?}"));
    assert_eq!(error, "11", "EAGAIN");
    let count: u32 = count.parse().unwrap();
    assert!((18..=20).contains(&count), "{said:?}");
}

#[tokio::test]
async fn what_forks_without_end_is_killed_with_all_of_its_processes() {
    if !has_namespaces() {
        return;
    }
    let marker = marker();
    let mut spec =
        shell(&format!("f() {{ sleep {marker} & f & f; }}; f 2>/dev/null & echo started; wait; sleep {marker}"));
    spec.limits.processes = 50;
    let mut child = program(spec).launch().await.unwrap();
    assert_eq!(first_line(&mut child).await, "started");
    assert_eq!(child.kill().await.reason, EndReason::Killed);
    assert_eq!(sleepers(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn a_program_above_its_memory_is_killed() {
    if !has_namespaces() {
        return;
    }
    let Some(mut spec) = python("import signal\nblock = bytearray(200 << 20)\nsignal.pause()") else { return };
    spec.limits.memory = 100 << 20;
    let outcome = run(spec).await.outcome;
    assert_eq!(outcome.reason, EndReason::Memory);
    assert!(outcome.memory > 100 << 20, "{outcome:?}");
}

#[tokio::test]
async fn the_memory_of_all_processes_counts() {
    if !has_namespaces() {
        return;
    }
    let script = "import os, signal\nfor _ in range(3):\n  if os.fork() == 0:\n    block = bytearray(60 << 20)\n    signal.pause()\nsignal.pause()";
    let Some(mut spec) = python(script) else { return };
    spec.limits.memory = 120 << 20;
    assert_eq!(run(spec).await.outcome.reason, EndReason::Memory);
}

#[tokio::test]
async fn memory_that_a_chain_of_processes_hands_on_counts() {
    if !has_namespaces() {
        return;
    }
    // Each process of the chain forks the next one, and ends before the processes that sleep are measured.
    let script = r#"
import ctypes, mmap, os, time
libc = ctypes.PyDLL(None)
for _ in range(100):
    os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
if os.fork() != 0:
    time.sleep(25)
    os._exit(0)
block = mmap.mmap(-1, 500 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block.madvise(mmap.MADV_HUGEPAGE)
end, filled = time.monotonic() + 20, 0
while time.monotonic() < end:
    if filled < len(block):
        block[filled : filled + (1 << 20)] = bytes(1 << 20)
        filled += 1 << 20
    if libc.fork() != 0:
        libc._exit(0)
"#;
    let Some(mut spec) = python(script) else { return };
    spec.limits.memory = 256 << 20;
    assert_eq!(run(spec).await.outcome.reason, EndReason::Memory);
}

#[tokio::test]
async fn a_process_that_is_being_started_has_no_memory_of_its_own() {
    if !has_namespaces() {
        return;
    }
    // The new process has the memory of its parent until `exec`. Before, it opens a file, and waits for 3 s for the end of
    // the lease of that file.
    let script = r#"
import fcntl, os, signal, time
ready, tell = os.pipe()
if os.fork() == 0:
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    file = os.open("/tmp/leased", os.O_RDWR | os.O_CREAT)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    os.write(tell, b"x")
    time.sleep(3)
    os._exit(0)
os.read(ready, 1)
block, began = bytearray(150 << 20), time.monotonic()
opened = [(os.POSIX_SPAWN_OPEN, 9, "/tmp/leased", os.O_RDONLY, 0)]
os.waitpid(os.posix_spawn("/bin/true", ["true"], {}, file_actions=opened), 0)
assert time.monotonic() - began > 2
"#;
    let Some(mut spec) = python(script) else { return };
    spec.limits.memory = 256 << 20;
    let said = run(spec).await;
    assert_eq!(said.outcome.reason, EndReason::Exit(0), "{said:?}");
    assert!(said.outcome.memory > 150 << 20, "{said:?}");
}

#[tokio::test]
async fn the_memory_of_a_process_counts_after_its_first_thread_has_ended() {
    if !has_namespaces() {
        return;
    }
    let script = r#"
import ctypes, os, threading, time
EXIT = 60 if os.uname().machine == "x86_64" else 93
libc = ctypes.CDLL(None)
if os.fork() == 0:
    def hold():
        block = bytearray(200 << 20)
        while True:
            time.sleep(1)
    threading.Thread(target=hold, daemon=True).start()
    libc.syscall(EXIT, 0)
os.wait()
"#;
    let Some(mut spec) = python(script) else { return };
    spec.limits.memory = 100 << 20;
    assert_eq!(run(spec).await.outcome.reason, EndReason::Memory);
}

#[tokio::test]
async fn page_tables_count_as_memory() {
    if !has_namespaces() {
        return;
    }
    // Reading from memory that was never written to needs a page table, but no page.
    let script = r#"
import ctypes, mmap, signal
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
span = mmap.PAGESIZE * mmap.PAGESIZE // 8
size = span * ((200 << 20) // mmap.PAGESIZE)
READ, PRIVATE_ANONYMOUS_NORESERVE = 1, 0x4022
start = libc.mmap(None, size, READ, PRIVATE_ANONYMOUS_NORESERVE, -1, 0)
for offset in range(0, size, span):
    ctypes.c_ubyte.from_address(start + offset).value
signal.pause()
"#;
    let Some(mut spec) = python(script) else { return };
    spec.limits.memory = 100 << 20;
    assert_eq!(run(spec).await.outcome.reason, EndReason::Memory);
}

#[tokio::test]
async fn memory_that_no_measurement_finds_is_refused() {
    if !has_namespaces() {
        return;
    }
    let script = r#"
import mmap
def attempt(what, function):
    try:
        function()
        print(what, "mapped")
    except OSError as error:
        print(what, error.errno)
zero = open("/dev/zero", "rb")
attempt("shared", lambda: mmap.mmap(-1, 4096))
attempt("zero", lambda: mmap.mmap(zero.fileno(), 4096, mmap.MAP_SHARED, mmap.PROT_READ))
attempt("private", lambda: mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
file = open("/tmp/file", "w+b")
file.truncate(4096)
attempt("file", lambda: mmap.mmap(file.fileno(), 4096))
print(zero.read(4) == bytes(4))
"#;
    let Some(spec) = python(script) else { return };
    // EPERM, and ENODEV.
    assert_eq!(run(spec).await.success(), "shared 1\nzero 19\nprivate mapped\nfile mapped\nTrue\n");
}

#[tokio::test]
async fn a_program_leaves_its_user_most_instances_of_inotify() {
    if !has_namespaces() {
        return;
    }
    let script = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
count = 0
while libc.inotify_init() >= 0:
    count += 1
print(count, ctypes.get_errno())
"#;
    let Some(spec) = python(script) else { return };
    // EMFILE.
    assert_eq!(run(spec).await.success(), "16 24\n");
}

#[tokio::test]
async fn a_program_that_watches_very_many_descriptors_is_killed() {
    if !has_namespaces() {
        return;
    }
    let script = r#"
import os, select, signal
events = [os.eventfd(0) for _ in range(300)]
sets = [select.epoll() for _ in range(300)]
for each in sets:
    for event in events:
        each.register(event, select.EPOLLIN)
signal.pause()
"#;
    let Some(spec) = python(script) else { return };
    assert_eq!(run(spec).await.outcome.reason, EndReason::Watches);
}

#[tokio::test]
async fn the_watches_of_a_process_count_after_its_first_thread_has_ended() {
    if !has_namespaces() {
        return;
    }
    let script = r#"
import ctypes, os, select, threading, time
EXIT = 60 if os.uname().machine == "x86_64" else 93
libc = ctypes.CDLL(None)
def watch():
    events = [os.eventfd(0) for _ in range(300)]
    sets = [select.epoll() for _ in range(300)]
    for each in sets:
        for event in events:
            each.register(event, select.EPOLLIN)
    time.sleep(60)
    os._exit(0)
if os.fork() == 0:
    threading.Thread(target=watch, daemon=True).start()
    libc.syscall(EXIT, 0)
os.wait()
"#;
    let Some(spec) = python(script) else { return };
    assert_eq!(run(spec).await.outcome.reason, EndReason::Watches);
}

#[tokio::test]
async fn a_process_cannot_map_much_more_than_its_memory() {
    if !has_namespaces() {
        return;
    }
    let script = "try:\n  block = bytearray(2 << 30)\n  print('mapped')\nexcept MemoryError:\n  print('refused')";
    let Some(mut spec) = python(script) else { return };
    spec.limits.memory = 100 << 20;
    assert_eq!(run(spec).await.success(), "refused\n");
}

#[tokio::test]
async fn a_process_above_its_processor_time_is_killed() {
    if !has_namespaces() {
        return;
    }
    let mut spec = shell("while :; do :; done");
    spec.limits.cpu = Some(Duration::from_secs(1));
    let outcome = run(spec).await.outcome;
    assert_eq!(outcome.reason, EndReason::Cpu);
    // The kernel enforces the limit by samples, but reports the exact time.
    assert!(outcome.cpu >= Duration::from_millis(300), "{outcome:?}");
}

#[tokio::test]
async fn the_processor_time_of_all_processes_counts() {
    if !has_namespaces() {
        return;
    }
    // Each process ends after a fraction of the time, and the shell waits for it.
    let mut spec = shell("while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done");
    spec.limits.cpu = Some(Duration::from_secs(2));
    assert_eq!(run(spec).await.outcome.reason, EndReason::Cpu);
}

#[tokio::test]
async fn the_processor_time_of_processes_that_nobody_waits_for_counts() {
    if !has_namespaces() {
        return;
    }
    // Each process takes most of a second, and no process has much more time than that.
    let script = r#"
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        while time.process_time() < 0.9:
            pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
"#;
    let Some(mut spec) = python(script) else { return };
    spec.limits.cpu = Some(Duration::from_secs(2));
    assert_eq!(run(spec).await.outcome.reason, EndReason::Cpu);
}

#[tokio::test]
async fn a_program_may_open_fewer_files_than_the_host() {
    if !has_namespaces() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("launcher");
    let text = format!("#!/bin/sh\nulimit -S -n 512\nexec '{}' \"$@\"\n", launcher_path().display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let launcher = Launcher::start(&LauncherProgram::Program(script), None).unwrap();
    assert_eq!(run_with(&launcher, shell("ulimit -S -n; ulimit -H -n")).await.success(), "256\n256\n");
}

#[tokio::test]
async fn files_and_descriptors_are_bounded() {
    if !has_namespaces() {
        return;
    }
    let script = r#"
import os, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
files = []
try:
    while True:
        files.append(open("/dev/null"))
except OSError as error:
    print(len(files) < 64, error.errno)
files.clear()
try:
    with open("/tmp/f", "wb", 0) as file:
        while True:
            file.write(bytes(65536))
except OSError as error:
    print(os.path.getsize("/tmp/f"), error.errno)
print(resource.getrlimit(resource.RLIMIT_CORE))
try:
    resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000))
    print("raised")
except (OSError, ValueError):
    print("refused")
"#;
    let Some(mut spec) = python(script) else { return };
    spec.limits.files = 64;
    spec.limits.file_size = 1 << 20;
    assert_eq!(run(spec).await.success(), "True 24\n1048576 27\n(0, 0)\nrefused\n");
}
