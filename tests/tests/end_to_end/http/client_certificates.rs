//! Client certificates (mTLS): the principal of a connection, and when its access ends.

use std::fs;
use std::time::Instant;

use http_body_util::BodyExt as _;
use mcp_host_tests::{
    CertificateAuthority, CertifiedKey, ConfigFile, Connection, Folder, HttpServer, Plugin, Revision, Rule, TIMEOUT,
    WrittenConfig,
};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

const REVISION: Revision = Revision::V_2026_07_28;

/// A server whose clients have certificates of the authority `devices`, or of `services`, which identifies them by URI.
struct Setup {
    server: HttpServer,
    config: WrittenConfig,
    authority: CertificateAuthority,
    devices: CertificateAuthority,
    services: CertificateAuthority,
    folder: Folder,
}

fn config_file(folder: &Folder, authorities: &str) -> ConfigFile {
    let config = ConfigFile::new()
        .plugin(Plugin::faulty("m", folder.path()))
        .tls()
        .rule(Rule::for_principal("devices/sensor 7").allow(["faulty://m/f"]))
        .rule(Rule::for_principal("services/spiffe://example.org/web").allow(["faulty://m/g"]));
    config.append(authorities)
}

const BOTH: &str = "\n[[http.client-ca]]\nname = \"devices\"\nca = \"devices.pem\"\n\n[[http.client-ca]]\nname = \"services\"\nca = \
                    \"services.pem\"\nprincipal-from = \"uri\"\n";
const ONE: &str = "\n[[http.client-ca]]\nname = \"services\"\nca = \"services.pem\"\nprincipal-from = \"uri\"\n";

impl Setup {
    async fn start() -> Self {
        let folder = Folder::with_files([("f", "text of f"), ("g", "text of g")]);
        let [authority, devices, services] = [(); 3].map(|()| CertificateAuthority::new());
        let config = config_file(&folder, BOTH).write();
        config.write_certificate(&authority.issue("localhost"));
        fs::write(config.dir().join("devices.pem"), devices.pem()).unwrap();
        fs::write(config.dir().join("services.pem"), services.pem()).unwrap();
        let server = HttpServer::start(&config).await;
        Self { server, config, authority, devices, services, folder }
    }

    async fn connect(&self, client: Option<&CertifiedKey>) -> Connection {
        Connection::tls_as(self.server.address(), &self.authority, &[], client).await
    }

    fn request(&self, method: &str, params: Value) -> RequestBuilder {
        self.server.uninitialized(REVISION).request_builder(method, params)
    }

    fn read(&self, path: &str) -> RequestBuilder {
        self.request("resources/read", json!({ "uri": format!("faulty://m/{path}") }))
    }

    /// Returns the paths that the client of the connection may read.
    async fn readable(&self, connection: &mut Connection) -> Vec<&'static str> {
        let mut readable = Vec::new();
        for path in ["f", "g"] {
            let answer = connection.send(self.read(path)).await;
            assert_eq!(answer.status(), StatusCode::OK);
            let answer: Value = serde_json::from_slice(answer.body()).unwrap();
            if answer["result"]["contents"].is_array() {
                readable.push(path);
            }
        }
        readable
    }
}

#[tokio::test]
async fn a_certificate_makes_its_client_the_principal_that_it_names() {
    let setup = Setup::start().await;
    let device = setup.devices.issue_client("sensor 7", &["spiffe://example.org/web"]);
    assert_eq!(setup.readable(&mut setup.connect(Some(&device)).await).await, ["f"]);
    let service = setup.services.issue_client("sensor 7", &["spiffe://example.org/web"]);
    assert_eq!(setup.readable(&mut setup.connect(Some(&service)).await).await, ["g"]);
    let other = setup.devices.issue_client("sensor 8", &[]);
    assert_eq!(setup.readable(&mut setup.connect(Some(&other)).await).await, Vec::<&str>::new());
    setup.server.end().await;
}

