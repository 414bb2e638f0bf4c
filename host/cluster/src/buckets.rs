//! The names of plugins' shared buckets in the engine, and the bound of their values.
//!
//! The interface is [`mcp_host_base::shared_buckets`]; [`engine::nats`](crate::engine) and
//! [`engine::model`](crate::engine::model) implement it.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The maximum size of a value in bytes. The maximum message of the servers (`max_payload`, 1 MiB by default) may be
/// smaller.
pub const MAX_VALUE: usize = 1024 * 1024;
/// The maximum length of a name that is written out. A stream, `KV_` and the name, has at most 255 characters.
const MAX_WRITTEN_OUT: usize = 200;

/// Returns the name of a plugin's bucket: of letters, digits, `-` and `_`, and different for different clusters,
/// plugins and buckets.
///
/// `mcp-host-CLUSTER-KV-PLUGIN-BUCKET`, in which each character of the plugin and the bucket that is not a letter or
/// digit is written as `_` and two hexadecimal digits. No cluster's name has capital letters, so the first `-KV-` ends
/// it; the escaped names have no `-`. A name that would be too long ends in a hash instead, after `-KH-`.
pub(crate) fn bucket_name(cluster: &str, plugin: &str, bucket: &str) -> String {
    let name = format!("mcp-host-{cluster}-KV-{}-{}", escape(plugin), escape(bucket));
    if name.len() <= MAX_WRITTEN_OUT {
        return name;
    }
    let digest = Sha256::new()
        // With the length, so that different pairs are different texts.
        .chain_update(format!("mcp-host bucket {} ", plugin.len()))
        .chain_update(plugin)
        .chain_update(bucket)
        .finalize();
    let mut name = format!("mcp-host-{cluster}-KH-");
    for byte in digest {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "_{byte:02x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Random names of a grammar, seeded, with many that look alike.
    fn names(random: &mut fastrand::Rng, alphabet: &[u8], max: usize) -> String {
        let length = random.usize(1..=max);
        (0..length).map(|_| char::from(alphabet[random.usize(..alphabet.len())])).collect()
    }

    #[test]
    fn a_bucket_is_named_so_that_an_operator_finds_it() {
        assert_eq!(bucket_name("prod", "web", "pages"), "mcp-host-prod-KV-web-pages");
        assert_eq!(bucket_name("prod", "a.b-c", "P_1"), "mcp-host-prod-KV-a_2eb_2dc-P_5f1");
    }

    #[test]
    fn different_buckets_have_different_names_that_are_names_of_streams() {
        let mut random = fastrand::Rng::with_seed(33);
        let mut seen: BTreeMap<String, (String, String, String)> = BTreeMap::new();
        for round in 0..200_000 {
            // Short names over few characters collide wherever an encoding is ambiguous; long ones need the hash.
            let max = if round % 10 == 0 { 64 } else { 4 };
            let cluster = names(&mut random, b"a-_k", max.min(32));
            let plugin = names(&mut random, b"a-_.2e", max);
            let bucket = names(&mut random, b"aAKV-_.2e", max);
            let name = bucket_name(&cluster, &plugin, &bucket);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            assert!(name.len() <= 252 && name.bytes().all(is_plain), "{name}");
            let names = (cluster, plugin, bucket);
            if let Some(other) = seen.insert(name.clone(), names.clone()) {
                assert_eq!(other, names, "{name}");
            }
        }
        assert!(seen.keys().any(|name| name.contains("-KH-")) && seen.len() > 50_000, "{}", seen.len());
    }
}
