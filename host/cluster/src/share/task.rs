//! The task of one shard: it receives the messages of other replicas, and performs the outputs of the member.
//!
//! An invalid record in the bucket is replaced in time (see [`member`](crate::member)), with a warning that names its
//! key. Anyone who can publish can write invalid records again and again, so there is at most one such warning in a
//! minute, and it has [`MAX_REASON`] bytes of the reason, which may quote the record.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_base::text::prefix;
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until, timeout};

use super::name::ShardName;
use super::state::State;
use crate::bounded_json::DecodeBudget;
use crate::engine::{Engine, EngineError};
use crate::member::{Output, Revision, Stored, WriteFailure, part};
use crate::message::Message;
use crate::record::Record;

/// The pause after the engine has rejected a subscription.
const RETRY: Duration = Duration::from_secs(1);
/// The maximum time in which a replica announces that it leaves.
const FAREWELL: Duration = Duration::from_secs(1);
/// The maximum size of the reason in a warning about an invalid record, in bytes.
const MAX_REASON: usize = 200;

/// The result of a request to the bucket.
enum Answer {
    Read(Result<Stored, ()>),
    Written(Result<Revision, WriteFailure>),
}

/// The task of one shard.
pub(super) struct Task<E> {
    engine: E,
    shard: ShardName,
    lease: Duration,
    state: Arc<State>,
    /// The request under way. The member makes one at a time.
    request: Option<tokio::task::JoinHandle<Answer>>,
}

impl<E: Engine> Task<E> {
    pub(super) fn new(engine: E, shard: ShardName, lease: Duration, state: Arc<State>) -> Self {
        Self { engine, shard, lease, state, request: None }
    }

    /// Runs until the polls are dropped.
    pub(super) async fn run(mut self) {
        let subject = self.shard.subject();
        let state = self.state.clone();
        loop {
            let subscribed = tokio::select! {
                subscribed = self.engine.subscribe(&subject) => subscribed,
                () = state.closing.notified() => return,
            };
            let ended = match subscribed {
                Ok(messages) => self.run_with(messages).await,
                Err(error) => {
                    self.failed(&error);
                    tokio::select! {
                        () = sleep(RETRY) => Ended::Subscription,
                        () = state.closing.notified() => Ended::Closing,
                    }
                }
            };
            if matches!(ended, Ended::Closing) {
                state.member().leave(state.now());
                let _ = timeout(FAREWELL, self.say_farewell()).await;
                return;
            }
        }
    }

    /// Announces that it leaves, and gives the lease back.
    async fn say_farewell(&mut self) {
        loop {
            self.do_outputs().await;
            let Some(request) = &mut self.request else { return };
            let answer = request.await;
            self.answered(answer);
        }
    }

