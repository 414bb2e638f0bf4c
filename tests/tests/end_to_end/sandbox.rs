//! The sandbox of a plugin: grants, limits, instances and processor time.

mod access_tokens;
mod confinement;
mod directories;
mod guest_log;
mod host_memory;
mod http_grant;
mod instance_reuse;
mod keyvalue;
mod limits;
mod scheduling;
mod shared_buckets;
