//! Debian's `docker-registry` for one test, over TLS and with a password, and a project that uses it.
//!
//! ```no_run
//! # use mcp_host_tests::{Registry, RegistryProject, component};
//! # async fn test() {
//! let registry = Registry::start().await;
//! let project = RegistryProject::new(&registry);
//! project.push(&component("hello"), "1.0.0", Some("acme.pem")).await;
//! project.run(["add", "hello", &registry.reference("1.0")]).await.success();
//! # }
//! ```

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::artifacts::debian_file;
use crate::log::Log;
use crate::stdio::inherit_environment;
use crate::{CertificateAuthority, Folder, Output, Reply, ReservedPort, host_command};

/// The user, the password, and how htpasswd writes that one (bcrypt).
const USER: &str = "ada";
const PASSWORD: &str = "secret";
const HTPASSWD: &str = "ada:$2b$05$As5HJjRnqR8oL939Qry1iuGYBhkXjKkDrtHJVSBAOnfdSUug3mI5S\n";

/// A running registry. It ends when it is dropped.
#[derive(Debug)]
pub struct Registry {
    _process: Child,
    dir: TempDir,
    port: ReservedPort,
    authority: Arc<CertificateAuthority>,
}

/// A directory with a config that trusts a key, and the credentials for a registry.
#[derive(Debug)]
pub struct RegistryProject {
    folder: Folder,
    registry: String,
}

impl Registry {
    /// Starts an empty one.
    pub async fn start() -> Self {
        Self::start_with(Arc::new(CertificateAuthority::new()), Self::password).await
    }

    /// Starts an empty one that asks for no password.
    pub async fn open() -> Self {
        Self::start_with(Arc::new(CertificateAuthority::new()), |_| String::new()).await
    }

    /// Starts a pull-through mirror of an open one, with the same certificate authority: it keeps nothing of one with a
    /// password.
    pub async fn mirror_of(upstream: &Self) -> Self {
        let proxy = format!("proxy: {{ remoteurl: \"https://{}\" }}\n", upstream.name());
        Self::start_with(Arc::clone(&upstream.authority), |_| proxy).await
    }

    /// The part of its config that asks for a password, with the file in that directory.
    fn password(dir: &Path) -> String {
        format!("auth: {{ htpasswd: {{ realm: registry, path: {} }} }}\n", dir.join("htpasswd").display())
    }

