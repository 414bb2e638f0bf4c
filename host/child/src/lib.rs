//! Runs existing MCP servers, ordinary programs that speak MCP over their standard streams, as sandboxed child processes.
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
//! # Confinement of a program
//!
//! | mechanism | what it does |
//! |---|---|
//! | namespaces: user, mount, process, network, IPC, host name, control group | the program sees its own files, the granted directories, a private `/tmp`, its own processes, and a network in which only the host's proxy listens |
//! | Landlock | of these files it executes its own and the system's, and writes to what is granted for that; no signal to, and no abstract socket of, processes outside |
//! | seccomp | no `ptrace`, no mounts, no namespaces, no sockets but IP and Unix ones, no memory that belongs to no process |
//! | privileges | no new ones (`PR_SET_NO_NEW_PRIVS`), no capabilities, never root: a host that is root starts it as another user |
//! | limits of the kernel | memory that a process maps (`RLIMIT_DATA`), processor time (`RLIMIT_CPU`), processes (`RLIMIT_NPROC`), open files, size of a file, no core dumps |
//! | control groups, where one is delegated to the host | memory (including kernel memory) and processes of the whole program |
//! | the supervisor | measures all processes once a second, and kills them above `memory` and `cpu` |
//!
//! Without namespaces (in a container that forbids them) the other mechanisms still hold: seccomp refuses all sockets except pairs of
//! Unix sockets, the program sees granted directories at their own paths, has no `/tmp`, and [`Launcher::program`] refuses origins and
//! guest paths. Without Landlock or seccomp, no program is started, except with [`Sandbox::None`]. [`Kernel::lacks`] lists the missing
//! features.
//!
//! # Why no other program does this
//!
//! Bubblewrap makes the same mounts and namespaces. It would have to be installed, in a known version; if it is set-user-id root, it is
//! a risk of its own; and Landlock, seccomp (except for a filter that is compiled elsewhere), the limits, the measurement and the
//! socket in the program's network would still be this crate's. What remains are the system calls of the modules `namespaces` and
//! `mounts`.
//!
//! # Why there is a launcher
//!
//! `mcp-host` confines itself before it has a second thread: it may not make namespaces or mounts, and, with `server.confine`, may not
//! open most files. A child inherits this. So programs are started by a process that was started earlier: the same executable with a
//! hidden argument. It has no threads, so its forked children are not restricted in what they call; it shares no memory with the host;
//! and it can be bound to the programs in the config at the start ([`Launcher::start`]).
//!
//! # The end
//!
//! All processes of a program end when the [`Child`] is dropped, when the program ends, and when the host ends, even by `SIGKILL`: the
//! supervisor holds one end of a socket whose other end only the host has. If the supervisor itself is killed, the kernel sends a
//! signal to init (`PR_SET_PDEATHSIG`), and with init all processes of its namespace are killed.
//!
//! # Not restricted
//!
//! - The use of granted directories and origins by a program, and how much it writes to a directory, except for the size of one file.
//! - Without a control group: kernel memory for pipes and sockets, apart from the number of open files, and the processor time of
//!   processes that live less than a second and whose parent ignores them.

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
