//! Messages of clients, made up by a fuzzer: see [`fuzzing`](crate::fuzzing).

use super::jsonrpc::{self, Incoming};
use super::reencode;
use super::revision::Revision;
use crate::config::Extension;

/// What a client sent.
pub(crate) fn message(data: &[u8]) {
    for (revision, on) in
        [(None, &[][..]), (Some(Revision::V2025_03_26), &Extension::ALL), (Some(Revision::LATEST), &[])]
    {
        let messages = match jsonrpc::parse(data, revision, on) {
            Ok(Incoming::Single(message)) => vec![message],
            Ok(Incoming::Batch(messages)) => messages.into_iter().flatten().collect(),
            Err(refusal) => {
                let answer = jsonrpc::to_json(&refusal.into_message());
                assert!(answer.len() < 16 << 10, "what is refused is not repeated");
                continue;
            }
        };
        for message in messages {
            let Some(json) = reencode::to_json(&message) else { continue };
            let again = jsonrpc::parse(&json, revision, on);
            assert!(matches!(again, Ok(Incoming::Single(_))), "what is written anew is a message: {again:?}");
        }
    }
}
