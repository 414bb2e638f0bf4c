//! Key-value buckets: `grants.keyvalue`.
//!
//! A list of the buckets that a provider may open with `wasi:keyvalue`. Their contents persist across calls and
//! restarts of the host. By default the list is empty: opening any bucket fails.
//!
//! | entry | meaning |
//! |---|---|
//! | `"NAME"` | this bucket, with the default quotas |
//! | `{ bucket = "NAME", quota = "1MiB", keys = 100 }` | this bucket, with its own quotas. `quota` and `keys` are optional |
//! | `{ bucket = "NAME", shared = true }` | this bucket, shared by the replicas of a cluster: requires `[cluster]` |
//!
//! A name is the exact name that the provider opens: 1 to 64 of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, beginning with a
//! letter or digit. Names are case-sensitive. No two entries have the same name.
//!
//! A bucket belongs to its plugin: if the same name is granted to another plugin, even one with the same component,
//! that is another bucket. `quota` bounds the total bytes of its keys and values, `keys` their number. A reduced quota
//! deletes nothing: existing entries can be read and deleted, and new ones are rejected while they exceed the quota.
//!
//! A bucket is on the disk of its host unless it says `shared = true`; then it is in the NATS servers of the cluster,
//! and the plugin with the same name on each replica has the same bucket.
//!
//! ```
//! use mcp_host_config::grants::KeyvalueGrant;
//! use mcp_host_config::Plugin;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut web = Plugin::new("web".parse()?, "http-cache.wasm", "web://".parse()?);
//! assert!(web.grants.keyvalue.is_empty());
//!
//! web.grants.keyvalue.insert("pages".parse()?, KeyvalueGrant::default());
//! let small = KeyvalueGrant { quota: "1MiB".parse()?, keys: 100.try_into()?, ..KeyvalueGrant::default() };
//! web.grants.keyvalue.insert("tokens".parse()?, small);
//!
//! assert_eq!(web.grants.keyvalue[&"pages".parse()?].quota.bytes(), 64 << 20);
//! assert_eq!(web.grants.keyvalue[&"pages".parse()?].keys.get(), 100_000);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::{NAME_PATTERN, is_name};
use crate::count::Count;
use crate::declare::{checked_text, list_type, table};
use crate::reader::{FromNode, Keys, Node, Schema, Table};
use crate::size::{GIB, KIB, MIB, Size};

/// The maximum total bytes of the keys and values of a bucket.
pub type BucketQuota = Size<KIB, { 64 * MIB }, { 64 * GIB }>;
/// The maximum number of keys of a bucket.
pub type BucketKeys = Count<1, 100_000, 100_000_000>;

/// The quotas of a bucket, and where it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyvalueGrant {
    /// The maximum total bytes of the keys and values. 64 MiB unless set; 1 KiB to 64 GiB.
    pub quota: BucketQuota,
    /// The maximum number of keys. 100,000 unless set; 1 to 100,000,000.
    pub keys: BucketKeys,
    /// Whether the replicas of a cluster share it. `false` unless set.
    pub shared: bool,
}

checked_text! {
    /// The name of a bucket: 1 to 64 of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, beginning with a letter or digit.
    pub struct BucketName, BucketNameError as "a bucket name", such as "\"pages\"", schema Schema::pattern(NAME_PATTERN),
    valid if is_name,
    otherwise "write the name that the provider opens: 1 to 64 of a-z, A-Z, 0-9, `-`, `_` and `.`, beginning with a letter \
               or digit, such as \"pages\""
}

list_type! {
    /// The list of granted buckets, with unique names.
    pub(super) struct Keyvalue(BTreeMap<BucketName, KeyvalueGrant>) of Bucket as "a list of buckets", |node| {
        let buckets: Vec<Bucket> = node.unique_list(
            "bucket",
            |name: &BucketName| format!("the bucket `{name}` is granted twice"),
            "grant each bucket once",
        )?;
        let grant = |Bucket { bucket, quota, keys, shared }| (bucket, KeyvalueGrant { quota, keys, shared });
        Some(buckets.into_iter().map(grant).collect())
    }
}

table! {
    /// One entry of the list.
    struct Bucket {
        /// The name of the bucket, as the provider opens it.
        #[required]
        bucket: BucketName,
        /// The maximum total size of keys and values. 64 MiB unless set; 1 KiB to 64 GiB.
        quota: BucketQuota,
        /// The maximum number of keys. 100000 unless set; 1 to 100000000.
        keys: BucketKeys,
        /// Whether the replicas of a cluster share the bucket. Requires `[cluster]`. `false` unless set.
        shared: bool,
    }
}

