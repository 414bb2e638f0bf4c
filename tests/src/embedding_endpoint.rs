//! An OpenAI-compatible endpoint of embeddings for one test, whose vectors say what a text is about.
//!
//! Each dimension is a topic, a few words of which are synonyms: `car` and `automobile` have the same vector. A text
//! about no topic has a vector of its own dimension, the last one.
//!
//! ```no_run
//! # use mcp_host_tests::{ConfigFile, EmbeddingEndpoint, Folder, Plugin, Reply};
//! # async fn test(folder: &Folder) {
//! let endpoint = EmbeddingEndpoint::start().await;
//! let plugin = Plugin::files("f", folder.path()).embedded();
//! let config = ConfigFile::new().plugin(plugin).search("embeddings", endpoint.settings()).write();
//! // …
//! assert_eq!(endpoint.texts(), ["the automobile\n"]);
//! endpoint.answer_with(Reply::silent()); // From now on.
//! endpoint.recover();
//! # }
//! ```

use serde_json::{Value, json};
use toml::Table;

use crate::{MockOrigin, RecordedRequest, Reply};

/// The path of the endpoint.
const PATH: &str = "/v1/embeddings";
/// Words with the same meaning.
const TOPICS: [&[&str]; 3] = [&["car", "automobile"], &["dog", "hound"], &["coffee", "espresso"]];

/// An endpoint on an ephemeral port of loopback.
#[derive(Debug)]
pub struct EmbeddingEndpoint {
    origin: MockOrigin,
}

impl EmbeddingEndpoint {
    /// The number of dimensions of the vectors.
    pub const DIMENSIONS: usize = TOPICS.len() + 1;
    /// The name of the model.
    pub const MODEL: &str = "topics";

    /// Starts an endpoint.
    pub async fn start() -> Self {
        let endpoint = Self { origin: MockOrigin::http().await };
        endpoint.recover();
        endpoint
    }

    /// The table `[search.embeddings]` for it: queries are sent, and answered in time however busy the machine is.
    pub fn settings(&self) -> Table {
        let dimensions = i64::try_from(Self::DIMENSIONS).expect("a few");
        let keys: [(&str, toml::Value); 5] = [
            ("url", self.origin.url(PATH).into()),
            ("model", Self::MODEL.into()),
            ("dimensions", dimensions.into()),
            ("queries", true.into()),
            ("query-timeout", "10s".into()),
        ];
        keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The server, which can be taken down.
    pub fn origin(&self) -> &MockOrigin {
        &self.origin
    }

    /// Answers every request with that.
    pub fn answer_with(&self, reply: Reply) {
        self.origin.serve(PATH, reply);
    }

    /// Answers requests with a text that has those words with 400, and others as it should.
    pub fn reject_texts_with(&self, words: &'static str) {
        self.origin.serve_with(PATH, move |request| match texts(request).iter().any(|text| text.contains(words)) {
            true => Reply::status(400),
            false => answer(request),
        });
    }

    /// Answers requests as it should.
    pub fn recover(&self) {
        self.origin.serve_with(PATH, answer);
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.origin.requests()
    }

    /// The texts that were sent so far, in their order.
    pub fn texts(&self) -> Vec<String> {
        self.requests().iter().flat_map(texts).collect()
    }
}

fn answer(request: &RecordedRequest) -> Reply {
    let vectors: Vec<_> = texts(request).iter().map(|text| json!({ "embedding": vector(text) })).collect();
    Reply::ok("application/json", json!({ "object": "list", "data": vectors }).to_string())
}

/// The texts of a request.
fn texts(request: &RecordedRequest) -> Vec<String> {
    let body: Value = serde_json::from_slice(&request.body).expect("a request is JSON");
    assert_eq!(body["model"], EmbeddingEndpoint::MODEL);
    let texts = body["input"].as_array().expect("a list of texts");
    texts.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

/// The number of words of each topic; 1 for none of them.
fn vector(text: &str) -> Vec<f64> {
    let words: Vec<_> = text.split(|character: char| !character.is_alphanumeric()).map(str::to_lowercase).collect();
    let count = |topic: &[&str]| words.iter().filter(|word| topic.contains(&word.as_str())).count();
    let mut vector: Vec<f64> = TOPICS.map(|topic| f64::from(u32::try_from(count(topic)).unwrap_or(u32::MAX))).into();
    vector.push(if vector.iter().all(|count| *count == 0.0) { 1.0 } else { 0.0 });
    vector
}
