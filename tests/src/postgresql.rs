//! A server of PostgreSQL for one test: Debian's, in a temporary directory, on a Unix socket there.
//!
//! PostgreSQL refuses to run as root, so as root it is started as the user `postgres`, which the package makes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use toml::Value;

use crate::origin::CertifiedKey;
use crate::reserved_port::ReservedPort;

/// How a server is started.
#[derive(Debug, Default)]
pub struct PostgresqlOptions<'a> {
    /// Listens on this port of loopback as well.
    pub port: Option<&'a ReservedPort>,
    /// Offers TLS with this certificate.
    pub certificate: Option<&'a CertifiedKey>,
}

/// A server with the database `shop`, which ends with it.
#[derive(Debug)]
pub struct Postgresql {
    dir: TempDir,
    settings: String,
}

impl Postgresql {
    /// Starts a server on a Unix socket, and runs SQL as its superuser.
    pub fn start(sql: &str) -> Self {
        Self::start_with(&PostgresqlOptions::default(), sql)
    }

    /// Starts a server with options, and runs SQL as its superuser.
    pub fn start_with(options: &PostgresqlOptions<'_>, sql: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory for the server");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("the server's user may enter it");
        let data = dir.path().join("data");
        fs::create_dir(&data).expect("a directory for the data");
        let (uid, gid) = (user_id("-u"), user_id("-g"));
        let mut settings = format!("-c fsync=off -c unix_socket_directories={}", data.display());
        match options.port {
            Some(port) => {
                settings += &format!(" -c listen_addresses=127.0.0.1 -p {}", port.address().port());
            }
            None => settings += " -c listen_addresses=",
        }
        if let Some(certificate) = options.certificate {
            for (name, pem) in [("cert.pem", certificate.pem()), ("key.pem", certificate.key_pem())] {
                let file = dir.path().join(name);
                fs::write(&file, pem).expect("the certificate can be written");
                fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("the key is private");
                chown(&file, Some(uid), Some(gid)).expect("the server may read it");
            }
            let path = |name: &str| dir.path().join(name).display().to_string();
            settings +=
                &format!(" -c ssl=on -c ssl_cert_file={} -c ssl_key_file={}", path("cert.pem"), path("key.pem"));
        }
        chown(&data, Some(uid), Some(gid)).expect("the server may write to it");
        let server = Self { dir, settings };
        server.run(server.command("initdb").args([
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--username=postgres",
        ]));
        server.begin();
        server.psql("postgres", "CREATE DATABASE shop");
        server.sql(sql);
        server
    }

    /// Makes and starts a server by a script of the shell, in which `dir` is the directory of its data, for which one
    /// of the test stands.
    pub fn start_by_script(script: &str, dir: &str) -> Self {
        let server = Self { dir: tempfile::tempdir().expect("a directory for the server"), settings: String::new() };
        chown(server.dir.path(), Some(user_id("-u")), Some(user_id("-g"))).expect("the server may write to it");
        let data = server.data().display().to_string();
        let path = format!("{}:/usr/bin:/bin", binaries().display());
        server.run(server.command("/bin/bash").args(["-euc", &script.replace(dir, &data)]).env("PATH", path));
        fs::set_permissions(server.dir.path(), Permissions::from_mode(0o755)).expect("the server's user may enter it");
        server
    }

    /// Runs SQL in the database as the superuser, and returns what it prints: rows of fields that are separated by `|`.
    pub fn sql(&self, sql: &str) -> String {
        self.psql("shop", sql)
    }

    /// Runs SQL of any length in the database as the superuser.
    pub fn load(&self, sql: &str) {
        let file = self.dir.path().join("load.sql");
        fs::write(&file, sql).expect("SQL can be written");
        let mut psql = self.psql_command("shop");
        self.run(psql.arg("-f").arg(file));
    }

