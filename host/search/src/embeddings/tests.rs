//! Tests of vectors in an index (storage, look-up, access control), and of the texts that the embedding task sends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use mcp_host_config::Plugin;
use mcp_host_config::search::{Embeddings, PluginSearch};
use mcp_host_engine::plugin::SearchSource;
use mcp_host_model::resource::Resource;
use mcp_host_model::uri::Mount;
use parking_lot::Mutex;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::EmbeddedSource;
use super::embedder::Embedder;
use super::endpoint::Endpoint;
use super::nearest::{MAX_NEAREST, NearestLookup, NearestQuery};
use super::vector::Vector;
use super::vector_graph::VectorGraph;
use super::vector_store::{self, PassageSelection, PendingPage, VectorSpace};
use crate::document::{Document, DocumentEntry};
use crate::error::IndexError;
use crate::index::Index;
use crate::index::tests::UNHURRIED;
use crate::lookup::{Found, Lookup};
use crate::query::Conditions;
use crate::query::Query;
use crate::snapshot::IndexRole;
use crate::space::Space;
use crate::status::SourceId;
use crate::status::SourceState;
use crate::store::{self, Bounds, Change};

mod approximate;

const BOUNDS: Bounds = Bounds { index: Space::new(u64::MAX), source: u64::MAX };

/// An index with one source.
struct Fixture {
    index: Arc<Index>,
    source: SourceId,
    space: VectorSpace,
    _dir: TempDir,
}

fn space(model: &str) -> VectorSpace {
    let url = "https://embeddings.example.com/v1/embeddings".parse().unwrap();
    VectorSpace::of(&Embeddings::new(url, model, 2.try_into().unwrap()))
}

/// A vector with this angle in degrees.
fn vector(degrees: f32) -> Vector {
    let (sine, cosine) = degrees.to_radians().sin_cos();
    Vector::quantise(&[cosine, sine]).unwrap()
}

fn document(path: &str, text: &str) -> Change {
    let uri = "a:///".parse::<Mount>().unwrap().compose(path).unwrap().uri;
    let entry = DocumentEntry::new(&Resource::named(uri, path));
    Change::Put(Box::new(Document {
        path: path.to_owned(),
        entry,
        entry_hash: 1,
        text: text.to_owned(),
        is_cut: false,
    }))
}

impl Fixture {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::start(dir.path(), BOUNDS.index, UNHURRIED).unwrap();
        let source = index.write(|connection| store::open_source(connection, b"key", 1)).await.unwrap();
        Self { index, source, space: space("small"), _dir: dir }
    }

    async fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Connection, SourceId) -> Result<T, IndexError> + Send + 'static,
    ) -> T {
        let source = self.source;
        self.index.write(move |connection| operation(connection, source)).await.unwrap()
    }

    async fn apply(&self, changes: Vec<Change>) {
        self.write(move |connection, source| store::apply(connection, source, &changes, BOUNDS, 1)).await;
    }

    async fn pending(&self, space: VectorSpace) -> PendingPage {
        let selection = PassageSelection { prefix: "> ".to_owned(), max_passages: 2 };
        self.write(move |connection, source| {
            vector_store::find_pending(connection, source, space, i64::MIN, 1000, &selection, |_| true)
        })
        .await
    }

    /// Gives each passage without a vector one whose angle is the number in its text. Returns the texts.
    async fn embed(&self, space: VectorSpace) -> Vec<String> {
        let PendingPage { mut documents, .. } = self.pending(space).await;
        let mut sent = Vec::new();
        for passage in documents.iter_mut().flat_map(|document| &mut document.passages) {
            if passage.vector.is_none() {
                let digits: String = passage.text.chars().filter(char::is_ascii_digit).take(3).collect();
                passage.vector = Some(vector(digits.parse().unwrap_or_default()));
                sent.push(passage.text.clone());
            }
        }
        self.write(move |connection, _| vector_store::put(connection, space, &documents)).await;
        sent
    }

    /// The paths that a vector finds, and the number of results.
    async fn found_by(
        &self,
        query: &str,
        degrees: f32,
        graph: Option<Arc<VectorGraph>>,
        conditions: Conditions,
    ) -> (Vec<String>, u64) {
        let nearest = NearestQuery { vector: vector(degrees), space: self.space, sources: vec![self.source], graph };
        let lookup = Lookup {
            query: Query::parse(query),
            nearest: Some(nearest),
            conditions,
            limit: 10,
            deadline: Instant::now() + Duration::from_secs(60),
            filter: |_, path: &str| (!path.starts_with("hidden")).then(|| format!("a:///{path}")),
        };
        let result = self.index.read(|connection, _| lookup.run(connection)).await.unwrap();
        (result.found.into_iter().map(|Found { path, .. }| path).collect(), result.total)
    }

    async fn nearest(&self, degrees: f32) -> Vec<String> {
        self.found_by("", degrees, None, Conditions::default()).await.0
    }
}

