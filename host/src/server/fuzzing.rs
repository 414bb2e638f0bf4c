//! Messages of clients, made up by a fuzzer: see [`fuzzing`](crate::fuzzing).

use super::message::{self, Sent};
use super::revision::Revision;
use super::rewritten;
use crate::config::Extension;

/// What a client sent.
pub(crate) fn message(data: &[u8]) {
    for (revision, on) in [(None, &[][..]), (Some(Revision::Mar2025), &Extension::ALL), (Some(Revision::NEWEST), &[])] {
        let messages = match message::read(data, revision, on) {
            Ok(Sent::One(message)) => vec![message],
            Ok(Sent::Batch(messages)) => messages.into_iter().flatten().collect(),
            Err(refusal) => {
                let answer = message::to_json(&refusal.into_message());
                assert!(answer.len() < 16 << 10, "what is refused is not repeated");
                continue;
            }
        };
        for message in messages {
            let Some(json) = rewritten::to_json(&message) else { continue };
            let again = message::read(&json, revision, on);
            assert!(matches!(again, Ok(Sent::One(_))), "what is written anew is a message: {again:?}");
        }
    }
}
