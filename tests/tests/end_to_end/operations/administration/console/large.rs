//! The page of a large catalog: 100,000 resources and 200 plugins, all real.

use mcp_host_tests::LargeCatalog;

use super::super::{Administered, broken, with_token};
use super::browse;

#[tokio::test]
async fn each_page_shows_a_catalog_of_100_000_resources_and_200_plugins() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = LargeCatalog::write();
    let config = catalog.config(broken(folder.path())).allow_all().audit("file", "audit.jsonl");
    let config = config.append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    while !admin.is_indexed().await {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    browse("large", &format!("http://{}", admin.address)).await;
    admin.server.end().await;
}
