//! Snapshots from one index into another, over a model of the store.

use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::shared_snapshots::{Published, Slot, Snapshot, SnapshotStore};
use mcp_host_cluster::engine::model::{ModelFault, ModelSnapshots};
use mcp_host_config::limits::CompileLimits;
use mcp_host_config::search::PluginSearch;
use mcp_host_engine::plugin::{NativePlugin, PluginRuntime};
use mcp_host_engine::{Compiler, Engine, EngineOptions};
use mcp_host_model::provider::{self, Contents, Entry, Failure, Page, Provider, async_trait};
use proptest::prelude::*;
use tempfile::TempDir;

use super::frames::{FEED, Frame, FrameLimits, FrameReader, FrameWriter, SnapshotDocument};
use super::importer::{Fetched, ImportTarget};
use super::seal::SnapshotKey;
use super::{SharedIndex, TransferError, VectorForm, stored};
use crate::document::{Document, DocumentEntry};
use crate::embeddings::vector_store::{self, StoredVector, VectorSpace};
use crate::index::Index;
use crate::index::tests::UNHURRIED;
use crate::indexer::{Indexer, Progress};
use crate::source_reader::SourceReader;
use crate::space::Space;
use crate::status::{Gaps, Report, SourceState};
use crate::store::{self, Bounds, Change};
use crate::updater::Updater;

const LEASE: Duration = Duration::from_secs(10);
const BOUNDS: Bounds = Bounds { index: Space::new(u64::MAX), source: u64::MAX };

/// An index with one source.
struct Replica {
    shared: SharedIndex,
    target: ImportTarget,
    _dir: TempDir,
}

fn form() -> VectorForm {
    let url = "https://embeddings.example.com/v1/embeddings".parse().unwrap();
    let settings = mcp_host_config::search::Embeddings::new(url, "m", 2.try_into().unwrap());
    VectorForm { space: VectorSpace::of(&settings), dimensions: 2, max_passages: 4 }
}

async fn replica(store: &ModelSnapshots, secret: u8) -> Replica {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::start(dir.path(), BOUNDS.index, UNHURRIED).unwrap();
    let source = index.write(|connection| store::open_source(connection, b"key", 1)).await.unwrap();
    let key = SnapshotKey::new([secret; 32], "ab".to_owned());
    let shared = SharedIndex { place: store.place("ab"), lease: LEASE, key, vectors: Some(form()) };
    let target = ImportTarget {
        index,
        source,
        mount: "notes:///".parse().unwrap(),
        max_document: 1 << 20,
        max_bytes: u64::MAX,
        max_documents: 1000,
    };
    Replica { shared, target, _dir: dir }
}

fn document(path: &str, text: &str) -> Document {
    let entry = DocumentEntry {
        name: path.to_owned(),
        title: Some("A title".to_owned()),
        description: None,
        mime_type: Some("text/markdown".to_owned()),
        size: None,
        priority: Some(0.5),
        last_modified: None,
        for_user: true,
        for_assistant: false,
        part: None,
    };
    Document { path: path.to_owned(), entry, entry_hash: 7, text: text.to_owned(), is_cut: false }
}

impl Replica {
    async fn put(&self, documents: Vec<Document>) {
        let source = self.target.source;
        let changes: Vec<_> = documents.into_iter().map(|document| Change::Put(Box::new(document))).collect();
        let writing = self.target.index.write(move |connection| store::apply(connection, source, &changes, BOUNDS, 5));
        writing.await.unwrap();
    }

    async fn publish(&self, report: Report) -> Snapshot {
        let is_included = |path: &str| path != "excluded";
        let published = self.shared.publish(&self.target.index, self.target.source, report, &is_included);
        let revision = published.await.unwrap();
        match self.shared.place.published().await.unwrap() {
            Published::Snapshot { revision: found, snapshot } if found == revision => snapshot,
            published => panic!("{published:?}"),
        }
    }

    async fn fetch(&self, snapshot: &Snapshot) -> Result<Fetched, TransferError> {
        self.shared.fetch(snapshot, &self.target).await
    }

    /// The chunks of a slot.
    async fn chunks(&self, slot: Slot) -> Vec<Vec<u8>> {
        let (mut chunks, mut position) = (Vec::new(), 0);
        while let Some(chunk) = self.shared.place.chunk_after(slot, position).await.unwrap() {
            position = chunk.position;
            chunks.push(chunk.bytes);
        }
        chunks
    }

