//! The filters, tested in separate processes: each test starts this executable again, for this test only.

use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;

use mcp_host_base::seccomp::HOSTILE;

use super::*;

/// A request of `ptrace` that does nothing to process 0. C libraries disagree on its type.
const PTRACE_ATTACH: libc::c_int = 16;
/// Set in the process of a test.
const DIRECTORY: &str = "MCP_HOST_CONFINED_TEST";

/// Runs the test with this name in a separate process, in which [`inside`] returns `directory`.
fn run(test: &str, directory: &Path) -> Output {
    let name = format!("confinement::tests::{test}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &name, "--nocapture", "--test-threads=1"]).env(DIRECTORY, directory);
    command.output().unwrap()
}

/// Returns the directory of this test if this is its process.
fn inside() -> Option<std::path::PathBuf> {
    std::env::var_os(DIRECTORY).map(Into::into)
}

fn assert_success(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
}

/// Makes a system call with zeros as arguments.
fn call(number: i64) -> io::Result<()> {
    call_with(number, 0, 0)
}

/// Makes a system call with two numbers and zeros as arguments.
fn call_with(number: i64, first: libc::c_int, second: libc::c_int) -> io::Result<()> {
    // SAFETY: the filter refuses the call before the kernel dereferences a pointer. Without the filter, the
    // kernel refuses null pointers.
    #[allow(unsafe_code, reason = "see above")]
    let result = unsafe { libc::syscall(number, first, second, 0, 0, 0, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns whether the kernel has seccomp. A test that needs it reports that it is skipped.
fn has_seccomp() -> bool {
    // The action is a null pointer. A kernel or a container without seccomp returns another error.
    let asked = call_with(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL.cast_signed(), 0);
    let has_seccomp = asked.is_err_and(|error| error.raw_os_error() == Some(libc::EFAULT));
    if !has_seccomp {
        eprintln!("skipped: this kernel has no seccomp");
    }
    has_seccomp
}

/// Returns whether the kernel has this version of Landlock. A test that needs it reports that it is skipped.
fn has_landlock(version: u32) -> bool {
    let (_, abi) = landlock::prepare();
    let is_there = abi.is_some_and(|abi| abi >= version);
    if !is_there {
        eprintln!("skipped: this kernel has no Landlock of ABI {version} or later, but {abi:?}");
    }
    is_there
}

#[test]
fn a_server_is_refused_every_hostile_system_call_and_does_what_it_needs() {
    if inside().is_none() {
        return assert_success(&run(
            "a_server_is_refused_every_hostile_system_call_and_does_what_it_needs",
            Path::new("/"),
        ));
    }
    let confinement = Confinement::install(None).unwrap();
    assert_eq!(confinement.landlock_abi, landlock::prepare().1);
    assert!(confinement.no_new_privs);
    if !has_seccomp() {
        return assert!(!confinement.seccomp);
    }
    assert!(confinement.seccomp);
    for number in HOSTILE {
        let refused = call(*number).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "system call {number}: {refused}");
    }
    let with_arguments = [
        (libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0),
        (libc::SYS_socket, libc::AF_PACKET, libc::SOCK_RAW),
        (libc::SYS_socket, libc::AF_VSOCK, libc::SOCK_STREAM),
        (libc::SYS_ioctl, 0, 0x5412),
    ];
    for (number, first, second) in with_arguments {
        let refused = call_with(number, first, second).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "system call {number}({first}): {refused}");
    }
    assert_eq!(call(libc::SYS_clone3).unwrap_err().raw_os_error(), Some(libc::ENOSYS));
    #[cfg(target_arch = "x86_64")]
    assert_eq!(call(0x4000_0000 | libc::SYS_getpid).unwrap_err().raw_os_error(), Some(libc::ENOSYS));
    // A server starts threads and the compiler, listens and connects.
    assert!(Command::new("/proc/self/exe").arg("--list").output().unwrap().status.success());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || TcpStream::connect(address).unwrap()).join().unwrap();
    assert!(File::open("/dev/null").is_ok());
}

#[test]
fn a_compiler_reads_and_writes_its_streams_and_has_threads_but_no_files() {
    if inside().is_none() {
        return assert_success(&run(
            "a_compiler_reads_and_writes_its_streams_and_has_threads_but_no_files",
            Path::new("/"),
        ));
    }
    let is_confined = has_seccomp() || has_landlock(1);
    confine_compiler();
    let sum: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| vec![1_u8; 1 << 20].len())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(sum, 4 << 20);
    if !is_confined {
        return;
    }
    for file in ["/etc/passwd", "/proc/self/maps", "/dev/null"] {
        assert!(File::open(file).is_err(), "{file}");
    }
    assert!(fs::read_dir("/").is_err());
    assert!(std::thread::available_parallelism().is_ok(), "libraries that try a file go on without");
    println!("it still writes");
}

