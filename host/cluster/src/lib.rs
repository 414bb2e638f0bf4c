//! Replicas of one host that share their polls of providers over NATS, and detect each other.
//!
//! Each replica can poll every provider for itself, and is correct without the others. This crate saves polls: among
//! all replicas that watch resources of a plugin, one polls the provider for all, and publishes the changes to the
//! others. A replica's knowledge of others may be late, incomplete or wrong; then it polls for itself, and notifies all
//! its subscribers once. So a failure of the engine never suppresses a notification; it only affects how soon it comes,
//! and which replica polls. Messages are not signed: anyone else who can publish can make replicas notify nonexistent
//! changes, or suppress others (docs/cluster.md, "Who can publish").
//!
//! | module | subject |
//! |---|---|
//! | [`member`] | the state machine of one replica: who polls, what was missed. Without input and output |
//! | `replica` | the identity of a replica |
//! | [`memory`] | a bound on the memory for messages of other replicas, over all plugins |
//! | [`message`], [`record`], `bounded_json` | the messages between replicas, and the records in the bucket |
//! | [`poll`] | the polls of one plugin: the groups of paths and their tokens. Without input and output |
//! | [`share`] | a member with a task that performs its outputs |
//! | `division` | the division of a plugin's watched paths into shards. Without input and output |
//! | [`shards`] | all shards of one plugin: the interface for the watch of plugins |
//! | [`roster`] | the state machine that tracks which replicas are alive, and which cached responses are stale |
//! | [`presence`] | a roster with a task that performs its outputs: one for each host |
//! | [`session`] | the records of sessions that any replica can continue |
//! | [`buckets`] | the names of plugins' shared buckets in the engine |
//! | [`lease`] | a lease for work that one replica does for all |
//! | `snapshots` | the names and the stored form of index snapshots in the engine |
//! | [`engine`] | the interface to an engine; a model of one, for tests and simulations; NATS |

#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::print_stdout,
        reason = "a test that overflows fails, as it should"
    )
)]

mod bounded_json;
pub mod buckets;
mod division;
pub mod engine;
pub mod lease;
pub mod member;
pub mod memory;
pub mod message;
pub mod poll;
pub mod presence;
pub mod record;
mod replica;
pub mod roster;
pub mod session;
pub mod shards;
pub mod share;
#[cfg(test)]
mod simulation;
#[cfg(feature = "nats")]
mod snapshots;

pub use self::bounded_json::JsonError;
pub use self::replica::{ReplicaId, ReplicaIdError};
