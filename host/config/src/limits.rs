//! Resource limits: of a plugin, of its outbound HTTP, and of compiling its component.
//!
//! A component is compiled once, in a child process, before it runs. The cost of compiling hostile input has no useful
//! upper bound, so the process is terminated at a limit, and the plugin is not loaded.

mod requested;

pub use self::requested::{LimitAmount, LimitKey, LimitKeyError};
use super::count::Count;
use super::declare::table;
use super::duration::{BoundedDuration, DAY, HOUR, MINUTE, SECOND};
use super::rate::{ByteRate, Rate};
use super::size::{GIB, KIB, MIB, Size};

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
/// The maximum CPU time of one start of an upstream's program.
pub type ProgramCpu = BoundedDuration<SECOND, HOUR, { 365 * DAY }>;

table! {
    /// Resource limits of a plugin: `limits` of a `[[plugin]]`.
    ///
    /// A call that exceeds a limit fails; other calls are not affected (bulkhead). All limits have defaults, all can be
    /// set, and none can be disabled.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Limits as "a table of limits", such as "{ memory = \"64MiB\", deadline = \"2s\" }" {
        /// The memory of all calls in flight together: the allocations of guests, host memory that they cause, and
        /// their responses during validation. 64 MiB unless set; 1 MiB to 4 GiB.
        pub memory: Memory,
        /// The CPU time of one call, including validation of its response. 1 s unless set; 1 ms to 10 min.
        pub cpu: Cpu,
        /// The wall-clock time of one call, from its admission until its response is validated. 5 s unless set; 10 ms
        /// to 10 min.
        pub deadline: Deadline,
        /// The maximum number of concurrent calls. 8 unless set; 1 to 1024.
        pub concurrency: Concurrency,
        /// The maximum number of calls in the queue, which they enter when `concurrency` is reached; further calls are
        /// rejected. 64 unless set; 0 to 10000.
        pub queue: Queue,
        /// The maximum time in the queue before a call is rejected. 1 s unless set; at most 1 min. With 0 a call is
        /// rejected immediately.
        pub queue_timeout: QueueTimeout,
        /// The rate limit of calls, with a burst of the same number. 10000/s unless set; 1/h to 1000000/s.
        pub rate: CallRate,
        /// The maximum size of one response in bytes, as the provider returns it. 16 MiB unless set; 1 KiB to 256 MiB.
        pub response_size: ResponseSize,
        /// The maximum number of items of one response: entries or templates of a page, contents of a read, changes,
        /// completions. Parts of an item count, too: its annotations, roles of its audience, icons and their sizes,
        /// members and elements of its metadata. 100000 unless set; 1 to 1000000.
        pub response_items: ResponseItems,
        /// The maximum number of entries of one listing over all its pages, as the provider returns them; further
        /// entries are omitted. 1000000 unless set; 1 to 1000000000.
        pub listing_items: ListingItems,
        /// The rate limit, in bytes, of log messages, standard output and standard error of all calls together, with a
        /// burst of one minute. 64KiB/m unless set; 1KiB/m to 16MiB/m. The excess is dropped and counted.
        pub log: LogRate,
        /// The maximum number of resource handles of one instance: open files, directories and requests, their streams,
        /// and timers. 1024 unless set; 64 to 65536.
        pub handles: Handles,
        /// The maximum number of open files and directories of one instance. 128 unless set; 1 to 4096.
        pub files: Files,
        /// The maximum number of random bytes that a provider gets per request. 1 MiB unless set; 1 KiB to 64 MiB.
        pub random_bytes: RandomBytes,
        /// Limits of outbound HTTP.
        pub http: HttpLimits,
        /// Limits of preparations. Without them the provider's `prepare` is not called.
        pub prepare: Option<PrepareLimits>,
        /// The CPU time of the program of an upstream, with all of its processes, from its start on. Above it they are
        /// killed, and the program is started again with back-off. No limit unless set; 1 s to 365 d. An error for a
        /// plugin.
        pub program_cpu: Option<ProgramCpu>,
    }
}

