//! A registry that sends false data, stalls or redirects.

use mcp_host_tests::{CertificateAuthority, MockOrigin, Output, RegistryProject, Reply, component};
use serde_json::{Value, json};

use super::{MANIFEST, digest};

/// A registry with one unsigned component, whose parts a test replaces.
struct Stub {
    origin: MockOrigin,
    project: RegistryProject,
    manifest: String,
    component: String,
}

impl Stub {
    async fn new(trust: &str) -> Self {
        let authority = CertificateAuthority::new();
        let origin = MockOrigin::https(&authority).await;
        let name = format!("127.0.0.1:{}", origin.port());
        let project = RegistryProject::at(&name, &authority);
        project.trust(trust);
        let wasm = std::fs::read(component("hello")).unwrap();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": { "mediaType": "application/vnd.wasm.config.v0+json", "digest": digest(b"{}"), "size": 2 },
            "layers": [{ "mediaType": "application/wasm", "digest": digest(&wasm), "size": wasm.len() }],
        });
        let stub = Self { origin, project, manifest: String::new(), component: digest(&wasm) };
        let stub = Self { manifest: stub.publish(&manifest), ..stub };
        stub.origin
            .serve_any_query("/v2/acme/hello/tags/list", Reply::ok("application/json", r#"{"tags": ["1.0.0"]}"#));
        stub.origin
            .serve(&format!("/v2/acme/hello/blobs/{}", digest(b"{}")), Reply::ok("application/octet-stream", "{}"));
        stub.origin.serve(&stub.blob(), Reply::ok("application/octet-stream", wasm));
        stub
    }

    fn publish(&self, manifest: &Value) -> String {
        let text = manifest.to_string();
        self.origin.serve("/v2/acme/hello/manifests/1.0.0", Reply::ok(MANIFEST, text.clone()));
        digest(text.as_bytes())
    }

    fn blob(&self) -> String {
        format!("/v2/acme/hello/blobs/{}", self.component)
    }

    async fn add(&self) -> Output {
        self.project.run(["add", "hello", &format!("oci://127.0.0.1:{}/acme/hello:1", self.origin.port())]).await
    }

    async fn refused(&self, expected: &str) {
        let output = self.add().await;
        assert!(output.code() == 1 && output.stderr.contains(expected), "{expected}: {}", output.stderr);
        assert!(!output.stderr.contains('\u{1b}'), "{}", output.stderr);
        assert!(!self.project.path("mcp-host.lock").exists());
    }
}

#[tokio::test]
async fn what_is_not_what_its_digest_says_is_not_stored() {
    let stub = Stub::new("unsigned = true").await;
    let size = std::fs::metadata(component("hello")).unwrap().len() as usize;
    stub.origin.serve(&stub.blob(), Reply::ok("application/octet-stream", vec![0; size]));
    stub.refused("its content has the digest sha256:").await;
    stub.origin.serve(&stub.blob(), Reply::ok("application/octet-stream", vec![0; size + 1]));
    stub.refused("bytes").await;
    stub.origin.serve(&stub.blob(), Reply::endless());
    stub.refused("bytes").await;
    assert_eq!(stub.project.stored().len(), 1, "nothing but the config: {:?}", stub.project.stored());
    stub.origin.serve(&stub.blob(), Reply::ok("application/octet-stream", std::fs::read(component("hello")).unwrap()));
    stub.add().await.success();
}

#[tokio::test]
async fn a_manifest_that_is_none_or_too_large_is_refused() {
    let stub = Stub::new("unsigned = true").await;
    let path = "/v2/acme/hello/manifests/1.0.0";
    stub.origin.serve(path, Reply::ok(MANIFEST, vec![b' '; (4 << 20) + 1]));
    stub.refused("has more than 4194304 bytes").await;
    stub.origin.serve(path, Reply::ok(MANIFEST, "{\"\u{1b}[2J\": 1}"));
    stub.refused("it is no manifest").await;
    stub.publish(
        &json!({ "schemaVersion": 2, "config": { "mediaType": "a", "digest": "b", "size": 1 }, "layers": [] }),
    );
    stub.refused("0 layers").await;
}

#[tokio::test]
async fn no_signature_is_told_apart_from_not_being_able_to_look() {
    let stub = Stub::new("keys = [{ file = 'acme.pub' }]").await;
    let referrers = format!("/v2/acme/hello/referrers/{}", stub.manifest);
    stub.origin.serve_any_query(&referrers, Reply::status(500));
    stub.refused("it could not be determined whether").await;
    stub.origin.serve_any_query(&referrers, Reply::ok("text/html", "<html>"));
    stub.refused("it could not be determined whether").await;
    let empty = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [] });
    stub.origin.serve_any_query(&referrers, Reply::ok("application/vnd.oci.image.index.v1+json", empty.to_string()));
    stub.refused("has no signature").await;
    let tag = format!("/v2/acme/hello/manifests/{}.sig", stub.manifest.replace(':', "-"));
    stub.origin.serve(&tag, Reply::ok(MANIFEST, "{}"));
    stub.refused("sign again").await;
    let entry = json!({ "mediaType": MANIFEST, "artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json", "digest": digest(b""), "size": 1 });
    let many = json!({ "schemaVersion": 2, "manifests": vec![entry; 65] });
    stub.origin.serve_any_query(&referrers, Reply::ok("application/vnd.oci.image.index.v1+json", many.to_string()));
    stub.refused("64 are looked at").await;
}

