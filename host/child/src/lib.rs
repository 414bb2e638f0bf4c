//! Existing MCP servers, ordinary programs that speak MCP over their standard streams, as sandboxed child processes.
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
//! // First thing in `main`, since the launcher is this program once more.
//! mcp_host_child::run_launcher();
//! # }
//! ```
//!
//! # What confines a program
//!
//! | mechanism | what it does |
//! |---|---|
//! | namespaces: user, mount, process, network, IPC, host name, control group | the program sees its own files, the granted directories, a private `/tmp`, its own processes, and a network in which only the host's proxy listens |
//! | Landlock | of these files it executes its own and the system's, and writes to what is granted for that; no signal to, and no abstract socket of, processes outside |
//! | seccomp | no `ptrace`, no mounts, no namespaces, no sockets but IP and Unix ones, no memory that belongs to no process |
//! | privileges | no new ones (`PR_SET_NO_NEW_PRIVS`), no capabilities, never root: a host that is root starts it as another user |
//! | limits of the kernel | memory that a process maps (`RLIMIT_DATA`), processor time (`RLIMIT_CPU`), processes (`RLIMIT_NPROC`), open files, size of a file, no core dumps |
//! | control groups, where one is delegated to the host | memory, with that of the kernel, and processes of the whole program |
//! | the supervisor | measures all processes once a second, and kills them above `memory` and `cpu` |
//!
//! Without namespaces (a container that forbids them) the rest still holds: then seccomp refuses all sockets but pairs of Unix sockets, the program
//! sees granted directories at their own paths, has no `/tmp`, and [`Launcher::program`] refuses origins and guest paths. Without Landlock or
//! seccomp no program is started unless [`Sandbox::None`] says so. [`Kernel::lacks`] says what is missing.
//!
//! # Why no other program does this
//!
//! Bubblewrap makes the same mounts and namespaces. It would have to be installed, in a version that is known; where it is
//! set-user-id root, it is a risk of its own; and Landlock, seccomp (but for a filter that is compiled elsewhere), the limits, the
//! measurement and the socket in the program's network would be ours all the same. What is left are the system calls of
//! modules `namespaces` and `mounts`.
//!
//! # Why there is a launcher
//!
//! `mcp-host` confines itself before it has a second thread: it may not make namespaces or mounts, and, with
//! `server.confine`, not open most files. A child inherits that. So programs are started by a process that has been started before: the
//! same executable with a hidden argument. It has no threads, so what it forks may do what it likes; it shares no memory with
//! the host; and it can be bound to the programs that the config names at the start ([`Launcher::start`]).
//!
//! # The end
//!
//! All processes of a program end when the [`Child`] is dropped, when the program ends, and when the host ends, also by
//! `SIGKILL`: the supervisor holds one end of a socket whose other end only the host has. If the supervisor itself is killed,
//! init gets a signal of the kernel (`PR_SET_PDEATHSIG`), and with init all processes of its namespace are killed.
//!
//! # Not restricted
//!
//! - What a program does with its granted directories and origins, and how much it writes to a directory, but for the size of one file.
//! - Without a control group: memory of the kernel for pipes and sockets, beyond the number of open files, and the processor time of
//!   processes that live less than a second and that their parent ignores.

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
