//! Actions that break the contract or exceed a limit.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use mcp_provider::{Failure, Result, Retry, log};

/// The names of all actions.
pub(crate) const NAMES: [&str; 14] = [
    "denied",
    "flood-log",
    "flood-stdout",
    "grow",
    "hold",
    "host-calls",
    "internal",
    "invalid",
    "loop",
    "panic",
    "recurse",
    "sleep",
    "trap",
    "unavailable",
];

/// The number of lines in a flood, of 100 bytes each.
const FLOOD_LINES: usize = 20_000;

/// Runs an action. Every action that returns either fails or has only flooded the log.
pub(crate) fn run(action: &str) -> Result<()> {
    match action {
        "denied" => Err(Failure::denied("the keeper says no")),
        "invalid" => Err(Failure::invalid("expected another path")),
        "internal" => Err(Failure::internal("the secret is at /very/secret/place")),
        "unavailable" => Err(Failure::from(Retry::new("the well is dry").after(Duration::from_secs(7)))),
        "flood-log" => {
            (0..FLOOD_LINES).for_each(|line| log::warn!("{line:099}"));
            Ok(())
        }
        "flood-stdout" => {
            let line = format!("{}\n", "{\"jsonrpc\":\"2.0\"}".repeat(6));
            (0..FLOOD_LINES).try_for_each(|_| std::io::stdout().write_all(line.as_bytes())).map_err(Failure::from)
        }
        "grow" => {
            let mut allocated = Vec::new();
            loop {
                allocated.push(black_box(vec![1_u8; 1 << 20]));
            }
        }
        "hold" => {
            black_box(vec![1_u8; 48 << 20]);
            Ok(())
        }
        "host-calls" => loop {
            black_box(Instant::now());
        },
        "loop" => loop {
            black_box(());
        },
        "panic" => abort(),
        "recurse" => Err(Failure::internal(recurse(1).to_string())),
        "sleep" => {
            std::thread::sleep(Duration::from_secs(3600));
            Ok(())
        }
        "trap" => std::process::abort(),
        _ => Err(Failure::NotFound),
    }
}

#[allow(clippy::panic, reason = "required by the test")]
fn abort() -> ! {
    panic!("the secret is at /very/secret/place")
}

/// Recurses until the stack overflows.
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { recurse(depth.wrapping_add(1)).wrapping_add(frame.iter().sum()) }
}
