//! The providers that ship with the host.

mod git;
mod http_cache;
mod notes;
