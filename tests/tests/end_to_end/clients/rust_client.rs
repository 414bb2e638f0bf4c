//! One full pass of the official Rust client, over both transports, in every revision.

use mcp_host_tests::{
    Client, ConfigFile, Folder, GitRepo, HttpServer, Plugin, REVISIONS, Revision, StdioServer, content_bytes,
};
use rmcp::model::ErrorCode;

/// Resources of two pages and a part of one, from two plugins. One file is binary.
struct Sources {
    repo: GitRepo,
    notes: Folder,
}

impl Sources {
    fn new() -> Self {
        let png = b"\x89PNG\r\n\x1a\n\xff\xfe".as_slice();
        let files = [("README.md", b"# Demo\n".as_slice()), ("logo.png", png), ("src/main.rs", b"fn main() {}\n")];
        let notes = [("a.md", "---\ntitle: First\ntags: [x]\n---\nOne.\n"), ("b.md", "Two.\n"), ("c/d.md", "Three.\n")];
        Self { repo: GitRepo::with_files(files), notes: Folder::with_files(notes) }
    }

    fn config(&self) -> ConfigFile {
        ConfigFile::new()
            .server("name", "walked")
            .server("instructions", "Read the README first.")
            .page_size(3)
            .plugin(Plugin::git("repo", self.repo.path()))
            .plugin(Plugin::notes("diary", self.notes.path()))
            .allow_all()
    }
}

async fn assert_walk(client: &Client, revision: &Revision) {
    let server = client.peer().peer_info().unwrap();
    assert_eq!(server.protocol_version, *revision);
    assert_eq!(server.server_info.as_ref().unwrap().name, "walked");
    assert_eq!(server.instructions.as_deref(), Some("Read the README first."));
    assert!(server.capabilities.resources.is_some());
    assert_eq!(server.capabilities.completions.is_some(), *revision > Revision::V_2024_11_05);
    assert!(server.capabilities.tools.is_none() && server.capabilities.prompts.is_none());

    assert_pages_are_full_and_disjoint(client, revision).await;
    assert_templates_read_and_complete(client).await;
    assert_error_codes(client, revision).await;
    if revision.has_initialize() {
        client.ping().await.unwrap();
        client.set_log_level_to_warning().await.unwrap();
    }
}

async fn assert_pages_are_full_and_disjoint(client: &Client, revision: &Revision) {
    let pages = client.pages().await;
    let sizes: Vec<_> = pages.iter().map(|page| page.resources.len()).collect();
    assert_eq!(sizes, [3, 3]);
    assert!(pages.iter().all(|page| page.meta.is_none()), "nothing is missing");
    let resources: Vec<_> = pages.into_iter().flat_map(|page| page.resources).collect();
    // Plugins are sorted by name.
    let uris: Vec<_> = resources.iter().map(|resource| resource.uri.as_str()).collect();
    assert_eq!(uris[..3], ["notes://diary/a.md", "notes://diary/b.md", "notes://diary/c/d.md"]);
    assert!(uris[3..].iter().all(|uri| uri.starts_with("git://repo/blob/")), "{uris:?}");
    assert_eq!(resources[0].title.as_deref(), (*revision >= Revision::V_2025_06_18).then_some("First"));
    assert_eq!(resources[0].mime_type.as_deref(), Some("text/markdown"));
    for resource in &resources {
        let contents = client.read(&resource.uri).await.unwrap();
        assert_eq!(content_bytes(&contents[0]).len() as u64, resource.size.unwrap(), "{}", resource.uri);
    }
}

async fn assert_templates_read_and_complete(client: &Client) {
    let templates = client.templates().await;
    let template = "git://repo/blob/{rev}/{+path}";
    assert!(templates.iter().any(|known| known.uri_template == template), "{templates:?}");
    assert!(templates.iter().any(|known| known.uri_template == "notes://diary/tag/{tag}"), "{templates:?}");

    assert_eq!(client.text("git://repo/blob/main/README.md").await, "# Demo\n");
    assert_eq!(client.bytes("git://repo/blob/main/logo.png").await, b"\x89PNG\r\n\x1a\n\xff\xfe");

    let completed = client.complete(template, ("rev", "ma"), &[]).await.unwrap();
    assert_eq!(completed.values, ["main"]);
    let completed = client.complete(template, ("path", "src/"), &[("rev", "main")]).await.unwrap();
    assert_eq!(completed.values, ["src/main.rs"]);
    assert_eq!(completed.has_more, Some(false));
    let completed = client.complete(template, ("rev", "nothing begins like this"), &[]).await.unwrap();
    assert!(completed.values.is_empty());
}

async fn assert_error_codes(client: &Client, revision: &Revision) {
    let uri = "git://repo/blob/main/nothing-here";
    let error = client.read_error(uri).await;
    let not_found = if revision.has_initialize() { ErrorCode(-32002) } else { ErrorCode::INVALID_PARAMS };
    assert_eq!(error.code, not_found, "{error:?}");
    assert_eq!(error.data.unwrap()["uri"], uri);
    let error = client.page(Some("forged")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{error:?}");
}

#[tokio::test]
async fn the_rust_client_walks_through_everything_over_stdio() {
    let sources = Sources::new();
    let config = sources.config().write();
    for revision in REVISIONS {
        let server = StdioServer::start_in(&config, revision.clone()).await;
        assert_walk(server.client(), &revision).await;
        server.end().await;
    }
}

#[tokio::test]
async fn the_rust_client_walks_through_everything_over_http() {
    let sources = Sources::new();
    let config = sources.config().write();
    let server = HttpServer::start(&config).await;
    for revision in REVISIONS {
        assert_walk(&server.client(revision.clone()).await, &revision).await;
    }
    server.end().await;
}

#[tokio::test]
async fn clients_of_all_revisions_are_served_at_the_same_time_by_one_server() {
    let sources = Sources::new();
    let config = sources.config().write();
    let server = HttpServer::start(&config).await;
    let (old, newer, stateless) = tokio::join!(
        server.client(Revision::V_2025_06_18),
        server.client(Revision::V_2025_11_25),
        server.client(Revision::V_2026_07_28),
    );
    let (first, second, third) = tokio::join!(old.uris(), newer.uris(), stateless.uris());
    assert_eq!(first, second);
    assert_eq!(first, third);
    server.end().await;
}
