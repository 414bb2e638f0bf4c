//! Grants: the access of a plugin to the outside world. Nothing is granted by default.

mod dirs;
mod env;
mod http;
mod keyvalue;
pub(crate) mod nested;
mod sql;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use self::dirs::Dirs;
use self::env::Env;
use self::keyvalue::Keyvalue;
use self::sql::Sql;
use super::declare::table;
use super::secret::Secret;

pub use self::dirs::{DirGrant, DirQuota, Mode};
pub use self::env::{EnvName, EnvNameError};
pub(crate) use self::http::Credentials;
pub use self::http::{
    AuthorizationGrant, CaBundle, CaBundleError, ClientAuthentication, CredentialError, CredentialName,
    CredentialValue, DuplicateOrigin, HttpGrant, HttpGrants, OAuth, OAuthClient, ServiceAccountKey,
    ServiceAccountKeyError,
};
pub use self::keyvalue::{BucketKeys, BucketName, BucketNameError, BucketQuota, KeyvalueGrant};
pub use self::nested::{NestedPath, NestedPaths, looked_up};
pub use self::sql::{
    ChannelName, ChannelNameError, DatabaseName, DatabaseNameError, SchemaName, SchemaNameError, SqlBytes,
    SqlConnections, SqlGrant, SqlRows, SqlTimeout, SqlUrl, SqlUrlError, client_config, server_port,
};
pub use super::guest_path::{GuestPath, GuestPathError};

table! {
    /// The grants of a plugin: `grants` of a `[[plugin]]`.
    #[derive(Clone, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Grants as "a table of grants",
    such as "{ dirs = [{ host = \"~/src/linux\", guest = \"/repo\" }] }" {
        /// Directories of the host, by the path at which the provider sees them.
        #[read(Dirs)]
        pub dirs: BTreeMap<GuestPath, DirGrant>,
        /// Environment variables of the provider. The provider sees no variable of the host.
        #[read(Env)]
        pub env: BTreeMap<EnvName, Secret<String>>,
        /// The origins of web servers that the provider may send requests to.
        pub http: HttpGrants,
        /// Key-value buckets, by the name that the provider opens.
        #[read(Keyvalue)]
        pub keyvalue: BTreeMap<BucketName, KeyvalueGrant>,
        /// SQL databases that the provider may query, by the name that it uses for them.
        #[read(Sql)]
        pub sql: BTreeMap<DatabaseName, SqlGrant>,
        /// The granted directories and SQLite files below a directory that a plugin may write to, from
        /// [`Config::find_nested_grants`](crate::Config::find_nested_grants).
        #[internal]
        pub nested: NestedPaths,
    }
}

impl fmt::Debug for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The identities of shared polls, of search indexes and of configs have this text, so it has no part that is
        // found on the machine.
        let Self { dirs, env, http, keyvalue, sql, nested: _ } = self;
        f.debug_struct("Grants")
            .field("dirs", dirs)
            .field("env", env)
            .field("http", http)
            .field("keyvalue", keyvalue)
            .field("sql", sql)
            .finish()
    }
}

impl Grants {
    /// The values that must not appear in a recording of the plugin's calls: variables from a variable of the host or a
    /// file, variables with the name of a secret, and the host's secrets for grants.
    pub fn confidential(&self) -> impl Iterator<Item = &str> {
        let written = self.env.values().filter(|value| !value.is_confidential());
        let written: BTreeSet<&str> = written.map(|value| value.expose().as_str()).collect();
        self.secrets().filter(move |secret| !written.contains(secret))
    }

    /// The values of secrets, in the order of the config's names. `Debug` shows everything else, except `nested`.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let Self { dirs: _, env, http, keyvalue: _, sql, nested: _ } = self;
        let variables = env.values().map(|value| value.expose().as_str());
        let headers = http.iter().flat_map(|grant| grant.headers.values()).map(|value| value.expose().as_str());
        let urls = sql.values().filter_map(|grant| match &grant.url {
            SqlUrl::Postgresql(url) => Some(url.expose().as_str()),
            SqlUrl::Sqlite(_) => None,
        });
        variables.chain(headers).chain(urls)
    }
}

/// The grammar of names of granted buckets and databases.
const NAME_PATTERN: &str = "^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$";

/// Returns whether a text is such a name: 1 to 64 of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, beginning with a letter or
/// digit.
fn is_name(text: &str) -> bool {
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    begins_well && is_plain && text.len() <= 64
}
