//! The providers that ship with the host.

mod database;
mod files;
mod git;
mod http_cache;
mod notes;
