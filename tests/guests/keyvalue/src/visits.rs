//! The example in `docs/providers.md`, verbatim.

use mcp_provider::Result;
use mcp_provider::keyvalue::Bucket;

/// Counts a visit of a page, and returns the number of visits as text.
pub(crate) fn visit(page: &str) -> Result<String> {
    let visits = Bucket::open("visits")?;
    let count = visits.increment(page, 1)?;
    Ok(format!("{page} was read {count} times"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_in_the_documentation_is_this_one() {
        let (code, _) = include_str!("visits.rs").split_once("#[cfg(test)]").unwrap();
        let (_, code) = code.split_once("\n\n").unwrap();
        let shown = code.replace("pub(crate) ", "");
        let documentation = include_str!("../../../../docs/providers.md");
        assert!(documentation.contains(&format!("```rust\n{}\n```", shown.trim())), "{shown}");
    }
}
