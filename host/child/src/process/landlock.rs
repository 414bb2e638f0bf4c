//! Landlock: the files that a program may open, within its file system.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};

use super::plan::Plan;

/// The version whose restrictions are used. A newer kernel restricts the same, an older one less.
const VERSION: ABI = ABI::V9;

/// Why a program cannot be confined.
#[derive(Debug, thiserror::Error)]
pub(super) enum LandlockError {
    /// The kernel rejects the rules.
    #[error("Landlock: {0}")]
    Rules(#[from] RulesetError),
    /// The kernel has no Landlock.
    #[error("the kernel does not enforce Landlock")]
    NotEnforced,
}

fn read() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{ReadFile | ReadDir})
}

fn execute() -> BitFlags<AccessFs> {
    read() | AccessFs::Execute
}

fn write() -> BitFlags<AccessFs> {
    let write = make_bitflags!(AccessFs::{
        WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
    });
    read() | write
}

/// Confines this process, and everything that it starts.
pub(super) fn confine(plan: &Plan, has_namespaces: bool) -> Result<(), LandlockError> {
    let rules = Ruleset::default().handle_access(AccessFs::from_all(VERSION))?.scope(Scope::from_all(VERSION))?;
    // In a network namespace, only the program's own servers and the proxy can be connected to.
    let rules = if has_namespaces { rules } else { rules.handle_access(AccessNet::from_all(VERSION))? };
    let mut rules = rules.create()?;
    for path in plan.executable_paths() {
        rules = allow(rules, path, execute())?;
    }
    // Links have no rules: a rule for a link would be one for its target.
    for path in plan.listable_paths() {
        rules = allow(rules, path, make_bitflags!(AccessFs::{ReadDir}))?;
    }
    for path in plan.readable_paths() {
        rules = allow(rules, path, read())?;
    }
    for device in super::mounts::DEVICES {
        rules =
            allow(rules, &Path::new("/dev").join(device), make_bitflags!(AccessFs::{ReadFile | WriteFile | IoctlDev}))?;
    }
    if has_namespaces {
        rules = allow(rules, Path::new("/proc"), read())?;
        rules = allow(rules, Path::new("/etc"), read())?;
        let own = make_bitflags!(AccessFs::{MakeSock | MakeFifo | ResolveUnix});
        rules = allow(rules, Path::new("/tmp"), write() | own)?;
    } else {
        // The entry of this process only, which `exec` keeps.
        rules = allow(rules, Path::new("/proc/self"), read())?;
    }
    for directory in plan.directories() {
        let access = if directory.writable { write() } else { read() };
        rules = allow(rules, directory.path(), access)?;
    }
    match rules.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err(LandlockError::NotEnforced),
        _ => Ok(()),
    }
}

/// Allows an access below a path, if the path exists.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, RulesetError> {
    rules.add_rules(path_beneath_rules([path], access))
}
