//! SQL databases: `grants.sql`.
//!
//! A list of the databases that a provider may query with `mcp-host:sql`. The host has their addresses and passwords,
//! and enforces read-only access. By default the list is empty: every query fails.
//!
//! | key | meaning |
//! |---|---|
//! | `name` | the name that the provider uses: 1 to 64 of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, beginning with a letter or digit. Required, and no two entries have the same |
//! | `url` | the database, from a [variable or a file](super::super::Secret): `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or `sqlite:PATH`. A URL of SQLite has no password, and may stand here itself. Required |
//! | `schemas` | PostgreSQL: the schemas whose tables and views can be read, and the `search_path` |
//! | `max-rows` | the maximum number of rows of a result; a truncated result is marked for the provider |
//! | `max-bytes` | the maximum size of a result; a larger one fails |
//! | `timeout` | the maximum time of a query, with the wait for a connection |
//! | `connections` | the maximum number of connections, and of concurrent queries |
//! | `listen` | PostgreSQL: a channel. On a notification (`NOTIFY`), watched resources are checked for changes immediately |
//! | `ca` | PostgreSQL: a PEM file of certificate authorities that are trusted in addition to the machine's own |
//! | `allow-writing-role` | PostgreSQL: accept a superuser, or a role that can write. By default such a role is refused |
//!
//! **PostgreSQL.** A server is verified by TLS, as with `sslmode=verify-full`, unless the URL has `sslmode=disable` or
//! the host is a directory (`?host=/run/postgresql`), which stands for a Unix socket. If there are several hosts, the
//! first one that answers is used.
//!
//! **SQLite.** `sqlite:data/shop.db` is relative to the config file, `sqlite:///srv/shop.db` is absolute. The file must
//! exist.
//!
//! ```
//! use mcp_host_config::Plugin;
//! use mcp_host_config::grants::{SqlGrant, SqlUrl};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut shop = Plugin::new("shop".parse()?, "database.wasm", "sqlite:///".parse()?);
//! assert!(shop.grants.sql.is_empty());
//!
//! let mut grant = SqlGrant::new(SqlUrl::Sqlite("/srv/shop.db".into()));
//! grant.max_rows = 100.try_into()?;
//! shop.grants.sql.insert("shop".parse()?, grant);
//! assert_eq!(shop.grants.sql[&"shop".parse()?].timeout.to_string(), "5s");
//! # Ok(())
//! # }
//! ```

mod url;

use std::collections::BTreeMap;

use super::{CaBundle, NAME_PATTERN, is_name};
use crate::count::Count;
use crate::declare::{checked_text, list_type, table};
use crate::diagnostic::Diagnostic;
use crate::duration::{BoundedDuration, MINUTE, SECOND};
use crate::reader::{FromNode, FromTable, Schema, Table};
use crate::size::{KIB, MIB, Size};

pub use self::url::{SqlUrl, SqlUrlError, client_config, server_port};

/// The maximum number of rows of a result.
pub type SqlRows = Count<1, 1000, 100_000>;
/// The maximum size of a result.
pub type SqlBytes = Size<KIB, { 4 * MIB }, { 256 * MIB }>;
/// The maximum time of a query.
pub type SqlTimeout = BoundedDuration<10, { 5 * SECOND }, { 10 * MINUTE }>;
/// The maximum number of connections.
pub type SqlConnections = Count<1, 4, 64>;

