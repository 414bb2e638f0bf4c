use super::*;
use crate::document::{Document, DocumentEntry};
use crate::lookup::{Lookup, LookupResult, find_snippet};
use crate::passages;
use crate::query::{Candidate, Conditions, Query};
use crate::snippet::SoughtTerms;
use crate::space::Space;
use crate::status::SourceId;
use crate::store::{self, Bounds, Change};

const BOUNDS: Bounds = Bounds { index: Space::new(u64::MAX), source: u64::MAX };

/// More time than a lookup needs on a loaded machine.
pub(crate) const UNHURRIED: LookupTime =
    LookupTime { total: Duration::from_secs(120), interrupt_margin: Duration::from_secs(60) };
/// For a lookup that does not end by itself: it has time to begin before the interrupt, and time to end after it.
const INTERRUPTED: LookupTime =
    LookupTime { total: Duration::from_secs(120), interrupt_margin: Duration::from_secs(117) };
/// For a lookup whose result is not awaited.
const ABANDONED: LookupTime = LookupTime { total: Duration::ZERO, interrupt_margin: Duration::ZERO };

fn start(dir: &Path) -> Arc<Index> {
    start_with(dir, UNHURRIED)
}

fn start_with(dir: &Path, lookup_time: LookupTime) -> Arc<Index> {
    Index::start(dir, BOUNDS.index, lookup_time).unwrap()
}

fn document(path: &str, text: &str) -> Change {
    let entry = DocumentEntry {
        name: path.to_owned(),
        title: None,
        description: None,
        mime_type: Some("text/markdown; charset=utf-8".to_owned()),
        size: None,
        priority: None,
        last_modified: None,
        for_user: false,
        for_assistant: false,
        part: None,
    };
    Change::Put(Box::new(Document {
        path: path.to_owned(),
        entry,
        entry_hash: 1,
        text: text.to_owned(),
        is_cut: false,
    }))
}

async fn put(index: &Index, changes: Vec<Change>) -> store::Applied {
    let applied = index.write(move |connection| {
        let source = store::open_source(connection, b"key", 1)?;
        store::apply(connection, source, &changes, BOUNDS, 1)
    });
    applied.await.unwrap()
}

fn lookup(query: &str) -> Lookup<impl FnMut(SourceId, &str) -> Option<String> + Send + use<>> {
    Lookup {
        query: Query::parse(query),
        nearest: None,
        conditions: Conditions::default(),
        limit: 10,
        deadline: Instant::now() + Duration::from_secs(60),
        filter: |_, path: &str| (!path.starts_with("hidden")).then(|| format!("a:///{path}")),
    }
}

async fn look_up<F>(index: &Arc<Index>, lookup: Lookup<F>) -> LookupResult
where
    F: FnMut(SourceId, &str) -> Option<String> + Send + 'static,
{
    index.read(|connection, _| lookup.run(connection)).await.unwrap()
}

async fn paths(index: &Arc<Index>, query: &str) -> Vec<String> {
    let result = look_up(index, lookup(query)).await;
    assert_eq!(result.total, u64::try_from(result.found.len()).unwrap());
    result.found.into_iter().map(|found| found.path).collect()
}

#[tokio::test]
async fn an_index_that_another_process_creates_anew_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, other) = (start(dir.path()), start(dir.path()));
    let open = |index: Arc<Index>, key: u8| async move {
        index.write(move |connection| store::open_source(connection, &[key], 0)).await.unwrap()
    };
    let (a, b) = (open(ours.clone(), 1).await, open(ours.clone(), 2).await);
    let mut rebuilds = ours.rebuilds();
    other.rebuild().await.unwrap();
    // The other process keeps the file open: SQLite locks the file while the last connection closes, and `ours` would
    // wait for it.
    let again = [open(other.clone(), 2).await, open(other.clone(), 1).await];
    assert!(!again.contains(&a) && !again.contains(&b), "an id is never that of another source");
    assert_eq!(open(ours.clone(), 1).await, again[1]);
    assert!(rebuilds.has_changed().unwrap() && *rebuilds.borrow_and_update() == 1);
    drop((ours, other));
}

#[tokio::test]
async fn a_change_is_counted_although_the_task_that_made_it_was_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    let before = index.change_count();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let changing = index.change(move |_| {
        let _ = released.recv();
        Ok(((), true))
    });
    tokio::select! {
        biased;
        changed = changing => panic!("it waits for the end of the test: {changed:?}"),
        () = std::future::ready(()) => {}
    }
    drop(release);
    // Operations run one after another.
    index.write(|_| Ok(())).await.unwrap();
    assert_eq!(index.change_count(), before + 1);
    index.change(|_| Ok(((), false))).await.unwrap();
    assert_eq!(index.change_count(), before + 1);
}

