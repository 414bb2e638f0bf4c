//! Listing and completion of pages.

use mcp_host_tests::{MockOrigin, Reply, StdioServer, run};

use super::{host_and_port, page_uri, plugin_config, web_plugin};

#[tokio::test]
async fn seeds_and_what_is_kept_are_listed_and_nobody_is_asked_for_that() {
    let origin = MockOrigin::http().await;
    let date = "Sun, 12 Jan 2025 15:00:58 GMT";
    let page = Reply::ok("text/html", "<title>The b</title>b").cache_control("max-age=3600").last_modified(date);
    origin.serve("/b", page);
    let config = plugin_config(
        web_plugin(&[&origin])
            .config("seeds", vec![page_uri(&origin, "/c").replace("web://", ""), host_and_port(&origin)]),
    );
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().uris().await, [page_uri(&origin, "/"), page_uri(&origin, "/c")]);
    assert!(origin.requests().is_empty());
    server.client().read(&page_uri(&origin, "/b")).await.unwrap();
    let resources = server.client().resources().await;
    let uris: Vec<_> = resources.iter().map(|resource| resource.uri.as_str()).collect();
    assert_eq!(uris, [page_uri(&origin, "/"), page_uri(&origin, "/b"), page_uri(&origin, "/c")]);
    let page = &resources[1];
    assert_eq!((page.name.as_str(), page.title.as_deref()), ("b", Some("The b")));
    assert_eq!((page.mime_type.as_deref(), page.size), (Some("text/html"), Some(21)));
    let annotations = page.annotations.as_ref().unwrap();
    assert_eq!(annotations.last_modified.as_deref(), Some("2025-01-12T15:00:58Z"));
    assert_eq!(origin.requests().len(), 1);
    server.end().await;
}

#[tokio::test]
async fn the_pages_of_a_sitemap_are_listed() {
    let origin = MockOrigin::http().await;
    let sitemap = format!(
        "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>\
         <url><loc>{}</loc></url><url><loc>https://other.example/</loc></url></urlset>",
        origin.url("/a?x=1&amp;y=2")
    );
    origin.serve("/sitemap.xml", Reply::ok("application/xml", sitemap).cache_control("max-age=3600"));
    let config = plugin_config(web_plugin(&[&origin]).config("sitemaps", vec![host_and_port(&origin)]));
    let listed = async || {
        let listed = run(["list", "--json", "--config", config.path().to_str().unwrap()]).await.success().json();
        let resources = listed["resources"].as_array().unwrap().clone();
        resources.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(listed().await.contains(&page_uri(&origin, "/a?x=1&y=2")));
    // A server would make its own listings in between; here, requests are sequential.
    listed().await;
    assert_eq!(origin.request_count("/sitemap.xml"), 1);
}

#[tokio::test]
async fn hosts_and_paths_are_completed() {
    let origin = MockOrigin::http().await;
    let seeds: Vec<String> = ["/serde/", "/serde_json/"].iter().map(|path| host_and_port(&origin) + path).collect();
    let config = plugin_config(web_plugin(&[&origin]).config("seeds", seeds));
    let server = StdioServer::start(&config).await;
    let template = "web://{+host}/{+path}";
    assert_eq!(server.client().templates().await[0].uri_template, template);
    let hosts = server.client().complete(template, ("host", "127"), &[]).await.unwrap();
    assert_eq!(hosts.values, [host_and_port(&origin)]);
    let paths =
        server.client().complete(template, ("path", "serde_"), &[("host", &host_and_port(&origin))]).await.unwrap();
    assert_eq!(paths.values, ["serde_json/"]);
    server.end().await;
}
