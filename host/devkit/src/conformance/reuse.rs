//! Checks the reuse of instances: a used instance must answer like a fresh one.

use mcp_host_base::text::Excerpt;
use mcp_host_engine::function::{Read, Stat};
use mcp_host_engine::plugin::Plugin;
use mcp_host_model::provider::Contents;

use super::entries::Sampled;
use super::values::without_ttl;
use super::{Check, Session};

/// The maximum number of entries that are read again.
const MAX_COMPARED: usize = 20;
/// The number of reads of each entry in reused instances.
const ROUNDS: usize = 2;

/// Reads the sample in reused instances, and compares the answers.
pub(super) async fn check(session: &mut Session<'_>, reused: &Plugin, sample: &[Sampled]) {
    if sample.iter().all(|one| one.contents.is_none() && one.entry.is_none()) {
        return session.report.skip(Check::Stateless, "nothing could be read");
    }
    let step = sample.len().div_ceil(MAX_COMPARED).max(1);
    for _ in 0..ROUNDS {
        for one in sample.iter().step_by(step) {
            let (path, shown) = (&one.path, Excerpt(&one.path));
            let what = format!("reading `{shown}` in an instance that served other calls");
            if let Some(expected) = &one.contents {
                match session.call_in(reused, &what, Read { path: path.as_str().into() }).await {
                    Ok(contents) if is_same(&contents, expected) => {}
                    Ok(_) => {
                        session.report.problem(Check::Stateless, format!("{what} differs from a read in a fresh one"));
                    }
                    Err(none) => none.report(session, Check::Stateless, &what),
                }
            }
            let what = format!("`stat` of `{shown}` in an instance that served other calls");
            if let Some(expected) = &one.entry {
                match session.call_in(reused, &what, Stat { path: path.as_str().into() }).await {
                    Ok(entry) if without_ttl(&entry) == without_ttl(expected) => {}
                    Ok(_) => session
                        .report
                        .problem(Check::Stateless, format!("{what} differs from the result of a fresh instance")),
                    Err(none) => none.report(session, Check::Stateless, &what),
                }
            }
        }
    }
}

fn is_same(one: &[Contents], two: &[Contents]) -> bool {
    let parts = |contents: &Contents| (without_ttl(&contents.entry), contents.body.clone());
    one.iter().map(parts).eq(two.iter().map(parts))
}
