//! A lease without shared state: one replica at a time does some work for all, such as building an index.
//!
//! The lease is a value in the bucket of the records, which only its holder renews, by compare-and-swap. Its times are
//! the same as of the lease of [polls](crate::member): the holder relies on it for half of its time, by its own clock,
//! and another replica takes it after it has seen the value unchanged for 11/20 of that time. So no two clocks are
//! compared, and the write of a replica that was paused fails.
//!
//! A holder that is paused may rely on the lease for a moment too long. The work must tolerate two holders.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::bounded_json;
use crate::engine::{Engine, EngineError, Entry};
use crate::member::part;
use crate::replica::ReplicaId;

/// The maximum size of the value in bytes.
const MAX_BYTES: usize = 1024;

/// The value in the bucket.
#[derive(Debug, Serialize, Deserialize)]
struct LeaseRecord {
    holder: ReplicaId,
    /// The number of the holder's writes, so that each write changes the value.
    renewals: u64,
}

/// This replica's part in a lease.
#[derive(Debug)]
pub struct Lease<E> {
    engine: E,
    key: String,
    me: ReplicaId,
    time: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The revision of this replica's last write, and when that write began; none if it does not hold the lease.
    held: Option<(u64, Instant)>,
    /// The last seen revision of another replica's value, and when it was first seen.
    seen: Option<(u64, Instant)>,
    renewals: u64,
}

impl<E: Engine> Lease<E> {
    /// Creates the part of a replica in the lease with this key. Sends no request.
    pub fn new(engine: E, key: String, me: ReplicaId, time: Duration) -> Self {
        Self { engine, key, me, time, state: Mutex::default() }
    }

    /// Renews the lease, or takes it if no other replica renews it. Returns whether this replica holds it. Must be
    /// called several times in half of its time. Makes at most two requests.
    ///
    /// # Errors
    ///
    /// The engine does not answer, and this replica cannot rely on the lease.
    pub async fn hold(&self) -> Result<bool, EngineError> {
        let mut state = self.state.lock().await;
        match self.try_hold(&mut state).await {
            Err(_) if self.relies_on(&state) => Ok(true),
            result => result,
        }
    }

    /// Whether the last write that has succeeded is recent enough.
    fn relies_on(&self, state: &State) -> bool {
        state.held.is_some_and(|(_, since)| since.elapsed() < part(self.time, 2))
    }

    async fn try_hold(&self, state: &mut State) -> Result<bool, EngineError> {
        if let Some((revision, _)) = state.held {
            match self.write(state, Some(revision)).await {
                Ok(()) => return Ok(true),
                // Another replica has taken the lease, or a write without an answer was executed.
                Err(EngineError::Conflict) => state.held = None,
                Err(error) => return Err(error),
            }
        }
        let Some(Entry { revision, value }) = self.engine.get(&self.key).await? else {
            return self.take(state, None).await;
        };
        let now = Instant::now();
        let is_mine =
            bounded_json::decode::<LeaseRecord>(&value, MAX_BYTES).is_ok_and(|record| record.holder == self.me);
        let since = match state.seen {
            Some((seen, since)) if seen == revision => since,
            _ => now,
        };
        state.seen = Some((revision, since));
        let patience = self.time.mul_f64(0.55);
        if is_mine || now.saturating_duration_since(since) >= patience {
            return self.take(state, Some(revision)).await;
        }
        Ok(false)
    }

    async fn take(&self, state: &mut State, expected: Option<u64>) -> Result<bool, EngineError> {
        match self.write(state, expected).await {
            Ok(()) => Ok(true),
            Err(EngineError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, state: &mut State, expected: Option<u64>) -> Result<(), EngineError> {
        let began = Instant::now();
        state.renewals = state.renewals.wrapping_add(1);
        let record = LeaseRecord { holder: self.me, renewals: state.renewals };
        let value =
            bounded_json::encode(&record, MAX_BYTES).map_err(|error| EngineError::Refused(error.to_string()))?;
        let revision = self.engine.write(&self.key, value, expected).await?;
        (state.held, state.seen) = (Some((revision, began)), None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::Model;

    const TIME: Duration = Duration::from_secs(10);

    fn lease(engine: &Model, number: u128) -> Lease<Model> {
        Lease::new(engine.clone(), "lease".to_owned(), ReplicaId::new(number), TIME)
    }

    #[tokio::test(start_paused = true)]
    async fn one_replica_holds_it_until_it_stops_and_then_another_does() {
        let engine = Model::default();
        let (one, other) = (lease(&engine, 1), lease(&engine, 2));
        for _ in 0..20 {
            assert!(one.hold().await.unwrap());
            assert!(!other.hold().await.unwrap());
            tokio::time::advance(TIME / 6).await;
        }
        // Since the last write of its holder.
        let mut waited = TIME / 6;
        while !other.hold().await.unwrap() {
            tokio::time::advance(TIME / 20).await;
            waited += TIME / 20;
            assert!(waited < TIME, "it is taken in time");
        }
        assert!(waited >= TIME / 2, "not before its holder ceases to rely on it: {waited:?}");
        assert!(!one.hold().await.unwrap(), "the write of the earlier holder fails");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_or_foreign_value_is_replaced() {
        let engine = Model::default();
        let (one, other) = (lease(&engine, 1), lease(&engine, 2));
        assert!(one.hold().await.unwrap());
        engine.forget("lease");
        assert!(other.hold().await.unwrap(), "nobody has it");
        assert!(!one.hold().await.unwrap());
        engine.forget("lease");
        engine.write("lease", b"not a record".to_vec(), None).await.unwrap();
        assert!(!one.hold().await.unwrap());
        tokio::time::advance(TIME).await;
        assert!(one.hold().await.unwrap());
    }
}