#[tokio::test]
async fn credentials_go_to_no_other_host() {
    let stub = Stub::new("unsigned = true").await;
    let authority = CertificateAuthority::new();
    let elsewhere = MockOrigin::https(&authority).await;
    elsewhere.serve("/component", Reply::ok("application/octet-stream", std::fs::read(component("hello")).unwrap()));
    stub.project.write("ca.pem", format!("{}{}", stub.project.text("ca.pem"), authority.pem()));
    let target = elsewhere.url("/component");
    stub.origin.serve_with(&stub.blob(), move |request| match request.header("authorization") {
        Some(_) => Reply::redirect(307, &target),
        None => Reply::status(401).header("WWW-Authenticate", "Basic realm=\"registry\""),
    });
    stub.add().await.success();
    let requests = elsewhere.requests();
    assert!(requests.len() == 1 && requests[0].header("authorization").is_none(), "{requests:?}");
    assert!(stub.origin.requests().iter().any(|request| request.header("authorization").is_some()));
}

#[tokio::test]
async fn a_host_that_the_registry_redirects_to_cannot_ask_for_its_credentials() {
    let stub = Stub::new("unsigned = true").await;
    let authority = CertificateAuthority::new();
    let (elsewhere, thief) = (MockOrigin::https(&authority).await, MockOrigin::https(&authority).await);
    stub.project.write("ca.pem", format!("{}{}", stub.project.text("ca.pem"), authority.pem()));
    let challenge = format!("Bearer realm=\"{}\",service=\"x\"", thief.url("/token"));
    elsewhere.serve("/component", Reply::status(401).header("WWW-Authenticate", &challenge));
    stub.origin.serve(&stub.blob(), Reply::redirect(307, &elsewhere.url("/component")));
    let added = stub.add().await;
    assert_eq!(added.code(), 1, "{}", added.stderr);
    assert!(thief.requests().is_empty(), "{:?}", thief.requests());
}

#[tokio::test]
async fn a_token_is_asked_for_where_the_registry_says_and_a_busy_registry_is_asked_again() {
    let stub = Stub::new("unsigned = true").await;
    let challenge = format!("Bearer realm=\"{}\",service=\"stub\"", stub.origin.url("/token"));
    stub.origin.serve_any_query("/token", Reply::ok("application/json", r#"{"token": "a-token"}"#));
    let wasm = std::fs::read(component("hello")).unwrap();
    let busy = std::sync::atomic::AtomicBool::new(true);
    stub.origin.serve_with(&stub.blob(), move |request| match request.header("authorization") {
        Some("Bearer a-token") if busy.swap(false, std::sync::atomic::Ordering::SeqCst) => {
            Reply::status(429).header("Retry-After", "0")
        }
        Some("Bearer a-token") => Reply::ok("application/octet-stream", wasm.clone()),
        _ => Reply::status(401).header("WWW-Authenticate", &challenge),
    });
    stub.add().await.success();
    let asked = stub.origin.requests().into_iter().find(|request| request.path.starts_with("/token")).unwrap();
    assert!(asked.path.contains("scope=repository%3Aacme%2Fhello%3Apull"), "{}", asked.path);
    assert!(asked.header("authorization").is_some_and(|value| value.starts_with("Basic ")), "{asked:?}");
}

#[tokio::test]
async fn a_bill_of_materials_that_lies_is_not_stored_and_stops_nothing() {
    let stub = Stub::new("unsigned = true").await;
    let (index_type, cyclone) = ("application/vnd.oci.image.index.v1+json", "application/vnd.cyclonedx+json");
    let referrers = format!("/v2/acme/hello/referrers/{}", stub.manifest);
    let serve_index = |entries: Vec<Value>| {
        let index = json!({ "schemaVersion": 2, "mediaType": index_type, "manifests": entries });
        stub.origin.serve_any_query(&referrers, Reply::ok(index_type, index.to_string()));
    };
    let shown = async |expected: &str| {
        let added = stub.add().await.success();
        assert!(added.text().contains(expected) && !added.text().contains('\u{1b}'), "{expected}: {}", added.text());
        stub.project.run(["store", "verify"]).await.success();
        stub.project.run(["remove", "hello"]).await.success();
    };
    let sbom = r#"{"bomFormat": "CycloneDX", "specVersion": "\u001b[2J"}"#;
    let referrer = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": cyclone,
        "config": { "mediaType": "application/vnd.oci.empty.v1+json", "digest": digest(b"{}"), "size": 2 },
        "layers": [{ "mediaType": cyclone, "digest": digest(sbom.as_bytes()), "size": sbom.len() }],
        "subject": { "mediaType": MANIFEST, "digest": stub.manifest, "size": 1 },
    })
    .to_string();
    let name = digest(referrer.as_bytes());
    stub.origin.serve(&format!("/v2/acme/hello/manifests/{name}"), Reply::ok(MANIFEST, referrer.clone()));
    let entry = json!({ "mediaType": MANIFEST, "artifactType": cyclone, "digest": name, "size": referrer.len() });
    let blob = format!("/v2/acme/hello/blobs/{}", digest(sbom.as_bytes()));
    stub.origin.serve(&blob, Reply::ok("application/octet-stream", sbom));
    serve_index(vec![entry.clone()]);
    shown("CycloneDX").await;
    stub.origin.serve(&blob, Reply::endless());
    shown("has more than 1048576 bytes").await;
    stub.origin.serve(&blob, Reply::ok("application/octet-stream", "{}"));
    shown("another digest").await;
    serve_index(vec![entry; 65]);
    shown("64 are looked at").await;
}
