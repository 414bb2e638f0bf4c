//! Requests of guests, several hosts with one store, and invalid database files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rusqlite::Connection;

use super::store::{delete_many, exists, get, get_many, increment, keys, set_many, swap, version_of};
use super::*;
use crate::cpu::HostCpuBudget;
use crate::memory::{CallOwner, MemoryAccount, MemoryBudget};

const I64_RANGE: std::ops::RangeInclusive<i128> = i64::MIN as i128..=i64::MAX as i128;

fn database_path(state: &Path) -> DatabasePath {
    DatabasePath::new(state, &"web".parse().unwrap())
}

/// A database in a temporary directory, which is removed on drop.
struct TempDatabase {
    state: tempfile::TempDir,
    database: Database,
}

impl TempDatabase {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let database = Database::open(&database_path(state.path())).unwrap();
        Self { state, database }
    }

    /// Opens the same file again, as another process would.
    fn reopen(&self) -> Database {
        Database::open(&database_path(self.state.path())).unwrap()
    }

    fn set(&mut self, bucket: &Bucket, key: &str, value: &[u8]) -> Result<(), StoreError> {
        set_many(&mut self.database, bucket, &[(key.to_owned(), value.to_vec())])
    }

    fn delete(&mut self, bucket: &Bucket, key: &str) {
        delete_many(&mut self.database, bucket, &[key.to_owned()]).unwrap();
    }

    fn begin_cas(&self, bucket: &Bucket, key: &str) -> Cas {
        let version = version_of(&self.database, bucket, key).unwrap();
        Cas { bucket: bucket.clone(), key: key.to_owned(), version }
    }
}

fn bucket(name: &str) -> Bucket {
    Bucket { name: name.into(), quota: Quota { bytes: 64 << 20, keys: 100_000 }, place: Place::Disk }
}

fn small_bucket(bytes: u64, keys: u64) -> Bucket {
    Bucket { name: "small".into(), quota: Quota { bytes, keys }, place: Place::Disk }
}

/// Returns the file's totals of a bucket, and the sums of its entries.
fn totals(database: &Database, bucket: &Bucket) -> [(i64, i64); 2] {
    let query = |sql: &str| {
        let row = database.connection.query_row(sql, [&*bucket.name], |row| Ok((row.get(0)?, row.get(1)?)));
        row.unwrap()
    };
    [
        query("SELECT bytes, keys FROM buckets WHERE name = ?1"),
        query(
            "SELECT coalesce(sum(length(key) + length(value)), 0), count(*) FROM entries
             WHERE bucket = (SELECT id FROM buckets WHERE name = ?1)",
        ),
    ]
}

#[test]
fn any_bytes_are_kept_under_any_key_and_read_back() {
    let (mut store, pages) = (TempDatabase::new(), bucket("pages"));
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let long = "k".repeat(MAX_KEY);
    for key in ["a", " ", "a\0b", "a", "../../x", "%2F", "'; DROP TABLE entries", "鍵", "🗝", "\u{feff}", &long] {
        for value in [&b""[..], b"\0", &all] {
            store.set(&pages, key, value).unwrap();
            assert_eq!(get(&store.database, &pages, key).unwrap().as_deref(), Some(value), "{key:?}");
            assert!(exists(&store.database, &pages, key).unwrap());
        }
    }
    assert_eq!(get(&store.database, &pages, "a\0c").unwrap(), None);
    store.delete(&pages, "a\0b");
    assert_eq!(get(&store.database, &pages, "a\0b").unwrap(), None);
    store.delete(&pages, "a\0b");
}

#[test]
fn buckets_do_not_see_each_other() {
    let mut store = TempDatabase::new();
    store.set(&bucket("a"), "key", b"of a").unwrap();
    store.set(&bucket("A"), "key", b"of A").unwrap();
    assert_eq!(get(&store.database, &bucket("a"), "key").unwrap().unwrap(), b"of a");
    assert_eq!(get(&store.database, &bucket("b"), "key").unwrap(), None);
    store.delete(&bucket("A"), "key");
    assert!(exists(&store.database, &bucket("a"), "key").unwrap());
}

