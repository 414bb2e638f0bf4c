//! A machine that forbids namespaces, or Landlock: a filter simulates this for the launcher.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use mcp_host_base::seccomp::{errno, every, filter, install};
use mcp_host_child::{Directory, EndReason, Lack, Launcher, LauncherProgram, Sandbox, SpecError};
use rustix::process::geteuid;
use seccompiler::SeccompAction;

use crate::files::read_beside;
use crate::harness::{first_line, launcher_path, marker, python, read, run_with, shell, sleepers, sleeping, this_test};

/// Set in the process that becomes a launcher: the system calls that are refused to it.
const REFUSED: &str = "MCP_HOST_CHILD_TEST_REFUSED";

/// A launcher without these system calls. A script starts it, because a launcher has no environment.
fn launcher(refused: &str) -> Launcher {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("launcher");
    let test = this_test("without_namespaces::refused_launcher");
    let arguments: Vec<_> = test.get_args().map(|argument| argument.to_str().unwrap()).collect();
    let program = test.get_program().to_str().unwrap();
    let text = format!("#!/bin/sh\n{REFUSED}={refused} exec {program} {} >/dev/null 2>&1\n", arguments.join(" "));
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    Launcher::start(&LauncherProgram::Program(script), None).unwrap()
}

/// Becomes a launcher that cannot make some system calls.
#[test]
fn refused_launcher() {
    let Ok(refused) = std::env::var(REFUSED) else { return };
    let call = match refused.as_str() {
        "namespaces" => libc::SYS_unshare,
        "landlock" => libc::SYS_landlock_create_ruleset,
        other => panic!("{other}"),
    };
    rustix::thread::set_no_new_privs(true).unwrap();
    let refusal = filter(every(&[call]), SeccompAction::Allow, errno(libc::EPERM)).unwrap();
    install(&[refusal]).unwrap();
    panic!("{}", Command::new(launcher_path()).arg("__launcher").exec());
}

/// A launcher without namespaces. None, with a message, if the kernel lacks the other features.
fn without_namespaces() -> Option<Launcher> {
    let launcher = launcher("namespaces");
    let kernel = launcher.kernel();
    assert!(!kernel.namespaces && kernel.lacks.iter().any(|lack| matches!(lack, Lack::Namespaces(_))), "{kernel:?}");
    let confines = kernel.seccomp && kernel.landlock_abi.is_some();
    if !confines {
        eprintln!("skipped: this kernel cannot confine programs: {:?}", kernel.lacks);
    }
    confines.then_some(launcher)
}

#[test]
fn origins_and_guest_paths_are_errors() {
    let Some(launcher) = without_namespaces() else { return };
    let mut spec = shell("true");
    spec.origins.push("https://docs.rs".parse().unwrap());
    let error = launcher.program(spec).unwrap_err();
    assert!(matches!(error, SpecError::NeedsNamespaces { .. }));
    let error = error.to_string();
    assert!(error.contains("https://docs.rs needs namespaces: no namespaces ("), "{error}");
    let mut spec = shell("true");
    spec.directories.push(Directory { guest: Some("/data".into()), ..Directory::read_only("/usr") });
    assert!(matches!(launcher.program(spec), Err(SpecError::NeedsNamespaces { .. })));
    assert!(!launcher.program(shell("true")).unwrap().lacks().is_empty());
}