#[tokio::test]
async fn what_was_put_is_found_and_what_was_removed_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    put(
        &index,
        vec![
            document("a", "the quick brown fox\njumps"),
            document("b", "全文検索エンジンの使い方"),
            document("hidden", "the quick brown fox"),
        ],
    )
    .await;
    assert_eq!(paths(&index, "FOX").await, ["a"]);
    assert_eq!(paths(&index, "検索").await, ["b"]);
    assert_eq!(paths(&index, "方").await, ["b"]);
    assert_eq!(paths(&index, "\"quick brown\"").await, ["a"]);
    assert!(paths(&index, "\"brown quick\"").await.is_empty());
    put(&index, vec![document("a", "a lazy dog"), Change::Remove("b".to_owned())]).await;
    assert!(paths(&index, "fox").await.is_empty());
    assert!(paths(&index, "検索").await.is_empty());
    assert_eq!(paths(&index, "dog").await, ["a"]);
    assert_eq!(put(&index, vec![document("a", "a lazy dog")]).await.changed, 0, "nothing is written twice");
}

#[tokio::test]
async fn a_lookup_without_time_is_partial() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    put(&index, vec![document("a", "fox")]).await;
    let result = look_up(&index, Lookup { deadline: Instant::now(), ..lookup("fox") }).await;
    assert!(result.is_partial && result.found.is_empty());
    assert!(!look_up(&index, lookup("fox")).await.is_partial);
}

#[tokio::test]
async fn a_match_is_shown_wherever_it_is_in_a_long_document() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    let filler = format!("{}\n\n", "filler ".repeat(120));
    let text = format!("{}the needle is here\n\n{filler}", filler.repeat(3000));
    put(&index, vec![document("long", &text)]).await;
    let found = look_up(&index, lookup("needle")).await;
    let snippet = found.found[0].snippet.clone().unwrap();
    assert!(snippet.text.contains("needle") && snippet.lines.0 == 6001, "{snippet:?}");
    assert!(!found.is_partial && !found.found[0].is_snippet_partial);
    let passages = index.read(|connection, _| lookup("needle").run_passages(connection)).await.unwrap();
    assert!(!passages.is_partial && passages.found[0].text.contains("needle"));
}

#[tokio::test]
async fn a_snippet_without_time_is_of_the_first_passage_and_says_that_it_is_partial() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    put(&index, vec![document("long", &format!("{}needle", "filler\n\n".repeat(1000)))]).await;
    let partial = |text: &'static str| {
        index.read(move |connection, _| {
            let query = Query::parse(text);
            let terms = SoughtTerms::new(query.terms());
            let id =
                connection.query_row("SELECT id FROM documents", [], |row| row.get(0)).map_err(IndexError::from)?;
            let now = Instant::now();
            let (snippet, is_partial) = find_snippet(connection, id, None, &terms, now)?;
            let candidate = Candidate {
                score: -1.0,
                uri: String::new(),
                id,
                source: SourceId(0),
                path: String::new(),
                nearest_passage: None,
            };
            let passages = passages::matching(connection, &candidate, 1.0, &terms, now)?;
            Ok((snippet.unwrap().lines.0, is_partial, passages.found.len(), passages.is_partial))
        })
    };
    assert_eq!(partial("needle").await, Ok((1, true, 0, true)));
    assert_eq!(partial("filler").await, Ok((1, false, 1, true)), "no other passage has a better snippet");
}

#[tokio::test]
async fn a_lookup_is_interrupted_when_its_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let index = start_with(dir.path(), INTERRUPTED);
    put(&index, vec![document("a", "fox")]).await;
    let endless = index.read(|connection, deadline| {
        const NUMBERS: &str =
            "WITH RECURSIVE numbers (n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM numbers) SELECT max(n) FROM numbers";
        let counted = connection.query_row(NUMBERS, [], |row| row.get::<_, i64>(0));
        Ok((counted.map_err(IndexError::from), Instant::now() >= deadline))
    });
    assert_eq!(endless.await, Ok((Err(IndexError::Interrupted), true)));
    assert_eq!(paths(&index, "fox").await, ["a"], "the next lookup is not interrupted");
}

