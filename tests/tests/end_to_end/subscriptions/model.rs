//! Model test of subscriptions: for every sequence of events, every change after a subscription is followed by at least
//! one update, and no update is sent after an unsubscription was answered.
//!
//! A run takes random steps: edits; providers that trap, hang and fail; reloads that change a plugin, remove it or
//! restore it; rules that are added and removed; subscriptions and unsubscriptions; subscribers that disconnect or do
//! not read; event streams of sessions that are cut, resumed, or considered alive while they are dead; restarts; and
//! many concurrent listeners, whose streams are acknowledged in any state. Plugins have no queue. The run keeps a model
//! of each subscriber's pending and permitted updates, and at its end waits until none is pending. A seed determines
//! the steps. A failure prints the seed and the steps: `MCP_HOST_SEED=17 cargo test -p mcp-host-tests model` repeats
//! that run, and `MCP_HOST_SEEDS=1000` runs more.
//!
//! The same runs are made over the façade, over stdio and over HTTP; each is a [`Transport`](transport::Transport).

mod expectations;
mod facade;
mod fixture;
mod http;
mod run;
mod seeds;
mod stdio;
mod transport;

/// The number of subscribers.
const SUBSCRIBERS: usize = 4;