#[tokio::test]
async fn a_read_only_directory_in_a_writable_one_is_refused_also_behind_a_link() {
    let Some(launcher) = without_namespaces() else { return };
    let (around, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(around.path().join("in")).unwrap();
    let link = other.path().join("link");
    std::os::unix::fs::symlink(around.path().join("in"), &link).unwrap();
    let mut spec = shell("true");
    spec.directories = vec![Directory::writable(around.path()), Directory::read_only(link)];
    let error = launcher.program(spec).unwrap().launch().await.unwrap_err().to_string();
    assert!(error.contains("the read-only directory") && error.contains("needs namespaces"), "{error}");
}

#[tokio::test]
async fn files_are_restricted_by_landlock() {
    let Some(launcher) = without_namespaces() else { return };
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [granted, writable, other] = dirs.each_ref().map(|dir| {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(dir.path().join("f"), "text\n").unwrap();
        fs::set_permissions(dir.path().join("f"), fs::Permissions::from_mode(0o666)).unwrap();
        PathBuf::from(dir.path())
    });
    let (granted, writable, other) = (granted.display(), writable.display(), other.display());
    let script = format!(
        "cat {granted}/f {other}/f /etc/passwd /proc/1/status 2>/dev/null
        (echo x > {granted}/f) 2>/dev/null || echo read-only
        (echo x > {other}/f) 2>/dev/null || echo refused
        (echo x > /tmp/{}) 2>/dev/null || echo no tmp
        echo y > {writable}/g && cat {writable}/g
        cp /bin/true {writable}/true; {writable}/true 2>/dev/null || echo not executed",
        marker()
    );
    let mut spec = shell(&script);
    spec.directories = vec![Directory::read_only(dirs[0].path()), Directory::writable(dirs[1].path())];
    let said = run_with(&launcher, spec).await;
    assert_eq!(said.stdout, "text\nread-only\nrefused\nno tmp\ny\nnot executed\n", "{said:?}");
}

#[tokio::test]
async fn files_of_the_host_beside_a_program_are_hidden_by_landlock() {
    let Some(launcher) = without_namespaces() else { return };
    let (before, _) = read_beside(&launcher, false).await;
    assert_eq!(before, ["module", "hidden", "hidden", "hidden", "hidden", "hidden"]);
    let (before, after) = read_beside(&launcher, true).await;
    assert_eq!(before, ["module"]);
    // The names are not hidden.
    assert_eq!(after, ["module", "copy", "later", "lib.sh", "link", "reader.sh", "secret", "state", "sub"]);
}

#[tokio::test]
async fn there_are_no_sockets_but_pairs() {
    let Some(launcher) = without_namespaces() else { return };
    let script = r#"
import errno, socket
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
    try:
        socket.socket(family)
        print("made")
    except OSError as error:
        print(errno.errorcode[error.errno])
one, other = socket.socketpair()
one.sendall(b"x")
print(other.recv(1))
"#;
    let Some(spec) = python(script) else { return };
    assert_eq!(run_with(&launcher, spec).await.success(), "EPERM\nEPERM\nEPERM\nEPERM\nEPERM\nb'x'\n");
}

#[tokio::test]
async fn other_processes_are_not_signalled() {
    let Some(launcher) = without_namespaces() else { return };
    let restricts_signals = launcher.kernel().landlock_abi.is_some_and(|abi| abi >= 6);
    if !restricts_signals && !geteuid().is_root() {
        assert!(launcher.kernel().lacks.iter().any(|lack| matches!(lack, Lack::Scopes(_))));
        eprintln!("skipped: Landlock of this kernel does not restrict signals");
        return;
    }
    let mut other = sleeping(&marker());
    let script = format!(
        "kill -9 {} {} 2>/dev/null || echo refused; kill -9 $PPID 2>/dev/null || echo refused",
        other.0.id(),
        std::process::id()
    );
    assert_eq!(run_with(&launcher, shell(&script)).await.stdout, "refused\nrefused\n");
    assert!(other.0.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn limits_of_other_processes_and_attributes_of_files_by_path_are_not_changed() {
    let Some(launcher) = without_namespaces() else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let script = r#"
import os, resource, signal
PATH = "DIR/file"
FILES = resource.RLIMIT_NOFILE
file = os.open(PATH, os.O_CREAT | os.O_RDWR)
child = os.fork()
if child == 0:
    signal.pause()
def attempt(what, function):
    try:
        function()
        print(what, "done")
    except OSError as error:
        print(what, error.errno)
attempt("limits", lambda: resource.prlimit(child, FILES, (64, 64)))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, child, 10))
attempt("priority of the user", lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt("processors", lambda: os.sched_setaffinity(child, os.sched_getaffinity(0)))
attempt("mode", lambda: os.chmod(PATH, 0o600))
attempt("owner", lambda: os.chown(PATH, -1, -1))
attempt("times", lambda: os.utime(PATH, (0, 0)))
attempt("attribute", lambda: os.setxattr(PATH, "user.a", b"b"))
attempt("own limits", lambda: resource.setrlimit(FILES, (64, 64)))
attempt("mode of an open file", lambda: os.fchmod(file, 0o600))
attempt("times of an open file", lambda: os.utime(file, (0, 0)))
os.kill(child, signal.SIGKILL)
"#;
    let Some(mut spec) = python(&script.replace("DIR", dir.path().to_str().unwrap())) else { return };
    spec.directories = vec![Directory::writable(dir.path())];
    let refused = ["limits", "priority", "priority of the user", "processors", "mode", "owner", "times", "attribute"];
    let done = ["own limits", "mode of an open file", "times of an open file"];
    // EPERM.
    let expected = refused.iter().map(|what| format!("{what} 1\n"));
    let expected: String = expected.chain(done.iter().map(|what| format!("{what} done\n"))).collect();
    assert_eq!(run_with(&launcher, spec).await.success(), expected);
}

#[tokio::test]
async fn orphans_and_fork_bombs_end_with_the_program() {
    let Some(launcher) = without_namespaces() else { return };
    let marker = marker();
    let script = format!(
        "trap '' TERM HUP; setsid sh -c '(sleep {marker} & sleep {marker}) &' >/dev/null 2>&1; sleep 0.2; exit 4"
    );
    let outcome = run_with(&launcher, shell(&script)).await.outcome;
    assert_eq!(outcome.reason, EndReason::Exit(4));
    assert_eq!(sleepers(&marker), Vec::<i32>::new());

    let mut spec =
        shell(&format!("f() {{ sleep {marker} & f & f; }}; f 2>/dev/null & echo started; wait; sleep {marker}"));
    // On older kernels, this counts all processes of the user.
    spec.limits.processes = 300;
    let mut child = launcher.program(spec).unwrap().launch().await.unwrap();
    assert_eq!(first_line(&mut child).await, "started");
    assert_eq!(child.kill().await.reason, EndReason::Killed);
    assert_eq!(sleepers(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn the_limit_of_memory_holds() {
    let Some(launcher) = without_namespaces() else { return };
    let Some(mut spec) = python("import signal\nblock = bytearray(200 << 20)\nsignal.pause()") else { return };
    spec.limits.memory = 100 << 20;
    assert_eq!(run_with(&launcher, spec).await.outcome.reason, EndReason::Memory);
}

#[tokio::test]
async fn without_landlock_only_a_trusted_program_is_started() {
    let launcher = launcher("landlock");
    assert_eq!(launcher.kernel().landlock_abi, None);
    let mut spec = shell("echo started");
    let error = launcher.program(spec.clone()).unwrap_err();
    assert!(matches!(error, SpecError::NotConfined(_)));
    assert!(error.to_string().contains("sandbox = \"none\""), "{error}");
    spec.sandbox = Sandbox::None;
    let child = launcher.program(spec).unwrap().launch().await.unwrap();
    assert_eq!(read(child).await.success(), "started\n");
}
