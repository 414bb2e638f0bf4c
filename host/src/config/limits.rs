//! Resource limits of a plugin.

mod http;

use super::count::Count;
use super::duration::{BoundedDuration, MINUTE, SECOND};
use super::rate::{ByteRate, Rate};
use super::reader::{FromTable, Table, documented};
use super::size::{GIB, KIB, MIB, Size};

pub use self::http::{HttpBody, HttpConcurrency, HttpHeaders, HttpLimits, HttpRate, HttpTimeout};

/// The maximum memory of a plugin.
pub type Memory = Size<MIB, { 64 * MIB }, { 4 * GIB }>;
/// The maximum CPU time of one call.
pub type Cpu = BoundedDuration<1, SECOND, { 10 * MINUTE }>;
/// The maximum wall-clock time of one call.
pub type Deadline = BoundedDuration<10, { 5 * SECOND }, { 10 * MINUTE }>;
/// The maximum number of concurrent calls.
pub type Concurrency = Count<1, 8, 1024>;
/// The maximum number of queued calls.
pub type Queue = Count<0, 64, 10_000>;
/// The maximum time in the queue.
pub type QueueTimeout = BoundedDuration<0, SECOND, MINUTE>;
/// The maximum rate of calls.
pub type CallRate = Rate<10_000, 1_000_000, 1>;
/// The maximum size of one response.
pub type ResponseSize = Size<KIB, { 16 * MIB }, { 256 * MIB }>;
/// The maximum number of items of one response.
pub type ResponseItems = Count<1, 100_000, 1_000_000>;
/// The maximum number of entries of a listing, over all its pages.
pub type ListingItems = Count<1, 1_000_000, 1_000_000_000>;
/// The maximum rate of log output.
pub type LogRate = ByteRate<KIB, { 64 * KIB }, { 16 * MIB }>;
/// The maximum number of resource handles of an instance.
pub type Handles = Count<64, 1024, 65_536>;
/// The maximum number of files and directories that an instance has open.
pub type Files = Count<1, 128, 4096>;
/// The maximum number of random bytes per request.
pub type RandomBytes = Size<KIB, MIB, { 64 * MIB }>;

documented! {
    /// Resource limits of a plugin: `limits` of a `[[plugin]]`.
    ///
    /// A call that exceeds a limit fails; others are not affected. All limits have defaults, all can be set, and none
    /// can be disabled.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Limits {
        /// The memory of all calls in flight, together: the allocations of guests, host memory that they cause, and
        /// their responses during validation. 64 MiB unless set; 1 MiB to 4 GiB.
        pub memory: Memory,
        /// The CPU time of one call, including validation of its response. 1 s unless set; 1 ms to 10 min.
        pub cpu: Cpu,
        /// The wall-clock time of one call, from when it is admitted until its response is validated. 5 s unless set;
        /// 10 ms to 10 min.
        pub deadline: Deadline,
        /// The number of concurrent calls. 8 unless set; 1 to 1024.
        pub concurrency: Concurrency,
        /// The number of calls that are queued when `concurrency` is reached; further calls are rejected. 64 unless
        /// set; 0 to 10000.
        pub queue: Queue,
        /// The maximum time in the queue before a call is rejected. 1 s unless set; at most 1 min. With 0 it is
        /// rejected at once.
        pub queue_timeout: QueueTimeout,
        /// The rate limit of calls, with a burst of the same number. 10000/s unless set; 1/h to 1000000/s.
        pub rate: CallRate,
        /// The size of one response in bytes, as the provider returns it. 16 MiB unless set; 1 KiB to 256 MiB.
        pub response_size: ResponseSize,
        /// The items of one response: entries or templates of a page, contents of a read, changes, completions; and of
        /// each of them its annotations, the roles of its audience, its icons, their sizes, the members and elements of
        /// its metadata. 100000 unless set; 1 to 1000000.
        pub response_items: ResponseItems,
        /// The entries of one listing over all its pages, as the provider returns them; further entries are omitted.
        /// 1000000 unless set; 1 to 1000000000.
        pub listing_items: ListingItems,
        /// The rate limit of log messages, standard output and standard error in bytes, of all calls together, with a
        /// burst of one minute. 64KiB/m unless set; 1KiB/m to 16MiB/m. The excess is dropped and counted.
        pub log: LogRate,
        /// The resource handles of one instance: open files, directories and requests, their streams, timers. 1024
        /// unless set; 64 to 65536.
        pub handles: Handles,
        /// The files and directories that one instance has open. 128 unless set; 1 to 4096.
        pub files: Files,
        /// The random bytes per request for them. 1 MiB unless set; 1 KiB to 64 MiB.
        pub random_bytes: RandomBytes,
        /// Limits of outbound HTTP.
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