#[tokio::test]
async fn a_lookup_that_cannot_be_interrupted_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let index = start_with(dir.path(), ABANDONED);
    put(&index, vec![document("a", "fox")]).await;
    let (release, released) = std::sync::mpsc::channel::<()>();
    let stuck = index.read(move |_, _| Ok(released.recv().is_err()));
    assert_eq!(stuck.await, Err(IndexError::Interrupted));
    drop(release);
}

#[tokio::test]
async fn kinds_and_languages_narrow_a_lookup() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    put(&index, vec![document("a", "The host owns everything that must be right, and nothing else does.")]).await;
    for (kind, language, count) in [
        (Some("text"), None, 1),
        (Some("text/markdown"), Some("en"), 1),
        (Some("tex"), None, 0),
        (Some("image"), None, 0),
        (None, Some("ja"), 0),
    ] {
        let (owned_kind, owned_language) = (kind.map(str::to_owned), language.map(str::to_owned));
        let conditions = Conditions { kind: owned_kind, language: owned_language, audience: 0 };
        let narrowed = Lookup { conditions, ..lookup("host") };
        assert_eq!(look_up(&index, narrowed).await.total, count, "{kind:?} {language:?}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_created_anew() {
    let dir = tempfile::tempdir().unwrap();
    {
        let index = start(dir.path());
        put(&index, vec![document("a", "fox")]).await;
        // The thread closes the file after a failure, so that dropping this index does not write to it.
        index.write(|_| Err::<(), _>(IndexError::Failed("closed".to_owned()))).await.unwrap_err();
    }
    let file = dir.path().join("search/index.sqlite3");
    let mut damaged = std::fs::read(&file).unwrap();
    for byte in damaged.iter_mut().skip(100) {
        *byte = 0x55;
    }
    let index = start(dir.path());
    std::fs::write(&file, damaged).unwrap();
    let rebuilds = index.rebuilds();
    let written = index.write(|connection| store::open_source(connection, b"key", 1)).await;
    assert!(matches!(written, Err(IndexError::Damaged(_))), "{written:?}");
    assert_eq!(*rebuilds.borrow(), 1);
    put(&index, vec![document("a", "fox")]).await;
    assert_eq!(paths(&index, "fox").await, ["a"]);
}

#[tokio::test]
async fn an_index_whose_tables_contradict_each_other_is_created_anew() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    put(&index, vec![document("a", "fox")]).await;
    index.write(|connection| Ok(connection.execute("DELETE FROM documents", [])?)).await.unwrap();
    let rebuilds = index.rebuilds();
    let written = index.write(|connection| {
        let source = store::open_source(connection, b"key", 1)?;
        store::apply(connection, source, &[document("a", "fox")], BOUNDS, 1)
    });
    assert!(matches!(written.await, Err(IndexError::Damaged(_))));
    assert_eq!(*rebuilds.borrow(), 1);
    put(&index, vec![document("a", "fox")]).await;
    assert_eq!(paths(&index, "fox").await, ["a"]);
}

#[tokio::test]
async fn what_there_is_no_room_for_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    let apply = |bounds, name: &'static str| {
        index.write(move |connection| {
            let source = store::open_source(connection, b"key", 1)?;
            store::apply(connection, source, &[document(name, "some words about foxes")], bounds, 1)
        })
    };
    let applied = apply(Bounds { index: Space::new(1), source: u64::MAX }, "a").await.unwrap();
    assert_eq!((applied.omitted, paths(&index, "foxes").await.len()), (1, 0));
    let applied = apply(Bounds { source: 10, ..BOUNDS }, "b").await.unwrap();
    assert_eq!((applied.ids.len(), paths(&index, "foxes").await.len()), (1, 0));
    let size = index.write(|connection| {
        let source = store::open_source(connection, b"key", 1)?;
        store::source_size(connection, source)
    });
    assert_eq!(size.await.unwrap().without_text, 1);
    assert_eq!(paths(&index, "b").await, ["b"], "it is found by its name");
}

#[tokio::test]
async fn documents_that_are_not_kept_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    put(&index, (0..1000).map(|number| document(&format!("f{number}"), "fox")).collect()).await;
    let removed = index.write(|connection| {
        let source = store::open_source(connection, b"key", 2)?;
        let kept = store::find_documents(connection, source, &["f500".to_owned(), "g".to_owned()])?;
        let kept: Vec<_> = kept.into_iter().flatten().map(|known| known.id).collect();
        let removed = store::remove_except(connection, source, &kept)?;
        Ok((removed, store::source_size(connection, source)?.documents))
    });
    assert_eq!(removed.await.unwrap(), (999, 1));
    assert_eq!(paths(&index, "fox").await, ["f500"]);
}

