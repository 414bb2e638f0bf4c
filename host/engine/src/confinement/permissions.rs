//! The permissions of `mcp-host serve` when `server.confine` is set: everything that the config names, and that the
//! program itself needs.
//!
//! | permission | for |
//! |---|---|
//! | read the directories of all files that the config names, and of the config | components, certificates and values in files are replaced by renaming, which gives them another inode |
//! | read granted directories | `grants.dirs` |
//! | read and write | `grants.dirs` with `mode = "rw"`; the state directory and the cache; the directory of the audit log |
//! | read and write the directories of granted databases of SQLite | readers of a write-ahead log record what they use in files beside it |
//! | execute | this program and the libraries that it is linked with: it starts itself as the compiler, and to run SQLite |
//! | listen at a TCP port | `server.http` |
//! | connect to Unix sockets | the servers of `grants.sql` |
//! | connect to TCP ports | `grants.http` and its token endpoints, the servers of `grants.sql`, the URLs of `[[upstream]]`, `[[issuer]]`, `[search.embeddings]` and `[telemetry]`, and 53 for names |
//! | read the system's resolver configuration and certificates | if there is a grant of HTTP or of a database server, or an issuer with a URL, an endpoint of embeddings, or a collector |
//!
//! A directory stands for everything below it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mcp_host_config::admin::AdminAddress;
use mcp_host_config::audit::AuditDestination;
use mcp_host_config::grants::{Mode, SqlUrl};
use mcp_host_config::issuer::Issuer;
use mcp_host_config::{Config, UpstreamSource};

/// DNS over TCP, for responses that do not fit into a datagram.
const DNS_PORT: u16 = 53;

/// Read by every server, and by the compiler before it is confined: seeds of random numbers (SQLite), the number of
/// processors, memory properties of the machine (jemalloc), and the locations of libraries.
const SYSTEM: [&str; 8] = [
    "/dev/urandom",
    "/proc/self",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu/online",
    "/proc/sys/vm/overcommit_memory",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
];

/// Read to resolve names.
const RESOLVER: [&str; 11] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/run/nscd",
];

/// The certificate authorities on common systems.
const CERTIFICATES: [&str; 11] = [
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates/extracted",
    "/var/lib/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/share/pki",
    "/usr/local/share/ca-certificates",
];
/// The environment variables that name other certificate authorities.
const CERTIFICATE_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Files, directories and ports that a server may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Files that may be read, with everything in the same directory.
    pub(super) files: BTreeSet<PathBuf>,
    /// Files and directories that may be read.
    pub(super) read: BTreeSet<PathBuf>,
    /// Directories that may be read and written to.
    pub(super) write: BTreeSet<PathBuf>,
    /// Directories that may be read and written to, and are created if they do not exist.
    pub(super) create: BTreeSet<PathBuf>,
    /// Files that may be executed.
    pub(super) execute: BTreeSet<PathBuf>,
    /// The TCP ports that may be listened on. 0 means any free port.
    pub(super) bind: BTreeSet<u16>,
    /// The directories in which Unix sockets may be created.
    pub(super) socket_dirs: BTreeSet<PathBuf>,
    /// The TCP ports that may be connected to.
    pub(super) connect: BTreeSet<u16>,
    /// The Unix sockets that may be connected to.
    pub(super) sockets: BTreeSet<PathBuf>,
}

impl Permissions {
    /// Returns whether these permissions include no Unix socket.
    pub(super) fn sockets_are_none(&self) -> bool {
        self.first_socket().is_none()
    }

    /// Returns the first Unix socket, or else the first directory for Unix sockets.
    pub(super) fn first_socket(&self) -> Option<&Path> {
        self.sockets.first().or(self.socket_dirs.first()).map(PathBuf::as_path)
    }

