//! End-to-end cost of requests: the real binary, as users run it, beside a server made with rmcp alone.
//!
//! `cargo bench --workspace --bench server`; with `-- --quick` for a first look, with `-- git-packs` for a part. The
//! parts:
//!
//! | part | what it measures | the baseline, in the same run |
//! |---|---|---|
//! | [`requests`] | requests per second, latency, CPU time; over HTTP and stdio | [`native`]: the same data, no wasm; [`bare_axum`]: ready bytes |
//! | `audit` ([`requests`]) | the same requests with an audit log | the host without one |
//! | `authentication` ([`requests`]) | the same requests with bearer tokens, and with access tokens | the host without |
//! | [`startup`] | from the start of the process to the first answer | the start of [`native`] |
//! | [`git_packs`] | reading out of git packs of 1 MiB to 1 GiB: time, memory | the smallest pack; `git cat-file` |
//! | [`git_history`] | pages, trees and histories of a real repository | `git`, with the start of its process |
//! | [`files`] | reads of files, pages of a listing of a million: time, memory | `cat`, `find` and others, with the start of their process |
//! | [`prometheus`] | queries of a Prometheus server | `promtool query`, with the start of its process |
//! | [`listeners`] | idle event streams, over HTTP/1.1 or (`--http2`) HTTP/2: memory, the time of an update, reconnecting | the idle server |
//! | [`databases`] | pages of a table of ten million rows in PostgreSQL, and a saved query: time, memory | the client library alone; the first page |
//! | [`console`], if it is named | the console in a browser, on a catalog of 100,000 files and 200 plugins: the first view, a filter, an edit | none |
//! | [`noisy_neighbor`] | latency of a good plugin beside a hostile one | the good plugin alone |
//! | [`pagination`] | each page of a listing of a million entries, memory on the way | the first pages |
//! | [`plugin_count`] | start and memory of a host with up to 1,000 plugins | a host with one |
//! | [`operations`] | CPU time of requests with metrics and traces; scrapes of 100 plugins | the host without |
//! | [`registry`] | start of 100 locked plugins; from `mcp-host add` to the first read | the start of 100 plugins of files |
//! | [`upstreams`] | reads, listings and updates of an existing server through the host | the server itself |
//! | [`soak`], if it is named | a server with everything on, and faults: lost updates, memory, descriptors | its first minutes |
//!
//! With `--charts DIR` the ratios of each turn are also drawn as SVG ([`chart`]).
//!
//! The benchmark builds its programs first. It asserts no times, as they depend on the machine. The ratios are in
//! `docs/performance.md`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark fails by panicking, and prints what it finds"
)]

mod bare_axum;
mod bench_request;
mod beside;
mod chart;
mod console;
mod databases;
mod event_stream;
mod files;
mod git_cat_file;
mod git_history;
mod git_pack_fixture;
mod git_packs;
mod http;
mod listeners;
mod load;
mod native;
mod noisy_neighbor;
mod operations;
mod options;
mod pagination;
mod plugin_count;
mod process;
mod prometheus;
mod registry;
mod requests;
mod setup;
mod soak;
mod startup;
mod stdio_client;
mod stdio_host;
mod table;
mod upstreams;

use clap::Parser as _;

use self::options::{Options, Part};

fn main() {
    native::serve_if_requested();
    let options = Options::parse();
    setup::build_all();
    println!("{}", setup::machine_description());
    // One thread: the load generator takes CPU time away from the servers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for part in options.parts() {
            match part {
                Part::Requests => requests::run(&options).await,
                Part::Audit => requests::measure_audit(&options).await,
                Part::Authentication => requests::measure_authentication(&options).await,
                Part::Startup => startup::run(&options).await,
                Part::GitPacks => git_packs::run(&options).await,
                Part::GitHistory => git_history::run(&options).await,
                Part::Files => files::run(&options).await,
                Part::Prometheus => prometheus::run(&options).await,
                Part::Listeners => listeners::run(&options).await,
                Part::Databases => databases::run(&options).await,
                Part::Console => console::run(&options).await,
                Part::Pagination => pagination::run(&options).await,
                Part::NoisyNeighbor => noisy_neighbor::run(&options).await,
                Part::PluginCount => plugin_count::run(&options).await,
                Part::Operations => operations::run(&options).await,
                Part::Registry => registry::run(&options).await,
                Part::Upstreams => upstreams::run(&options).await,
                Part::Soak => soak::run(&options).await,
            }
        }
    });
}
