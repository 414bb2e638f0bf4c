//! Writes an `mcp-host.toml` for one test.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use ring::digest::{SHA256, digest};
use tempfile::{NamedTempFile, TempDir};
use toml::{Table, Value};

use crate::artifacts;
use crate::origin::CertifiedKey;

/// A builder for a config.
#[derive(Debug, Default)]
#[must_use]
pub struct ConfigFile {
    server: Table,
    http: Table,
    audit: Table,
    search: Table,
    plugins: Vec<Plugin>,
    rules: Vec<Rule>,
    /// Text appended to the file, for what is not valid TOML or not a valid config.
    appended_text: String,
}

/// A config in a temporary directory of its own, which is removed with the last copy of this value: a server that was
/// started with it has one, because it reloads a file that changes or is removed. The host's state lies there too:
/// servers that are started with the same config one after the other share their state.
#[derive(Clone, Debug)]
pub struct WrittenConfig {
    dir: Arc<TempDir>,
}

impl ConfigFile {
    /// Creates a config with its directories only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key of `[server]`.
    pub fn server(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.server.insert(key.to_owned(), value.into());
        self
    }

    /// Sets a key of `[http]`.
    pub fn http(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.http.insert(key.to_owned(), value.into());
        self
    }

    /// Sets a key of `[audit]`.
    pub fn audit(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.audit.insert(key.to_owned(), value.into());
        self
    }

    /// Sets a limit of HTTP clients.
    pub fn http_limit(mut self, key: &str, value: impl Into<Value>) -> Self {
        let limits = self.http.entry("limits").or_insert_with(|| Table::new().into());
        limits.as_table_mut().expect("limits are a table").insert(key.to_owned(), value.into());
        self
    }

    /// Serves TLS, with the files `cert.pem` and `key.pem` beside the config.
    pub fn tls(self) -> Self {
        let files = [("certificate", "cert.pem"), ("key", "key.pem")];
        self.http("tls", files.into_iter().map(|(key, file)| (key.to_owned(), file.into())).collect::<Table>())
    }

    /// Sets the number of resources on a page.
    pub fn page_size(self, size: i64) -> Self {
        self.server("page-size", size)
    }

    /// Adds a plugin.
    pub fn plugin(mut self, plugin: Plugin) -> Self {
        self.plugins.push(plugin);
        self
    }

    /// Sets a key of `[search]`.
    pub fn search(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.search.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a principal with this token.
    pub fn principal(self, name: &str, token: &str) -> Self {
        let digest = digest(&SHA256, token.as_bytes());
        let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        self.append(&format!("\n[[principal]]\nname = \"{name}\"\ntoken-sha256 = \"{digest}\"\n"))
    }

    /// Adds a rule.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds a rule that allows everything to every principal, also over HTTP.
    pub fn allow_all(self) -> Self {
        self.rule(Rule::for_principal("*").allow(["**"]))
    }

    /// Appends text to the file.
    pub fn append(mut self, text: &str) -> Self {
        self.appended_text.push_str(text);
        self
    }

    /// Writes the file.
    pub fn write(self) -> WrittenConfig {
        let written = WrittenConfig { dir: Arc::new(tempfile::tempdir().expect("a directory for the config")) };
        written.share_compile_cache();
        written.replace(self);
        written
    }

    fn render(mut self, dir: &Path) -> String {
        self.server.entry("cache").or_insert_with(|| path_value(&artifacts::compile_cache()));
        self.server.insert("state".to_owned(), path_value(&dir.join("state")));
        // Compilers run beside everything else that the tests start.
        self.server
            .entry("compile")
            .or_insert_with(|| Table::from_iter([("deadline".to_owned(), "10m".into())]).into());
        let mut file = Table::new();
        file.insert("server".to_owned(), self.server.into());
        file.insert("http".to_owned(), self.http.into());
        if !self.audit.is_empty() {
            file.insert("audit".to_owned(), self.audit.into());
        }
        if !self.search.is_empty() {
            file.insert("search".to_owned(), self.search.into());
        }
        file.insert("plugin".to_owned(), self.plugins.into_iter().map(|plugin| plugin.0).collect::<Vec<_>>().into());
        // Text that is appended may have the first rule.
        if !self.rules.is_empty() {
            file.insert("rule".to_owned(), self.rules.into_iter().map(|rule| rule.0).collect::<Vec<_>>().into());
        }
        let toml = toml::to_string(&file).expect("a table is TOML");
        toml + &self.appended_text
    }
}

/// The cache key of hosts without a config, which is created unless one of them did that.
static CACHE_KEY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let state = artifacts::user_state().join("mcp-host");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&state).expect("a directory for the state");
    let file = state.join("compiled.key");
    let mut key = NamedTempFile::new_in(&state).expect("a file for the key");
    key.write_all(&[7; 32]).expect("the key of the cache can be written");
    // The key that is there, if another host or test has created it, stays.
    drop(key.persist_noclobber(&file));
    fs::read(&file).expect("the key of the cache can be read")
});

