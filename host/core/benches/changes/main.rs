//! The cost of change notifications: the time from saving a file until one subscriber and ten thousand subscribers have
//! received the update; and the delay of concurrent requests by a reload.
//!
//! `cargo bench --workspace --bench changes` prints tables; no times are asserted. With `-- --soak MINUTES` (`cargo
//! xtask soak`) it notifies thousands of subscribers for this time instead, while files change, providers crash and
//! configs are reloaded. It fails when an update is lost or memory grows.
//!
//! The façade is called in this process: `benches/server` of the tests measures the cost of a transport.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking, and prints what it finds"
)]

mod latency;
mod setup;
mod soak;

use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let arguments: Vec<_> = std::env::args().collect();
    let minutes = arguments.iter().position(|argument| argument == "--soak").map(|place| {
        let minutes: f64 = arguments.get(place + 1).and_then(|text| text.parse().ok()).unwrap_or(5.0);
        Duration::from_secs_f64(minutes * 60.0)
    });
    setup::build_fixtures();
    match minutes {
        Some(time) => runtime.block_on(soak::run(time)),
        None => {
            runtime.block_on(latency::edit_to_notification());
            runtime.block_on(latency::fan_out());
            runtime.block_on(latency::reload());
            ExitCode::SUCCESS
        }
    }
}
