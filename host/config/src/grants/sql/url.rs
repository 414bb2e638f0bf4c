//! The URL of a database.

use std::path::{Path, PathBuf, absolute};

use toml::de::DeValue;
use zeroize::Zeroizing;

use crate::diagnostic::quote;
use crate::reader::{FromNode, Node, Schema};
use crate::secret::{Secret, SecretSource};

/// The scheme of URLs of SQLite.
const SQLITE: &str = "sqlite:";
/// The port of PostgreSQL.
const DEFAULT_PORT: u16 = 5432;
/// The schemes of URLs of PostgreSQL.
const POSTGRESQL: [&str; 2] = ["postgres://", "postgresql://"];

/// The place of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlUrl {
    /// A PostgreSQL server: a connection URL in libpq's syntax, with the password.
    Postgresql(Secret<String>),
    /// An SQLite file.
    Sqlite(PathBuf),
}

/// The reason why a text is not the URL of a database. No variant contains the text, which may have a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SqlUrlError {
    /// The text has no known scheme.
    #[error("the URL begins with neither `postgres://` nor `sqlite:`")]
    Scheme,
    /// The text is not a valid connection URL.
    #[error("the URL is not a valid connection URL of PostgreSQL")]
    Postgresql,
    /// The URL has no host, or no user.
    #[error("the URL has no {0}")]
    Incomplete(&'static str),
    /// A character with a special meaning at its place is not percent-encoded.
    #[error("the user or the password in the URL has one of the characters `@ / ? # %` without percent-encoding")]
    Unescaped,
    /// There is no regular file at the path.
    #[error("there is no database file at `{}`", .0.display())]
    NoFile(PathBuf),
}

impl SqlUrlError {
    fn help(&self) -> &'static str {
        match self {
            Self::Scheme | Self::Incomplete(_) => {
                "write `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or `sqlite:PATH`, in the variable or file"
            }
            Self::Postgresql => {
                "write `postgres://USER:PASSWORD@HOST:PORT/DATABASE` with `%` escapes for the characters `/?#@:%` of a \
                 password, and only parameters that PostgreSQL has, such as `?sslmode=disable`"
            }
            Self::Unescaped => {
                "percent-encode them, in the variable or file: `@` is `%40`, `/` is `%2F`, `?` is `%3F`, `#` is `%23`, and \
                 `%` is `%25`"
            }
            Self::NoFile(_) => "create the database, or correct the path; it is relative to the config file",
        }
    }
}

impl SqlUrl {
    /// Parses a URL. A relative path of SQLite is relative to `base_dir`.
    ///
    /// # Errors
    ///
    /// The URL is invalid, or the SQLite file does not exist.
    pub fn parse(text: &str, base_dir: &Path) -> Result<Self, SqlUrlError> {
        if let Some(path) = text.strip_prefix(SQLITE) {
            let path = base_dir.join(path.strip_prefix("//").unwrap_or(path));
            if !path.is_file() {
                return Err(SqlUrlError::NoFile(path));
            }
            return Ok(Self::Sqlite(absolute(&path).unwrap_or(path)));
        }
        if !POSTGRESQL.iter().any(|scheme| text.starts_with(scheme)) {
            return Err(SqlUrlError::Scheme);
        }
        client_config(text)?;
        Ok(Self::Postgresql(Secret::new(text.to_owned())))
    }
}

impl SqlUrl {
    /// The TCP ports of the servers; empty for SQLite and for Unix sockets.
    pub fn ports(&self) -> Vec<u16> {
        let Self::Postgresql(url) = self else { return Vec::new() };
        let Ok(config) = client_config(url.expose()) else { return Vec::new() };
        let hosts = config.get_hosts().iter().enumerate();
        let tcp = hosts.filter(|(_, host)| matches!(host, tokio_postgres::config::Host::Tcp(_)));
        tcp.map(|(index, _)| server_port(&config, index)).collect()
    }

    /// The Unix sockets of the servers; empty for SQLite and for servers with an address.
    pub fn sockets(&self) -> Vec<PathBuf> {
        #[cfg(unix)]
        if let Self::Postgresql(url) = self
            && let Ok(config) = client_config(url.expose())
        {
            let hosts = config.get_hosts().iter().enumerate();
            let sockets = hosts.filter_map(|(index, host)| match host {
                tokio_postgres::config::Host::Unix(dir) => {
                    Some(dir.join(format!(".s.PGSQL.{}", server_port(&config, index))))
                }
                tokio_postgres::config::Host::Tcp(_) => None,
            });
            return sockets.collect();
        }
        Vec::new()
    }
}

/// The port of a server of a URL, which has one port per server or one for all.
#[doc(hidden)]
pub fn server_port(config: &tokio_postgres::Config, index: usize) -> u16 {
    let ports = config.get_ports();
    ports.get(index).or(ports.first()).copied().unwrap_or(DEFAULT_PORT)
}

/// Parses a connection URL for the client library. The server's certificate is verified unless the URL has
/// `sslmode=disable`, so libpq's verifying values of `sslmode` are equivalent.
#[doc(hidden)]
pub fn client_config(url: &str) -> Result<tokio_postgres::Config, SqlUrlError> {
    check_escapes(url)?;
    let url = Zeroizing::new(url.replace("sslmode=verify-full", "sslmode=require"));
    let config: tokio_postgres::Config = url.parse().map_err(|_| SqlUrlError::Postgresql)?;
    match (config.get_hosts().is_empty(), config.get_user().is_none()) {
        (true, _) => Err(SqlUrlError::Incomplete("host")),
        (_, true) => Err(SqlUrlError::Incomplete("user")),
        (false, false) => Ok(config),
    }
}