impl FromNode for Bucket {
    const TYPE_NAME: &'static str = "a bucket name, or a table with `bucket`";

    fn example() -> String {
        format!("{{ bucket = {}, quota = {} }}", BucketName::example(), BucketQuota::example())
    }

    fn schema() -> Schema {
        Schema::any_of([BucketName::schema(), Table::describe::<Self>()])
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        match node.value {
            DeValue::String(_) => Some(Self::with_defaults(node.parse()?)),
            _ => node.table(Self::read),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Config, Environment};

    const CLUSTER: &str =
        "server.cursor-key = { env = 'KEY' }\ncluster = { name = 'prod', nats = ['nats://127.0.0.1:4222'] }\n";

    /// The grants for this value of `grants.keyvalue`, or its first problem.
    fn granted(value: &str) -> Result<BTreeMap<BucketName, KeyvalueGrant>, String> {
        granted_in("", value)
    }

    /// The same in a config that begins with this text.
    fn granted_in(config: &str, value: &str) -> Result<BTreeMap<BucketName, KeyvalueGrant>, String> {
        let plugin = "name = 'git'\ncomponent = 'plugins/git.wasm'\nmount = 'git://linux/'";
        let text = format!("{config}[[plugin]]\n{plugin}\ngrants.keyvalue = {value}\n");
        let environment = Environment::empty().variable("KEY", "00".repeat(32));
        let config = Config::parse_in(&text, Path::new("tests/ui/valid/a.toml"), &environment);
        let config = config.map_err(|error| error.diagnostics()[0].message().to_owned())?;
        Ok(config.plugins.first().map(|plugin| plugin.grants.keyvalue.clone()).unwrap())
    }

    fn names(value: &str) -> Vec<String> {
        granted(value).unwrap().into_keys().map(|name| name.to_string()).collect()
    }

    #[test]
    fn an_empty_list_grants_nothing() {
        assert_eq!(granted("[]").unwrap(), BTreeMap::new());
    }

    #[test]
    fn a_bucket_is_granted_by_its_name_and_by_a_table_alike() {
        assert_eq!(granted("['pages']").unwrap(), granted("[{ bucket = 'pages' }]").unwrap());
        assert_eq!(names("['pages', { bucket = 'tokens' }]"), ["pages", "tokens"]);
    }

    #[test]
    fn a_bucket_has_default_quotas_unless_it_has_its_own() {
        let grant = granted("['pages']").unwrap().into_values().next().unwrap();
        assert_eq!((grant.quota.bytes(), grant.keys.get()), (64 << 20, 100_000));
        let granted = granted("[{ bucket = 'a', quota = '1KiB', keys = 1 }, { bucket = 'b', keys = 7 }]").unwrap();
        let quotas: Vec<_> = granted.values().map(|grant| (grant.quota.bytes(), grant.keys.get())).collect();
        assert_eq!(quotas, [(1024, 1), (64 << 20, 7)]);
    }

    #[test]
    fn a_bucket_is_shared_only_if_it_says_so_and_only_in_a_cluster() {
        let buckets = "['a', { bucket = 'b', shared = true }, { bucket = 'c', shared = false }]";
        let shared: Vec<_> = granted_in(CLUSTER, buckets).unwrap().values().map(|grant| grant.shared).collect();
        assert_eq!(shared, [false, true, false]);
        let error = granted(buckets).unwrap_err();
        assert_eq!(error, "the bucket `b` of plugin `git` is shared, and this config has no `[cluster]`");
        assert!(granted("[{ bucket = 'c', shared = false }]").is_ok());
    }

    #[test]
    fn a_bucket_name_is_short_and_plain_and_keeps_its_case() {
        for text in ["pages", "0", "a-b_c.d", "Pages", &"a".repeat(64)] {
            assert_eq!(text.parse::<BucketName>().unwrap().as_str(), text);
        }
        for text in ["", "-a", ".a", "_a", "a b", "a/b", "ノート", "a\0", &"a".repeat(65)] {
            assert!(text.parse::<BucketName>().is_err(), "{text}");
        }
        assert_eq!(names("['pages', 'Pages']"), ["Pages", "pages"]);
    }
}
