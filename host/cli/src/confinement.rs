//! Confinement of this process by the kernel: the restrictions of `serve`, and the report of `check`.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use mcp_host_base::log_target;
use mcp_host_config::Config;
use mcp_host_engine::confinement::{Confinement, ConfinementError, Permissions, UnixSockets};
use mcp_resource_host::host::DataDirs;

/// Confines this process; with `confine` in the config also to the paths and ports that the config names. Must be
/// called while the process has one thread.
pub(super) fn install(config: Option<&Config>, file: &Path) -> Result<Confinement, ConfinementError> {
    let permissions = config.filter(|config| config.server.confine).map(|config| {
        let dirs = DataDirs::of_command(&config.server);
        Permissions::of_server(config, file, dirs.into_paths())
    });
    Confinement::install(permissions.as_ref())
}

/// Checks that a server confined for an earlier config can serve this config.
pub(super) fn check(confinement: &Confinement, config: &Config) -> Result<(), String> {
    confinement.check(&Permissions::of_config(config)).map_err(|missing| {
        format!("`server.confine` keeps the server to what the config named when it started; restart it to {missing}")
    })
}

/// Logs which mechanisms confine the server.
pub(super) fn log(confinement: &Confinement, config: &Config) {
    let report = ConfinementReport::new(confinement, config);
    if let Some(warning) = report.warning() {
        tracing::warn!(target: log_target::SERVER, "{warning}");
    }
    tracing::debug!(target: log_target::SERVER, "{report}");
}

/// The mechanisms that are available on this system.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct ConfinementReport {
    /// No process gains privileges by executing a program.
    no_new_privs: bool,
    /// The kernel filters system calls.
    seccomp: bool,
    /// The version of Landlock, or null.
    landlock_abi: Option<u32>,
    /// The mechanisms that confine the compiler process.
    compiler: Mechanisms,
    /// The mechanisms that confine `serve` with this config.
    server: Mechanisms,
    /// Whether a server with this config may connect to every Unix socket that is open to its user.
    #[serde(skip)]
    all_unix_sockets: bool,
    /// Whether the config requests Landlock.
    #[serde(skip)]
    is_requested: bool,
}

/// The mechanisms that confine a process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Mechanisms {
    seccomp: bool,
    landlock: bool,
}

impl ConfinementReport {
    /// The mechanisms for this process, for its compiler processes, and for a server with this config.
    pub(super) fn new(confinement: &Confinement, config: &Config) -> Self {
        let &Confinement { no_new_privs, seccomp, landlock_abi, .. } = confinement;
        let is_requested = config.server.confine;
        let landlock = landlock_abi.is_some();
        let sockets = UnixSockets::of_server(&Permissions::of_config(config), seccomp, landlock_abi);
        Self {
            no_new_privs,
            seccomp,
            landlock_abi,
            compiler: Mechanisms { seccomp, landlock },
            server: Mechanisms { seccomp, landlock: landlock && is_requested },
            all_unix_sockets: !is_requested || sockets == UnixSockets::Any,
            is_requested,
        }
    }

    /// A warning if the config requests a mechanism that the kernel does not have.
    pub(super) fn warning(&self) -> Option<String> {
        if self.is_requested && !self.server.landlock {
            return Some(
                "`server.confine` has no effect on files and ports: this kernel has no Landlock, or it is switched off; use Linux 5.13 \
                 or later with `landlock` among its security modules (`lsm=`)"
                    .to_owned(),
            );
        }
        (self.is_requested && self.all_unix_sockets).then(|| {
            "`server.confine` does not restrict Unix sockets: `grants.sql` names one, and this kernel cannot restrict them by path \
             (Landlock ABI 9); let the URL name a TCP address, and none can be opened"
                .to_owned()
        })
    }
}

impl fmt::Display for Mechanisms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.seccomp, self.landlock) {
            (true, true) => "seccomp, Landlock",
            (true, false) => "seccomp",
            (false, true) => "Landlock",
            (false, false) => "none",
        })
    }
}

impl fmt::Display for ConfinementReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes_no = |holds| if holds { "yes" } else { "no" };
        let Self { no_new_privs, seccomp, compiler, server, .. } = self;
        write!(f, "confinement: no new privileges: {}; seccomp: {}", yes_no(*no_new_privs), yes_no(*seccomp))?;
        match self.landlock_abi {
            Some(abi) => write!(f, "; Landlock: ABI {abi}")?,
            None => write!(f, "; Landlock: no")?,
        }
        write!(f, "; compiler: {compiler}; server: {server}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_that_asks_for_what_the_kernel_lacks_is_warned_of() {
        let server = Mechanisms { seccomp: true, landlock: false };
        let report = ConfinementReport { is_requested: true, server, ..ConfinementReport::default() };
        assert!(report.warning().unwrap().contains("`server.confine` has no effect on files and ports"));
        let there = Mechanisms { landlock: true, ..server };
        assert_eq!(ConfinementReport { server: there, ..report }.warning(), None);
        assert_eq!(ConfinementReport { is_requested: false, ..report }.warning(), None);
        let sockets = ConfinementReport { server: there, all_unix_sockets: true, ..report };
        assert!(sockets.warning().unwrap().contains("does not restrict Unix sockets"));
        assert_eq!(ConfinementReport { is_requested: false, ..sockets }.warning(), None);
    }

    #[test]
    fn what_holds_is_one_line() {
        let all = Mechanisms { seccomp: true, landlock: true };
        let report = ConfinementReport {
            no_new_privs: true,
            seccomp: true,
            landlock_abi: Some(7),
            compiler: all,
            server: Mechanisms { landlock: false, ..all },
            all_unix_sockets: true,
            is_requested: false,
        };
        assert_eq!(
            report.to_string(),
            "confinement: no new privileges: yes; seccomp: yes; Landlock: ABI 7; compiler: seccomp, Landlock; server: seccomp"
        );
    }
}
