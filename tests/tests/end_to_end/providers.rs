//! The providers that ship with the host.

mod configuration;
mod database;
mod drive;
mod files;
mod git;
mod hidden_completions;
mod hidden_entries;
mod http_cache;
mod notes;
mod prometheus;
mod results;
mod team;
