//! The approximate index of vectors.

use std::collections::HashSet;

use super::*;
use crate::embeddings::graph_updater::GraphUpdater;
use crate::embeddings::vector_graph::VectorGraph;
use crate::embeddings::vector_store::TextDigest;

const DIMENSIONS: usize = 16;

/// Vectors around a few centres, like embeddings of texts.
fn generated(count: usize) -> Vec<(TextDigest, Vector)> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut components = |spread: f32| -> Vec<f32> { (0..DIMENSIONS).map(|_| (random.f32() - 0.5) * spread).collect() };
    let centres: Vec<_> = (0..20).map(|_| components(1.0)).collect();
    let texts = (0..count).map(|number| {
        let sum: Vec<f32> = centres[number % 20].iter().zip(components(0.8)).map(|(a, b)| a + b).collect();
        (u128::try_from(number).unwrap().to_be_bytes(), Vector::quantise(&sum).unwrap())
    });
    texts.collect()
}

async fn graph_of(texts: &[(TextDigest, Vector)]) -> VectorGraph {
    let graph = VectorGraph::start().unwrap();
    for batch in texts.chunks(100) {
        graph.insert(batch.to_vec()).await.unwrap();
    }
    graph.complete().await.unwrap();
    wait_until_complete(&graph).await;
    graph
}

async fn wait_until_complete(graph: &VectorGraph) {
    let waiting = async {
        while !graph.is_complete() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, waiting).await.unwrap();
}

fn deadline() -> Instant {
    Instant::now() + TIMEOUT
}

#[tokio::test]
async fn nearly_all_of_the_nearest_are_found_and_each_time_the_same() {
    let all = generated(1000);
    let (queries, texts) = all.split_at(20);
    let (graph, again) = (graph_of(texts).await, graph_of(texts).await);
    let mut hits = 0;
    for (_, query) in queries {
        let found = graph.nearest(query, 100, deadline()).unwrap().into_sorted_vec();
        assert_eq!(found, again.nearest(query, 100, deadline()).unwrap().into_sorted_vec());
        let (exact, is_partial) = graph.all(query, deadline());
        assert!(exact.len() == texts.len() && !is_partial);
        let exact: HashSet<_> = exact.into_sorted_vec().into_iter().rev().take(100).map(|text| text.digest).collect();
        hits += found.iter().filter(|text| exact.contains(&text.digest)).count();
    }
    assert!(hits >= 95 * queries.len(), "{hits} of {}", 100 * queries.len());
}

/// A task that the test runs step by step, and the graph that it publishes.
struct Approximation {
    updater: GraphUpdater,
    graph: watch::Receiver<Option<Arc<VectorGraph>>>,
}

impl Approximation {
    /// Creates a task with this limit of memory.
    fn start(fixture: &Fixture, memory: &str) -> Self {
        let url = "https://embeddings.example.com/v1/embeddings".parse().unwrap();
        let mut settings = Embeddings::new(url, "small", 2.try_into().unwrap());
        settings.memory = memory.parse().unwrap();
        let graph = watch::Sender::default();
        let receiver = graph.subscribe();
        let updater = GraphUpdater::new(&settings, fixture.index.clone(), fixture.space, 0, graph);
        Self { updater, graph: receiver }
    }

    async fn update(&mut self) -> Option<Arc<VectorGraph>> {
        self.updater.update().await.unwrap();
        let graph = self.graph.borrow().clone();
        if let Some(graph) = &graph {
            wait_until_complete(graph).await;
        }
        graph
    }
}

impl Fixture {
    async fn embed_all(&self) {
        while !self.pending(self.space).await.documents.is_empty() {
            self.embed(self.space).await;
        }
    }

    async fn in_graph(&self, degrees: f32, graph: &Arc<VectorGraph>) -> Vec<String> {
        self.found_by("", degrees, Some(graph.clone()), Conditions::default()).await.0
    }
}

#[tokio::test]
async fn what_changes_is_found_by_what_it_is_now() {
    let fixture = Fixture::start().await;
    let mut approximation = Approximation::start(&fixture, "1MiB");
    assert!(approximation.update().await.is_none(), "there are no vectors");
    fixture.apply(vec![document("a", "at 10"), document("b", "at 60"), document("copy", "at 60")]).await;
    fixture.embed_all().await;
    let graph = approximation.update().await.unwrap();
    assert_eq!(fixture.in_graph(0.0, &graph).await, ["a", "b", "copy"]);

    fixture.apply(vec![Change::Remove("b".to_owned()), document("a", "at 90")]).await;
    assert_eq!(fixture.in_graph(0.0, &graph).await, ["copy"], "at once");
    fixture.embed_all().await;
    assert_eq!(fixture.in_graph(80.0, &approximation.update().await.unwrap()).await, ["a", "copy"]);

    for degrees in ["20", "30", "40", "50"] {
        fixture.apply(vec![document("a", &format!("at {degrees}")), document("copy", "at 5")]).await;
        fixture.embed_all().await;
        let graph = approximation.update().await.unwrap();
        assert_eq!(fixture.in_graph(90.0, &graph).await, ["a", "copy"]);
        let texts = graph.all(&vector(0.0), deadline()).0.len();
        assert!(texts <= 4, "texts that are gone are removed: {texts}");
    }
    fixture.apply(vec![Change::Remove("a".to_owned()), Change::Remove("copy".to_owned())]).await;
    assert!(approximation.update().await.is_none());
}

#[tokio::test]
async fn the_nearest_that_pass_the_filter_are_found_however_many_are_nearer() {
    let fixture = Fixture::start().await;
    let hidden = (0..1700).map(|number| document(&format!("hidden/{number}"), &format!("at 090 {number}")));
    let visible = [document("a", "at 10"), document("b", "at 60"), document("c", "at 150")];
    fixture.apply(hidden.chain(visible).collect()).await;
    fixture.embed_all().await;
    let graph = Approximation::start(&fixture, "1GiB").update().await;
    let query = NearestQuery { vector: vector(70.0), space: fixture.space, sources: vec![fixture.source], graph };
    // Not as a lookup, which would be interrupted on a slow machine.
    let found = fixture.write(move |connection, _| {
        let mut filter = |_, path: &str| (!path.starts_with("hidden")).then(|| path.to_owned());
        let conditions = Conditions::default();
        query.find(&mut NearestLookup {
            connection,
            conditions: &conditions,
            deadline: deadline(),
            filter: &mut filter,
        })
    });
    let found = found.await;
    assert!(!found.is_partial);
    let paths: Vec<_> = found.found.into_iter().map(|nearest| nearest.path).collect();
    assert_eq!(paths, ["b", "a", "c"]);
}

#[tokio::test]
async fn what_the_memory_has_no_room_for_is_found_by_its_words_and_compared() {
    let fixture = Fixture::start().await;
    let many = (0..600).map(|number| document(&format!("f{number}"), &format!("at {:03} word{number}", number % 180)));
    fixture.apply(many.collect()).await;
    fixture.embed_all().await;
    let graph = Approximation::start(&fixture, "1MiB").update().await.unwrap();
    let texts = graph.all(&vector(0.0), deadline()).0.len();
    assert!((300..600).contains(&texts), "{texts}");
    for number in [0, 150, 300, 450, 599] {
        let angle = f32::from(u16::try_from(number % 180).unwrap());
        let found = fixture.found_by(&format!("word{number}"), angle, Some(graph.clone()), Conditions::default()).await;
        assert_eq!(found.0[0], format!("f{number}"), "{:?}", found.0);
    }
}
