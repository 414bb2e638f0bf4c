//! The listener of [`serve_http`](super::serve_http): connections, over HTTP/1.1 or HTTP/2, with or without TLS, within
//! limits.

pub(super) mod activity;
pub(super) mod connection;
mod control_frames;
pub(super) mod delivery;
mod executor;
mod half_close;
mod handshake_log;
pub(super) mod tls;
mod tracked_body;
mod version;