#[tokio::test]
async fn the_nearest_documents_are_found_that_pass_the_filter() {
    let fixture = Fixture::start().await;
    let hidden = (0..MAX_NEAREST * 2).map(|number| document(&format!("hidden/{number}"), "at 90"));
    let visible = [document("a", "at 10"), document("b", "at 60"), document("c", "at 150")];
    fixture.apply(hidden.chain(visible).collect()).await;
    while !fixture.pending(fixture.space).await.documents.is_empty() {
        fixture.embed(fixture.space).await;
    }
    assert_eq!(fixture.nearest(70.0).await, ["b", "a", "c"], "however many others are nearer");
    assert_eq!(fixture.nearest(180.0).await, ["c", "b", "a"]);
}

#[tokio::test]
async fn both_rankings_count_and_no_result_counts_twice() {
    let fixture = Fixture::start().await;
    fixture.apply(vec![document("a", "needle at 10"), document("b", "at 80"), document("c", "needle at 90")]).await;
    fixture.embed(fixture.space).await;
    let both = fixture.found_by("needle", 90.0, None, Conditions::default()).await;
    assert_eq!(both, (["c", "a", "b"].map(str::to_owned).into(), 3));
    let conditions = Conditions { kind: Some("image".to_owned()), ..Conditions::default() };
    assert_eq!(fixture.found_by("needle", 90.0, None, conditions).await, (Vec::new(), 0));
}

#[tokio::test]
async fn a_text_is_sent_once() {
    let fixture = Fixture::start().await;
    let paragraph = |number: u32| format!("{number} {}\n\n", "words ".repeat(150));
    fixture.apply(vec![document("a", &(paragraph(10) + &paragraph(20) + &paragraph(30)))]).await;
    let sent = fixture.embed(fixture.space).await;
    assert!(sent.len() == 2 && sent[0].starts_with("> 10 words"), "its first passages: {sent:?}");
    assert_eq!(fixture.embed(fixture.space).await, [""; 0]);

    fixture.apply(vec![document("a", &(paragraph(10) + &paragraph(40))), document("b", &paragraph(10))]).await;
    assert_eq!(fixture.nearest(10.0).await, [""; 0], "what has changed has no vector");
    let sent = fixture.embed(fixture.space).await;
    assert!(sent.len() == 1 && sent[0].contains("40 words"), "{sent:?}");
    assert_eq!(fixture.nearest(10.0).await, ["a", "b"]);
    assert_eq!(fixture.embed(space("large")).await.len(), 3, "of another model");
}

#[tokio::test]
async fn what_changes_while_it_is_sent_is_sent_again() {
    let fixture = Fixture::start().await;
    fixture.apply(vec![document("a", "at 10")]).await;
    let PendingPage { mut documents, .. } = fixture.pending(fixture.space).await;
    documents[0].passages[0].vector = Some(vector(10.0));
    fixture.apply(vec![document("a", "at 20")]).await;
    let space = fixture.space;
    assert_eq!(fixture.write(move |connection, _| vector_store::put(connection, space, &documents)).await, 0);
    assert_eq!(fixture.embed(fixture.space).await, ["> at 20"]);
}

