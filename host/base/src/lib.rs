//! Utilities that every crate of the host uses, and that use none of them: files, threads, limits, texts.
//!
//! | modules | subject |
//! |---|---|
//! | [`private_dir`], [`private_file`], [`sqlite_file`], [`regular_file`] | directories and files that only this user may write to, or read, SQLite databases among them; opening of files that may block |
//! | [`fs_watch`] | file system events |
//! | [`task`] | tasks whose futures are type-erased |
//! | [`threads`] | worker threads, and their scheduling by the operating system |
//! | [`backoff`], [`circuit_breaker`], [`throttle`] | exponential back-off, circuit breaker, rate-limited warnings |
//! | [`followers`] | a broadcast of events, which slow receivers lose |
//! | [`share_limiter`], [`fair_semaphore`], [`keyed_rate`], [`weak_map`] | limits with a share, permits with a queue, and a rate, for each client; values that the users of one key share |
//! | [`shared_buckets`] | the interface of plugins' key-value buckets to a store that several hosts share |
//! | [`informational`], [`bounded_body`] | bounds on what is sent to the host over HTTP: informational responses (1xx); the size and the chunks of bodies |
//! | [`shared_snapshots`] | the interface of search to a store of index snapshots that several hosts share |
//! | [`escape`], [`text`] | untrusted text for logs and terminals; quotation, truncation, errors with their causes |
//! | `seccomp` | filters of system calls |
//! | `tls_client` | the certificates of servers that TLS clients of this host accept |
//! | [`trace`] | the spans of a request that is traced, and the trace that a client continues |
//! | [`time`], [`log_target`], [`metrics`] | times and durations as numbers; the targets of log events; metric families |

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

pub mod backoff;
pub mod bounded_body;
pub mod circuit_breaker;
pub mod escape;
pub mod fair_semaphore;
pub mod followers;
pub mod fs_watch;
pub mod informational;
pub mod keyed_rate;
pub mod log_target;
pub mod metrics;
pub mod private_dir;
pub mod private_file;
pub mod regular_file;
#[cfg(all(feature = "seccomp", target_os = "linux"))]
pub mod seccomp;
pub mod share_limiter;
pub mod shared_buckets;
pub mod shared_snapshots;
#[cfg(feature = "sqlite")]
pub mod sqlite_file;
pub mod task;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
pub mod text;
pub mod threads;
pub mod throttle;
pub mod time;
#[cfg(feature = "tls")]
pub mod tls_client;
pub mod trace;
pub mod weak_map;