    /// Returns the permissions for the plugins and files of a config, which a reload may change.
    pub fn of_config(config: &Config) -> Self {
        let mut permissions = Self { files: config.files.clone(), ..Self::default() };
        for plugin in config.plugins.iter() {
            // Another process passes an upstream's program its grants.
            for grant in plugin.grants.dirs.values().filter(|_| plugin.upstream.is_none()) {
                let dirs = match grant.mode {
                    Mode::ReadOnly => &mut permissions.read,
                    Mode::ReadWrite { .. } => &mut permissions.write,
                };
                dirs.insert(grant.host.clone());
            }
            for grant in plugin.grants.http.iter() {
                permissions.connect.insert(grant.origin.port());
                permissions.connect.extend(grant.oauth.iter().map(|oauth| oauth.token_uri.origin().port()));
            }
            if let Some(UpstreamSource::Url(url)) = plugin.upstream.as_ref().map(|upstream| &upstream.source) {
                permissions.connect.insert(url.origin().port());
            }
            if let Some(upstream) = &plugin.upstream {
                let exchange = upstream.exchange.as_ref().map(|exchange| &exchange.oauth);
                let oauth = upstream.oauth.as_deref().into_iter().chain(exchange);
                permissions.connect.extend(oauth.map(|oauth| oauth.token_uri.origin().port()));
            }
            for grant in plugin.grants.sql.values() {
                match &grant.url {
                    SqlUrl::Sqlite(file) => permissions.write.extend(file.parent().map(Path::to_owned)),
                    SqlUrl::Postgresql(_) => {
                        permissions.connect.extend(grant.url.ports());
                        permissions.sockets.extend(grant.url.sockets());
                    }
                }
            }
        }
        let urls = config.issuers.iter().flat_map(Issuer::urls);
        let embeddings = config.search.as_ref().and_then(|search| search.embeddings.as_ref());
        let urls = urls.chain(embeddings.map(|embeddings| &embeddings.url));
        let urls = urls.chain(config.telemetry.as_ref().map(|telemetry| &telemetry.otlp));
        permissions.connect.extend(urls.map(|url| url.origin().port()));
        // Rotation renames files in the directory.
        if let Some(AuditDestination::File(audit)) = config.audit.as_ref().map(|audit| &audit.destination) {
            permissions.write.extend(audit.path.parent().map(Path::to_owned));
        }
        if !permissions.connect.is_empty() {
            permissions.connect.insert(DNS_PORT);
        }
        permissions
    }

