//! Many plugins: the memory of an idle plugin, and the startup time of a host with many.
//!
//! Every plugin has a component of its own: the guest `sizes` with a custom section that holds its number, so that no
//! compiled code is shared. They are compiled before anything is measured.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Plugin, WrittenConfig, fixture};
use rmcp::model::ProtocolVersion;

use crate::bench_request::BenchRequest;
use crate::http::HttpClient;
use crate::load::percentile;
use crate::options::Options;
use crate::process::{Program, compile};
use crate::setup;
use crate::table;

/// The numbers of plugins; with `--quick`, without the last.
const PLUGIN_COUNTS: [usize; 3] = [1, 100, 1000];

/// Measures each number of plugins.
pub(crate) async fn run(options: &Options) {
    let numbers = PLUGIN_COUNTS.into_iter().take(if options.is_quick() { 2 } else { 3 });
    let mut rows = Vec::new();
    let mut one = None;
    for number in numbers {
        let config = config_file(number).write();
        compile(&config).await;
        let mut times = Vec::new();
        let mut memory = Memory::default();
        for _ in 0..options.rounds() {
            let started = start(&config, number).await;
            times.push(started.elapsed);
            memory = started.memory;
        }
        times.sort_unstable();
        let baseline = *one.get_or_insert(memory);
        let each = |now: u64, then: u64| match number {
            1 => "".to_owned(),
            _ => table::kibibytes(now.saturating_sub(then) / (number as u64 - 1)),
        };
        rows.push(vec![
            number.to_string(),
            table::millis(percentile(&times, 0.5)),
            table::mebibytes(memory.resident),
            table::mebibytes(memory.private),
            each(memory.resident, baseline.resident),
            each(memory.private, baseline.private),
        ]);
    }
    let header = [
        "plugins",
        "start to first answer ms",
        "resident MiB",
        "private MiB",
        "resident KiB for each more",
        "private KiB for each more",
    ];
    table::print("Many plugins, each with a component of its own", &header, rows);
}

/// The time of a start, and the memory of the process after the first response.
pub(crate) struct StartSample {
    pub(crate) elapsed: Duration,
    memory: Memory,
}

/// The memory of a process, in bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Resident memory, with mapped files.
    pub(crate) resident: u64,
    /// Private dirty memory, which belongs to this process alone.
    pub(crate) private: u64,
}

/// Starts a host with `number` plugins, and reads a resource of the last.
pub(crate) async fn start(config: &WrittenConfig, number: usize) -> StartSample {
    let began = Instant::now();
    let (server, address) = Program::Host(config).over_http().await;
    let uri = format!("sizes://{}/text/1024", number - 1);
    HttpClient::connect(address, ProtocolVersion::V_2026_07_28)
        .await
        .send(&BenchRequest::read("read 1 KiB of text", &uri, 1 << 10))
        .await;
    let started = StartSample { elapsed: began.elapsed(), memory: server.memory() };
    server.end().await;
    started
}

/// A host with `number` plugins, mounted at `sizes://0/` and so on.
pub(crate) fn config_file(number: usize) -> ConfigFile {
    let plugins = (0..number)
        .map(|one| Plugin::new(&format!("p{one}"), &component(one), &format!("sizes://{one}/")).config("count", 100));
    plugins.fold(ConfigFile::new().allow_all(), ConfigFile::plugin)
}

/// Returns the guest `sizes` with a custom section that makes it another component.
pub(crate) fn component(number: usize) -> PathBuf {
    let folder = setup::cache_dir().join("components");
    fs::create_dir_all(&folder).expect("the folder can be made");
    let file = folder.join(format!("{number}.wasm"));
    let mut bytes = fs::read(fixture("sizes")).expect("it has been built");
    let name = format!("bench-{number:06}");
    // Section 0: its size, the length of its name, the name, no content.
    bytes.extend([0, u8::try_from(name.len() + 1).expect("it is short"), u8::try_from(name.len()).expect("as well")]);
    bytes.extend(name.as_bytes());
    fs::write(&file, bytes).expect("the component can be written");
    file
}
