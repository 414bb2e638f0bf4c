//! Paths of the host: `~` stands for the home directory, `$CREDENTIALS_DIRECTORY` for the directory of a service's
//! credentials, and a relative path is relative to the directory of the config file.
//!
//! A path is checked when the config is read, so a typo is an error immediately, with its line. Paths are stored
//! absolute; messages show them as relative if the config file was given by a relative path.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf, absolute};

use mcp_host_base::regular_file;

use super::diagnostic::quote;
use super::reader::{FromNode, Node, Schema};

/// An existing file, such as a component.
pub(super) struct ExistingFile(pub(super) PathBuf);

/// An existing directory, such as one to grant.
pub(super) struct ExistingDirectory(pub(super) PathBuf);

/// A directory that the host creates when needed.
pub(super) struct CreatableDirectory(pub(super) PathBuf);

/// A file that the host creates when needed, in an existing directory.
pub(super) struct CreatableFile(pub(super) PathBuf);

/// A Unix socket that the host creates, in an existing directory.
pub(super) struct SocketPath(pub(super) PathBuf);

impl SocketPath {
    /// The maximum length of the path of a socket in bytes, on all systems.
    const MAX_LEN: usize = 103;

    /// Reads a path that is a part of the node's string.
    pub(super) fn read(node: &Node<'_>, written: &str) -> Option<Self> {
        let path = resolve_text(node, written, "unix:/run/mcp-host/admin.sock")?;
        let absolute = to_absolute(node, &path)?;
        let is_in_directory = path.file_name().is_some() && absolute.parent().is_some_and(Path::is_dir);
        if !is_in_directory {
            let message = format!("there is no directory for a socket at {}", quoted_path(&path));
            let help =
                "make that directory, or correct the path; relative paths start from the directory of the config file";
            node.report_machine_error(message, help);
            return None;
        }
        if absolute.as_os_str().len() > Self::MAX_LEN {
            let message = format!("the path of a socket has at most {} bytes", Self::MAX_LEN);
            node.report_error(message, "write a shorter path, such as `unix:/run/mcp-host/admin.sock`");
            return None;
        }
        Some(Self(absolute))
    }
}

impl FromNode for ExistingFile {
    const TYPE_NAME: &'static str = "a path";

    fn example() -> String {
        "\"plugins/git.wasm\"".into()
    }

    fn schema() -> Schema {
        path_schema()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let path = resolve::<Self>(node)?;
        node.context.add_dependency(absolute(&path).unwrap_or_else(|_| path.clone()));
        if metadata(node, &path, "file")?.is_file() {
            return to_absolute(node, &path).map(Self);
        }
        let help = format!("write the path of a file: {}", node.assignment_hint(&Self::example()));
        node.report_machine_error(format!("{} is not a file", quoted_path(&path)), help);
        None
    }
}

impl FromNode for ExistingDirectory {
    const TYPE_NAME: &'static str = "a path";

    fn example() -> String {
        "\"~/src/linux\"".into()
    }

    fn schema() -> Schema {
        path_schema()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let path = resolve::<Self>(node)?;
        if path.is_dir() {
            return to_absolute(node, &path).map(Self);
        }
        // Only a missing directory is a dependency: an existing one changes with every file in it.
        node.context.add_dependency(absolute(&path).unwrap_or_else(|_| path.clone()));
        metadata(node, &path, "directory")?;
        let help = format!("write the path of a directory: {}", node.assignment_hint(&Self::example()));
        node.report_machine_error(format!("{} is not a directory", quoted_path(&path)), help);
        None
    }
}

impl FromNode for CreatableDirectory {
    const TYPE_NAME: &'static str = "a path";

    fn example() -> String {
        "\"/var/lib/mcp-host\"".into()
    }

    fn schema() -> Schema {
        path_schema()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let path = resolve::<Self>(node)?;
        if path.metadata().is_ok_and(|metadata| !metadata.is_dir()) {
            let help = format!(
                "write the path of a directory, which need not exist: {}",
                node.assignment_hint(&Self::example())
            );
            node.report_error(format!("{} is not a directory", quoted_path(&path)), help);
            return None;
        }
        to_absolute(node, &path).map(Self)
    }
}

impl FromNode for CreatableFile {
    const TYPE_NAME: &'static str = "a path";

    fn example() -> String {
        "\"audit.jsonl\"".into()
    }

