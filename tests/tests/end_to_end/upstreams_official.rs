//! Servers of npm and PyPI as programs in their sandbox: official ones, and one of FastMCP. What they list and read is
//! the same through the host as directly.

use std::path::Path;

use mcp_host_tests::{Client, ConfigFile, Folder, GitRepo, Revision, StdioServer, WrittenConfig, client_program, node};
use rmcp::model::ResourceContents;
use tokio::process::{Child, Command};

use super::upstreams_programs::{confines, official, open_to_all, program};

/// The variable with the file of the official server `server-memory`.
const MEMORY: &str = "MEMORY_FILE_PATH";

/// A server, and how it is started.
struct Server {
    name: &'static str,
    command: Vec<String>,
    /// More keys of its upstream.
    keys: String,
    /// A revision of its lifecycle, of which the host uses the newest.
    revision: Revision,
    /// The resources that it has at the start.
    resources: usize,
}

impl Server {
    /// Starts it without the host.
    async fn directly(&self, memory: &str) -> (Client, Child) {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env(MEMORY, memory);
        Client::of_program(command, self.revision.clone()).await
    }

    /// A config with this server alone, whose calls have time.
    fn config(&self) -> WrittenConfig {
        let command: Vec<_> = self.command.iter().map(String::as_str).collect();
        let keys = format!("{}\nlimits = {{ deadline = '1m' }}", self.keys);
        ConfigFile::new().allow_all().append(&program(self.name, &command, &keys)).write()
    }

    fn mount(&self) -> String {
        format!("{}+", self.name)
    }
}

/// Returns the servers. `data` is a directory that all may write to.
fn servers(data: &Path, memory: &str, repo: &Path) -> Vec<Server> {
    let grant = |path: &Path, mode: &str| {
        let path = path.display();
        format!("grants.dirs = [{{ host = '{path}', guest = '{path}', mode = '{mode}' }}]")
    };
    let file = |path: &str| client_program(path).display().to_string();
    let server = |name, revision: &Revision, resources, keys: &str, command: &[&str]| Server {
        name,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        keys: keys.to_owned(),
        revision: revision.clone(),
        resources,
    };
    let (sessions, stateless) = (&Revision::V_2025_11_25, &Revision::V_2026_07_28);
    let (node, python) = (node().display().to_string(), file("python/bin/python"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/servers/fastmcp_server.py").display().to_string();
    let [everything, remembering] = ["server-everything", "server-memory"].map(official);
    let [git, time, fetch] = ["git", "time", "fetch"].map(|name| file(&format!("python/bin/mcp-server-{name}")));
    let (sqlite, database) = (file("frameworks/bin/mcp-server-sqlite"), data.join("a.db").display().to_string());
    let memory = format!("{}\ngrants.env = {{ {MEMORY} = '{memory}' }}", grant(data, "ro"));
    vec![
        server("everything", sessions, 7, "", &[&node, &everything, "stdio"]),
        server("memory", sessions, 1, &memory, &[&node, &remembering]),
        server("sqlite", sessions, 1, &grant(data, "rw"), &[&sqlite, "--db-path", &database]),
        server("fastmcp", stateless, 2, "", &[&python, &script]),
        server("git", stateless, 0, &grant(repo, "ro"), &[&git, "--repository", &repo.display().to_string()]),
        server("time", stateless, 0, "", &[&time, "--local-timezone", "UTC"]),
        server("fetch", stateless, 0, "", &[&fetch]),
    ]
}

/// Puts a mount in front of the URI of contents.
fn mounted(mut contents: ResourceContents, mount: &str) -> ResourceContents {
    match &mut contents {
        ResourceContents::TextResourceContents { uri, .. } | ResourceContents::BlobResourceContents { uri, .. } => {
            uri.insert_str(0, mount);
        }
        other => panic!("neither text nor blob: {other:?}"),
    }
    contents
}

#[tokio::test]
async fn official_servers_list_and_read_in_their_sandbox_as_they_do_directly() {
    let data = Folder::with_files([(
        "memory.json",
        r#"{"type":"entity","name":"Ada","entityType":"person","observations":["writes"]}"#,
    )]);
    let repo = GitRepo::with_files([("README.md", "hello")]);
    open_to_all(data.path());
    open_to_all(repo.path());
    let memory = data.path().join("memory.json").display().to_string();
    let servers = servers(data.path(), &memory, repo.path());
    if !confines(&servers[0].config()).await {
        return;
    }
    // One at a time: a program has half a minute to start, and these interpreters start slowly on a busy machine.
    for server in &servers {
        let host = StdioServer::start_in(&server.config(), Revision::V_2026_07_28).await;
        host.log_line("finished loading plugins loaded=1 failed=0").await;
        let (direct, _process) = server.directly(&memory).await;
        let (mount, mut expected) = (server.mount(), direct.resources().await);
        assert_eq!(expected.len(), server.resources, "{}", server.name);
        for resource in &expected {
            let uri = format!("{mount}{}", resource.uri);
            let contents = direct.read(&resource.uri).await.unwrap();
            let contents: Vec<_> = contents.into_iter().map(|contents| mounted(contents, &mount)).collect();
            assert_eq!(host.client().read(&uri).await.unwrap(), contents, "{uri}");
        }
        expected.iter_mut().for_each(|resource| resource.uri.insert_str(0, &mount));
        assert_eq!(host.client().resources().await, expected, "{}", server.name);
        match server.name {
            "memory" => assert!(host.client().text("memory+memory://knowledge-graph").await.contains("Ada")),
            "fastmcp" => assert_eq!(host.client().text("fastmcp+note://notes/x/text").await, "the note x"),
            _ => {}
        }
        let log = host.end().await.log;
        for denial in ["Operation not permitted", "Permission denied", "EPERM", "EACCES", "was refused"] {
            assert!(!log.contains(denial), "{denial}: {log}");
        }
    }
}
