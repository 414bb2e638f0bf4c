//! Grants: the access of a plugin to the outside world. Nothing is granted by default.

mod dirs;
mod env;
mod http;
mod keyvalue;
mod name;
mod sql;

use std::collections::BTreeMap;

use self::dirs::Dirs;
use self::env::Env;
use self::keyvalue::Keyvalue;
use self::sql::Sql;
use super::reader::{FromNode, FromTable, Table, documented};
use super::secret::Secret;

pub use self::dirs::{DirGrant, DirQuota, Mode};
pub use self::http::{
    AuthorizationGrant, CaBundle, CaBundleError, ClientAuthentication, CredentialError, CredentialName,
    CredentialValue, DuplicateOrigin, HttpGrant, HttpGrants, OAuth, OAuthClient, ServiceAccountKey,
    ServiceAccountKeyError,
};
pub use self::keyvalue::{BucketKeys, BucketName, BucketNameError, BucketQuota, KeyvalueGrant};
pub use self::sql::{
    ChannelName, ChannelNameError, DatabaseName, DatabaseNameError, SchemaName, SchemaNameError, SqlBytes,
    SqlConnections, SqlGrant, SqlRows, SqlTimeout, SqlUrl, SqlUrlError,
};
#[cfg(feature = "sql")]
pub(crate) use self::sql::{client_config, server_port};
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
        /// SQL databases that it may query, by the name that the provider asks for.
        pub sql: BTreeMap<DatabaseName, SqlGrant>,
    }
}

impl Grants {
    /// The values of secrets, in the order of the config's names. `Debug` shows everything else.
    #[cfg(feature = "search")]
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let Self { dirs: _, env, http, keyvalue: _, sql } = self;
        let variables = env.values().map(|value| value.expose().as_str());
        let headers = http.iter().flat_map(|grant| grant.headers.values()).map(|value| value.expose().as_str());
        let urls = sql.values().filter_map(|grant| match &grant.url {
            SqlUrl::Postgresql(url) => Some(url.expose().as_str()),
            SqlUrl::Sqlite(_) => None,
        });
        variables.chain(headers).chain(urls)
    }
}

impl FromTable for Grants {
    const TYPE_NAME: &'static str = "a table of grants";

    fn example() -> String {
        format!("{{ dirs = {} }}", Dirs::example())
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        table.requires_feature("keyvalue", "keyvalue", cfg!(feature = "keyvalue"));
        table.requires_feature("sql", "sql", cfg!(feature = "sql"));
        Some(Self {
            dirs: table.optional("dirs").map(|Dirs(dirs)| dirs).unwrap_or_default(),
            env: table.optional("env").map(|Env(env)| env).unwrap_or_default(),
            http: table.or_default("http"),
            keyvalue: table.optional("keyvalue").map(|Keyvalue(buckets)| buckets).unwrap_or_default(),
            sql: table.optional("sql").map(|Sql(databases)| databases).unwrap_or_default(),
        })
    }
}