    fn schema() -> Schema {
        path_schema()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let path = resolve::<Self>(node)?;
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            let help =
                format!("write the path of a file, which need not exist: {}", node.assignment_hint(&Self::example()));
            node.report_error(format!("{} is not a regular file", quoted_path(&path)), help);
            return None;
        }
        let absolute = to_absolute(node, &path)?;
        match path.parent().filter(|_| path.file_name().is_some()) {
            Some(_) if absolute.parent().is_some_and(Path::is_dir) => Some(Self(absolute)),
            Some(directory) => {
                let message = format!("there is no directory {} for the file", quoted_path(directory));
                let help = "make that directory, or correct the path; relative paths start from the directory of the \
                            config file";
                node.report_error(message, help);
                None
            }
            None => {
                let help = format!("write the path of a file: {}", node.assignment_hint(&Self::example()));
                node.report_error(format!("{} does not end with the name of a file", quoted_path(&path)), help);
                None
            }
        }
    }
}

/// The schema of all paths.
fn path_schema() -> Schema {
    Schema::string().with("minLength", 1)
}

/// The variable in which systemd passes the directory of a service's credentials (`LoadCredential=`).
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Expands `~` and `$CREDENTIALS_DIRECTORY`, and joins the path to the directory of the config file.
fn resolve<T: FromNode>(node: &Node<'_>) -> Option<PathBuf> {
    resolve_text(node, node.string::<T>()?, T::example().trim_matches('"'))
}

/// Resolves a path that is a part of the node's string. `example` is a valid value of the whole string.
fn resolve_text(node: &Node<'_>, written: &str, example: &str) -> Option<PathBuf> {
    if written.is_empty() || written.contains('\0') {
        node.report_error(
            "a path cannot be empty or hold a NUL",
            format!("write {}", node.assignment_hint(&format!("\"{example}\""))),
        );
        return None;
    }
    let below_credentials = written.strip_prefix('$').and_then(|rest| rest.strip_prefix(CREDENTIALS));
    if let Some(name) = below_credentials.and_then(|rest| rest.strip_prefix('/')) {
        return credential(node, name);
    }
    let Some(below_home) = written.strip_prefix('~') else {
        return Some(node.context.base_dir.join(written.strip_prefix("./").unwrap_or(written)));
    };
    let Some(home) = node.context.environment.home_directory() else {
        node.report_error(
            "`~` stands for the home directory, and there is none",
            "set `HOME`, or write the path in full",
        );
        return None;
    };
    match below_home.strip_prefix('/') {
        Some(rest) => Some(home.join(rest)),
        None if below_home.is_empty() => Some(home.to_owned()),
        None => {
            let help = "write the path in full; only the home directory of the host's user can be written as `~/…`";
            node.report_error(format!("{} is the home directory of another user", quote(written)), help);
            None
        }
    }
}

/// Returns the path of a credential of the service.
fn credential(node: &Node<'_>, name: &str) -> Option<PathBuf> {
    let directory = node.context.environment.get(CREDENTIALS).filter(|directory| !directory.is_empty());
    if directory.is_none() {
        let help = format!("add `LoadCredential={name}:PATH` to the service, or write the path in full");
        node.report_machine_error(
            format!("`${CREDENTIALS}` is not set: systemd sets it for a service with credentials"),
            help,
        );
    }
    Some(Path::new(directory?).join(name))
}

/// Returns the metadata of the file or directory.
fn metadata(node: &Node<'_>, path: &Path, what: &str) -> Option<Metadata> {
    let error = match path.metadata() {
        Ok(metadata) => return Some(metadata),
        Err(error) => error,
    };
    if error.kind() != ErrorKind::NotFound {
        let help = format!("make {} a {what} that the host may read", quoted_path(path));
        node.report_machine_error(format!("{} cannot be used: {error}", quoted_path(path)), help);
        return None;
    }
    let help = if node.value.as_str().is_some_and(|written| written.contains('$')) {
        "write the path in full: variables such as `$HOME` are not replaced in paths, only `~` and `$CREDENTIALS_DIRECTORY` are".into()
    } else {
        format!("create that {what}, or correct the path; relative paths start from the directory of the config file")
    };
    node.report_machine_error(format!("there is no {what} at {}", quoted_path(path)), help);
    None
}

/// Returns the help for a file that this process may not read; `None` for other errors.
pub(super) fn permission_help(path: &Path) -> Option<String> {
    let error = regular_file::open(path).err()?;
    (error.kind() == ErrorKind::PermissionDenied)
        .then(|| format!("let the user that runs `mcp-host` read it{}", owner_and_mode(path)))
}

