//! What a plugin may use up.

mod http;

use super::count::Count;
use super::reader::{FromNode, Node};
use super::size::{GIB, KIB, MIB, Size};
use super::time::{MINUTE, SECOND, Time};

pub use self::http::{HttpBody, HttpConcurrency, HttpHeaders, HttpLimits, HttpRate, HttpTime};

/// How much memory a plugin may use.
pub type Memory = Size<MIB, { 64 * MIB }, { 4 * GIB }>;
/// How long one call may compute.
pub type Cpu = Time<1, SECOND, { 10 * MINUTE }>;
/// How long one call may take in all.
pub type Deadline = Time<10, { 5 * SECOND }, { 10 * MINUTE }>;
/// How many calls may be under way at once.
pub type Concurrency = Count<1, 8, 1024>;
/// How long a call may wait until there is a place for it.
pub type Wait = Time<0, SECOND, MINUTE>;
/// How large one answer may be.
pub type Reply = Size<KIB, { 16 * MIB }, { 256 * MIB }>;
/// How much may be logged in a minute.
pub type Log = Size<KIB, { 64 * KIB }, { 16 * MIB }>;

/// What a plugin may use up: `limits` of a `[[plugin]]`.
///
/// A call that reaches a limit fails alone. All have defaults, all can be set, and none can be switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The memory of all calls that are under way, together: what the guests themselves allocate. 64 MiB unless set; 1 MiB
    /// to 4 GiB.
    pub memory: Memory,
    /// The CPU time of one call. 1 s unless set; 1 ms to 10 min.
    pub cpu: Cpu,
    /// The wall-clock time of one call, from when it has its place until it has answered. 5 s unless set; 10 ms to 10 min.
    pub deadline: Deadline,
    /// The calls at once. 8 unless set; 1 to 1024.
    pub concurrency: Concurrency,
    /// How long a call waits when `concurrency` is reached, before it is refused. 1 s unless set; at most 1 min. With 0 it
    /// is refused at once.
    pub wait: Wait,
    /// The bytes of one answer, as the provider hands it over. 16 MiB unless set; 1 KiB to 256 MiB.
    pub reply: Reply,
    /// The bytes of log, standard output and standard error in a minute, of all calls together. 64 KiB unless set; 1 KiB
    /// to 16 MiB. What is more is dropped, and counted.
    pub log: Log,
    /// What it may use up of the web.
    pub http: HttpLimits,
}

impl FromNode for Limits {
    const WHAT: &'static str = "a table of limits";

    fn example() -> String {
        "{ memory = \"64MiB\", deadline = \"2s\" }".into()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.table(|table| {
            Some(Self {
                memory: table.or_default("memory"),
                cpu: table.or_default("cpu"),
                deadline: table.or_default("deadline"),
                concurrency: table.or_default("concurrency"),
                wait: table.or_default("wait"),
                reply: table.or_default("reply"),
                log: table.or_default("log"),
                http: table.or_default("http"),
            })
        })
    }
}