    async fn run_with(&mut self, mut messages: mpsc::Receiver<Vec<u8>>) -> Ended {
        let state = self.state.clone();
        let mut budget = DecodeBudget::default();
        loop {
            self.do_outputs().await;
            let deadline = state.member().deadline();
            let wake = async {
                match deadline.and_then(|deadline| state.start.checked_add(deadline)) {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let answer = async {
                match &mut self.request {
                    Some(request) => request.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                message = messages.recv() => match message {
                    Some(bytes) => {
                        self.receive(&bytes);
                        budget.spend(bytes.len()).await;
                    }
                    None => return Ended::Subscription,
                },
                answer = answer => self.answered(answer),
                () = wake => state.member().wake(state.now()),
                () = state.has_outputs.notified() => {}
                () = state.closing.notified() => return Ended::Closing,
            }
        }
    }

    fn receive(&self, bytes: &[u8]) {
        match Message::decode(bytes) {
            Ok(message) => self.state.member().receive(self.state.now(), &message),
            Err(error) => {
                self.state.invalid.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(target: log_target::CLUSTER, subject = self.shard.subject(), "a message of the cluster is ignored: {error}");
            }
        }
    }

    fn answered(&mut self, answer: Result<Answer, tokio::task::JoinError>) {
        let was_write = self.request.take().is_some();
        let (mut member, now) = (self.state.member(), self.state.now());
        match answer {
            Ok(Answer::Read(result)) => member.read(now, result),
            Ok(Answer::Written(result)) => member.written(now, result),
            // The task of the request ended with the runtime.
            Err(_) => {
                if was_write {
                    member.written(now, Err(WriteFailure::Unknown));
                }
                member.read(now, Err(()));
            }
        }
    }

    fn failed(&self, error: &EngineError) {
        self.state.failed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(target: log_target::CLUSTER, subject = self.shard.subject(), "a request to the cluster has failed: {error}");
    }

    async fn do_outputs(&mut self) {
        loop {
            let output = self.state.member().next_output();
            let Some(output) = output else { return };
            match output {
                Output::Publish(message) => self.publish(&message).await,
                Output::Read => {
                    let (engine, shard, state) = (self.engine.clone(), self.shard.clone(), self.state.clone());
                    let limit = part(self.lease, 5);
                    self.request =
                        Some(task::spawn(async move { Answer::Read(read(&engine, &shard, &state, limit).await) }));
                }
                Output::Write { expected, record } => {
                    let (engine, shard, state) = (self.engine.clone(), self.shard.clone(), self.state.clone());
                    let limit = part(self.lease, 5);
                    let written =
                        async move { Answer::Written(write(&engine, &shard, &state, expected, &record, limit).await) };
                    self.request = Some(task::spawn(written));
                }
                Output::Changed { changed, listing } => self.state.tell(|news| news.add(changed, listing)),
                Output::Completed { requested, relied } => self.state.tell(|news| {
                    news.completed = news.completed.max(Some(requested));
                    news.relied = news.relied.max(Some(requested).filter(|_| relied));
                }),
                Output::Wake => self.state.tell(|news| news.wake = true),
            }
        }
    }

    /// Publishes a message. A message that cannot be sent is lost, and other replicas detect the gap.
    async fn publish(&self, message: &Message) {
        match message.encode() {
            Ok(bytes) => {
                if let Err(error) = self.engine.publish(&self.shard.subject(), bytes).await {
                    self.failed(&error);
                }
            }
            Err(error) => {
                self.state.invalid.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(target: log_target::CLUSTER, "a message to the cluster cannot be sent: {error}");
            }
        }
    }
}

/// Why a subscription ended.
enum Ended {
    Subscription,
    Closing,
}

/// Reads the record.
pub(super) async fn read<E: Engine>(
    engine: &E,
    shard: &ShardName,
    state: &State,
    limit: Duration,
) -> Result<Stored, ()> {
    let failed = || {
        state.failed.fetch_add(1, Ordering::Relaxed);
    };
    let entry = timeout(limit, engine.get(shard.key())).await.map_err(|_| failed())?.map_err(|error| {
        failed();
        tracing::debug!(target: log_target::CLUSTER, "the record {} cannot be read: {error}", shard.key());
    })?;
    let Some(entry) = entry else { return Ok(Stored::Nothing) };
    match Record::decode(&entry.value) {
        Ok(record) => Ok(Stored::Record(entry.revision, Box::new(record))),
        Err(error) => {
            state.invalid.fetch_add(1, Ordering::Relaxed);
            if state.invalid_log.record().is_some() {
                tracing::warn!(
                    target: log_target::CLUSTER,
                    "the value of {} in the bucket is not valid: {}. If no replica writes it, it is replaced, and subscribers are notified of everything once",
                    shard.key(),
                    prefix(&error.to_string(), MAX_REASON),
                );
            }
            Ok(Stored::Invalid(entry.revision))
        }
    }
}

/// Writes the record.
async fn write<E: Engine>(
    engine: &E,
    shard: &ShardName,
    state: &State,
    expected: Option<Revision>,
    record: &Record,
    limit: Duration,
) -> Result<Revision, WriteFailure> {
    let bytes = record.encode().map_err(|error| {
        tracing::warn!(target: log_target::CLUSTER, "polls cannot be shared, as the provider's tokens are too long: {error}");
        WriteFailure::Impossible
    })?;
    match timeout(limit, engine.write(shard.key(), bytes, expected)).await {
        Ok(Ok(revision)) => Ok(revision),
        Ok(Err(EngineError::Conflict)) => Err(WriteFailure::Conflict),
        failure => {
            state.failed.fetch_add(1, Ordering::Relaxed);
            if let Ok(Err(error)) = failure {
                tracing::debug!(target: log_target::CLUSTER, "the record {} cannot be written: {error}", shard.key());
            }
            Err(WriteFailure::Unknown)
        }
    }
}