/// A database that a plugin may query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlGrant {
    /// The URL of the database.
    pub url: SqlUrl,
    /// The schemas that can be read, in the order in which names are looked up. Ignored for SQLite. `public` unless
    /// set.
    pub schemas: Vec<SchemaName>,
    /// The maximum number of rows of a result. 1000 unless set; 1 to 100,000.
    pub max_rows: SqlRows,
    /// The maximum size of a result. 4 MiB unless set; 1 KiB to 256 MiB.
    pub max_bytes: SqlBytes,
    /// The maximum time of a query. 5 s unless set; 10 ms to 10 min.
    pub timeout: SqlTimeout,
    /// The maximum number of connections. 4 unless set; 1 to 64.
    pub connections: SqlConnections,
    /// The channel whose notifications (`NOTIFY`) cause a check for changes. Ignored for SQLite.
    pub listen: Option<ChannelName>,
    /// Certificate authorities that are trusted in addition to the machine's own. Ignored for SQLite.
    pub ca: Option<CaBundle>,
    /// Whether to connect as a superuser or a role that can write, too. Ignored for SQLite.
    pub allow_writing_role: bool,
}

impl SqlGrant {
    /// A grant of this database, with the default bounds.
    pub fn new(url: SqlUrl) -> Self {
        Self::from(Database::with_defaults(None, url))
    }
}

impl From<Database> for SqlGrant {
    fn from(database: Database) -> Self {
        let Database {
            name: _,
            url,
            schemas,
            max_rows,
            max_bytes,
            timeout,
            connections,
            listen,
            ca,
            allow_writing_role,
        } = database;
        Self { url, schemas, max_rows, max_bytes, timeout, connections, listen, ca, allow_writing_role }
    }
}

checked_text! {
    /// The name under which a database is granted: 1 to 64 of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, beginning with a
    /// letter or digit.
    pub struct DatabaseName, DatabaseNameError as "a database name", such as "\"shop\"", schema Schema::pattern(NAME_PATTERN),
    valid if is_name,
    otherwise "write the name that the provider asks for: 1 to 64 of a-z, A-Z, 0-9, `-`, `_` and `.`, beginning with a \
               letter or digit, such as \"shop\""
}

checked_text! {
    /// The name of a schema of PostgreSQL: 1 to 63 bytes without NUL, not one of the system's.
    pub struct SchemaName, SchemaNameError as "the name of a schema", such as "\"public\"",
    schema Schema::string().with("minLength", 1),
    valid if |text| is_identifier(text) && !text.starts_with("pg_") && text != "information_schema",
    otherwise "write the name as the database has it, in at most 63 bytes, such as \"public\"; the catalogs need no grant"
}

checked_text! {
    /// The name of a channel for `NOTIFY`: 1 to 63 bytes without NUL, as `pg_notify` takes it. `NOTIFY` without quotes
    /// converts a name to lower case.
    pub struct ChannelName, ChannelNameError as "the name of a channel", such as "\"shop_changed\"",
    schema Schema::string().with("minLength", 1),
    valid if is_identifier,
    otherwise "write the name that `pg_notify` is called with, in at most 63 bytes, such as \"shop_changed\""
}

/// Returns whether a text is short enough for a PostgreSQL identifier, which would be truncated silently.
fn is_identifier(text: &str) -> bool {
    (1..=63).contains(&text.len()) && !text.contains('\0')
}

list_type! {
    /// The list of granted databases, with unique names.
    pub(super) struct Sql(BTreeMap<DatabaseName, SqlGrant>) of Database as "a list of databases", |node| {
        let databases: Vec<Database> = node.unique_list(
            "name",
            |name: &DatabaseName| format!("the database `{name}` is granted twice"),
            "give each database a name of its own",
        )?;
        Some(databases.into_iter().filter_map(|database| Some((database.name.clone()?, database.into()))).collect())
    }
}

