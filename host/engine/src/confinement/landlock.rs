//! Landlock: what this thread, and all that it starts, may open, listen at and connect to.

mod domain;

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, Scope};

pub(super) use self::domain::{Domain, prepare};

/// Denies this thread all files, directories and ports, and signals to other processes. Kernels without Landlock, or with an
/// older version, deny what they can.
pub(super) fn deny_all() -> Result<(), RulesetError> {
    handle_all(ABI::V9)?.create()?.restrict_self()?;
    Ok(())
}

/// A ruleset that denies everything which that version can deny.
fn handle_all(abi: ABI) -> Result<Ruleset, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))
}
