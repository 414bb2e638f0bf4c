//! What a plugin may use up.

mod http;

use super::count::Count;
use super::duration::{BoundedDuration, MINUTE, SECOND};
use super::rate::{ByteRate, Rate};
use super::reader::{FromTable, Table, documented};
use super::size::{GIB, KIB, MIB, Size};

pub use self::http::{HttpBody, HttpConcurrency, HttpHeaders, HttpLimits, HttpRate, HttpTimeout};

/// How much memory a plugin may use.
pub type Memory = Size<MIB, { 64 * MIB }, { 4 * GIB }>;
/// How long one call may compute.
pub type Cpu = BoundedDuration<1, SECOND, { 10 * MINUTE }>;
/// How long one call may take in all.
pub type Deadline = BoundedDuration<10, { 5 * SECOND }, { 10 * MINUTE }>;
/// How many calls may be under way at once.
pub type Concurrency = Count<1, 8, 1024>;
/// How many calls may wait for a place.
pub type Queue = Count<0, 64, 10_000>;
/// How long a call may wait until there is a place for it.
pub type QueueTimeout = BoundedDuration<0, SECOND, MINUTE>;
/// The maximum rate of calls.
pub type CallRate = Rate<10_000, 1_000_000, 1>;
/// How large one answer may be.
pub type ResponseSize = Size<KIB, { 16 * MIB }, { 256 * MIB }>;
/// How many items one answer may have.
pub type ResponseItems = Count<1, 100_000, 1_000_000>;
/// How many entries a listing may have, over all its pages.
pub type ListingItems = Count<1, 1_000_000, 1_000_000_000>;
/// The maximum rate of log output.
pub type LogRate = ByteRate<KIB, { 64 * KIB }, { 16 * MIB }>;
/// How many handles of the host's an instance may hold at once.
pub type Handles = Count<64, 1024, 65_536>;
/// How many files and directories an instance may have open at once.
pub type Files = Count<1, 128, 4096>;
/// How many random bytes a guest may ask for at once.
pub type RandomBytes = Size<KIB, MIB, { 64 * MIB }>;

documented! {
    /// What a plugin may use up: `limits` of a `[[plugin]]`.
    ///
    /// A call that reaches a limit fails alone. All have defaults, all can be set, and none can be switched off.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Limits {
        /// The memory of all calls that are under way, together: what the guests themselves allocate, what the host keeps for
        /// them, and their answers while the host checks them. 64 MiB unless set; 1 MiB to 4 GiB.
        pub memory: Memory,
        /// The CPU time of one call, with what the host computes to check its answer. 1 s unless set; 1 ms to 10 min.
        pub cpu: Cpu,
        /// The wall-clock time of one call, from when it has its place until it has answered. 5 s unless set; 10 ms to 10 min.
        pub deadline: Deadline,
        /// The calls at once. 8 unless set; 1 to 1024.
        pub concurrency: Concurrency,
        /// The calls that wait when `concurrency` is reached; more are refused at once. 64 unless set; 0 to 10000.
        pub queue: Queue,
        /// How long a call waits in the queue, before it is refused. 1 s unless set; at most 1 min. With 0 it is refused at
        /// once.
        pub queue_timeout: QueueTimeout,
        /// The rate of calls. All calls of its unit of time may come at once. 10000/s unless set; 1/h to 1000000/s.
        pub rate: CallRate,
        /// The bytes of one answer, as the provider hands it over. 16 MiB unless set; 1 KiB to 256 MiB.
        pub response_size: ResponseSize,
        /// The items of one answer: entries or templates of a page, contents of a read, changes, completions; and with each of
        /// them its annotations, the roles of its audience, its icons, their sizes, the members and elements of its metadata.
        /// 100000 unless set; 1 to 1000000.
        pub response_items: ResponseItems,
        /// The entries of one listing over all its pages, as the provider hands them over: what comes behind is left out.
        /// 1000000 unless set; 1 to 1000000000.
        pub listing_items: ListingItems,
        /// The rate of bytes of log, standard output and standard error, of all calls together. A minute's worth may come at
        /// once. 64KiB/m unless set; 1KiB/m to 16MiB/m. Excess output is dropped and counted.
        pub log: LogRate,
        /// The handles that one instance holds at once: open files, directories and requests, their streams, and all else that
        /// the host keeps for it by number. 1024 unless set; 64 to 65536.
        pub handles: Handles,
        /// The files and directories that one instance has open at once. 128 unless set; 1 to 4096.
        pub files: Files,
        /// The random bytes that a guest gets at once. 1 MiB unless set; 1 KiB to 64 MiB.
        pub random_bytes: RandomBytes,
        /// What it may use up of the web.
        pub http: HttpLimits,
    }
}

impl FromTable for Limits {
    const TYPE_NAME: &'static str = "a table of limits";

    fn example() -> String {
        "{ memory = \"64MiB\", deadline = \"2s\" }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        Some(Self {
            memory: table.or_default("memory"),
            cpu: table.or_default("cpu"),
            deadline: table.or_default("deadline"),
            concurrency: table.or_default("concurrency"),
            queue: table.or_default("queue"),
            queue_timeout: table.or_default("queue-timeout"),
            rate: table.or_default("rate"),
            response_size: table.or_default("response-size"),
            response_items: table.or_default("response-items"),
            listing_items: table.or_default("listing-items"),
            log: table.or_default("log"),
            handles: table.or_default("handles"),
            files: table.or_default("files"),
            random_bytes: table.or_default("random-bytes"),
            http: table.or_default("http"),
        })
    }
}