/// Fails if a character in the user or the password would end it for the client library. The library would take the
/// rest for a host and resolve it: no part of a password may leave the process.
fn check_escapes(url: &str) -> Result<(), SqlUrlError> {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    // Addresses and parameters have no `@`, so the text before the last `@` is the user and the password.
    let (credentials, address) = rest.rsplit_once('@').unwrap_or(("", rest));
    let is_escape =
        |bytes: &[u8]| matches!(bytes, [first, second, ..] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit());
    let mut parts = credentials.split('%');
    let has_reserved = parts.next().is_some_and(|first| first.contains(['@', '/', '?', '#']));
    let has_wrong_escape = parts.any(|part| !is_escape(part.as_bytes()) || part.contains(['@', '/', '?', '#']));
    match has_reserved || has_wrong_escape || address.contains('#') {
        true => Err(SqlUrlError::Unescaped),
        false => Ok(()),
    }
}

impl FromNode for SqlUrl {
    const TYPE_NAME: &'static str = SecretSource::TYPE_NAME;

    fn example() -> String {
        "{ env = \"SHOP_URL\" }".into()
    }

    fn schema() -> Schema {
        Schema::any_of([Schema::pattern("^sqlite:.+"), SecretSource::schema()])
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let text = match node.value {
            DeValue::String(text) if text.starts_with(SQLITE) => Zeroizing::new(text.to_string()),
            // The path of an existing file is not a password.
            DeValue::String(text) if node.context.base_dir.join(&**text).is_file() => {
                let help = format!("write {}", quote(&format!("{SQLITE}{text}")));
                node.report_error("expected the URL of a database, found the path of a file", help);
                return None;
            }
            _ => SecretSource::from_node(node)?.0,
        };
        match Self::parse(&text, node.context.base_dir) {
            Ok(url) => Some(url),
            Err(SqlUrlError::NoFile(path)) => {
                // Only a missing file is a dependency: an existing database changes with every write.
                node.context.add_dependency(absolute(&path).unwrap_or_else(|_| path.clone()));
                let error = SqlUrlError::NoFile(path);
                node.report_machine_error(error.to_string(), error.help());
                None
            }
            // The URL is in a variable or a file, unless it is one of SQLite.
            Err(error) => {
                node.report_machine_error(error.to_string(), error.help());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SqlUrl, SqlUrlError> {
        SqlUrl::parse(text, Path::new("/"))
    }

    #[test]
    fn a_connection_url_names_a_host_and_a_user() {
        for text in [
            "postgres://reader:a%2Fb@db.example.com:5433/shop",
            "postgresql://reader@[::1]/shop?sslmode=disable",
            "postgres://reader@/shop?host=/run/postgresql",
            "postgres://reader@a,b/shop?sslmode=verify-full&connect_timeout=3",
        ] {
            assert!(matches!(parse(text), Ok(SqlUrl::Postgresql(_))), "{text}");
        }
        assert_eq!(parse("postgres://reader@/shop"), Err(SqlUrlError::Incomplete("host")));
        assert_eq!(parse("postgres://db.example.com/shop"), Err(SqlUrlError::Incomplete("user")));
        assert_eq!(parse("postgres://reader@a:port/shop"), Err(SqlUrlError::Postgresql));
        assert_eq!(parse("postgres://reader@a/shop?sslmode=maybe"), Err(SqlUrlError::Postgresql));
        for text in ["", "shop.db", "mysql://a", "host=a user=b", "POSTGRES://a@b"] {
            assert_eq!(parse(text), Err(SqlUrlError::Scheme), "{text}");
        }
    }

    #[test]
    fn a_file_of_sqlite_is_relative_to_the_config_or_absolute() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a b?.db");
        std::fs::write(&file, "").unwrap();
        for text in ["sqlite:a b?.db".to_owned(), format!("sqlite://{}", file.display())] {
            assert_eq!(SqlUrl::parse(&text, dir.path()), Ok(SqlUrl::Sqlite(file.clone())), "{text}");
        }
        assert!(matches!(parse("sqlite:"), Err(SqlUrlError::NoFile(_))));
        assert!(matches!(parse("sqlite:absent.db"), Err(SqlUrlError::NoFile(_))));
    }

    #[test]
    fn a_password_that_is_not_percent_encoded_is_never_taken_for_a_host() {
        for password in
            ["hunter@2", "hunter/2", "12/hunter", "hunter#2", "hunter?2", "100%hunter", "hunter%2", "a@b/c#d"]
        {
            for address in
                ["db.example.com/shop", "db.example.com:5432/shop?sslmode=disable", "/shop?host=/run/postgresql"]
            {
                let text = format!("postgres://reader:{password}@{address}");
                assert_eq!(parse(&text), Err(SqlUrlError::Unescaped), "{text}");
            }
        }
        assert_eq!(parse("postgres://reader@db.example.com/shop#hunter2"), Err(SqlUrlError::Unescaped));
        let encoded = client_config("postgres://reader:%40%2F%3F%23%25@db.example.com/shop").unwrap();
        assert_eq!(encoded.get_password(), Some(&b"@/?#%"[..]));
    }

    #[test]
    fn no_message_quotes_the_url() {
        for text in ["hunter2", "postgres://u:hunter2@h:x/d", "postgres://:hunter2@h/d?hunter2=1"] {
            let error = parse(text).unwrap_err();
            assert!(!format!("{error} {error:?} {}", error.help()).contains("hunter2"), "{error}");
        }
    }
}
