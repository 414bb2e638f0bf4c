//! Runs existing MCP servers, ordinary programs that speak MCP over their standard streams, as sandboxed child
//! processes.
//!
//! ```no_run
//! use mcp_host_child::{Directory, Launcher, LauncherProgram, Spec};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // At the start of the process, before it confines itself.
//! let launcher = Launcher::start(&LauncherProgram::CurrentExe, None)?;
//! let mut spec = Spec::new(["/opt/servers/node_modules/.bin/mcp-server-filesystem", "/data"]);
//! spec.directories.push(Directory::read_only("/data"));
//! spec.origins.push("https://api.example.com".parse()?);
//! let program = launcher.program(spec)?;
//! for lack in program.lacks() {
//!     eprintln!("{lack}");
//! }
//! let mut child = program.launch().await?;
//! // `child.stdin`, `child.stdout` and `child.stderr`. When the child is dropped, all of its processes end.
//! let outcome = child.wait().await;
//! eprintln!("{}", outcome.reason);
//! # Ok(())
//! # }
//! # fn main() {
//! // The first call in `main`, because the launcher is the same executable, started once more.
//! mcp_host_child::run_launcher();
//! # }
//! ```
//!
//! # Confinement of a program
//!
//! | mechanism | effect |
//! |---|---|
//! | namespaces: user, mount, process, network, IPC, host name, control group | the program sees its own files, the granted directories, a private `/tmp`, its own processes, and a network in which only the host's proxy listens |
//! | Landlock | the program executes only its own and the system's files, and writes only to directories that are granted for writing; it sends no signal to processes outside, and connects to none of their abstract sockets |
//! | seccomp | no `ptrace`, no mounts, no namespaces, only IP and Unix sockets, no memory that is not accounted to a process |
//! | privileges | no new privileges (`PR_SET_NO_NEW_PRIVS`), no capabilities, never root: if the host runs as root, the program runs as another user |
//! | limits of the kernel | mapped memory of a process (`RLIMIT_DATA`), processor time (`RLIMIT_CPU`), processes (`RLIMIT_NPROC`), open files, size of a file, no core dumps |
//! | control groups, if one is delegated to the host | memory (including kernel memory) and processes of the whole program |
//! | the supervisor | measures all processes once a second, and kills them above `memory` and `cpu` |
//!
//! Without namespaces (in a container that forbids them) the other mechanisms still hold. Seccomp then refuses all
//! sockets except pairs of Unix sockets. The program sees granted directories at their own paths and has no `/tmp`, and
//! [`Launcher::program`] refuses origins and guest paths. Without Landlock or seccomp, no program is started, except
//! with [`Sandbox::None`]. [`Kernel::lacks`] lists the missing features.
//!
//! # Why not Bubblewrap
//!
//! Bubblewrap creates the same mounts and namespaces, but it would have to be installed in a known version. If it is
//! set-user-id root, it is an additional risk. This crate would still need Landlock, the limits, the measurement, the
//! socket in the program's network, and the compiler of the seccomp filters, because Bubblewrap only loads compiled
//! ones. Bubblewrap would replace only the system calls of the modules `namespaces` and `mounts`.
//!
//! # Why there is a launcher
//!
//! `mcp-host` confines itself before it creates a second thread: it may not create namespaces or mounts, and, with
//! `server.confine`, may not open most files. A child process inherits this. So a process that was started earlier
//! starts the programs: the launcher, which is the same executable with a hidden argument. The launcher has no threads,
//! so its forked children may call any function. It shares no memory with the host. It can be restricted to the
//! programs of the config ([`Launcher::start`]).
//!
//! # The end of a program
//!
//! All processes of a program end when the [`Child`] is dropped, when the program ends, and when the host ends, even by
//! `SIGKILL`: the supervisor holds one end of a socket, only the host holds the other end, and the kernel closes it. If
//! the supervisor itself is killed, the kernel kills init (`PR_SET_PDEATHSIG`), and with init all processes of its
//! namespace.
//!
//! # Not restricted
//!
//! - How a program uses granted directories and origins, and how much it writes to a directory, except for the size of
//!   one file.
//! - Without a control group: the kernel's own memory for a program (pipes, sockets, locks of files and the like),
//!   except for the number of open files and processes, and the processor time of a process whose parent does not wait
//!   for it in its last second.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]
#![cfg(target_os = "linux")]

mod child;
mod grants;
mod kernel;
mod launcher;
mod message;
mod process;
mod proxy;
mod spec;

pub use self::child::{Child, StderrLines};
pub use self::grants::GrantError;
pub use self::kernel::{Kernel, Lack};
pub use self::launcher::{LaunchError, Launcher, LauncherProgram, Program};
pub use self::message::{EndReason, Measured, Outcome};
pub use self::process::run_launcher;
pub use self::spec::{Directory, Limits, Sandbox, Spec, SpecError};
