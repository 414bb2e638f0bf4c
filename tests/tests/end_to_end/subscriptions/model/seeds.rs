//! The seeds of the runs.

/// Returns the seeds to run: the one of `MCP_HOST_SEED`, or 1 to `MCP_HOST_SEEDS`, or 1 to `count`.
pub(super) fn seeds(count: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    match (number("MCP_HOST_SEED"), number("MCP_HOST_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, more) => (1..=more.unwrap_or(count)).collect(),
    }
}
