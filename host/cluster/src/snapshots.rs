//! The names and the stored form of index snapshots in the engine: an object store of JetStream, as documented by NATS
//! (ADR-20).
//!
//! The interface is [`mcp_host_base::shared_snapshots`]; [`engine::nats`](crate::engine) and
//! [`engine::model`](crate::engine::model) implement it. The place of an index is one object of the store. Its chunks
//! have one of two ids (`nuid`), one for each slot.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use mcp_host_base::shared_snapshots::{MAX_CHUNK, MAX_CHUNKS, MAX_SEAL, MAX_SNAPSHOT, Slot, Snapshot};
use serde::{Deserialize, Serialize};

use crate::bounded_json;

/// The maximum size of a description in bytes.
const MAX_DESCRIPTION: usize = 4096;
/// The prefix of a digest.
const SHA_256: &str = "SHA-256=";

/// The description of an object, as clients of NATS write it.
#[derive(Debug, Serialize, Deserialize)]
struct ObjectInfo {
    name: String,
    bucket: String,
    nuid: String,
    size: u64,
    /// Readers take the time of the message instead.
    #[serde(default)]
    mtime: String,
    chunks: u32,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    options: ObjectOptions,
    #[serde(default)]
    metadata: ObjectMetadata,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct ObjectOptions {
    #[serde(default)]
    max_chunk_size: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct ObjectMetadata {
    #[serde(default)]
    seal: String,
}

/// The name of the object store of a cluster. No cluster's name has capital letters.
pub(crate) fn store_name(cluster: &str) -> String {
    format!("mcp-host-{cluster}-SEARCH")
}

/// The key of the description of a place in the stream, below the prefix of the store.
pub(crate) fn description_key(place: &str) -> String {
    format!("M.{}", URL_SAFE.encode(place))
}

/// The key of the chunks of a slot.
pub(crate) fn chunks_key(place: &str, slot: Slot) -> String {
    format!("C.{}", chunks_id(place, slot))
}

/// The key of the lease of a place, in the bucket of the records.
pub(crate) fn lease_key(cluster: &str, place: &str) -> String {
    format!("{cluster}.search.{place}")
}

fn chunks_id(place: &str, slot: Slot) -> String {
    let letter = match slot {
        Slot::A => 'a',
        Slot::B => 'b',
    };
    format!("{place}{letter}")
}

/// Returns the stored form of a description; none if it is too large.
pub(crate) fn encode(store: &str, place: &str, snapshot: &Snapshot) -> Option<Vec<u8>> {
    let info = ObjectInfo {
        name: place.to_owned(),
        bucket: store.to_owned(),
        nuid: chunks_id(place, snapshot.slot),
        size: snapshot.bytes,
        mtime: "0001-01-01T00:00:00Z".to_owned(),
        chunks: snapshot.chunks,
        digest: format!("{SHA_256}{}", URL_SAFE.encode(snapshot.digest)),
        deleted: false,
        options: ObjectOptions { max_chunk_size: u64::try_from(MAX_CHUNK).unwrap_or(u64::MAX) },
        metadata: ObjectMetadata { seal: STANDARD.encode(&snapshot.seal) },
    };
    bounded_json::encode(&info, MAX_DESCRIPTION).ok()
}

/// Reads the stored form of a description. The error is for the log.
pub(crate) fn decode(place: &str, value: &[u8]) -> Result<Snapshot, String> {
    let info: ObjectInfo = bounded_json::decode(value, MAX_DESCRIPTION).map_err(|error| error.to_string())?;
    if info.deleted {
        return Err("it was deleted".to_owned());
    }
    if info.name != place {
        return Err("it describes another object".to_owned());
    }
    let slot = [Slot::A, Slot::B].into_iter().find(|slot| chunks_id(place, *slot) == info.nuid);
    let slot = slot.ok_or("its chunks have an unknown id")?;
    if info.chunks > MAX_CHUNKS || info.size > MAX_SNAPSHOT {
        return Err(format!(
            "{} bytes in {} chunks; at most {MAX_SNAPSHOT} in {MAX_CHUNKS} are allowed",
            info.size, info.chunks
        ));
    }
    let digest = info.digest.strip_prefix(SHA_256).and_then(|digest| URL_SAFE.decode(digest).ok());
    let digest = digest.and_then(|digest| <[u8; 32]>::try_from(digest).ok()).ok_or("it has no SHA-256 digest")?;
    let seal = STANDARD.decode(&info.metadata.seal).ok().filter(|seal| seal.len() <= MAX_SEAL);
    let seal = seal.ok_or("it has no valid seal")?;
    Ok(Snapshot { slot, chunks: info.chunks, bytes: info.size, digest, seal })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        Snapshot { slot: Slot::B, chunks: 3, bytes: 5, digest: [7; 32], seal: vec![1, 2] }
    }

    fn changed(change: impl FnOnce(&mut serde_json::Value)) -> Result<Snapshot, String> {
        let mut value = serde_json::from_slice(&encode("store", "ab", &snapshot()).unwrap()).unwrap();
        change(&mut value);
        decode("ab", value.to_string().as_bytes())
    }

    #[test]
    fn a_description_comes_back_and_no_other_is_accepted() {
        assert_eq!(changed(|_| {}), Ok(snapshot()));
        assert_eq!(changed(|value| value["mtime"] = "2026-01-01T00:00:00Z".into()), Ok(snapshot()), "as NATS shows it");
        for (key, other) in [
            ("name", "cd".into()),
            ("nuid", "abc".into()),
            ("size", (MAX_SNAPSHOT + 1).into()),
            ("chunks", (MAX_CHUNKS + 1).into()),
            ("chunks", (-1).into()),
            ("digest", "SHA-256=short".into()),
            ("digest", "".into()),
            ("deleted", true.into()),
            ("metadata", serde_json::json!({ "seal": STANDARD.encode([0_u8; MAX_SEAL + 1]) })),
            ("metadata", serde_json::json!({ "seal": "?" })),
            ("bucket", "x".repeat(MAX_DESCRIPTION).into()),
        ] {
            let changed = changed(|value| value[key] = other.clone());
            assert!(changed.is_err(), "{key}: {other}");
        }
        for garbage in [&b""[..], b"{}", b"null", b"\xff"] {
            assert!(decode("ab", garbage).is_err());
        }
    }
}
