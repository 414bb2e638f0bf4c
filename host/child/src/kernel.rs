//! What the kernel has for the confinement of programs, and what it lacks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the kernel, or what this user may do of it, lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Lack {
    /// No Landlock: a program without it is not started.
    Landlock,
    /// Landlock that does not restrict signals and abstract Unix sockets (before ABI 6). With namespaces this changes nothing.
    Scopes(u32),
    /// No seccomp: a program without it is not started.
    Seccomp,
    /// No namespaces, and why: then a program has no network, sees directories at their own paths, and has no `/tmp`.
    Namespaces(String),
    /// A container that hides parts of `/proc`, where none can be mounted: a program has none.
    Proc(String),
    /// The program has no user namespace of its own beside the other ones: a host that is root did without.
    UserNamespace(String),
    /// Another system than Linux.
    Linux,
}

/// What the kernel has, as a trial in a child process showed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Kernel {
    /// The version of Landlock.
    pub landlock_abi: Option<u32>,
    /// It filters system calls.
    pub seccomp: bool,
    /// This user can have namespaces for a program: user, mount, pid, network, IPC and host name.
    pub namespaces: bool,
    /// What is lacking.
    pub lacks: Vec<Lack>,
}

impl Kernel {
    /// Whether programs can be confined at all.
    pub(crate) fn confines(&self) -> bool {
        self.seccomp && self.landlock_abi.is_some()
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Landlock => {
                f.write_str("no Landlock: use Linux 5.13 or later with `landlock` among its security modules (`lsm=`)")
            }
            Self::Scopes(abi) => write!(
                f,
                "Landlock ABI {abi} does not restrict signals (ABI 6, Linux 6.12): without namespaces a program can signal processes \
                 of its user"
            ),
            Self::Seccomp => {
                f.write_str("no seccomp: use a kernel, and a container, that permits filters of system calls")
            }
            Self::Namespaces(reason) => write!(
                f,
                "no namespaces ({reason}): permit them to this user (`user.max_user_namespaces`, \
                 `kernel.unprivileged_userns_clone`, `kernel.apparmor_restrict_unprivileged_userns`, the container's seccomp profile)"
            ),
            Self::Proc(reason) => {
                write!(
                    f,
                    "no `/proc` for programs ({reason}): the container that the host runs in hides parts of its own"
                )
            }
            Self::UserNamespace(reason) => write!(f, "no user namespace within the other ones ({reason})"),
            Self::Linux => f.write_str("programs are confined on Linux only"),
        }
    }
}
