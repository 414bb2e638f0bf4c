//! Running a server: the audit log, the command line, loading, reloading, state and shutdown.

mod administration;
mod alerts;
mod audit;
mod cli;
mod compilations;
mod componentize;
mod config_warnings;
mod conformance_of_providers;
mod dev;
mod explain;
mod init;
mod inspect;
mod keyvalue_command;
mod loading;
mod log;
mod metrics;
mod missing_secrets;
mod needs;
mod packaging;
mod reload;
mod service_manager;
mod shutdown;
mod state_and_cache_files;
mod telemetry;
mod unread_stderr;
