//! Grants, enforced: what one plugin may use of the outside world, one file each.

pub(super) mod keyvalue;