#[test]
fn what_is_too_large_is_refused_before_anything_is_written() {
    let (mut store, pages) = (TempDatabase::new(), bucket("pages"));
    assert_eq!(store.set(&pages, "", b""), Err(StoreError::InvalidKeyLength(0)));
    assert_eq!(get(&store.database, &pages, &"k".repeat(MAX_KEY + 1)), Err(StoreError::InvalidKeyLength(MAX_KEY + 1)));
    assert_eq!(store.set(&pages, "a", &vec![0; MAX_VALUE + 1]), Err(StoreError::ValuesTooLarge));
    store.set(&pages, "a", &vec![0; MAX_VALUE]).unwrap();
    let many = vec![("a".to_owned(), Vec::new()); MAX_KEYS + 1];
    assert_eq!(set_many(&mut store.database, &pages, &many), Err(StoreError::TooManyKeys(MAX_KEYS + 1)));
    let names: Vec<_> = many.into_iter().map(|(key, _)| key).collect();
    assert_eq!(delete_many(&mut store.database, &pages, &names), Err(StoreError::TooManyKeys(MAX_KEYS + 1)));
    assert_eq!(get_many(&mut store.database, &pages, names), Err(StoreError::TooManyKeys(MAX_KEYS + 1)));
    let twice = vec!["a".to_owned(), "a".to_owned()];
    assert_eq!(get_many(&mut store.database, &pages, twice), Err(StoreError::ValuesTooLarge));
    assert_eq!(totals(&store.database, &pages), [(MAX_VALUE as i64 + 1, 1); 2]);
}

#[test]
fn a_quota_of_bytes_counts_keys_and_values_to_the_byte() {
    let (mut store, full) = (TempDatabase::new(), small_bucket(10, 100));
    store.set(&full, "ab", b"12345678").unwrap();
    assert_eq!(store.set(&full, "c", b""), Err(StoreError::byte_quota_exceeded(&full)));
    assert_eq!(store.set(&full, "ab", b"123456789"), Err(StoreError::byte_quota_exceeded(&full)));
    assert_eq!(get(&store.database, &full, "ab").unwrap().unwrap(), b"12345678");
    store.set(&full, "ab", b"1234567").unwrap();
    store.set(&full, "c", b"").unwrap();
    assert_eq!(totals(&store.database, &full), [(10, 2); 2]);
}

#[test]
fn a_quota_of_keys_lets_those_be_written_that_are_there() {
    let (mut store, full) = (TempDatabase::new(), small_bucket(1000, 2));
    store.set(&full, "a", b"1").unwrap();
    store.set(&full, "b", b"1").unwrap();
    assert_eq!(store.set(&full, "c", b"1"), Err(StoreError::key_quota_exceeded(&full)));
    assert_eq!(increment(&mut store.database, &full, "c", 1, &I64_RANGE), Err(StoreError::key_quota_exceeded(&full)));
    store.set(&full, "a", b"2").unwrap();
    store.delete(&full, "b");
    store.set(&full, "c", b"1").unwrap();
}

#[test]
fn a_quota_that_was_made_smaller_takes_nothing_away_and_lets_nothing_grow() {
    let mut store = TempDatabase::new();
    store.set(&small_bucket(1000, 100), "a", &[1; 500]).unwrap();
    let smaller = small_bucket(100, 100);
    assert_eq!(get(&store.database, &smaller, "a").unwrap().unwrap().len(), 500);
    assert_eq!(store.set(&smaller, "a", &[1; 501]), Err(StoreError::byte_quota_exceeded(&smaller)));
    assert_eq!(store.set(&smaller, "b", b""), Err(StoreError::byte_quota_exceeded(&smaller)));
    store.set(&smaller, "a", &[1; 400]).unwrap();
}

