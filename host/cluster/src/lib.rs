//! Replicas of one host that share their polls of providers over NATS, and know of each other.
//!
//! Each replica can poll every provider for itself, and is right without the others. This crate saves polls: of all replicas that
//! watch resources of a plugin, one polls the provider for all, and tells the others what has changed. What it knows of others may
//! be late, incomplete or wrong; then a replica polls for itself, and tells everything once. So no failure of the engine decides whether a
//! change is told, only how soon, and who asks the provider. Messages are not signed: whoever else can publish can also make replicas tell changes
//! that are none, and not tell others (docs/cluster.md, "Who can publish").
//!
//! | module | subject |
//! |---|---|
//! | [`member`] | the state machine of one replica: who polls, what was missed. Without input and output |
//! | `replica` | the identity of a replica |
//! | [`message`], [`record`], `bounded_json` | what replicas tell each other, and what they keep in the bucket |
//! | [`share`] | a member with a task that does what it says: what the watch of plugins calls |
//! | [`roster`] | the state machine of who is alive, and of which cached responses are stale |
//! | [`presence`] | a roster with a task that does what it says: one for each host |
//! | [`session`] | what replicas keep of a session that each of them continues |
//! | [`engine`] | what is needed of an engine; a model of one, for tests and simulations; NATS |

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
pub mod engine;
pub mod member;
pub mod message;
pub mod presence;
pub mod record;
mod replica;
pub mod roster;
pub mod session;
pub mod share;

pub use self::bounded_json::JsonError;
pub use self::replica::{ReplicaId, ReplicaIdError};