impl WrittenConfig {
    /// Shares the cache of compiled components with all other hosts: they use the same cache key.
    fn share_compile_cache(&self) {
        let state = self.dir().join("state");
        fs::DirBuilder::new().mode(0o700).create(&state).expect("a directory for the state");
        let mut key = fs::OpenOptions::new();
        let key = key.write(true).create_new(true).mode(0o600).open(state.join("compiled.key"));
        key.and_then(|mut key| key.write_all(&CACHE_KEY)).expect("the key of the cache can be written");
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("mcp-host.toml")
    }

    /// Replaces the file atomically, as careful editors do: writes beside it, then renames.
    pub fn replace(&self, config: ConfigFile) {
        self.replace_text(&config.render(self.dir()));
    }

    /// Replaces the file by that text, in the same way: a file that is written over is empty for a moment.
    pub fn replace_text(&self, text: &str) {
        let aside = self.dir().join("mcp-host.toml~");
        fs::write(&aside, text).expect("the config can be written");
        fs::rename(aside, self.path()).expect("the config can be renamed");
    }

    /// Writes a certificate and its key beside the config, each in a file.
    pub fn write_certificate(&self, certified: &CertifiedKey) {
        for (file, pem) in [("cert.pem", certified.pem()), ("key.pem", certified.key_pem())] {
            fs::write(self.dir().join(file), pem).expect("the certificate can be written");
        }
    }

    /// The directory of the config.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// One `[[plugin]]`.
#[derive(Clone, Debug)]
#[must_use]
pub struct Plugin(Table);

impl Plugin {
    /// Creates a plugin with no config, no grants and the default limits.
    pub fn new(name: &str, component: &Path, mount: &str) -> Self {
        let mut table = Table::new();
        table.insert("name".to_owned(), name.into());
        table.insert("component".to_owned(), path_value(component));
        table.insert("mount".to_owned(), mount.into());
        Self(table)
    }

    /// A provider that ships, mounted at `SCHEME://NAME/`. Its calls have time, since they share the processors with
    /// all other tests.
    pub fn shipped(name: &str, component: &str, scheme: &str) -> Self {
        let plugin = Self::new(name, &artifacts::component(component), &format!("{scheme}://{name}/"));
        plugin.limit("cpu", "10s").limit("deadline", "1m").limit("queue-timeout", "1m")
    }

    /// The provider `files` on that directory, mounted at `files://NAME/`.
    pub fn files(name: &str, directory: &Path) -> Self {
        Self::shipped(name, "files", "files").dir(directory, "/files")
    }

    /// The provider `config` on that directory, mounted at `config://NAME/`.
    pub fn configuration(name: &str, directory: &Path) -> Self {
        Self::shipped(name, "config", "config").dir(directory, "/config")
    }

    /// The provider `results` on that directory, mounted at `results://NAME/`.
    pub fn results(name: &str, directory: &Path) -> Self {
        Self::shipped(name, "results", "results").dir(directory, "/results")
    }

    /// The provider `git` on that repository, mounted at `git://NAME/`.
    pub fn git(name: &str, repository: &Path) -> Self {
        Self::shipped(name, "git", "git").dir(repository, "/repo")
    }

    /// The provider `notes` on that folder, mounted at `notes://NAME/`.
    pub fn notes(name: &str, folder: &Path) -> Self {
        Self::shipped(name, "notes", "notes").dir(folder, "/notes")
    }