#[test]
fn many_are_written_together_or_not_at_all() {
    let (mut store, full) = (TempDatabase::new(), small_bucket(10, 100));
    let entries = |values: [&str; 3]| ["a", "b", "c"].map(str::to_owned).into_iter().zip(values.map(Into::into));
    let too_many: Vec<_> = entries(["123", "456", "7890"]).collect();
    assert_eq!(set_many(&mut store.database, &full, &too_many), Err(StoreError::byte_quota_exceeded(&full)));
    assert!(!exists(&store.database, &full, "a").unwrap());
    let one_is_wrong = [("a".to_owned(), Vec::new()), (String::new(), Vec::new())];
    assert_eq!(set_many(&mut store.database, &full, &one_is_wrong), Err(StoreError::InvalidKeyLength(0)));
    assert!(!exists(&store.database, &full, "a").unwrap());
    let fitting: Vec<_> = entries(["123", "456", "7"]).collect();
    set_many(&mut store.database, &full, &fitting).unwrap();
    let requested = ["c", "x", "a"].map(str::to_owned).to_vec();
    let found = get_many(&mut store.database, &full, requested).unwrap();
    assert_eq!(found, [Some(("c".to_owned(), b"7".to_vec())), None, Some(("a".to_owned(), b"123".to_vec()))]);
}

#[test]
fn keys_come_page_by_page_in_their_order_and_a_key_that_went_leaves_no_gap() {
    let (mut store, pages) = (TempDatabase::new(), bucket("pages"));
    store.set(&bucket("other"), "key-0000", b"").unwrap();
    let names: Vec<_> = (0..MAX_KEYS * 2 + 1).map(|n| format!("key-{n:04}")).collect();
    for chunk in names.chunks(MAX_KEYS) {
        let entries: Vec<_> = chunk.iter().rev().map(|name| (name.clone(), Vec::new())).collect();
        set_many(&mut store.database, &pages, &entries).unwrap();
    }
    let first = keys(&store.database, &pages, &PageStart::After(None)).unwrap();
    assert_eq!(first.keys, names[..MAX_KEYS]);
    store.delete(&pages, first.keys.last().unwrap());
    let second = keys(&store.database, &pages, &PageStart::After(first.cursor())).unwrap();
    assert_eq!(second.keys, names[MAX_KEYS..MAX_KEYS * 2]);
    let last = keys(&store.database, &pages, &PageStart::After(second.cursor())).unwrap();
    assert_eq!((last.keys.as_slice(), last.cursor()), (&names[MAX_KEYS * 2..], None));
    let skipping = keys(&store.database, &pages, &PageStart::Offset(MAX_KEYS as u64 * 2 - 1)).unwrap();
    assert_eq!((skipping.keys, skipping.has_more), (last.keys, false));
    let none = keys(&store.database, &bucket("empty"), &PageStart::After(None)).unwrap();
    assert_eq!((none.keys.len(), none.cursor()), (0, None));
}

#[test]
fn a_page_that_is_just_full_is_the_last_when_there_are_no_more() {
    let (mut store, pages) = (TempDatabase::new(), bucket("pages"));
    let entries: Vec<_> = (0..MAX_KEYS).map(|n| (n.to_string(), Vec::new())).collect();
    set_many(&mut store.database, &pages, &entries).unwrap();
    let page = keys(&store.database, &pages, &PageStart::After(None)).unwrap();
    assert_eq!((page.keys.len(), page.cursor()), (MAX_KEYS, None));
}

#[test]
fn a_cursor_that_was_not_given_out_is_refused() {
    let store = TempDatabase::new();
    for cursor in ["not base64!", &"YWFh".repeat(1000)] {
        let start = PageStart::After(Some(cursor.to_owned()));
        assert_eq!(keys(&store.database, &bucket("pages"), &start), Err(StoreError::InvalidCursor));
    }
    assert_eq!(keys(&store.database, &bucket("pages"), &PageStart::Offset(u64::MAX)), Err(StoreError::InvalidCursor));
}