#[tokio::test]
async fn vectors_are_removed_with_their_document_and_with_their_space() {
    let fixture = Fixture::start().await;
    fixture.apply(vec![document("a", "at 10"), document("b", "at 20"), document("empty", "")]).await;
    let (own, other) = (fixture.space, space("large"));
    fixture.embed(own).await;
    fixture.embed(other).await;
    let size = |space| fixture.write(move |connection, _| vector_store::count_vectors(connection, space));
    assert_eq!((size(own).await, size(other).await), (2, 2));
    fixture.apply(vec![Change::Remove("a".to_owned())]).await;
    assert_eq!((size(own).await, size(other).await), (1, 1));
    assert_eq!(fixture.write(move |connection, source| vector_store::count(connection, source, own)).await, 2);
    for (space, now) in [(other, 1), (own, 5)] {
        fixture.write(move |connection, _| vector_store::use_space(connection, space, now, now - 1)).await;
    }
    assert_eq!((size(own).await, size(other).await), (1, 0));
}

/// The maximum wait of a test.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An endpoint on loopback that records the received texts. It answers with the same vector for each.
struct StubEndpoint {
    settings: Embeddings,
    texts: Arc<Mutex<Vec<String>>>,
    /// Whether the endpoint keeps requests waiting.
    hangs: watch::Sender<bool>,
    _task: AbortOnDropHandle<()>,
}

/// A running embedding task.
struct RunningEmbedder {
    sources: watch::Sender<Vec<EmbeddedSource>>,
    space: VectorSpace,
    _task: AbortOnDropHandle<()>,
}

impl StubEndpoint {
    /// Starts the endpoint. Each request has one text.
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/embeddings", listener.local_addr().unwrap());
        let mut settings = Embeddings::new(url.parse().unwrap(), "small", 2.try_into().unwrap());
        settings.batch = 1.try_into().unwrap();
        let (texts, hangs) = (Arc::<Mutex<Vec<String>>>::default(), watch::Sender::new(false));
        let (recorded, waiting) = (texts.clone(), hangs.subscribe());
        let answer = move |body: String| {
            let (recorded, mut waiting) = (recorded.clone(), waiting.clone());
            async move {
                let request: Value = serde_json::from_str(&body).unwrap();
                recorded.lock().push(request["input"][0].as_str().unwrap().to_owned());
                // The wait fails at the end of the test.
                drop(waiting.wait_for(|hangs| !*hangs).await);
                json!({ "data": [{ "embedding": [1, 0] }] }).to_string()
            }
        };
        let router = Router::new().route("/v1/embeddings", post(answer));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { settings, texts, hangs, _task: AbortOnDropHandle::new(task) }
    }

    /// The received texts, sorted.
    fn texts(&self) -> Vec<String> {
        let mut texts = self.texts.lock().clone();
        texts.sort();
        texts
    }

    async fn wait_for_a_text(&self) {
        let waiting = async {
            while self.texts.lock().is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(TIMEOUT, waiting).await.unwrap();
    }
}

impl RunningEmbedder {
    /// Starts the task for the source of an index.
    fn start(fixture: &Fixture, endpoint: &StubEndpoint, source: EmbeddedSource) -> Self {
        let settings = &endpoint.settings;
        let sources = watch::Sender::new(vec![source]);
        let (client, space) = (Arc::new(Endpoint::new(settings)), VectorSpace::of(settings));
        let embedder = Embedder::new(settings, client, fixture.index.clone(), space);
        let task = tokio::spawn(embedder.run(sources.subscribe()));
        Self { sources, space, _task: AbortOnDropHandle::new(task) }
    }

