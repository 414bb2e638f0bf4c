//! Landlock: the files, ports and addresses that this thread, and all threads that it starts, may open, listen on and
//! connect to.
//!
//! A rule applies to an inode and, for a directory, to everything below it. So [`Domain::check`] compares inodes, too:
//! a directory that replaces a permitted one is not permitted.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, RestrictSelf, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, make_bitflags, path_beneath_rules,
};

use crate::confinement::{ConfinementError, Permissions};

/// Denies this thread all files, directories and ports, and signals to other processes. Kernels without Landlock, or
/// with an older version, deny as much as they can.
pub(super) fn deny_all() -> Result<(), RulesetError> {
    handle_all(ABI::V9)?.create()?.restrict_self()?;
    Ok(())
}

/// Returns a ruleset that denies everything that this version can deny.
fn handle_all(abi: ABI) -> Result<Ruleset, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))
}

/// The version whose restrictions are used. A newer kernel restricts the same, an older one less.
const SERVER_ABI: ABI = ABI::V9;
/// The first version that restricts TCP.
const TCP_ABI: u32 = 4;

/// An inode.
type FileId = (u64, u64);

/// The restrictions of this process.
#[derive(Debug)]
pub(super) struct Domain {
    readable: BTreeSet<FileId>,
    writable: BTreeSet<FileId>,
    /// None if the kernel does not restrict TCP.
    connect: Option<BTreeSet<u16>>,
}

/// Renounces new privileges. Returns whether this succeeded, and the kernel's version of Landlock.
pub(super) fn prepare() -> (bool, Option<u32>) {
    match RestrictSelf::default().apply() {
        Ok(status) => (status.no_new_privs, abi(&status.landlock)),
        Err(_) => (false, None),
    }
}

fn abi(status: &LandlockStatus) -> Option<u32> {
    match status {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            kernel_abi.and_then(|abi| abi.try_into().ok()).or(Some(*effective_abi as u32))
        }
        _ => None,
    }
}

impl From<RulesetError> for ConfinementError {
    fn from(error: RulesetError) -> Self {
        Self::Landlock(error.to_string())
    }
}

fn read_access() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{ReadFile | ReadDir})
}

fn write_access() -> BitFlags<AccessFs> {
    let write = make_bitflags!(AccessFs::{
        WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
    });
    read_access() | write
}

fn execute_access() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{Execute | ReadFile})
}

fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

impl Domain {
    /// Restricts this thread, and all threads that it starts, to these permissions. Skips paths that do not exist.
    pub(super) fn enter(permissions: &Permissions, abi: u32) -> Result<Self, ConfinementError> {
        for path in &permissions.create {
            let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
            created.map_err(|source| ConfinementError::Directory { path: path.clone(), source })?;
        }
        let mut ruleset = handle_all(SERVER_ABI)?.create()?;
        let mut allow = |path: &Path, access| -> Result<Option<FileId>, RulesetError> {
            (&mut ruleset).add_rules(path_beneath_rules([path], access))?;
            Ok(path.metadata().ok().map(|metadata| file_id(&metadata)))
        };
        let (mut readable, mut writable) = (BTreeSet::new(), BTreeSet::new());
        let dirs = permissions.files.iter().flat_map(|file| directories_of(file));
        for path in dirs.chain(permissions.read.iter().cloned()) {
            readable.extend(allow(&path, read_access())?);
        }
        for path in permissions.write.iter().chain(&permissions.create) {
            writable.extend(allow(path, write_access())?);
        }
        for path in &permissions.sockets {
            allow(path, make_bitflags!(AccessFs::{ResolveUnix}))?;
        }
        for path in &permissions.execute {
            allow(path, execute_access())?;
        }
        for path in &permissions.socket_dirs {
            allow(path, make_bitflags!(AccessFs::{MakeSock | RemoveFile | ResolveUnix}))?;
        }
        for port in &permissions.bind {
            (&mut ruleset).add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
        }
        for port in &permissions.connect {
            (&mut ruleset).add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
        }
        ruleset.restrict_self()?;
        let connect = (abi >= TCP_ABI).then(|| permissions.connect.clone());
        Ok(Self { readable, writable, connect })
    }

    /// Checks that the domain has these permissions; skips paths that do not exist. The text lists the missing
    /// permissions.
    pub(super) fn check(&self, permissions: &Permissions) -> Result<(), String> {
        let mut missing = Vec::new();
        for path in permissions.files.iter().chain(&permissions.read) {
            if !self.covers(path, |id| self.readable.contains(id) || self.writable.contains(id)) {
                missing.push(format!("read {}", path.display()));
            }
        }
        for path in &permissions.write {
            if !self.covers(path, |id| self.writable.contains(id)) {
                missing.push(format!("write to {}", path.display()));
            }
        }
        if let Some(connect) = &self.connect {
            let ports = permissions.connect.difference(connect);
            missing.extend(ports.map(|port| format!("connect to port {port}")));
        }
        if missing.is_empty() { Ok(()) } else { Err(missing.join(", ")) }
    }

    /// Returns whether a path is one of these inodes, or below one.
    fn covers(&self, path: &Path, is_allowed: impl Fn(&FileId) -> bool) -> bool {
        let Ok(real) = path.canonicalize() else { return true };
        real.ancestors().any(|one| one.metadata().is_ok_and(|metadata| is_allowed(&file_id(&metadata))))
    }
}

/// Returns the parent directories of a file: of its path, and of the target of its links.
fn directories_of(file: &Path) -> Vec<PathBuf> {
    let real = file.canonicalize().ok();
    [Some(file), real.as_deref()].into_iter().flatten().filter_map(Path::parent).map(Path::to_owned).collect()
}