    /// The provider `database` on the database at that URL, granted as `shop` and mounted at `db://NAME/`. A URL of
    /// PostgreSQL is the path of a file with it.
    pub fn database(name: &str, url: impl Into<Value>) -> Self {
        Self::shipped(name, "database", "db").sql("shop", url, [])
    }

    /// The guest `misbehaving`, mounted at `misbehaving://NAME/`.
    pub fn misbehaving(name: &str) -> Self {
        Self::new(name, &artifacts::fixture("misbehaving"), &format!("misbehaving://{name}/"))
    }

    /// The guest `sample`, mounted at `sample://NAME/`.
    pub fn sample(name: &str) -> Self {
        Self::new(name, &artifacts::fixture("sample"), &format!("sample://{name}/"))
    }

    /// A plugin as it stands in a config.
    pub fn from_table(table: Table) -> Self {
        Self(table)
    }

    /// Pins the digest of the component.
    pub fn digest(mut self, digest: &str) -> Self {
        self.0.insert("digest".to_owned(), digest.into());
        self
    }

    /// The guest `keyvalue`, mounted at `keyvalue://NAME/`.
    pub fn keyvalue(name: &str) -> Self {
        Self::new(name, &artifacts::fixture("keyvalue"), &format!("keyvalue://{name}/"))
    }

    /// The guest `faulty` on that folder, mounted at `faulty://NAME/`, polled for changes ten times a second.
    pub fn faulty(name: &str, folder: &Path) -> Self {
        Self::new(name, &artifacts::fixture("faulty"), &format!("faulty://{name}/"))
            .dir(folder, "/data")
            .set("watch-interval", "100ms")
    }

    /// The guest `watched` on that folder, mounted at `watched://NAME/`, polled for changes ten times a second.
    pub fn watched(name: &str, folder: &Path) -> Self {
        Self::new(name, &artifacts::fixture("watched"), &format!("watched://{name}/"))
            .dir(folder, "/data")
            .set("watch-interval", "100ms")
    }

    /// Is searched, with the defaults.
    pub fn searched(self) -> Self {
        self.set("search", Table::new())
    }

    /// Is searched, and its text is sent to the endpoint of embeddings.
    pub fn embedded(self) -> Self {
        self.set("search", Table::from_iter([("embeddings".to_owned(), true.into())]))
    }

    /// Sets a key of the plugin.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// Sets a key of the provider's config.
    pub fn config(self, key: &str, value: impl Into<Value>) -> Self {
        self.insert("config", key, value.into())
    }

    /// Sets a limit.
    pub fn limit(self, key: &str, value: impl Into<Value>) -> Self {
        self.insert("limits", key, value.into())
    }

    /// Grants an environment variable.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        let grants = self.0.entry("grants").or_insert_with(|| Table::new().into());
        let variables = grants.as_table_mut().expect("grants are a table").entry("env");
        let variables = variables.or_insert_with(|| Table::new().into());
        variables.as_table_mut().expect("variables are a table").insert(name.to_owned(), value.into());
        self
    }

    /// Grants an environment variable whose value is in that file.
    pub fn variable_from_file(mut self, name: &str, file: &Path) -> Self {
        let source: Table = [("file".to_owned(), path_value(file))].into_iter().collect();
        let variables: Table = [(name.to_owned(), source.into())].into_iter().collect();
        let grants = self.0.entry("grants").or_insert_with(|| Table::new().into());
        grants.as_table_mut().expect("grants are a table").insert("env".to_owned(), variables.into());
        self
    }

    /// Grants an HTTP origin.
    pub fn origin(self, origin: &str) -> Self {
        self.http(origin.into())
    }

    /// Grants an entry of `grants.http` as it is written.
    pub fn http(self, grant: Value) -> Self {
        self.push_grant("http", grant)
    }

    /// Sets a key of `instances`, so that an instance serves more than one call.
    pub fn instances(self, key: &str, value: impl Into<Value>) -> Self {
        self.insert("instances", key, value.into())
    }