    async fn replace_chunks(&self, slot: Slot, chunks: Vec<Vec<u8>>) {
        self.shared.place.clear(slot).await.unwrap();
        for chunk in chunks {
            self.shared.place.append(slot, chunk).await.unwrap();
        }
    }

    /// Stores the vector of the only passage of a document, as it is.
    async fn embed(&self, path: &str, vector: Vec<u8>) {
        let (source, paths) = (self.target.source, [path.to_owned()]);
        let embedding = self.target.index.write(move |connection| {
            let ids = store::find_documents(connection, source, &paths)?;
            for id in ids.into_iter().flatten() {
                connection.execute(
                    "INSERT INTO vectors (document, space, passage, digest, vector) VALUES (?1, ?2, 0, ?3, ?4)",
                    rusqlite::params![id.id, form_id(), vec![9_u8; 16], vector],
                )?;
                connection.execute("INSERT INTO embedded (document, space) VALUES (?1, ?2)", [id.id, form_id()])?;
            }
            Ok(())
        });
        embedding.await.unwrap();
    }

    /// The path, the text, and the time of the last read of each document, by path.
    async fn documents(&self) -> Vec<(String, String, i64)> {
        let (source, mut after, mut documents) = (self.target.source, i64::MIN, Vec::new());
        loop {
            let reading =
                self.target.index.write(move |connection| stored::page_after(connection, source, after, None));
            let page = reading.await.unwrap();
            let found = page.documents.into_iter();
            documents.extend(found.map(|one| (one.document.path, one.document.text, one.checked)));
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        documents.sort_unstable();
        documents
    }
}

fn complete() -> Report {
    Report::complete(Gaps { omitted: 0, failed: 2, is_truncated: false })
}

/// A provider without resources.
struct Empty;

#[async_trait]
impl Provider for Empty {
    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> provider::Result<Page> {
        Ok(Page::last([]))
    }

    async fn read(&self, _: &str) -> provider::Result<Vec<Contents>> {
        Err(Failure::NotFound)
    }

