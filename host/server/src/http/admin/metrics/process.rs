//! The metrics of the process that every Prometheus client library has:
//! <https://prometheus.io/docs/instrumenting/writing_clientlibs/>.

use std::fmt;
use std::time::Duration;

use mcp_host_base::metrics::Family;
use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

const CPU: Family =
    Family::counter("process_cpu_seconds_total", &[], "Processor time of the process, in user and system mode.");
const START: Family =
    Family::gauge("process_start_time_seconds", &[], "The start time of the process, in seconds since the Unix epoch.");
const RESIDENT: Family = Family::gauge("process_resident_memory_bytes", &[], "Resident memory of the process.");
const VIRTUAL: Family = Family::gauge(
    "process_virtual_memory_bytes",
    &[],
    "Address space of the process. Most of it is reserved for guests, and takes no memory.",
);
const OPEN_FDS: Family = Family::gauge("process_open_fds", &[], "Open file descriptors.");
const MAX_FDS: Family = Family::gauge("process_max_fds", &[], "The maximum number of open file descriptors.");
const THREADS: Family = Family::gauge("process_threads", &[], "Threads of the process.");

/// The metrics of this process. Values that the system does not report are left out.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(process) = Process::myself() else { return Ok(()) };
        let encoder = &mut encoder;
        if let Ok(stat) = process.stat() {
            let ticks = procfs::ticks_per_second();
            let seconds = |count: u64| {
                let whole = Duration::from_secs(count.checked_div(ticks).unwrap_or_default());
                let rest = count.checked_rem(ticks).unwrap_or_default().saturating_mul(1_000_000_000);
                whole.saturating_add(Duration::from_nanos(rest.checked_div(ticks).unwrap_or_default()))
            };
            let cpu = seconds(stat.utime.saturating_add(stat.stime));
            CPU.encode(encoder, |samples| samples.seconds(&[], cpu))?;
            if let Ok(boot) = procfs::boot_time_secs() {
                let start = Duration::from_secs(boot).saturating_add(seconds(stat.starttime));
                START.encode(encoder, |samples| samples.seconds(&[], start))?;
            }
            RESIDENT.encode_one(encoder, stat.rss.saturating_mul(procfs::page_size()))?;
            VIRTUAL.encode_one(encoder, stat.vsize)?;
            THREADS.encode_one(encoder, u64::try_from(stat.num_threads).unwrap_or_default())?;
        }
        if let Ok(open) = process.fd_count() {
            OPEN_FDS.encode_one(encoder, u64::try_from(open).unwrap_or(u64::MAX))?;
        }
        match process.limits().map(|limits| limits.max_open_files.soft_limit) {
            Ok(LimitValue::Value(max)) => MAX_FDS.encode_one(encoder, max),
            _ => Ok(()),
        }
    }
}