    /// Grants a directory, read-only.
    pub fn dir(self, host: &Path, guest: &str) -> Self {
        self.dir_with(host, guest, [])
    }

    /// Grants a directory with a quota, read-write.
    pub fn writable_dir(self, host: &Path, guest: &str, quota: &str) -> Self {
        self.dir_with(host, guest, [("mode", "rw"), ("quota", quota)])
    }

    fn dir_with<const N: usize>(self, host: &Path, guest: &str, more: [(&str, &str); N]) -> Self {
        let mut grant = Table::new();
        grant.insert("host".to_owned(), path_value(host));
        grant.insert("guest".to_owned(), guest.into());
        grant.extend(more.map(|(key, value)| (key.to_owned(), value.into())));
        self.push_grant("dirs", grant.into())
    }

    /// Grants a key-value bucket.
    pub fn bucket(self, name: &str) -> Self {
        self.push_grant("keyvalue", name.into())
    }

    /// Grants a key-value bucket with quotas.
    pub fn bucket_with_quota(self, name: &str, quota: &str, keys: i64) -> Self {
        let mut grant = Table::new();
        grant.insert("bucket".to_owned(), name.into());
        grant.insert("quota".to_owned(), quota.into());
        grant.insert("keys".to_owned(), keys.into());
        self.push_grant("keyvalue", grant.into())
    }

    /// Grants a key-value bucket that the replicas of a cluster share, with these other keys.
    pub fn shared_bucket<const N: usize>(self, name: &str, more: [(&str, Value); N]) -> Self {
        let mut grant: Table = more.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        grant.insert("bucket".to_owned(), name.into());
        grant.insert("shared".to_owned(), true.into());
        self.push_grant("keyvalue", grant.into())
    }

    /// Grants a database of that name: at a URL, or at that in a file.
    pub fn sql<const N: usize>(self, name: &str, url: impl Into<Value>, more: [(&str, Value); N]) -> Self {
        let mut grant: Table = [("name".to_owned(), name.into()), ("url".to_owned(), url.into())].into_iter().collect();
        grant.extend(more.map(|(key, value)| (key.to_owned(), value)));
        self.push_grant("sql", grant.into())
    }

    /// Adds an entry to the list of grants of that kind.
    fn push_grant(mut self, list: &str, grant: Value) -> Self {
        let grants = self.0.entry("grants").or_insert_with(|| Table::new().into());
        let list = grants
            .as_table_mut()
            .expect("grants are a table")
            .entry(list)
            .or_insert_with(|| Vec::<Value>::new().into());
        list.as_array_mut().expect("these grants are a list").push(grant);
        self
    }

    fn insert(mut self, table: &str, key: &str, value: Value) -> Self {
        let table = self.0.entry(table).or_insert_with(|| Table::new().into());
        table.as_table_mut().expect("it is a table").insert(key.to_owned(), value);
        self
    }
}

/// One `[[rule]]`.
#[derive(Clone, Debug)]
#[must_use]
pub struct Rule(Table);

impl Rule {
    /// Creates a rule about one principal.
    pub fn for_principal(principal: &str) -> Self {
        let mut table = Table::new();
        table.insert("principals".to_owned(), vec![principal].into());
        Self(table)
    }

    /// Sets the globs that it allows.
    pub fn allow<const N: usize>(self, globs: [&str; N]) -> Self {
        self.insert("allow", globs)
    }

    /// Sets the globs that it denies.
    pub fn deny<const N: usize>(self, globs: [&str; N]) -> Self {
        self.insert("deny", globs)
    }

    /// Sets the globs that it denies, from any iterator.
    pub fn deny_globs(mut self, globs: Vec<String>) -> Self {
        self.0.insert("deny".to_owned(), globs.into());
        self
    }

    /// Sets the operations that it is about.
    pub fn operations<const N: usize>(self, operations: [&str; N]) -> Self {
        self.insert("operations", operations)
    }

    fn insert<const N: usize>(mut self, key: &str, texts: [&str; N]) -> Self {
        self.0.insert(key.to_owned(), texts.to_vec().into());
        self
    }
}

fn path_value(path: &Path) -> Value {
    path.to_str().expect("the tests' paths are UTF-8").into()
}