    async fn stat(&self, _: &str) -> provider::Result<Entry> {
        Err(Failure::NotFound)
    }
}

/// A task that indexes a plugin without resources, in the index of a replica.
fn indexer(replica: &Replica) -> Indexer {
    let engine = Engine::new(EngineOptions::new().max_instances(2).worker_threads(1)).unwrap();
    let (cache, limits) = (tempfile::tempdir().unwrap(), CompileLimits::default());
    let progress = mcp_host_engine::Progress::default();
    let runtime = PluginRuntime::new(engine, Compiler::InProcess, limits, cache.path(), None, progress).unwrap();
    let native = NativePlugin::new("notes".parse().unwrap(), replica.target.mount.clone(), Empty);
    let plugin = Arc::new(runtime.native(&native.search(PluginSearch::default())).unwrap());
    let source = plugin.search_source().unwrap().clone();
    let (reader, state) = (SourceReader { plugin, source }, SourceState::new("notes"));
    Indexer { updater: Updater { reader, index: replica.target.index.clone(), state }, shared: None }
}

/// Text that cannot be compressed to less than half.
fn random_text(length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(5);
    (0..length).map(|_| random.alphanumeric()).collect()
}

#[tokio::test]
async fn an_index_comes_back_and_nothing_is_written_twice() {
    let store = ModelSnapshots::new(LEASE);
    let (one, other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    let large = random_text(900_000);
    one.put(vec![document("a", "text\n\nand more"), document("b", ""), document("c%20d", &large)]).await;
    one.put((0..200).map(|number| document(&format!("n/{number}"), "全文検索")).collect()).await;
    one.put(vec![document("excluded", "it is not published")]).await;
    other.put(vec![document("a", "an old text"), document("gone", "it is not in the snapshot")]).await;
    let snapshot = one.publish(complete()).await;
    assert!(snapshot.chunks > 1, "{snapshot:?}");
    let fetched = other.fetch(&snapshot).await.unwrap();
    assert_eq!(fetched.gaps, Gaps { omitted: 0, failed: 2, is_truncated: false });
    assert_eq!((fetched.end.documents, fetched.size.documents, fetched.changed), (203, 203, 204));
    let mut expected = one.documents().await;
    expected.retain(|(path, ..)| path != "excluded");
    assert_eq!(other.documents().await, expected);
    assert_eq!(other.fetch(&snapshot).await.unwrap().changed, 0);
}

#[tokio::test]
async fn a_snapshot_of_an_incomplete_index_removes_nothing() {
    let store = ModelSnapshots::new(LEASE);
    let (one, other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    one.put(vec![document("a", "text")]).await;
    other.put(vec![document("b", "text")]).await;
    let fetched = other.fetch(&one.publish(Report::default()).await).await.unwrap();
    assert_eq!((fetched.size.documents, fetched.changed), (2, 1));
}

#[tokio::test]
async fn vectors_are_part_of_a_snapshot_and_invalid_ones_are_left_out() {
    let store = ModelSnapshots::new(LEASE);
    let (one, other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    one.put(vec![document("a", "text"), document("b", "text"), document("c", "text")]).await;
    one.embed("a", valid_vector()).await;
    // One with another number of dimensions.
    one.embed("b", valid_vector()[..5].to_vec()).await;
    // A stored vector of another length cannot be distinguished from the next one, so the reader rejects it, or what
    // follows.
    let snapshot = one.publish(complete()).await;
    assert!(matches!(other.fetch(&snapshot).await, Err(TransferError::Rejected(_))));
    let repairing = one.target.index.write(|connection| {
        connection.execute("UPDATE vectors SET vector = zeroblob(6) WHERE length(vector) = 5", [])?;
        Ok(())
    });
    repairing.await.unwrap();
    other.fetch(&one.publish(complete()).await).await.unwrap();
    let source = other.target.source;
    let reading = other.target.index.write(move |connection| {
        let ids = store::find_documents(connection, source, &["a".to_owned(), "b".to_owned(), "c".to_owned()])?;
        let vectors = |id: i64| vector_store::stored_vectors(connection, id, form().space);
        ids.into_iter().flatten().map(|id| vectors(id.id)).collect::<Result<Vec<_>, _>>()
    });
    let vectors = reading.await.unwrap();
    let [Some(first), None, None] = vectors.as_slice() else { panic!("{vectors:?}") };
    let [StoredVector { passage: 0, digest, vector }] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!((digest.as_slice(), vector.get(4..)), ([9; 16].as_slice(), Some([127, 0].as_slice())));
}

/// The id of the space in the index.
fn form_id() -> i64 {
    form().space.id()
}

/// The vector (1, 0), as it is stored.
fn valid_vector() -> Vec<u8> {
    [(1.0_f32 / 127.0).to_le_bytes().as_slice(), &[127, 0]].concat()
}

#[tokio::test]
async fn vectors_that_come_after_their_document_are_a_change() {
    let store = ModelSnapshots::new(LEASE);
    let (one, other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    one.put(vec![document("a", "text"), document("b", "text")]).await;
    assert_eq!(other.fetch(&one.publish(complete()).await).await.unwrap().changed, 2);
    one.embed("a", valid_vector()).await;
    let snapshot = one.publish(complete()).await;
    let before = other.target.index.change_count();
    assert_eq!(other.fetch(&snapshot).await.unwrap().changed, 1);
    assert!(other.target.index.change_count() > before, "what depends on vectors looks at them");
    assert_eq!(other.fetch(&snapshot).await.unwrap().changed, 0);
}

#[tokio::test]
async fn what_was_fetched_before_a_failure_is_a_change() {
    let store = ModelSnapshots::new(LEASE);
    let (one, other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    one.put((0..100).map(|number| document(&format!("n/{number}"), "text")).collect()).await;
    one.put(vec![document("z", &random_text(600_000))]).await;
    let snapshot = one.publish(complete()).await;
    let mut chunks = one.chunks(snapshot.slot).await;
    assert!(chunks.len() > 1);
    chunks.pop();
    one.replace_chunks(snapshot.slot, chunks).await;
    let before = other.target.index.change_count();
    assert!(matches!(other.fetch(&snapshot).await, Err(TransferError::Rejected(_))));
    assert!(!other.documents().await.is_empty());
    assert!(other.target.index.change_count() > before);
}

#[tokio::test]
async fn the_pauses_after_failures_begin_again_when_a_shared_index_is_built_or_fetched() {
    // Longer than this test.
    let store = ModelSnapshots::new(Duration::from_secs(3600));
    let (one, other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    for (replica, fetched) in [(&one, 0), (&other, 1)] {
        let indexer = indexer(replica);
        let mut progress = Progress::new(&indexer.updater.reader.plugin);
        while progress.backoff.next_delay() < Duration::from_secs(60) {}
        let mut status = indexer.updater.state.status.subscribe();
        tokio::select! {
            ended = indexer.keep_shared(&replica.shared, replica.target.source, &mut progress) => panic!("{ended:?}"),
            found = status.wait_for(|status| status.is_complete) => assert_eq!(found.unwrap().snapshots.fetched, fetched),
        }
        assert!(progress.backoff.next_delay() < Duration::from_secs(2));
        one.publish(complete()).await;
    }
}

#[tokio::test]
async fn what_others_write_into_the_store_is_rejected_and_changes_nothing() {
    let store = ModelSnapshots::new(LEASE);
    let (one, other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    one.put(vec![document("a", &random_text(600_000)), document("b", "text")]).await;
    other.put(vec![document("kept", "text")]).await;
    let kept = other.documents().await;
    let snapshot = one.publish(complete()).await;
    assert!(snapshot.chunks > 1);
    let foreign = replica(&store.replica(), 2).await;
    for changed in [
        Snapshot { chunks: snapshot.chunks - 1, ..snapshot.clone() },
        Snapshot { digest: [0; 32], ..snapshot.clone() },
        Snapshot { seal: vec![0; 48], ..snapshot.clone() },
        foreign.publish(complete()).await,
    ] {
        assert!(matches!(other.fetch(&changed).await, Err(TransferError::Rejected(_))), "{changed:?}");
    }
    let snapshot = one.publish(complete()).await;
    assert!(matches!(foreign.fetch(&snapshot).await, Err(TransferError::Rejected(_))), "it has another key");
    store.change_chunks(|chunk| chunk[0] ^= 1);
    assert!(matches!(other.fetch(&snapshot).await, Err(TransferError::Rejected(_))));
    store.change_chunks(Vec::clear);
    assert!(matches!(other.fetch(&snapshot).await, Err(TransferError::Rejected(_))));
    one.shared.place.clear(snapshot.slot).await.unwrap();
    assert!(matches!(other.fetch(&snapshot).await, Err(TransferError::Rejected(_))));
    assert_eq!(other.documents().await, kept);
}

#[tokio::test]
async fn a_replica_that_cannot_publish_says_so_and_nothing_is_removed() {
    let store = ModelSnapshots::new(LEASE);
    let (one, other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    one.put(vec![document("a", "text")]).await;
    other.fetch(&one.publish(complete()).await).await.unwrap();
    let revision = one.shared.publish_failure("it is too large".to_owned()).await.unwrap();
    let Published::Snapshot { revision: found, snapshot } = one.shared.place.published().await.unwrap() else {
        panic!("it is published")
    };
    let fetched = other.fetch(&snapshot).await.unwrap();
    assert_eq!((found, fetched.end.report.error(), fetched.size.documents), (revision, Some("it is too large"), 1));
    assert!(!fetched.end.report.is_complete());
}

#[tokio::test]
async fn a_chunk_that_an_earlier_builder_has_added_late_is_skipped() {
    let store = ModelSnapshots::new(LEASE);
    let (one, other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    one.put(vec![document("a", &random_text(600_000)), document("b", "text")]).await;
    let snapshot = one.publish(complete()).await;
    let mut chunks = one.chunks(snapshot.slot).await;
    assert!(chunks.len() > 1);
    let late = one.shared.key.new_cipher().seal_chunk(1, b"of another snapshot").unwrap();
    chunks.insert(1, late.clone());
    one.replace_chunks(snapshot.slot, chunks).await;
    assert_eq!(other.fetch(&snapshot).await.unwrap().end.documents, 2);
    // What fills the slot is not read to its end.
    one.replace_chunks(snapshot.slot, vec![late; 20]).await;
    let before = store.fetched();
    assert!(matches!(other.fetch(&snapshot).await, Err(TransferError::Rejected(_))));
    assert!(store.fetched() - before < 10);
}

#[tokio::test]
async fn a_path_that_is_not_in_normal_form_is_rejected_although_a_replica_has_published_it() {
    let store = ModelSnapshots::new(LEASE);
    let (one, other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    for path in ["public/../secret", "a b", "%61"] {
        one.put(vec![document(path, "text")]).await;
        let fetched = other.fetch(&one.publish(complete()).await).await;
        assert!(matches!(fetched, Err(TransferError::Rejected(_))), "{path}: {fetched:?}");
        let source = one.target.source;
        let removing = one.target.index.write(move |connection| store::remove_except(connection, source, &[]));
        removing.await.unwrap();
    }
    assert!(other.documents().await.is_empty());
}

#[tokio::test]
async fn a_snapshot_beyond_the_bounds_of_a_replica_is_rejected() {
    let store = ModelSnapshots::new(LEASE);
    let (one, mut other) = (replica(&store, 1).await, replica(&store.replica(), 1).await);
    one.put(vec![document("a", "some text"), document("b", "some text")]).await;
    let snapshot = one.publish(complete()).await;
    other.target.max_document = 8;
    assert!(matches!(other.fetch(&snapshot).await, Err(TransferError::Rejected(_))));
    (other.target.max_document, other.target.max_documents) = (9, 1);
    assert!(matches!(other.fetch(&snapshot).await, Err(TransferError::Rejected(_))));
    other.target.max_documents = 2;
    other.fetch(&snapshot).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_or_is_silent_is_an_error_in_time() {
    let store = ModelSnapshots::new(LEASE);
    let place = store.place("ab");
    let key = SnapshotKey::new([1; 32], "ab".to_owned());
    let shared = SharedIndex { place, lease: LEASE, key, vectors: None };
    for fault in [ModelFault::Gone, ModelFault::Silent] {
        store.set_fault(Some(fault));
        let mut state = super::turn::TurnState::new();
        let began = tokio::time::Instant::now();
        while !matches!(state.look(&shared).await, super::turn::Turn::Alone(_)) {
            tokio::time::sleep(shared.interval()).await;
        }
        let took = began.elapsed();
        assert!(took >= LEASE && took < LEASE * 2, "{fault:?}: {took:?}");
    }
    store.set_fault(None);
    let mut state = super::turn::TurnState::new();
    assert_eq!(state.look(&shared).await, super::turn::Turn::Build);
}

fn limits() -> FrameLimits {
    FrameLimits { text: 1 << 20, documents: 1000, vectors: Some(form()) }
}

fn read(bytes: &[u8]) -> Result<Vec<Frame>, super::frames::FrameError> {
    let (mut reader, mut frames) = (FrameReader::new(limits()), Vec::new());
    for part in bytes.chunks(FEED) {
        reader.feed(part)?;
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

fn written() -> Vec<u8> {
    let mut writer = FrameWriter::new();
    for path in ["a", "b"] {
        let vectors = Some(vec![StoredVector { passage: 3, digest: vec![1; 16], vector: vec![2; 6] }]);
        writer.put(&SnapshotDocument { document: document(path, "some text"), checked: 5, vectors }).unwrap();
    }
    writer.finish(complete()).unwrap()
}

#[test]
fn frames_end_with_the_end_and_nothing_follows_it() {
    let bytes = written();
    let frames = read(&bytes).unwrap();
    assert!(matches!(frames.as_slice(), [Frame::Document(_), Frame::Document(_), Frame::End(_)]), "{frames:?}");
    assert!(read(&[bytes.as_slice(), b"more"].concat()).is_err());
    assert!(read(&bytes[..bytes.len() / 2]).is_ok_and(|frames| frames.len() < 3), "what is cut has no end");
}

#[test]
fn what_expands_to_much_more_is_rejected_before_it_is_expanded() {
    use std::io::Write as _;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    // A header of a gigabyte.
    encoder.write_all(&0x4000_0000_u32.to_be_bytes()).unwrap();
    for _ in 0..64 {
        encoder.write_all(&vec![b' '; 1 << 20]).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    assert!(read(&bomb).is_err());
}

proptest! {
    #[test]
    fn damaged_frames_are_errors_or_frames(index in 0_usize..200, byte in any::<u8>(), cut in 0_usize..200) {
        let mut bytes = written();
        let length = bytes.len();
        bytes[index % length] ^= byte;
        bytes.truncate(length - cut % length);
        let _ = read(&bytes);
    }

    #[test]
    fn any_bytes_are_errors_or_frames(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &bytes).unwrap();
        let _ = read(&encoder.finish().unwrap());
        let _ = read(&bytes);
    }
}