    /// Returns the permissions of a server with this config, read from this file. In addition to
    /// [`of_config`](Self::of_config), these are its directories, its port, and the system's files.
    pub fn of_server(config: &Config, file: &Path, dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut permissions = Self::of_config(config);
        permissions.files.insert(std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
        permissions.create.extend(dirs);
        permissions.bind.extend(config.server.http.map(|address| address.socket_addr().port()));
        match config.admin.as_ref().map(|admin| &admin.listen) {
            Some(AdminAddress::Tcp(address)) => permissions.bind.extend([address.socket_addr().port()]),
            Some(AdminAddress::Unix(path)) => permissions.socket_dirs.extend(path.parent().map(Path::to_owned)),
            None => {}
        }
        permissions.execute = mapped_files();
        permissions.read.extend(SYSTEM.map(PathBuf::from));
        if !permissions.connect.is_empty() {
            permissions.read.extend(RESOLVER.into_iter().chain(CERTIFICATES).map(PathBuf::from));
            permissions.read.extend(CERTIFICATE_VARIABLES.iter().filter_map(std::env::var_os).map(PathBuf::from));
            // The resolver loads its modules on first use. They lie beside the C library.
            let libraries = permissions.execute.iter().filter(|file| is_library(file));
            let dirs: Vec<_> = libraries.filter_map(|file| file.parent()).map(Path::to_owned).collect();
            permissions.read.extend(dirs);
        }
        permissions
    }
}

fn is_library(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"))
}

/// Returns the files of this process: the program, its libraries, and the dynamic loader.
fn mapped_files() -> BTreeSet<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    // `55d0-55d1 r-xp 00000000 08:01 1234   /usr/bin/mcp-host`
    let executable = maps.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|mode| mode.contains('x')));
    let files = executable.filter_map(|line| line.find('/').and_then(|start| line.get(start..)));
    files.map(PathBuf::from).chain(std::env::current_exe()).chain([PathBuf::from("/proc/self/exe")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::Plugin;
    use mcp_host_config::Secret;
    use mcp_host_config::grants::{AuthorizationGrant, DirGrant, HttpGrant, OAuth, OAuthClient, SqlGrant};
    use mcp_host_config::search::{Embeddings, Search};

    #[test]
    fn a_config_needs_its_files_its_directories_and_the_ports_of_its_origins() {
        let mut plugin = Plugin::new("a".parse().unwrap(), "/srv/a.wasm", "a:///".parse().unwrap());
        let dir = |host: &str, mode| DirGrant { host: host.into(), mode };
        plugin.grants.dirs.insert("/r".parse().unwrap(), dir("/r", Mode::ReadOnly));
        let mode = Mode::ReadWrite { quota: Default::default() };
        plugin.grants.dirs.insert("/w".parse().unwrap(), dir("/w", mode));
        let without_http = Permissions::of_config(&Config::new().plugin(plugin.clone()).unwrap());
        assert_eq!(without_http.connect, BTreeSet::new());
        plugin.grants.http.add(HttpGrant::new("https://docs.rs".parse().unwrap())).unwrap();
        let mut api = HttpGrant::new("http://*.example.com:8080".parse().unwrap());
        let client = AuthorizationGrant::ClientCredentials(OAuthClient::new("a", None));
        api.oauth = Some(OAuth::new(client, "https://login.example.com:8443/token".parse().unwrap()));
        plugin.grants.http.add(api).unwrap();
        let server = SqlUrl::Postgresql(Secret::new("postgres://reader@db,[::1]:5433/shop".to_owned()));
        plugin.grants.sql.insert("a".parse().unwrap(), SqlGrant::new(server));
        plugin.grants.sql.insert("b".parse().unwrap(), SqlGrant::new(SqlUrl::Sqlite("/db/shop.db".into())));
        let url = "https://embeddings.example.com:9443/v1/embeddings".parse().unwrap();
        let mut config = Config::new().plugin(plugin).unwrap();
        let embeddings = Embeddings::new(url, "small", 384.try_into().unwrap());
        config.search = Some(Search { embeddings: Some(embeddings), ..Search::default() });
        let permissions = Permissions::of_config(&config);
        assert_eq!(permissions.read, BTreeSet::from(["/r".into()]));
        assert_eq!(permissions.write, BTreeSet::from(["/db".into(), "/w".into()]));
        assert_eq!(permissions.connect, BTreeSet::from([53, 443, 5432, 5433, 8080, 8443, 9443]));
    }

    #[test]
    fn a_config_needs_the_unix_sockets_of_its_database_servers() {
        let mut plugin = Plugin::new("a".parse().unwrap(), "/srv/a.wasm", "a:///".parse().unwrap());
        let server = SqlUrl::Postgresql(Secret::new("postgres://reader@/shop?host=/run/postgresql".to_owned()));
        plugin.grants.sql.insert("a".parse().unwrap(), SqlGrant::new(server));
        let permissions = Permissions::of_config(&Config::new().plugin(plugin).unwrap());
        assert_eq!(permissions.sockets, BTreeSet::from(["/run/postgresql/.s.PGSQL.5432".into()]));
        assert_eq!(permissions.connect, BTreeSet::new());
    }

    #[test]
    fn a_server_executes_itself_and_reads_certificates_only_if_it_sends_requests() {
        let config = Config::new();
        let permissions = Permissions::of_server(&config, Path::new("/srv/mcp-host.toml"), ["/state".into()]);
        assert!(permissions.execute.contains(&std::env::current_exe().unwrap()), "{permissions:?}");
        assert_eq!(permissions.create, BTreeSet::from(["/state".into()]));
        assert!(permissions.bind.is_empty());
        assert!(!permissions.read.contains(Path::new("/etc/resolv.conf")));
    }
}