/// The maximum CPU time of one preparation.
pub type PrepareCpu = BoundedDuration<SECOND, MINUTE, HOUR>;

table! {
    /// Limits of preparations: `limits.prepare`. A provider that exports `prepare` does work in it that takes longer
    /// than a call. The host calls it in the background, after the provider was loaded and after changes. Each of these
    /// calls is within the other limits, too. The key has no effect on providers without `prepare`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct PrepareLimits as "a table of limits for preparations", such as "{ cpu = \"1m\", memory = \"64MiB\" }" {
        /// The CPU time of one preparation, of all its calls together. 1 min unless set; 1 s to 1 h.
        pub cpu: PrepareCpu,
        /// The memory of the call that prepares, in addition to the memory of other calls. 64 MiB unless set; 1 MiB to
        /// 4 GiB.
        pub memory: Memory,
    }
}

/// The maximum number of concurrent HTTP exchanges.
pub type HttpConcurrency = Count<1, 8, 64>;
/// The maximum rate of HTTP requests.
pub type HttpRate = Rate<60, 100_000, 60>;
/// The maximum size of the headers of one HTTP message.
pub type HttpHeaders = Size<KIB, { 64 * KIB }, MIB>;
/// The maximum size of the body of one HTTP message.
pub type HttpBody = Size<KIB, { 16 * MIB }, { 256 * MIB }>;
/// The maximum time of one HTTP exchange.
pub type HttpTimeout = BoundedDuration<10, { 10 * SECOND }, { 10 * MINUTE }>;

table! {
    /// Limits of outbound HTTP: `limits.http`. Without `grants.http` they have no effect.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct HttpLimits as "a table of limits for HTTP", such as "{ concurrency = 8, rate = \"60/m\", timeout = \"10s\" }" {
        /// The maximum number of concurrent exchanges of all calls together. 8 unless set; 1 to 64. Further exchanges
        /// are rejected immediately. A client gets a further exchange only while more are free than the client has: of
        /// eight, one client gets at most four.
        pub concurrency: HttpConcurrency,
        /// The rate limit of requests of all calls together, with a burst of the same number. 60/m unless set; 1/h to
        /// 100000/m. Further requests are rejected immediately.
        pub rate: HttpRate,
        /// The maximum size of the headers of a request, and of a response. 64 KiB unless set; 1 KiB to 1 MiB.
        pub headers: HttpHeaders,
        /// The maximum size of the body of a request, and of a response. 16 MiB unless set; 1 KiB to 256 MiB.
        pub body: HttpBody,
        /// The wall-clock time of one exchange, from name resolution to the last byte of the body. 10 s unless set; 10
        /// ms to 10 min.
        pub timeout: HttpTimeout,
    }
}

/// The maximum address space of the compiler.
pub type CompileMemory = Size<{ 512 * MIB }, { 8 * GIB }, { 64 * GIB }>;
/// The maximum CPU time of the compiler, over all processors.
pub type CompileCpu = BoundedDuration<SECOND, { 10 * MINUTE }, HOUR>;
/// The maximum wall-clock time of a compilation.
pub type CompileDeadline = BoundedDuration<SECOND, { 2 * MINUTE }, HOUR>;

table! {
    /// Resource limits of compiling one component: `compile` of `[server]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct CompileLimits as "a table of limits", such as "{ memory = \"8GiB\", deadline = \"2m\" }" {
        /// The maximum address space of the compiler, which is larger than its resident memory. 8 GiB unless set;
        /// 512 MiB to 64 GiB.
        pub memory: CompileMemory,
        /// The maximum CPU time of the compiler, in whole seconds, over all processors. 10 min unless set; 1 s to 1 h.
        pub cpu: CompileCpu,
        /// The maximum wall-clock time of the compiler. 2 min unless set; 1 s to 1 h.
        pub deadline: CompileDeadline,
    }
}