#[tokio::test]
async fn the_files_of_an_index_never_take_more_than_its_bound() {
    const MAX: u64 = 2 << 20;
    let dir = tempfile::tempdir().unwrap();
    let (index, space) = (start(dir.path()), Space::new(MAX));
    index.set_space(space);
    let (mut omitted, mut largest, mut number) = (0, 0, 0_u32);
    // This continues long after the index is full.
    while omitted < 500 {
        let texts = (0..10).map(|_| {
            number += 1;
            let text: String = (0..150).map(|word| format!("word{} ", number.wrapping_mul(31) % 977 * word)).collect();
            document(&format!("d{number}"), &text)
        });
        let changes: Vec<_> = texts.collect();
        let applied = index.write(move |connection| {
            let source = store::open_source(connection, b"key", 1)?;
            store::apply(connection, source, &changes, Bounds { index: space, source: u64::MAX }, 1)
        });
        omitted += applied.await.unwrap().omitted;
        let files = std::fs::read_dir(dir.path().join("search")).unwrap();
        let size: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        largest = largest.max(size);
    }
    assert!(largest <= MAX && largest > MAX / 2, "{largest} bytes with {number} documents");
}

#[tokio::test]
async fn after_a_full_disk_the_next_write_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    put(&index, vec![document("a", "fox")]).await;
    let full = index.write(|connection| {
        let pages: u32 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
        connection.pragma_update(None, "max_page_count", pages)?;
        let source = store::open_source(connection, b"key", 1)?;
        store::apply(connection, source, &[document("b", &"dog and fox ".repeat(10_000))], BOUNDS, 1)
    });
    assert_eq!(full.await, Err(IndexError::DiskFull));
    assert_eq!(paths(&index, "fox").await, ["a"], "what is there is found");
    put(&index, vec![document("b", "dog")]).await;
    assert_eq!(paths(&index, "dog").await, ["b"]);
}

#[tokio::test]
async fn an_expired_document_is_found_and_is_not_current() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    put(&index, vec![document("a", "fox")]).await;
    put(&index, vec![Change::Expire("a".to_owned()), Change::Expire("unknown".to_owned())]).await;
    assert_eq!(paths(&index, "fox").await, ["a"]);
    let known = index.write(|connection| {
        let source = store::open_source(connection, b"key", 1)?;
        store::find_documents(connection, source, &["a".to_owned()])
    });
    let known = known.await.unwrap()[0].unwrap();
    assert_eq!((known.entry_hash, known.checked), (0, 0));
    assert_eq!(put(&index, vec![document("a", "fox")]).await.ids, [known.id]);
}

#[tokio::test]
async fn the_log_is_written_back_before_the_lock_for_closing_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (index, other) = (start(dir.path()), start(dir.path()));
    put(&index, vec![document("a", &"the quick brown fox ".repeat(10_000))]).await;
    // While another connection stays open, SQLite neither locks the file nor writes anything back on close.
    assert_eq!(paths(&other, "fox").await, ["a"]);
    let size = || std::fs::metadata(dir.path().join("search/index.sqlite3")).unwrap().len();
    let before = size();
    index.write(|_| Err::<(), _>(IndexError::Failed("closed".to_owned()))).await.unwrap_err();
    assert!(size() > before, "{before} bytes");
    assert_eq!(paths(&other, "fox").await, ["a"]);
}

/// SQLite's locks belong to the process, which releases them when it closes any descriptor of the file.
#[tokio::test]
async fn a_database_that_is_opened_again_keeps_the_locks_of_other_connections() {
    let dir = tempfile::tempdir().unwrap();
    let index = start(dir.path());
    put(&index, vec![document("a", "fox")]).await;
    // A reading connection stays open, while the writing one is reopened.
    assert_eq!(paths(&index, "fox").await, ["a"]);
    index.write(|_| Err::<(), _>(IndexError::DiskFull)).await.unwrap_err();
    put(&index, vec![document("b", "fox")]).await;
    let shared = std::fs::metadata(dir.path().join("search/index.sqlite3-shm")).unwrap();
    let (process, file) =
        (format!(" {} ", std::process::id()), format!(":{} ", std::os::unix::fs::MetadataExt::ino(&shared)));
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    assert!(locks.lines().any(|lock| lock.contains(&process) && lock.contains(&file)), "{locks}");
}