/// Returns the user of this process, and the owner and mode of a file, as a part of a sentence.
#[cfg(unix)]
fn owner_and_mode(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt;

    let own = rustix::process::geteuid().as_raw();
    path.metadata().map_or_else(
        |_| format!(" (user id {own}), and search the directories above it"),
        |file| {
            format!(
                " (user id {own}): it belongs to user id {}, and its mode is {:04o}",
                file.uid(),
                file.mode() & 0o7777
            )
        },
    )
}

/// Other systems do not have these permissions.
#[cfg(not(unix))]
fn owner_and_mode(_: &Path) -> String {
    String::new()
}

/// A directory that is a part of the node's string, such as after a scheme. It need not exist. `example` is a valid
/// value of the whole string.
pub(super) fn directory_in_text(node: &Node<'_>, written: &str, example: &str) -> Option<PathBuf> {
    to_absolute(node, &resolve_text(node, written, example)?)
}

/// Makes the path absolute, so that it stays valid when the working directory changes.
fn to_absolute(node: &Node<'_>, path: &Path) -> Option<PathBuf> {
    match absolute(path) {
        Ok(path) => Some(path),
        Err(error) => {
            node.report_error(
                format!("{} cannot be made absolute: {error}", quoted_path(path)),
                "write the path in full",
            );
            None
        }
    }
}

fn quoted_path(path: &Path) -> String {
    quote(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Config, Environment};

    #[cfg(unix)]
    #[test]
    fn a_file_that_may_not_be_read_is_named_with_its_owner_and_mode() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o040)).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let found = super::owner_and_mode(&file);
        assert_eq!(found, format!(" (user id {own}): it belongs to user id {own}, and its mode is 0040"));
        // Root can read every file.
        let help = super::permission_help(&file);
        assert_eq!(help, (own != 0).then(|| format!("let the user that runs `mcp-host` read it{found}")));
        assert_eq!(super::permission_help(&folder.path().join("missing")), None);
    }

    #[test]
    fn a_credential_of_a_service_is_named_by_its_directory() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "0123456789abcdef0123456789abcdef").unwrap();
        let text = "[admin]\nlisten = '127.0.0.1:0'\ntoken = { file = '$CREDENTIALS_DIRECTORY/key' }\n";
        let parse = |environment: Environment| {
            Config::parse_in(text, Path::new("/etc/mcp-host.toml"), &environment.keep_references())
        };
        parse(Environment::empty().variable("CREDENTIALS_DIRECTORY", folder.path())).unwrap();
        let error = parse(Environment::empty()).unwrap_err().to_string();
        assert!(error.contains("`$CREDENTIALS_DIRECTORY` is not set"), "{error}");
        assert!(error.contains("add `LoadCredential=key:PATH`"), "{error}");
    }

    #[test]
    fn what_a_plugin_lacks_on_the_disk_leaves_the_rest_of_a_config_right() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp-host.toml");
        let plugin = r#"
            [[plugin]]
            name = "a"
            component = "a.wasm"
            mount = "a:///"
            grants.dirs = [{ host = "gone", guest = "/gone" }]
            grants.http = [{ origin = "https://a.example", ca = "ca.pem", headers-from = { Authorization = { file = "token" } } }]
            grants.env = { TOKEN = { env = "GONE" } }
            grants.sql = [{ name = "shop", url = "sqlite:gone.db" }, { name = "fifo", url = "sqlite:/dev/null" }]
            [[rule]]
            principals = ["*"]
            deny = ["a:///secret"]
        "#;
        for (name, text) in [("token", "two\nlines"), ("ca.pem", "no certificate")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let error = Config::parse_in(plugin, &file, &Environment::empty()).unwrap_err();
        assert_eq!(error.diagnostics().len(), 7, "{error}");
        assert_eq!(error.partial_config().unwrap().rules.len(), 1);
        let files = ["a.wasm", "ca.pem", "gone", "gone.db", "token", "/dev/null"].map(|name| folder.path().join(name));
        assert_eq!(error.files(), &files.into());

        for (mistake, decides_access) in [
            (r#"http.tls = { certificate = "gone.pem", key = "gone.pem" }"#, true),
            (
                r#"telemetry = { otlp = "http://127.0.0.1:4318", headers = { authorization = { file = "gone" } } }"#,
                true,
            ),
            (r#"principal = [{ name = "ci", token-sha256 = { file = "gone" } }]"#, false),
            ("server.page-size = 'many'", false),
        ] {
            let error = Config::parse_in(&format!("{mistake}\n{plugin}"), &file, &Environment::empty()).unwrap_err();
            assert!(error.diagnostics().len() > 2, "{error}");
            assert_eq!(error.partial_config(), None, "{error}");
            assert_eq!(error.config_of_access().is_some(), decides_access, "{error}");
        }
    }
}
