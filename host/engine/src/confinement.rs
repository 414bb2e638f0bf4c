//! Confinement of this project's processes by the kernel: defence in depth behind the sandbox of wasmtime.
//!
//! Only this project's own processes are confined: the compiler process by [`confine_compiler`], the program `mcp-host`
//! by `Confinement::install`. The library never confines an application that embeds it.
//!
//! | mechanism | compiler process | `mcp-host` | `mcp-host serve` with `server.confine` |
//! |---|---|---|---|
//! | no new privileges (`PR_SET_NO_NEW_PRIVS`) | yes | yes | yes |
//! | seccomp | only the listed system calls; hostile ones kill the process | the listed system calls fail with `EPERM` | the same |
//! | Landlock | no file, no directory, no port | | what the config names at the start, see module `permissions` |
//! | Unix sockets | none | | none (seccomp), unless the config names some: then these (Landlock ABI 9), or all where the kernel does not have it |
//!
//! Best effort: mechanisms that the kernel lacks are skipped and reported, without an error. Landlock applies to the
//! calling thread and to threads that it starts later, so confinement happens before there are other threads. Seccomp
//! filters are installed for all threads.

#[cfg(target_os = "linux")]
mod landlock;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "other systems have nothing to confine a process with"))]
mod permissions;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::io;
use std::path::PathBuf;

pub use self::permissions::Permissions;

/// Confines this process to the compiler's needs: its standard streams, memory and threads. Must be called before there
/// are other threads. Mechanisms that the kernel lacks are skipped.
pub fn confine_compiler() {
    #[cfg(target_os = "linux")]
    {
        // Seccomp goes last, because its filter refuses the system calls of Landlock. If one of them fails, the other
        // still helps.
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
    /// The sockets that the config names: Landlock.
    Granted,
    /// All that the user may open.
    Any,
}

impl UnixSockets {
    /// The first version of Landlock that restricts Unix sockets by path.
    const LANDLOCK_ABI: u32 = 9;

    /// Returns the Unix sockets that remain under this version of Landlock.
    pub(crate) fn of_landlock(abi: Option<u32>) -> Self {
        if abi.is_some_and(|abi| abi >= Self::LANDLOCK_ABI) { Self::Granted } else { Self::Any }
    }

    /// Returns the Unix sockets that a server may open if a kernel with this version of Landlock confines it to these
    /// permissions.
    pub fn of_server(permissions: &Permissions, seccomp: bool, landlock_abi: Option<u32>) -> Self {
        if seccomp && permissions.sockets_are_none() { Self::None } else { Self::of_landlock(landlock_abi) }
    }
}

/// The confinement of this process.
#[derive(Debug)]
pub struct Confinement {
    /// Neither this process nor its children can gain privileges by executing a program.
    pub no_new_privs: bool,
    /// System calls are filtered.
    pub seccomp: bool,
    /// The kernel's version of Landlock; none without Landlock.
    pub landlock_abi: Option<u32>,
    /// The Unix sockets that this process may open.
    unix_sockets: UnixSockets,
    #[cfg(target_os = "linux")]
    domain: Option<landlock::Domain>,
}

impl Confinement {
    /// A process without confinement.
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

    /// Confines this process, to these permissions if given. Must be called before there are other threads.
    ///
    /// # Errors
    ///
    /// The kernel has Landlock, and the permissions cannot be installed.
    #[cfg(target_os = "linux")]
    pub fn install(permissions: Option<&Permissions>) -> Result<Self, ConfinementError> {
        let (no_new_privs, landlock_abi) = landlock::prepare();
        // This needs no privilege, and the filters allow the system calls of Landlock.
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

    /// This system has no confinement mechanism.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn install(_: Option<&Permissions>) -> Result<Self, ConfinementError> {
        Ok(Self::none())
    }

    /// Checks that this process has these permissions.
    ///
    /// # Errors
    ///
    /// It is confined to other permissions. The text lists the missing ones.
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
