//! The client of upstreams against servers that answer as the tests say.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod answers;
mod hostile;
mod http;
mod programs;
mod scripted;
mod updates;