    /// The contents of the database with its roles, as SQL.
    pub fn dump(&self) -> String {
        let mut dump = self.command("pg_dumpall");
        let text = self.run(dump.arg("-h").arg(self.socket_dir()).args(["-p", self.port(), "-U", "postgres"]));
        // Newer releases write a random key into each dump.
        text.lines()
            .filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The Unix socket that the server listens on.
    pub fn socket(&self) -> PathBuf {
        self.socket_dir().join(format!(".s.PGSQL.{}", self.port()))
    }

    /// The value of `url` in a grant: a file with the URL for that role.
    pub fn url(&self, role: &str) -> Value {
        let port = self.port();
        self.url_file(role, &format!("postgres://{role}@/shop?host={}&port={port}", self.socket_dir().display()))
    }

    /// The value of `url` in a grant: a file with that text.
    pub fn url_file(&self, name: &str, url: &str) -> Value {
        let file = self.dir.path().join(format!("url-{name}"));
        fs::write(&file, url).expect("the URL can be written");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("the URL is private");
        let source: toml::Table =
            [("file".to_owned(), file.to_str().expect("a path is text").into())].into_iter().collect();
        source.into()
    }

    /// Kills the server, as a crash does.
    pub fn kill(&self) {
        self.run(self.command("pg_ctl").args(["stop", "-m", "immediate"]));
    }

    /// Starts the server again.
    pub fn begin(&self) {
        let log = self.data().join("log");
        self.run(self.command("pg_ctl").args(["start", "-w", "-o", &self.settings, "-l"]).arg(log));
    }

    fn psql(&self, database: &str, sql: &str) -> String {
        self.run(self.psql_command(database).args(["-c", sql]))
    }

    fn psql_command(&self, database: &str) -> Command {
        let mut psql = self.command("psql");
        psql.arg("-h").arg(self.socket_dir()).args(["-p", self.port(), "-U", "postgres", "-d", database]);
        psql.args(["-v", "ON_ERROR_STOP=1", "-X", "-q", "-A", "-t"]);
        psql
    }

    /// The directory of its data, in which its socket is, too.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn socket_dir(&self) -> PathBuf {
        self.data()
    }

    fn port(&self) -> &str {
        self.settings.split_once(" -p ").map_or("5432", |(_, port)| port.split(' ').next().unwrap_or("5432"))
    }

    /// A program of PostgreSQL, as a user that it accepts.
    fn command(&self, program: &str) -> Command {
        let program = binaries().join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.env("PGDATA", self.data()).env_remove("PGHOST").env_remove("PGPORT").current_dir("/");
        command
    }

    fn run(&self, command: &mut Command) -> String {
        // The server inherits these, so they are files, not pipes whose end would be awaited.
        let (out, err) = (self.dir.path().join("out"), self.dir.path().join("err"));
        let file = |path: &Path| Stdio::from(fs::File::create(path).expect("a file for the output"));
        let status = command.stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err)).status();
        let status = status.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        assert!(status.success(), "{command:?}: {status}\n{}\n{}", text(&err), text(&self.data().join("log")));
        text(&out)
    }
}

impl Drop for Postgresql {
    fn drop(&mut self) {
        let _ = self
            .command("pg_ctl")
            .args(["stop", "-m", "immediate"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The number of the user, or group, that the server runs as.
fn user_id(option: &str) -> u32 {
    let mut id = Command::new("id");
    id.arg(option);
    if is_root() {
        id.arg("postgres");
    }
    let output = id.output().expect("`id` runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap_or_else(|_| panic!("there is no user `postgres`: run `cargo xtask test`"))
}

/// The directory of the server's programs: Debian has one for each version.
fn binaries() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let dirs = versions.map(|version| version.path().join("bin")).filter(|dir| dir.join("pg_ctl").is_file());
    dirs.max().unwrap_or_else(|| panic!("no PostgreSQL in /usr/lib/postgresql: run `cargo xtask test`"))
}
