//! SQL databases: `grants.sql`.
//!
//! A list of the databases that a provider may query with `mcp-host:sql`. The host has their addresses and passwords,
//! and enforces that the provider only reads. By default the list is empty: every query fails.
//!
//! | key | meaning |
//! |---|---|
//! | `name` | the name that the provider asks for: 1 to 64 of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, beginning with a letter or digit. Required, and no two entries have the same |
//! | `url` | the database, from a [variable or a file](super::super::Secret): `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or `sqlite:PATH`. A URL of SQLite has no password, and may stand here itself. Required |
//! | `schemas` | PostgreSQL: the schemas whose tables and views can be read, and the `search_path` |
//! | `max-rows` | the maximum number of rows of a result; more are cut off, and the provider is told so |
//! | `max-bytes` | the maximum size of a result; a larger one fails |
//! | `timeout` | the maximum time of a query, with the wait for a connection |
//! | `connections` | the maximum number of connections, which is that of queries at once |
//! | `listen` | PostgreSQL: a channel. When something notifies it (`NOTIFY`), what clients watch is checked for changes at once |
//! | `ca` | PostgreSQL: a PEM file of certificate authorities that are trusted in addition to those of the machine |
//! | `allow-writing-role` | PostgreSQL: also connect as a superuser, or as a role that can write. Such a role is refused otherwise |
//!
//! **PostgreSQL.** A server is verified by TLS, as by `sslmode=verify-full`, unless the URL has `sslmode=disable` or
//! the host is a directory (`?host=/run/postgresql`), which stands for a Unix socket. Of several hosts the first that
//! answers is used.
//!
//! **SQLite.** `sqlite:data/shop.db` is relative to the config file, `sqlite:///srv/shop.db` is absolute. The file must
//! exist.
//!
//! ```
//! use mcp_resource_host::config::Plugin;
//! use mcp_resource_host::config::grants::{SqlGrant, SqlUrl};
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

mod channel;
mod url;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::CaBundle;
use super::name;
use crate::config::count::Count;
use crate::config::duration::{BoundedDuration, MINUTE, SECOND};
use crate::config::error::{Diagnostic, Suggest, quote};
use crate::config::reader::{Documented, FromNode, FromTable, KeyDocs, Node, Schema, Table};
use crate::config::size::{KIB, MIB, Size};

pub use self::channel::{ChannelName, ChannelNameError};
pub use self::url::{SqlUrl, SqlUrlError};
#[cfg(feature = "sql")]
pub(crate) use self::url::{client_config, server_port};

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
    /// Where it is.
    pub url: SqlUrl,
    /// The schemas that can be read, in the order in which names are looked up. Ignored for SQLite. `public` unless set.
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
    /// Certificate authorities that are trusted in addition to those of the machine. Ignored for SQLite.
    pub ca: Option<CaBundle>,
    /// Whether to connect as a superuser or a role that can write, too. Ignored for SQLite.
    pub allow_writing_role: bool,
}

impl SqlGrant {
    /// A grant of that database, with the default bounds.
    pub fn new(url: SqlUrl) -> Self {
        Self {
            url,
            schemas: SchemaName::defaults(),
            max_rows: SqlRows::default(),
            max_bytes: SqlBytes::default(),
            timeout: SqlTimeout::default(),
            connections: SqlConnections::default(),
            listen: None,
            ca: None,
            allow_writing_role: false,
        }
    }
}

/// The name under which a database is granted: 1 to 64 of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, beginning with a letter
/// or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseName(String);

impl DatabaseName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is not the name of a database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a database name", quote(.0))]
pub struct DatabaseNameError(String);

impl Suggest for DatabaseNameError {
    fn suggestion(&self, _: &str) -> String {
        format!(
            "write the name that the provider asks for: 1 to {} of a-z, A-Z, 0-9, `-`, `_` and `.`, beginning with a \
             letter or digit, such as {}",
            name::MAX_LEN,
            DatabaseName::example()
        )
    }
}

impl FromStr for DatabaseName {
    type Err = DatabaseNameError;

    fn from_str(text: &str) -> Result<Self, DatabaseNameError> {
        if name::is_valid(text) { Ok(Self(text.to_owned())) } else { Err(DatabaseNameError(text.to_owned())) }
    }
}

impl fmt::Display for DatabaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromNode for DatabaseName {
    const TYPE_NAME: &'static str = "a database name";

    fn example() -> String {
        "\"shop\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(name::PATTERN)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.parse()
    }
}

/// The name of a schema of PostgreSQL: 1 to 63 bytes without NUL, not one of the system's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemaName(String);

impl SchemaName {
    /// The maximum length, beyond which PostgreSQL cuts a name off.
    const MAX_LEN: usize = 63;

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn defaults() -> Vec<Self> {
        vec![Self("public".to_owned())]
    }
}

/// A text that is not the name of a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not the name of a schema", quote(.0))]
pub struct SchemaNameError(String);

impl Suggest for SchemaNameError {
    fn suggestion(&self, _: &str) -> String {
        format!(
            "write the name as the database has it, in at most {} bytes, such as {}; the catalogs need no grant",
            SchemaName::MAX_LEN,
            SchemaName::example()
        )
    }
}

impl FromStr for SchemaName {
    type Err = SchemaNameError;

    fn from_str(text: &str) -> Result<Self, SchemaNameError> {
        let is_valid = (1..=Self::MAX_LEN).contains(&text.len()) && !text.contains('\0');
        let is_system = text.starts_with("pg_") || text == "information_schema";
        if is_valid && !is_system { Ok(Self(text.to_owned())) } else { Err(SchemaNameError(text.to_owned())) }
    }
}