table! {
    /// One entry of the list.
    struct Database {
        /// The name that the provider uses for the database.
        #[required]
        name: Option<DatabaseName>,
        /// The URL of the database, from a variable or a file: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or
        /// `sqlite:PATH`. A URL of SQLite can also be written here directly.
        #[required]
        url: SqlUrl,
        /// PostgreSQL: the schemas whose tables and views can be read, and the `search_path`. `public` unless set.
        #[default(vec![SchemaName("public".to_owned())])]
        schemas: Vec<SchemaName>,
        /// The maximum number of rows of a result; further rows are cut off. 1000 unless set; 1 to 100000.
        max_rows: SqlRows,
        /// The maximum size of a result; a larger one fails. 4 MiB unless set; 1 KiB to 256 MiB.
        max_bytes: SqlBytes,
        /// The maximum time of a query, including the wait for a connection. 5 s unless set; 10 ms to 10 min.
        timeout: SqlTimeout,
        /// The maximum number of connections. 4 unless set; 1 to 64.
        connections: SqlConnections,
        /// PostgreSQL: a channel. A notification on it (`NOTIFY`) starts a check of watched resources for changes
        /// immediately.
        listen: Option<ChannelName>,
        /// PostgreSQL: a PEM file of certificate authorities that are trusted in addition to the machine's own.
        ca: Option<CaBundle>,
        /// PostgreSQL: whether the role of the URL may be a superuser, or have write access. `false` unless set: the
        /// host refuses such a role.
        allow_writing_role: bool,
    }
}

impl FromTable for Database {
    type Keys = Self;

    const TYPE_NAME: &'static str = "a table with `name` and `url`";

    fn example() -> String {
        format!("{{ name = {}, url = {} }}", DatabaseName::example(), SqlUrl::example())
    }

    fn from_keys(keys: Self, table: &Table<'_>) -> Option<Self> {
        if let SqlUrl::Sqlite(_) = keys.url {
            for key in ["schemas", "listen", "ca", "allow-writing-role"].into_iter().filter(|key| table.has(key)) {
                let message = format!("`{key}` is for PostgreSQL, and this database is of SQLite");
                table.report(Diagnostic::new(message, format!("remove `{key}`")).at(table.entry_span(key)));
            }
        }
        if keys.schemas.is_empty() && !table.has_problems() {
            let help = format!("write at least one, or remove `schemas` for `[{}]`", SchemaName::example());
            let problem = Diagnostic::new("`schemas` is empty, so nothing could be read", help);
            table.report(problem.at(table.entry_span("schemas")));
        }
        Some(keys)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Config, Environment};

    /// The grants for this value of `grants.sql`, or its first problem.
    fn granted(value: &str) -> Result<BTreeMap<DatabaseName, SqlGrant>, String> {
        let plugin = "name = 'git'\ncomponent = 'plugins/git.wasm'\nmount = 'git://linux/'";
        let text = format!("[[plugin]]\n{plugin}\ngrants.sql = {value}\n");
        let environment = Environment::empty().variable("SHOP", "postgres://reader:hunter2@db.example.com/shop");
        let config = Config::parse_in(&text, Path::new("tests/ui/valid/a.toml"), &environment);
        let config = config.map_err(|error| error.diagnostics()[0].message().to_owned())?;
        Ok(config.plugins.first().map(|plugin| plugin.grants.sql.clone()).unwrap())
    }

    #[test]
    fn a_database_has_default_bounds_unless_it_has_its_own() {
        let grants = granted("[{ name = 'shop', url = { env = 'SHOP' } }]").unwrap();
        let grant = &grants[&"shop".parse().unwrap()];
        assert_eq!(grant.schemas, ["public".parse().unwrap()]);
        assert_eq!((grant.max_rows.get(), grant.max_bytes.bytes(), grant.connections.get()), (1000, 4 << 20, 4));
        assert!(!grant.allow_writing_role && !format!("{grant:?}").contains("hunter2"));
        let grants = granted(
            "[{ name = 'a', url = { env = 'SHOP' }, schemas = ['api', 'My Schema'], max-rows = 7, max-bytes = '1KiB', \
             timeout = '1s', connections = 1, allow-writing-role = true }]",
        )
        .unwrap();
        let grant = &grants[&"a".parse().unwrap()];
        assert_eq!(grant.schemas.iter().map(SchemaName::as_str).collect::<Vec<_>>(), ["api", "My Schema"]);
        assert_eq!((grant.max_rows.get(), grant.max_bytes.bytes(), grant.connections.get()), (7, 1024, 1));
        assert!(grant.allow_writing_role);
    }
}
