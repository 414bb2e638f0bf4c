//! The providers that ship with the host.

mod files;
mod git;
mod http_cache;
mod notes;
mod prometheus;