/// Asserts that the attack kills the compiler.
fn assert_fatal(test: &str, attack: impl FnOnce()) {
    if inside().is_some() {
        confine_compiler();
        attack();
        return;
    }
    let output = run(test, Path::new("/"));
    if has_seccomp() {
        assert_eq!(output.status.signal(), Some(Signal::SYS.as_raw()), "{}", output.status);
    }
}

#[test]
fn a_compiler_that_opens_a_socket_is_killed() {
    assert_fatal("a_compiler_that_opens_a_socket_is_killed", || drop(TcpStream::connect("127.0.0.1:1")));
}

#[test]
fn a_compiler_that_starts_a_program_is_killed() {
    assert_fatal("a_compiler_that_starts_a_program_is_killed", || drop(call(libc::SYS_execve)));
}

#[test]
fn a_compiler_that_traces_a_process_is_killed() {
    assert_fatal("a_compiler_that_traces_a_process_is_killed", || {
        drop(call_with(libc::SYS_ptrace, PTRACE_ATTACH, 0));
    });
}

#[test]
fn a_compiler_that_removes_a_file_is_killed() {
    assert_fatal("a_compiler_that_removes_a_file_is_killed", || drop(fs::remove_file("/nowhere")));
}

#[test]
fn landlock_alone_denies_a_compiler_all_files() {
    if inside().is_none() {
        return assert_success(&run("landlock_alone_denies_a_compiler_all_files", Path::new("/")));
    }
    if has_landlock(1) {
        landlock::deny_all().unwrap();
        assert_eq!(File::open("/etc/passwd").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(fs::read_dir("/").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
    if has_landlock(4) {
        assert_eq!(TcpListener::bind("127.0.0.1:0").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}

#[test]
fn a_confined_server_reads_and_writes_what_its_config_names_and_knows_what_it_may_not() {
    let Some(dir) = inside() else {
        let dir = tempfile::tempdir().unwrap();
        for name in ["files", "read", "write", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("f"), name).unwrap();
        }
        return assert_success(&run(
            "a_confined_server_reads_and_writes_what_its_config_names_and_knows_what_it_may_not",
            dir.path(),
        ));
    };
    let at = |path: &str| dir.join(path);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    let permissions = Permissions {
        files: [at("files/f")].into(),
        read: [at("read"), at("absent")].into(),
        write: [at("write")].into(),
        create: [at("state/mcp-host")].into(),
        connect: [port].into(),
        ..Permissions::default()
    };
    let socket = at("write/socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok(), "before it is confined");
    let confinement = Confinement::install(Some(&permissions)).unwrap();
    if confinement.seccomp {
        use std::os::unix::net::{UnixDatagram, UnixStream};
        let denied = |result: io::Result<()>| assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EPERM));
        denied(UnixStream::connect(&socket).map(drop));
        denied(UnixDatagram::unbound().map(drop));
        denied(UnixDatagram::pair().map(drop));
        assert!(UnixStream::pair().is_ok(), "the runtime has one for signals");
        let more = Permissions { sockets: [socket.clone()].into(), ..Permissions::default() };
        assert_eq!(confinement.check(&more).unwrap_err(), format!("connect to the socket {}", socket.display()));
    }
    if !has_landlock(1) {
        assert_eq!(confinement.check(&Permissions { read: [at("other")].into(), ..Permissions::default() }), Ok(()));
        return;
    }
    let denied = |result: io::Result<()>| assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(fs::read_to_string(at("files/f")).unwrap(), "files");
    assert_eq!(fs::read_dir(at("read")).unwrap().count(), 1);
    denied(File::create(at("read/new")).map(drop));
    denied(File::open(at("other/f")).map(drop));
    denied(fs::read_dir(&dir).map(drop));
    for at in ["write", "state/mcp-host"].map(at) {
        fs::write(at.join("new"), "text").unwrap();
        fs::rename(at.join("new"), at.join("renamed")).unwrap();
        fs::remove_file(at.join("renamed")).unwrap();
    }

    let may = |permissions: Permissions| confinement.check(&permissions);
    let none = Permissions::default;
    assert_eq!(may(permissions.clone()), Ok(()));
    assert_eq!(may(Permissions { read: [at("write"), at("read/f"), at("absent")].into(), ..none() }), Ok(()));
    let missing = may(Permissions { files: [at("other/f")].into(), write: [at("read")].into(), ..none() }).unwrap_err();
    assert_eq!(missing, format!("read {}, write to {}", at("other/f").display(), at("read").display()));

    // A permission for a directory covers everything created in it later.
    fs::create_dir(at("write/inner")).unwrap();
    assert_eq!(may(Permissions { write: [at("write/inner")].into(), ..none() }), Ok(()));

    if has_landlock(4) {
        TcpStream::connect(("127.0.0.1", port)).unwrap();
        denied(TcpListener::bind("127.0.0.1:0").map(drop));
        denied(TcpStream::connect(("127.0.0.1", port ^ 1)).map(drop));
        assert_eq!(may(Permissions { connect: [port, 443].into(), ..none() }).unwrap_err(), "connect to port 443");
    }
}
