//! Privileges, other processes, the kernel.

use std::fs;

use mcp_host_child::{EndReason, Launcher, LauncherProgram, Spec, SpecError};

use crate::harness::{
    has_namespaces, launcher, launcher_path, marker, python, run, run_with, shell, sleepers, sleeping,
};

#[tokio::test]
async fn a_program_has_no_privileges_and_filtered_system_calls() {
    if !has_namespaces() {
        return;
    }
    let status = run(shell("cat /proc/self/status")).await.success();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().to_owned()
    };
    for capabilities in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(capabilities), "0000000000000000", "{capabilities}");
    }
    assert_eq!(field("NoNewPrivs"), "1");
    assert_eq!(field("Seccomp"), "2");
    assert!(!field("Uid").split_whitespace().any(|user| user == "0"), "{status}");
    assert!(!field("Gid").split_whitespace().any(|group| group == "0"), "{status}");
}

#[tokio::test]
async fn a_program_has_namespaces_of_its_own() {
    if !has_namespaces() {
        return;
    }
    let script = "for n in user mnt pid net ipc uts cgroup; do readlink /proc/self/ns/$n; done; uname -n";
    let inside = run(shell(script)).await.success();
    assert_eq!(inside.lines().last(), Some("sandbox"));
    for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let own = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        assert!(inside.contains(&format!("{name}:[")) && !inside.contains(own.to_str().unwrap()), "{name}: {inside}");
    }
}

#[tokio::test]
async fn a_program_neither_sees_nor_signals_processes_of_the_host() {
    if !has_namespaces() {
        return;
    }
    let marker = marker();
    let mut other = sleeping(&marker);
    let script = format!(
        "kill -9 {0} 2>/dev/null && echo killed; kill -9 {1} 2>/dev/null && echo killed; \
         cat /proc/[0-9]*/comm 2>/dev/null | grep -qx sleep && echo seen; \
         kill -9 1; kill -TERM 1; sleep 0.1; kill -9 -1",
        other.0.id(),
        std::process::id(),
    );
    let said = run(shell(&script)).await;
    // The shell's own signal does not reach itself: `kill -1` excludes the caller.
    assert_eq!(said.stdout, "", "{said:?}");
    assert!(other.0.try_wait().unwrap().is_none());
    assert_eq!(sleepers(&marker).len(), 1);
}

#[tokio::test]
async fn the_kernel_refuses_what_no_server_needs() {
    if !has_namespaces() {
        return;
    }
    let script = r#"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*args)
    print(name, errno.errorcode.get(ctypes.get_errno(), result))
call("ptrace", 0, 0, 0, 0)
call("unshare", 0x10000000)
call("setns", 0, 0)
call("mount", b"none", b"/tmp", b"tmpfs", 0, None)
call("umount2", b"/proc", 2)
call("chroot", b"/tmp")
call("setuid", 0)
call("memfd_create", b"x", 0)
call("shmget", 0, 4096, 0o1600)
call("semget", 0, 1, 0o600)
call("socketpair", 30, 1, 0, (ctypes.c_int * 2)())
call("socket", 2, 5, 0)
call("syscall", 425, 1, 0)
call("syscall", 436, 100, 200, 2)
call("syscall", 56, 0x10000000 | 17, 0, 0, 0, 0)
for path in ["/proc/1/mem", "/proc/1/environ"]:
    try:
        open(path, "r+b").read(1)
        print(path, "opened")
    except OSError as error:
        print(path, errno.errorcode[error.errno])
"#;
    let Some(spec) = python(script) else { return };
    let said = run(spec).await.success();
    for line in said.lines() {
        let is_memory = ["memfd_create", "shmget", "semget"].iter().any(|name| line.starts_with(name));
        let expected = if is_memory { "ENOSYS" } else { "EPERM" };
        let is_refused = line.ends_with(expected) || (line.starts_with('/') && line.ends_with("EACCES"));
        assert!(is_refused, "{said}");
    }
    assert_eq!(said.lines().count(), 17, "{said}");
}

#[tokio::test]
async fn a_launcher_starts_none_but_the_programs_that_it_was_started_for() {
    if !has_namespaces() {
        return;
    }
    let program = LauncherProgram::Program(launcher_path());
    let bound = Launcher::start(&program, Some(&[shell("echo granted")])).unwrap();
    assert_eq!(run_with(&bound, shell("echo granted")).await.success(), "granted\n");
    let error = bound.program(shell("echo other")).unwrap().launch().await.unwrap_err().to_string();
    assert!(error.contains("restart the host"), "{error}");
}

#[tokio::test]
async fn a_program_that_is_no_launcher_is_told() {
    let error = Launcher::start(&LauncherProgram::Program("/bin/true".into()), None).unwrap_err().to_string();
    assert!(error.contains("/bin/true") && error.contains("run_launcher"), "{error}");
    assert!(Launcher::start(&LauncherProgram::Program("/no/such".into()), None).is_err());
}

#[tokio::test]
async fn a_host_that_is_root_starts_no_program_as_root() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this test needs root");
        return;
    }
    if !has_namespaces() {
        return;
    }
    let id = run(shell("id -u; id -G")).await.success();
    assert_eq!(id, "65534\n65534\n");
    let mut spec = shell("id -u");
    spec.user = Some("4242".to_owned());
    assert_eq!(run(spec.clone()).await.success(), "4242\n");
    spec.user = Some("root".to_owned());
    let error = launcher().program(spec).unwrap().launch().await.unwrap_err().to_string();
    assert!(error.contains("not started as root"), "{error}");
}

#[tokio::test]
async fn a_program_that_is_trusted_like_the_host_has_limits_only() {
    let mut spec = shell("test -e /proc/1 && cat /proc/sys/kernel/ostype; env | sort; exit 3");
    spec.sandbox = mcp_host_child::Sandbox::None;
    let said = run(spec.clone()).await;
    assert!(said.stdout.starts_with("Linux\nHOME=/tmp\n"), "{said:?}");
    assert_eq!(said.outcome.reason, EndReason::Exit(3));
    spec.origins.push("https://docs.rs".parse().unwrap());
    assert!(matches!(launcher().program(spec), Err(SpecError::NoEffect(_))));
    assert!(matches!(launcher().program(Spec::new(Vec::<String>::new())), Err(SpecError::NoCommand)));
}