    /// Waits until there are at least `count` vectors.
    async fn wait_until_stored(&self, fixture: &Fixture, count: u64) {
        let space = self.space;
        let stored = || fixture.write(move |connection, _| vector_store::count_vectors(connection, space));
        let waiting = async {
            while stored().await < count {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(TIMEOUT, waiting).await.unwrap();
    }
}

impl Fixture {
    /// The source, with a config that excludes `hidden/`.
    fn embedded_source(&self) -> EmbeddedSource {
        Self::embedded(self.source)
    }

    fn embedded(source: SourceId) -> EmbeddedSource {
        let mount: Mount = "a:///".parse().unwrap();
        let mut plugin = Plugin::new("a".parse().unwrap(), "a.wasm", mount.clone());
        let exclude = vec!["a:///hidden/**".parse().unwrap()];
        plugin.search = Some(PluginSearch { exclude, embeddings: true, ..PluginSearch::default() });
        let state = SourceState::new("a");
        *state.id.lock() = Some(source);
        EmbeddedSource { mount, source: Arc::new(SearchSource::of_component(&plugin).unwrap()), state }
    }
}

#[tokio::test]
async fn what_the_index_has_and_the_config_does_not_include_is_not_sent() {
    let (fixture, endpoint) = (Fixture::start().await, StubEndpoint::start().await);
    let hidden = (0..200).map(|number| document(&format!("hidden/{number}"), &format!("secret {number}")));
    fixture.apply(hidden.chain([document("a", "at 10")]).collect()).await;
    let embedder = RunningEmbedder::start(&fixture, &endpoint, fixture.embedded_source());
    embedder.wait_until_stored(&fixture, 1).await;
    assert_eq!(endpoint.texts(), ["at 10"]);
}

#[tokio::test]
async fn a_replica_that_takes_over_an_index_embeds_what_the_one_before_has_not() {
    let (fixture, endpoint) = (Fixture::start().await, StubEndpoint::start().await);
    fixture.apply(vec![document("a", "at 10")]).await;
    let source = fixture.embedded_source();
    let state = source.state.clone();
    state.set_role(IndexRole::Following, "");
    let mut passes = state.status.subscribe();
    let embedder = RunningEmbedder::start(&fixture, &endpoint, source);
    timeout(TIMEOUT, passes.changed()).await.unwrap().unwrap();
    assert!(endpoint.texts().is_empty());
    state.set_role(IndexRole::Building, "");
    embedder.wait_until_stored(&fixture, 1).await;
    assert_eq!(endpoint.texts(), ["at 10"]);
}

#[tokio::test]
async fn nothing_is_sent_of_a_source_that_is_withdrawn_meanwhile() {
    let (fixture, endpoint) = (Fixture::start().await, StubEndpoint::start().await);
    fixture.apply(vec![document("a", "at 10"), document("b", "at 20")]).await;
    let other = fixture.write(|connection, _| store::open_source(connection, b"other", 1)).await;
    let changes = [document("c", "at 30")];
    fixture.write(move |connection, _| store::apply(connection, other, &changes, BOUNDS, 1)).await;
    endpoint.hangs.send_replace(true);
    let embedder = RunningEmbedder::start(&fixture, &endpoint, fixture.embedded_source());
    endpoint.wait_for_a_text().await;
    embedder.sources.send_replace(vec![Fixture::embedded(other)]);
    endpoint.hangs.send_replace(false);
    embedder.wait_until_stored(&fixture, 1).await;
    let texts = endpoint.texts();
    assert!(texts.len() == 2 && texts.contains(&"at 30".to_owned()), "{texts:?}");

    embedder.sources.send_replace(vec![fixture.embedded_source()]);
    embedder.wait_until_stored(&fixture, 3).await;
    let texts = endpoint.texts();
    assert!(texts.contains(&"at 10".to_owned()) && texts.contains(&"at 20".to_owned()), "{texts:?}");
}

#[tokio::test]
async fn a_text_whose_vector_cannot_be_stored_is_not_sent_again() {
    let (fixture, endpoint) = (Fixture::start().await, StubEndpoint::start().await);
    fixture.apply(vec![document("a", "at 10"), document("b", "at 20")]).await;
    let fail = "CREATE TRIGGER refuse BEFORE INSERT ON vectors BEGIN SELECT RAISE(FAIL, 'refused'); END";
    fixture.write(move |connection, _| Ok(connection.execute_batch(fail)?)).await;
    let embedder = RunningEmbedder::start(&fixture, &endpoint, fixture.embedded_source());
    endpoint.wait_for_a_text().await;
    // Longer than the retry delay of about a second.
    sleep(Duration::from_secs(2)).await;
    fixture.write(|connection, _| Ok(connection.execute_batch("DROP TRIGGER refuse")?)).await;
    embedder.wait_until_stored(&fixture, 2).await;
    assert_eq!(endpoint.texts(), ["at 10", "at 20"]);
}