#[tokio::test]
async fn who_has_no_certificate_or_one_that_names_nobody_is_not_authenticated() {
    let setup = Setup::start().await;
    let two_names = setup.services.issue_client("a", &["spiffe://example.org/web", "spiffe://example.org/admin"]);
    let no_name = setup.services.issue_client("a", &[]);
    for client in [None, Some(&two_names), Some(&no_name)] {
        let answer = setup.connect(client).await.send(setup.read("g")).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    }
    setup.server.end().await;
}

#[tokio::test]
async fn a_certificate_of_nobodys_authority_is_refused() {
    let setup = Setup::start().await;
    for client in [CertificateAuthority::new().issue_client("sensor 7", &[]), setup.devices.issue("sensor7.example")] {
        assert!(!setup.connect(Some(&client)).await.is_answered(setup.read("f")).await);
    }
    assert!(setup.connect(None).await.is_answered(setup.read("f")).await);
    setup.server.end().await;
}

#[tokio::test]
async fn what_is_open_ends_with_the_authority_of_its_certificate() {
    let setup = Setup::start().await;
    let device = setup.devices.issue_client("sensor 7", &[]);
    let (mut connection, mut listening) = (setup.connect(Some(&device)).await, setup.connect(Some(&device)).await);
    let listen = setup.request("subscriptions/listen", json!({ "notifications": { "resourcesListChanged": true } }));
    let mut stream = listening.send_streaming(listen).await.into_body();
    let first = timeout(TIMEOUT, stream.frame()).await.unwrap().unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("acknowledged"), "{first:?}");
    assert_eq!(setup.readable(&mut connection).await, ["f"]);
    setup.config.replace(config_file(&setup.folder, ONE));
    setup.server.log_line("http=true").await;
    timeout(TIMEOUT, async { while stream.frame().await.is_some_and(|frame| frame.is_ok()) {} })
        .await
        .expect("the stream ends");
    assert_eq!(connection.send(setup.read("f")).await.status(), StatusCode::UNAUTHORIZED);
    setup.server.end().await;
}

#[tokio::test]
async fn a_certificate_with_two_names_names_nobody_however_they_are_encoded() {
    let setup = Setup::start().await;
    for (first, second) in [("sensor 7", "sensor 8"), ("bob", "sensor 7"), ("sensor 7", "bob")] {
        let client = setup.devices.issue_client_with_two_names(first, second);
        let answer = setup.connect(Some(&client)).await.send(setup.read("f")).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{first} {second}");
    }
    setup.server.end().await;
}

#[tokio::test]
async fn why_a_handshake_fails_is_logged_once_in_a_while_for_each_reason() {
    let setup = Setup::start().await;
    let of_nobody = CertificateAuthority::new().issue_client("sensor 7", &[]);
    let of_server = setup.devices.issue("sensor7.example");
    let expired = setup.devices.issue_expired_client("sensor 7");
    let began = Instant::now();
    for client in [&of_nobody, &of_server, &expired, &of_nobody] {
        assert!(!setup.connect(Some(client)).await.is_answered(setup.read("f")).await);
    }
    let plain = reqwest::get(format!("http://{}/healthz", setup.server.address())).await;
    assert!(plain.is_err(), "{plain:?}");
    for reason in [
        "the client certificate is signed by no authority of `http.client-ca`",
        "the client certificate has extended key usages, and `clientAuth` is none of them",
        "the client certificate has expired",
        "it does not speak TLS",
    ] {
        let line = setup.server.log_line(reason).await;
        assert!(line.contains("WARN") && line.contains("client=127.0.0.1"), "{line}");
    }
    let log = setup.server.end().await.log;
    let told = log.matches("TLS handshake failed").count() as u64;
    // Each reason is logged once in ten seconds.
    assert!((4..=4 + began.elapsed().as_secs() / 10).contains(&told), "{told}: {log}");
}