#[test]
fn numbers_are_kept_in_digits_and_add_up() {
    let (mut store, counts) = (TempDatabase::new(), bucket("counts"));
    let mut add = |key: &str, delta: i128| increment(&mut store.database, &counts, key, delta, &I64_RANGE);
    assert_eq!((add("a", 5), add("a", -7), add("a", 0)), (Ok(5), Ok(-2), Ok(-2)));
    assert_eq!(add("max", i128::from(i64::MAX)), Ok(i128::from(i64::MAX)));
    assert_eq!(add("max", 1), Err(StoreError::Overflow));
    assert_eq!(get(&store.database, &counts, "a").unwrap().unwrap(), b"-2");
    for value in [&b""[..], b"x", b"1.5", b" 1", b"\xff", b"99999999999999999999"] {
        store.set(&counts, "text", value).unwrap();
        assert_eq!(increment(&mut store.database, &counts, "text", 1, &I64_RANGE), Err(StoreError::NotANumber));
        assert_eq!(get(&store.database, &counts, "text").unwrap().unwrap(), value);
    }
}

#[test]
fn a_swap_happens_only_if_nothing_was_written_since_it_was_prepared() {
    let (mut store, tokens) = (TempDatabase::new(), bucket("tokens"));
    let before = store.begin_cas(&tokens, "a");
    swap(&mut store.database, before.clone(), b"1".to_vec()).unwrap().unwrap();
    let anew = swap(&mut store.database, before, b"2".to_vec()).unwrap().unwrap_err();
    assert_eq!(get(&store.database, &tokens, "a").unwrap().unwrap(), b"1");
    swap(&mut store.database, anew, b"2".to_vec()).unwrap().unwrap();
    assert_eq!(get(&store.database, &tokens, "a").unwrap().unwrap(), b"2");
}

#[test]
fn a_swap_is_not_deceived_by_a_value_that_came_back() {
    let (mut store, tokens) = (TempDatabase::new(), bucket("tokens"));
    store.set(&tokens, "a", b"1").unwrap();
    let before = store.begin_cas(&tokens, "a");
    store.delete(&tokens, "a");
    store.set(&tokens, "a", b"1").unwrap();
    assert!(swap(&mut store.database, before, b"2".to_vec()).unwrap().is_err());
}

#[test]
fn increments_of_several_hosts_at_once_add_up_and_so_do_their_totals() {
    const EACH: i64 = 100;
    let store = TempDatabase::new();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let mut database = store.reopen();
            scope.spawn(move || {
                for _ in 0..EACH {
                    increment(&mut database, &bucket("counts"), "all", 1, &I64_RANGE).unwrap();
                    increment(&mut database, &bucket("counts"), name, 1, &I64_RANGE).unwrap();
                }
            });
        }
    });
    let value = |key| get(&store.database, &bucket("counts"), key).unwrap().unwrap();
    assert_eq!(value("all"), (EACH * 3).to_string().into_bytes());
    assert_eq!(value("b"), EACH.to_string().into_bytes());
    let [kept, counted] = totals(&store.database, &bucket("counts"));
    assert_eq!(kept, counted);
}

#[test]
fn several_hosts_may_make_the_same_store_at_once() {
    let state = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut database = Database::open(&database_path(state.path())).unwrap();
                increment(&mut database, &bucket("counts"), "opened", 1, &I64_RANGE).unwrap();
            });
        }
    });
    let database = Database::open(&database_path(state.path())).unwrap();
    assert_eq!(get(&database, &bucket("counts"), "opened").unwrap().unwrap(), b"8");
}

#[test]
fn a_store_is_for_its_user_alone() {
    let mut store = TempDatabase::new();
    store.set(&bucket("pages"), "a", b"1").unwrap();
    let dir = store.state.path().join("keyvalue");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 2, "the database and its log: {files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
}

#[test]
fn a_file_that_is_no_store_of_this_host_is_refused_and_left_as_it_is() {
    let state = tempfile::tempdir().unwrap();
    let path = database_path(state.path());
    fs::create_dir(state.path().join("keyvalue")).unwrap();
    let text = b"this is no database, but text that is long enough to be taken for the beginning of one: ".repeat(20);
    fs::write(&path.file, &text).unwrap();
    assert!(matches!(Database::open(&path), Err(StoreError::Damaged(_))));
    assert_eq!(fs::read(&path.file).unwrap(), text);

    fs::remove_file(&path.file).unwrap();
    Connection::open(&path.file).unwrap().execute_batch("CREATE TABLE entries (a)").unwrap();
    assert!(matches!(Database::open(&path), Err(StoreError::Damaged(_))));

    fs::remove_file(&path.file).unwrap();
    drop(Database::open(&path).unwrap());
    Connection::open(&path.file).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let error = Database::open(&path).err().unwrap();
    assert!(matches!(&error, StoreError::Failed(reason) if reason.contains("another version")), "{error:?}");
}

