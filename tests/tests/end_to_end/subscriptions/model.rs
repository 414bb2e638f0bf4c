//! Whatever happens in whatever order, the rule of subscriptions holds: every change after a subscription is followed by at
//! least one update, and none comes after an unsubscription is answered.
//!
//! A run does some steps by chance: edits, providers that trap, hang and fail, reloads that change a plugin, take it away or
//! bring it back, rules that come and go, subscriptions, unsubscriptions, subscribers that go away, that do not read, and many
//! that listen at the same moment, whose streams are acknowledged whatever is in the way. Plugins have no queue. It keeps
//! a model of what is owed to whom and of what may be told to whom, and at its end waits until all that is owed has been
//! paid. Chance is a seed, which a failure names: `MCP_HOST_SEED=17 cargo test -p mcp-host-tests model` runs that one again,
//! and `MCP_HOST_SEEDS=1000` runs more.
//!
//! The same runs are made over the façade, over stdio and over HTTP; what tells these apart is a [`Transport`](transport::Transport).

mod expectations;
mod facade;
mod fixture;
mod http;
mod run;
mod seeds;
mod stdio;
mod transport;

/// How many there are that subscribe.
const SUBSCRIBERS: usize = 4;