    async fn start_with(authority: Arc<CertificateAuthority>, more: impl FnOnce(&Path) -> String) -> Self {
        let port = ReservedPort::new();
        let dir = tempfile::tempdir().expect("a directory for the registry");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let certificate = authority.issue("127.0.0.1");
        let config = format!(
            "version: 0.1\nlog: {{ level: info }}\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\n\
             http: {{ addr: \"{}\", tls: {{ certificate: {}, key: {} }} }}\n\
             {}",
            path("data"),
            port.address(),
            path("cert.pem"),
            path("key.pem"),
            more(dir.path()),
        );
        for (name, text) in [
            ("config.yml", config.as_str()),
            ("cert.pem", &certificate.pem()),
            ("key.pem", &certificate.key_pem()),
            ("htpasswd", HTPASSWD),
            ("ca.pem", authority.pem()),
        ] {
            fs::write(dir.path().join(name), text).expect("the registry's files can be written");
        }
        let mut command = Command::new(debian_file("usr/bin/docker-registry"));
        command.args(["serve", &path("config.yml")]).env_clear().env("OTEL_TRACES_EXPORTER", "none");
        // What a mirror trusts of its upstream.
        command.env("SSL_CERT_FILE", path("ca.pem"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("the registry starts");
        Log::new(process.stderr.take().expect("a pipe")).wait_for_line("listening on").await;
        Self { _process: process, dir, port, authority }
    }

    /// Its host and port.
    pub fn name(&self) -> String {
        self.port.address().to_string()
    }

    /// The reference of a version of the component that tests use.
    pub fn reference(&self, version: &str) -> String {
        format!("oci://{}/acme/hello:{version}", self.name())
    }

    /// The certificate authority of its certificate.
    pub fn authority(&self) -> &CertificateAuthority {
        &self.authority
    }

    /// Points a tag to the manifest of another tag, as a party that may write to the registry can.
    pub fn move_tag(&self, tag: &str, to: &str) {
        let link = |tag: &str| self.repository().join(format!("_manifests/tags/{tag}/current/link"));
        fs::copy(link(to), link(tag)).expect("both tags are there");
    }

    /// Removes a tag.
    pub fn remove_tag(&self, tag: &str) {
        fs::remove_dir_all(self.repository().join(format!("_manifests/tags/{tag}"))).expect("the tag is there");
    }

    /// The manifest at a tag, and the config that it names.
    pub fn published(&self, tag: &str) -> (Value, Value) {
        let json = |digest: &str| serde_json::from_slice(&self.blob(digest)).expect("it is JSON");
        let manifest: Value = json(&self.linked(&format!("_manifests/tags/{tag}/current/link")));
        let config = manifest.pointer("/config/digest").and_then(Value::as_str).expect("a manifest has a config");
        let config = json(config);
        (manifest, config)
    }

    /// What it answers to those who get a signed version, by the paths of the requests in their order.
    pub fn answers(&self, tag: &str) -> Vec<(String, Reply)> {
        let manifest_digest = self.linked(&format!("_manifests/tags/{tag}/current/link"));
        let manifest = self.blob(&manifest_digest);
        let index_digest = self.linked(&format!("_manifests/tags/{}/current/link", manifest_digest.replace(':', "-")));
        let index = self.blob(&index_digest);
        let digest = |json: &[u8], pointer: &str| {
            let json: Value = serde_json::from_slice(json).expect("a manifest is JSON");
            json.pointer(pointer).and_then(Value::as_str).expect("it has a digest").to_owned()
        };
        let referrer_digest = digest(&index, "/manifests/0/digest");
        let referrer = self.blob(&referrer_digest);
        let (bundle, component) = (digest(&referrer, "/layers/0/digest"), digest(&manifest, "/layers/0/digest"));
        let config = digest(&manifest, "/config/digest");
        let path = |rest: &str| format!("/v2/acme/hello/{rest}");
        let manifest_type = "application/vnd.oci.image.manifest.v1+json";
        let bytes = |digest: &str| Reply::ok("application/octet-stream", self.blob(digest));
        vec![
            (path("tags/list?n=1000"), Reply::ok("application/json", format!("{{\"tags\": [\"{tag}\"]}}"))),
            (path(&format!("manifests/{tag}")), Reply::ok(manifest_type, manifest)),
            (
                path(&format!("manifests/{}", manifest_digest.replace(':', "-"))),
                Reply::ok("application/vnd.oci.image.index.v1+json", index),
            ),
            (path(&format!("manifests/{referrer_digest}")), Reply::ok(manifest_type, referrer)),
            (path(&format!("blobs/{bundle}")), bytes(&bundle)),
            (path(&format!("blobs/{config}")), bytes(&config)),
            (path(&format!("blobs/{component}")), bytes(&component)),
        ]
    }

    /// The digest in a file of the repository.
    fn linked(&self, file: &str) -> String {
        fs::read_to_string(self.repository().join(file)).expect("the registry has it")
    }

    fn blob(&self, digest: &str) -> Vec<u8> {
        let digits = digest.strip_prefix("sha256:").expect("a digest");
        let blobs = self.dir.path().join("data/docker/registry/v2/blobs/sha256");
        fs::read(blobs.join(digits.get(..2).expect("a digest has 64 digits")).join(digits).join("data"))
            .expect("the registry has it")
    }

    fn repository(&self) -> PathBuf {
        self.dir.path().join("data/docker/registry/v2/repositories/acme/hello")
    }
}

impl RegistryProject {
    /// A project with a config that trusts `acme.pem` for everything in the registry.
    pub fn new(registry: &Registry) -> Self {
        Self::at(&registry.name(), registry.authority())
    }

    /// The same for a registry at that host and port.
    pub fn at(registry: &str, authority: &CertificateAuthority) -> Self {
        let auth = BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"));
        let credentials = format!("{{\"auths\": {{\"{registry}\": {{\"auth\": \"{auth}\"}}}}}}");
        let folder = Folder::with_files([("docker/config.json", credentials.as_str()), ("ca.pem", authority.pem())]);
        let project = Self { folder, registry: registry.to_owned() };
        for name in ["acme", "stranger"] {
            let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key can be made");
            project.folder.write(format!("{name}.pem"), key.serialize_pem());
            project.folder.write(format!("{name}.pub"), key.public_key_pem());
        }
        project.trust("keys = [{ file = 'acme.pub' }]");
        project
    }

    /// Writes a config without plugins, and that in the table `[[trust]]`.
    pub fn trust(&self, trust: &str) {
        self.write_config(&format!("[[trust]]\nsources = ['oci://{}']\n{trust}\n", self.registry), "");
    }

    /// Writes a config with those tables, and those keys of `[registry]`.
    pub fn write_config(&self, tables: &str, registry: &str) {
        let text = format!(
            "# The config of a test.\n[server]\nstate = 'state'\n\n[registry]\nstore = 'store'\nca = ['ca.pem']\n{registry}\n\n{tables}"
        );
        self.folder.write("mcp-host.toml", text);
    }

    /// The text of a file.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("the file is there")
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        self.folder.write(name, bytes)
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command with the config and the credentials of the project.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = host_command();
        command.args(arguments).arg("--config").arg(self.path("mcp-host.toml"));
        command.env("DOCKER_CONFIG", self.path("docker"));
        command
    }

    /// Runs a command of `mcp-host` to its end.
    pub async fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null());
        Output::of(&mut command).await
    }

    /// The same in a user namespace and a mount namespace of its own, after a command of the shell.
    pub async fn run_after<A: AsRef<OsStr>>(&self, setup: &str, arguments: impl IntoIterator<Item = A>) -> Output {
        let host = self.command(arguments);
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &format!("{setup} && exec \"$0\" \"$@\"")]);
        command.arg(host.as_std().get_program()).args(host.as_std().get_args()).stdin(Stdio::null()).kill_on_drop(true);
        inherit_environment(&mut command, &host);
        Output::of(&mut command).await
    }

    /// Publishes a component as that version, signed by that key.
    pub async fn push(&self, component: &Path, version: &str, key: Option<&str>) -> Output {
        let reference = format!("oci://{}/acme/hello:{version}", self.registry);
        let mut arguments = vec!["push".into(), component.as_os_str().to_owned(), reference.into()];
        arguments.extend(key.map(|key| ["--sign".into(), self.path(key).into_os_string()]).into_iter().flatten());
        self.run(arguments).await
    }

    /// The files of the store.
    pub fn stored(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("store/blobs/sha256")).into_iter().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
        files.sort();
        files
    }
}