impl FromNode for SchemaName {
    const TYPE_NAME: &'static str = "the name of a schema";

    fn example() -> String {
        "\"public\"".into()
    }

    fn schema() -> Schema {
        Schema::string().with("minLength", 1)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.parse()
    }
}

/// The list of granted databases, with unique names.
pub(super) struct Sql(pub(super) BTreeMap<DatabaseName, SqlGrant>);

impl FromNode for Sql {
    const TYPE_NAME: &'static str = "a list of databases";

    fn example() -> String {
        format!("[{}]", <Database as FromTable>::example())
    }

    fn schema() -> Schema {
        Schema::list(<Database as FromNode>::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let mut databases = BTreeMap::new();
        let mut spans = BTreeMap::new();
        for item in node.items::<Database>()? {
            let Some(Database { name, grant }) = Database::from_node(&item) else { continue };
            let span = item.entry_span("name");
            if let Some(first) = spans.get(&name) {
                let message = format!("the database `{name}` is granted twice");
                let problem = Diagnostic::new(message, "give each database a name of its own");
                node.context.report(problem.at(span).secondary(Clone::clone(first), "the other one"));
            } else {
                spans.insert(name.clone(), span);
                databases.insert(name, grant);
            }
        }
        Some(Self(databases))
    }
}

/// One entry of the list.
struct Database {
    name: DatabaseName,
    grant: SqlGrant,
}

impl Documented for Database {
    const KEY_DOCS: KeyDocs = &[
        ("name", "The name that the provider asks for."),
        (
            "url",
            "The database, from a variable or a file: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or `sqlite:PATH`. \
             A URL of SQLite may stand here itself.",
        ),
        (
            "schemas",
            "PostgreSQL: the schemas whose tables and views can be read, and the `search_path`. `public` unless set.",
        ),
        ("max-rows", "The maximum number of rows of a result; more are cut off. 1000 unless set; 1 to 100000."),
        ("max-bytes", "The maximum size of a result; a larger one fails. 4 MiB unless set; 1 KiB to 256 MiB."),
        ("timeout", "The maximum time of a query, with the wait for a connection. 5 s unless set; 10 ms to 10 min."),
        ("connections", "The maximum number of connections. 4 unless set; 1 to 64."),
        (
            "listen",
            "PostgreSQL: a channel. When something notifies it (`NOTIFY`), what clients watch is checked for changes at once.",
        ),
        (
            "ca",
            "PostgreSQL: a PEM file of certificate authorities that are trusted in addition to those of the machine.",
        ),
        (
            "allow-writing-role",
            "PostgreSQL: whether to connect as a superuser, or as a role that can write. Such a role is refused unless set.",
        ),
    ];
}

impl FromTable for Database {
    const TYPE_NAME: &'static str = "a table with `name` and `url`";

    fn example() -> String {
        format!("{{ name = {}, url = {} }}", DatabaseName::example(), SqlUrl::example())
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let name = table.required("name");
        let url = table.required::<SqlUrl>("url");
        let schemas = table.optional::<Vec<SchemaName>>("schemas");
        let (max_rows, max_bytes) = (table.or_default("max-rows"), table.or_default("max-bytes"));
        let (timeout, connections) = (table.or_default("timeout"), table.or_default("connections"));
        let (listen, ca) = (table.optional("listen"), table.optional("ca"));
        let allow_writing_role = table.or_default("allow-writing-role");
        let url = url?;
        if let SqlUrl::Sqlite(_) = url {
            for key in ["schemas", "listen", "ca", "allow-writing-role"].into_iter().filter(|key| table.has(key)) {
                let message = format!("`{key}` is for PostgreSQL, and this database is of SQLite");
                table.report(Diagnostic::new(message, format!("remove `{key}`")).at(table.entry_span(key)));
            }
        }
        if schemas.as_ref().is_some_and(Vec::is_empty) && !table.has_problems() {
            let help = format!("write at least one, or remove `schemas` for `[{}]`", SchemaName::example());
            let problem = Diagnostic::new("`schemas` is empty, so nothing could be read", help);
            table.report(problem.at(table.entry_span("schemas")));
        }
        let schemas = schemas.unwrap_or_else(SchemaName::defaults);
        let grant =
            SqlGrant { url, schemas, max_rows, max_bytes, timeout, connections, listen, ca, allow_writing_role };
        Some(Self { name: name?, grant })
    }
}

#[cfg(test)]
#[cfg(feature = "sql")]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, Environment};

    /// What that value of `grants.sql` grants, or the first thing that is wrong with it.
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

    #[test]
    fn what_makes_no_sense_is_a_mistake() {
        for (value, expected) in [
            (
                "[{ name = 'a', url = { env = 'SHOP' } }, { name = 'a', url = { env = 'SHOP' } }]",
                "the database `a` is granted twice",
            ),
            ("[{ name = 'a b', url = { env = 'SHOP' } }]", "`a b` is not a database name"),
            ("[{ name = 'a', url = { env = 'SHOP' }, schemas = [] }]", "`schemas` is empty, so nothing could be read"),
            (
                "[{ name = 'a', url = { env = 'SHOP' }, schemas = ['pg_catalog'] }]",
                "`pg_catalog` is not the name of a schema",
            ),
            ("[{ name = 'a', url = 'postgres://u:hunter2@h/d' }]", "`url` must be a table with `env` or `file`"),
        ] {
            assert_eq!(granted(value).unwrap_err(), expected);
        }
    }
}