#[test]
fn a_page_of_the_file_that_is_damaged_is_an_error_of_the_database() {
    let mut store = TempDatabase::new();
    let pages = bucket("pages");
    for n in 0..500 {
        store.set(&pages, &format!("key-{n}"), &[7; 2000]).unwrap();
    }
    let path = database_path(store.state.path());
    let TempDatabase { state, database } = store;
    // Closing the last connection checkpoints and removes the log.
    drop(database);
    let mut bytes = fs::read(&path.file).unwrap();
    let length = bytes.len();
    bytes[8192..length].fill(0xa5);
    fs::write(&path.file, &bytes).unwrap();
    let database = Database::open(&path).unwrap();
    let error = get(&database, &pages, "key-77").unwrap_err();
    assert!(error.is_database_fault(), "{error:?}");
    drop((database, state));
}

/// A call with its memory.
struct Call {
    memory: Arc<MemoryAccount>,
    cpu: HostCpuBudget,
}

impl Call {
    fn new() -> Self {
        let memory = MemoryAccount::new(MemoryBudget::new(256 << 20, None), CallOwner::default());
        Self { memory, cpu: HostCpuBudget::unlimited() }
    }

    fn accounts(&self) -> CallAccounts<'_> {
        CallAccounts { memory: &self.memory, cpu: &self.cpu }
    }
}

fn keyvalue_with_pages(state: Option<&Path>) -> Keyvalue {
    let mut plugin = config::Plugin::new("web".parse().unwrap(), "web.wasm", "web://".parse().unwrap());
    plugin.grants.keyvalue.insert("pages".parse().unwrap(), config::grants::KeyvalueGrant::default());
    Keyvalue::new(&plugin, BucketStores { state_dir: state, shared: None }, &GuestLog::new("web".into(), 1024))
}

#[tokio::test]
async fn a_handle_that_was_read_after_another_write_never_swaps() {
    use super::bindings::draft2::atomics::{Host, HostCas};

    let state = tempfile::tempdir().unwrap();
    let (keyvalue, mut table) = (keyvalue_with_pages(Some(state.path())), ResourceTable::new());
    let call = Call::new();
    let mut view = KeyvalueView { keyvalue: &keyvalue, table: &mut table, accounts: call.accounts() };
    let pages = keyvalue.open("pages").unwrap();
    let handle = view.open("pages").unwrap();
    let cas = HostCas::new(&mut view, handle, "a".to_owned()).await.unwrap();
    keyvalue.operations(call.accounts()).set(pages.clone(), "a".to_owned(), b"1".to_vec()).await.unwrap();
    let read = view.current(wasmtime::component::Resource::new_borrow(cas.rep())).await.unwrap();
    assert_eq!(read.unwrap(), b"1");
    // The key has again the state that it had when the handle was created, not the state that was last
    // read.
    keyvalue.operations(call.accounts()).delete(pages.clone(), "a".to_owned()).await.unwrap();
    assert!(matches!(view.swap(cas, b"2".to_vec()).await, Err(SwapError::Failed(_))));
    assert_eq!(keyvalue.operations(call.accounts()).get(pages, "a".to_owned()).await, Ok(None));
}

#[tokio::test]
async fn a_bucket_that_is_not_granted_does_not_exist_and_one_without_a_place_fails() {
    let (keyvalue, call) = (keyvalue_with_pages(None), Call::new());
    for name in ["", "Pages", "pages ", "other"] {
        let error = keyvalue.open(name).unwrap_err();
        assert_eq!(error.to_string(), format!("the bucket `{name}` is not granted; granted are `pages`"));
    }
    let pages = keyvalue.open("pages").unwrap();
    assert_eq!(keyvalue.operations(call.accounts()).get(pages, "a".to_owned()).await, Err(StoreError::NoStateDir));
}

