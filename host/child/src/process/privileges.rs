//! Dropping privileges: the user, and the capabilities.

use std::io;

use rustix::fs::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// A user and its only group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) user: u32,
    pub(super) group: u32,
}

impl User {
    /// Returns the user with this name or id.
    pub(super) fn find(name: &str) -> Result<Self, String> {
        use nix::unistd::{Uid, User as Entry};
        let error = |error: nix::Error| format!("the user {name:?} cannot be looked up: {error}");
        let entry = match name.parse() {
            Ok(number) => match Entry::from_uid(Uid::from_raw(number)).map_err(error)? {
                Some(entry) => Some(entry),
                // An id needs no entry.
                None => return Self { user: number, group: number }.checked(),
            },
            Err(_) => Entry::from_name(name).map_err(error)?,
        };
        let entry = entry.ok_or_else(|| format!("there is no user {name:?}"))?;
        Self { user: entry.uid.as_raw(), group: entry.gid.as_raw() }.checked()
    }

    /// Refuses root, and the number that is no user: limits on processes do not apply to root, and root can write to all
    /// its files.
    fn checked(self) -> Result<Self, String> {
        match self.user {
            0 => Err("a program is not started as root: name another `user`".to_owned()),
            // For the kernel, this number means that the user stays the same.
            u32::MAX => Err(format!("{} is no user: name another `user`", u32::MAX)),
            _ => Ok(self),
        }
    }

    /// Becomes this user, irreversibly.
    pub(super) fn enter(self) -> io::Result<()> {
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        Ok(set_thread_res_uid(user, user, user)?)
    }
}

/// Drops all capabilities, including those that a program would get by `exec`.
pub(super) fn drop_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all() {
        match remove_capability_from_bounding_set(capability) {
            // The kernel does not have the capability, or this process has no capabilities anyway.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_and_by_number_and_is_not_root() {
        assert!(User::find("root").unwrap_err().contains("name another"));
        assert!(User::find("0").is_err() && User::find("4294967295").is_err());
        assert!(User::find("no-such-user").unwrap_err().contains("there is no user"));
        assert_eq!(User::find("4000000").unwrap(), User { user: 4_000_000, group: 4_000_000 });
    }
}
