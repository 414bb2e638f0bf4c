//! Grants: the access of a plugin to the outside world. Nothing is granted by default.

mod dirs;
mod env;
mod http;
mod keyvalue;

use std::collections::BTreeMap;

use self::dirs::Dirs;
use self::env::Env;
use self::keyvalue::Keyvalue;
use super::reader::{FromNode, FromTable, Table, documented};
use super::secret::Secret;

pub use self::dirs::{DirGrant, DirQuota, Mode};
pub use self::http::{
    CaBundle, CaBundleError, CredentialError, CredentialName, CredentialValue, DuplicateOrigin, HttpGrant, HttpGrants,
};
pub use self::keyvalue::{BucketKeys, BucketName, BucketNameError, BucketQuota, KeyvalueGrant};
pub use super::env_name::{EnvName, EnvNameError};
pub use super::guest_path::{GuestPath, GuestPathError};

documented! {
    /// The grants of a plugin: `grants` of a `[[plugin]]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Grants {
        /// Directories of the host, by the path at which the provider sees them.
        pub dirs: BTreeMap<GuestPath, DirGrant>,
        /// Environment variables of the provider. It sees none of the host's own.
        pub env: BTreeMap<EnvName, Secret<String>>,
        /// Web servers that it may send requests to, by their origins.
        pub http: HttpGrants,
        /// Key-value buckets, by the name that the provider opens.
        pub keyvalue: BTreeMap<BucketName, KeyvalueGrant>,
    }
}

impl FromTable for Grants {
    const TYPE_NAME: &'static str = "a table of grants";

    fn example() -> String {
        format!("{{ dirs = {} }}", Dirs::example())
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        table.requires_feature("keyvalue", "keyvalue", cfg!(feature = "keyvalue"));
        Some(Self {
            dirs: table.optional("dirs").map(|Dirs(dirs)| dirs).unwrap_or_default(),
            env: table.optional("env").map(|Env(env)| env).unwrap_or_default(),
            http: table.or_default("http"),
            keyvalue: table.optional("keyvalue").map(|Keyvalue(buckets)| buckets).unwrap_or_default(),
        })
    }
}
