//! The confinement features of the kernel, and the missing ones.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A confinement feature that the kernel lacks or does not permit to this user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Lack {
    /// No Landlock: programs are not started.
    Landlock,
    /// Landlock does not restrict signals and abstract Unix sockets (before ABI 6). With namespaces this has no
    /// effect.
    Scopes(u32),
    /// No seccomp: programs are not started.
    Seccomp,
    /// No namespaces, with the reason: a program has no network, sees directories at their own paths, and has no
    /// `/tmp`.
    Namespaces(String),
    /// A container hides parts of `/proc`, and no other `/proc` can be mounted: a program has none.
    Proc(String),
    /// The program has no user namespace in addition to the other namespaces: the host is root and works without one.
    UserNamespace(String),
    /// The system is not Linux.
    Linux,
}

/// The features of the kernel, as found by a trial in a child process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Kernel {
    /// The version of Landlock.
    pub landlock_abi: Option<u32>,
    /// Whether it filters system calls.
    pub seccomp: bool,
    /// Whether this user can create namespaces for a program: user, mount, pid, network, IPC and host name.
    pub namespaces: bool,
    /// The missing features.
    pub lacks: Vec<Lack>,
}

impl Kernel {
    /// Returns whether programs can be confined at all.
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
                write!(f, "no `/proc` for programs ({reason}): the container of the host hides parts of `/proc`")
            }
            Self::UserNamespace(reason) => write!(f, "no user namespace within the other ones ({reason})"),
            Self::Linux => f.write_str("programs are confined on Linux only"),
        }
    }
}
