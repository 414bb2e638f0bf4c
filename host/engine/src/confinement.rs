//! Confinement of this project's processes by the kernel: defence in depth behind the sandbox of wasmtime.
//!
//! Only a process of our own is confined: the compiler process by [`confine_compiler`], the program `mcp-host` by
//! `Confinement::install`. An application that embeds the library is never confined by it.
//!
//! | mechanism | compiler process | `mcp-host` | `mcp-host serve` with `server.confine` |
//! |---|---|---|---|
//! | no new privileges (`PR_SET_NO_NEW_PRIVS`) | yes | yes | yes |
//! | seccomp | only the listed system calls; hostile ones kill the process | the listed system calls fail with `EPERM` | the same |
//! | Landlock | no file, no directory, no port | | what the config names at the start, see module `permissions` |
//! | Unix sockets | none | | none (seccomp), unless the config names some: then these (Landlock ABI 9), or all where the kernel does not have it |
//!
//! Best effort: what the kernel does not have is left out and reported, and nothing fails because of it. Landlock applies to
//! the calling thread and to those that it starts later, so all of this happens before there is another thread. Filters of
//! seccomp are installed for all threads.

#[cfg(target_os = "linux")]
mod landlock;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "other systems have nothing to confine a process with"))]
mod permissions;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod syscalls;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::io;
use std::path::PathBuf;

pub use self::permissions::Permissions;

/// Confines this process to what the compiler needs: its standard streams, memory and threads. Must be called before there
/// is another thread. What the kernel does not have is left out.
pub fn confine_compiler() {
    #[cfg(target_os = "linux")]
    {
        // Seccomp last: its filter refuses the system calls of Landlock. Without the one, the other still helps.
        let _ = landlock::deny_all();
        let _ = seccomp::confine_compiler();
    }
}

/// Why this process cannot be confined although the kernel has Landlock.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfinementError {
    /// A directory of the host cannot be created.
    #[error("cannot create {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The kernel rejects the rules.
    #[error("Landlock: {0}")]
    Landlock(String),
}

/// The Unix sockets that a process may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "other systems have nothing to restrict them with"))]
pub enum UnixSockets {
    /// None: seccomp.
    None,
    /// Those that the config names: Landlock.
    Granted,
    /// All that the user may.
    Any,
}

impl UnixSockets {
    /// The first version of Landlock that restricts them by path.
    const LANDLOCK_ABI: u32 = 9;

    /// What Landlock of that version leaves of them.
    pub(crate) fn of_landlock(abi: Option<u32>) -> Self {
        if abi.is_some_and(|abi| abi >= Self::LANDLOCK_ABI) { Self::Granted } else { Self::Any }
    }

    /// What a server with those permissions may open, that is confined to them by a kernel with that version of Landlock.
    pub fn of_server(permissions: &Permissions, seccomp: bool, landlock_abi: Option<u32>) -> Self {
        if seccomp && permissions.sockets_are_none() { Self::None } else { Self::of_landlock(landlock_abi) }
    }
}

/// What holds for this process.
#[derive(Debug)]
pub struct Confinement {
    /// Neither this process nor its children gain privileges by executing a program.
    pub no_new_privs: bool,
    /// System calls are filtered.
    pub seccomp: bool,
    /// The version of Landlock that the kernel has; none if it has no Landlock.
    pub landlock_abi: Option<u32>,
    /// The Unix sockets that this process may open.
    unix_sockets: UnixSockets,
    #[cfg(target_os = "linux")]
    domain: Option<landlock::Domain>,
}

impl Confinement {
    /// A process that is not confined.
    pub fn none() -> Self {
        Self {
            no_new_privs: false,
            seccomp: false,
            landlock_abi: None,
            unix_sockets: UnixSockets::Any,
            #[cfg(target_os = "linux")]
            domain: None,
        }
    }

    /// Confines this process, to those permissions if there are any. Must be called before there is another thread.
    ///
    /// # Errors
    ///
    /// The kernel has Landlock, and the permissions cannot be installed.
    #[cfg(target_os = "linux")]
    pub fn install(permissions: Option<&Permissions>) -> Result<Self, ConfinementError> {
        let (no_new_privs, landlock_abi) = landlock::prepare();
        // Landlock needs no privilege for this, and its system calls are not filtered.
        let seccomp = seccomp::confine_server().is_ok();
        let unix_sockets = match permissions {
            None => UnixSockets::Any,
            Some(permissions) if !permissions.sockets_are_none() => UnixSockets::of_landlock(landlock_abi),
            Some(_) if seccomp::deny_unix_sockets().is_ok() => UnixSockets::None,
            Some(_) => UnixSockets::of_landlock(landlock_abi),
        };
        let domain = match (permissions, landlock_abi) {
            (Some(permissions), Some(abi)) => Some(landlock::Domain::enter(permissions, abi)?),
            _ => None,
        };
        Ok(Self { no_new_privs, seccomp, landlock_abi, unix_sockets, domain })
    }

    /// This system has nothing to confine a process with.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn install(_: Option<&Permissions>) -> Result<Self, ConfinementError> {
        Ok(Self::none())
    }

    /// Checks that this process has those permissions.
    ///
    /// # Errors
    ///
    /// It was confined to others. The text says which are missing.
    pub fn check(&self, permissions: &Permissions) -> Result<(), String> {
        #[cfg(target_os = "linux")]
        if let Some(domain) = &self.domain {
            domain.check(permissions)?;
        }
        if self.unix_sockets == UnixSockets::None
            && let Some(socket) = permissions.first_socket()
        {
            return Err(format!("connect to the socket {}", socket.display()));
        }
        Ok(())
    }
}
