//! An endpoint of embeddings in this process, for which every text is near to every other.

use axum::Router;
use axum::routing::post;
use mcp_resource_host::config::search::{Embeddings, Search};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::OnceCell;

/// The number of dimensions of the vectors.
const DIMENSIONS: usize = 8;

/// A search config with this endpoint, which is started on first use.
pub(crate) async fn search() -> Search {
    static ADDRESS: OnceCell<String> = OnceCell::const_new();
    let address = ADDRESS.get_or_init(start).await;
    let url = format!("http://{address}/v1/embeddings").parse().unwrap();
    let mut embeddings = Embeddings::new(url, "any", DIMENSIONS.try_into().unwrap());
    (embeddings.queries, embeddings.query_rate) = (true, "10000/s".parse().unwrap());
    embeddings.query_timeout = "10s".parse().unwrap();
    Search { embeddings: Some(embeddings), ..Search::default() }
}

async fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let app = Router::new().route("/v1/embeddings", post(embed));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Vectors that differ by the lengths of the texts.
async fn embed(request: String) -> String {
    let request: Value = serde_json::from_str(&request).unwrap();
    let texts = request["input"].as_array().unwrap();
    let vector = |text: &Value| {
        let mut vector = vec![100; DIMENSIONS];
        vector[text.as_str().unwrap().len() % DIMENSIONS] = 101;
        json!({ "embedding": vector })
    };
    json!({ "data": texts.iter().map(vector).collect::<Vec<_>>() }).to_string()
}
