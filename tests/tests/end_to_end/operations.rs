//! Running a server: the audit log, the command line, serving without a config, connecting clients, loading, reloading,
//! state and shutdown.

mod administration;
mod alerts;
mod audit;
mod cli;
mod compilations;
mod componentize;
mod config_warnings;
mod conformance_of_providers;
mod connect;
mod debugger;
mod dev;
mod diagnostics;
mod explain;
mod init;
mod inspect;
mod keyvalue_command;
mod kubernetes;
mod loading;
mod log;
mod metrics;
mod missing_secrets;
mod needs;
mod packaging;
mod preparations;
mod recordings;
mod reload;
mod serve_paths;
mod service_manager;
mod shutdown;
mod state_and_cache_files;
mod telemetry;
mod unread_stderr;