#[tokio::test]
async fn a_store_that_was_mended_is_used_again_without_a_new_start() {
    let state = tempfile::tempdir().unwrap();
    let (keyvalue, call) = (keyvalue_with_pages(Some(state.path())), Call::new());
    let pages = keyvalue.open("pages").unwrap();
    fs::write(state.path().join("keyvalue"), "in the way").unwrap();
    assert!(matches!(
        keyvalue.operations(call.accounts()).get(pages.clone(), "a".to_owned()).await,
        Err(StoreError::Failed(_))
    ));
    fs::remove_file(state.path().join("keyvalue")).unwrap();
    assert_eq!(keyvalue.operations(call.accounts()).get(pages, "a".to_owned()).await, Ok(None));
}

#[tokio::test]
async fn the_usage_of_buckets_is_that_of_the_open_database_or_as_it_was_when_it_was_read_first() {
    let state = tempfile::tempdir().unwrap();
    let (keyvalue, call) = (keyvalue_with_pages(Some(state.path())), Call::new());
    let used =
        |keyvalue: &Keyvalue| keyvalue.usage().iter().map(|bucket| (bucket.keys, bucket.bytes)).collect::<Vec<_>>();
    assert_eq!(used(&keyvalue), [(0, 0)]);
    assert!(!database_path(state.path()).file.exists());
    let pages = keyvalue.open("pages").unwrap();
    keyvalue.operations(call.accounts()).set(pages.clone(), "a".to_owned(), vec![7; 9]).await.unwrap();
    let other = keyvalue_with_pages(Some(state.path()));
    assert_eq!((used(&keyvalue), used(&other)), (vec![(1, 10)], vec![(1, 10)]));
    keyvalue.operations(call.accounts()).delete(pages, "a".to_owned()).await.unwrap();
    assert_eq!((used(&keyvalue), used(&other)), (vec![(0, 0)], vec![(1, 10)]));
    // An operation holds the database.
    let held = keyvalue.database.lock().await;
    assert_eq!(used(&keyvalue), [(0, 0)]);
    drop(held);
    assert_eq!(used(&keyvalue_with_pages(None)), []);
    fs::write(database_path(state.path()).file, "no database").unwrap();
    assert_eq!(used(&keyvalue_with_pages(Some(state.path()))), []);
}

#[tokio::test]
async fn the_work_of_the_store_is_a_part_of_the_processor_time_of_its_call() {
    let state = tempfile::tempdir().unwrap();
    let (keyvalue, call) = (keyvalue_with_pages(Some(state.path())), Call::new());
    let pages = keyvalue.open("pages").unwrap();
    keyvalue.operations(call.accounts()).set(pages, "a".to_owned(), vec![7; 1 << 20]).await.unwrap();
    assert!(call.cpu.remaining() < Some(Duration::MAX), "{:?}", call.cpu);
}

/// A change of a bucket.
#[derive(Clone, Debug)]
enum Change {
    Set(String, Vec<u8>),
    Delete(String),
    Increment(String),
}

fn change() -> impl Strategy<Value = Change> {
    let key = || "[a-c]{1,2}";
    prop_oneof![
        (key(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(key, value)| Change::Set(key, value)),
        key().prop_map(Change::Delete),
        key().prop_map(Change::Increment),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn totals_are_exact_whatever_is_done_and_whatever_is_refused(changes in prop::collection::vec(change(), 1..40)) {
        let (mut store, full) = (TempDatabase::new(), small_bucket(100, 5));
        for change in changes {
            // Some changes are rejected.
            let _ = match change {
                Change::Set(key, value) => store.set(&full, &key, &value),
                Change::Delete(key) => delete_many(&mut store.database, &full, &[key]),
                Change::Increment(key) => increment(&mut store.database, &full, &key, 1, &I64_RANGE).map(drop),
            };
        }
        store.set(&full, "a", b"").or_else(|_| delete_many(&mut store.database, &full, &["a".to_owned()])).unwrap();
        let [kept, counted] = totals(&store.database, &full);
        prop_assert_eq!(kept, counted);
        prop_assert!(kept.0 <= 100 && kept.1 <= 5);
    }
}
