//! Checks of changes: none is reported while nothing changes, real ones are reported, and tokens of any age and origin
//! work.

use std::time::Duration;

use mcp_host_engine::function::Changes;
use mcp_host_model::provider::{ChangeSet, Entry};
use mcp_host_model::resource::MAX_TOKEN;

use super::session::NoAnswer;
use super::{Check, Edit, Session, advice};

/// The maximum number of watched paths.
const MAX_WATCHED: usize = 50;
/// A token that no provider issues.
const FOREIGN_TOKEN: &str = "mcp-host test: no token of yours {\"version\":-1}";
/// The maximum number of polls after an edit, and their interval: file times may have a coarse granularity.
const MAX_POLLS: usize = 20;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// All checks of changes.
const CHECKS: [Check; 4] = [Check::ChangesQuiet, Check::ChangesReported, Check::Token, Check::BadToken];

pub(super) async fn check(session: &mut Session<'_>, entries: &[Entry], edit: Option<Edit<'_>>) {
    if !session.watches() {
        for check in CHECKS {
            session.report.skip(check, "it does not watch");
        }
        return;
    }
    let watched = entries.iter().filter(|entry| entry.subscribable).map(|entry| entry.path.clone());
    let watched: Vec<_> = watched.take(MAX_WATCHED).collect();
    if watched.is_empty() {
        session.report.note(Check::ChangesQuiet, "no entry is subscribable: only changes of the listing are tested");
    }
    let Some(start) = poll(session, &watched, None, Check::ChangesQuiet, "without a token").await else {
        return session.report.skip_after(Check::ChangesQuiet, &CHECKS, "`changes` fails");
    };
    check_quiet(session, &start, "without a token");
    let first = poll(session, &watched, Some(&start.token), Check::Token, "with its first token").await;
    let mut latest = start.token.clone();
    if let Some(first) = &first {
        check_quiet(session, first, "with its first token");
        let second = poll(session, &watched, Some(&first.token), Check::Token, "with its second token").await;
        if let Some(second) = &second {
            check_quiet(session, second, "with its second token");
            latest.clone_from(&second.token);
        }
        let again = poll(session, &watched, Some(&start.token), Check::Token, "with its first token again").await;
        if again.is_some_and(|again| (&again.changed, again.listing_changed) != (&first.changed, first.listing_changed))
        {
            let message = "the same token gives another answer the second time";
            session.report.problem_with(Check::Token, message, advice::SAME_TOKEN);
        }
    }
    check_foreign_token(session, &watched).await;
    check_edit(session, &watched, &latest, edit).await;
}

/// Calls `changes`. Reports a failure as a problem of this check.
async fn poll(
    session: &mut Session<'_>,
    watched: &[String],
    since: Option<&str>,
    check: Check,
    how: &str,
) -> Option<ChangeSet> {
    let answer = changes(session, watched, since).await;
    let advice = if since.is_none() { advice::CHANGES_REFUSED } else { check.advice() };
    accept(session, answer, check, how, advice)
}

/// Checks an answer. Reports a failure as a problem of this check.
fn accept(
    session: &mut Session<'_>,
    answer: Result<ChangeSet, NoAnswer>,
    check: Check,
    how: &str,
    advice: &'static str,
) -> Option<ChangeSet> {
    let changes = match answer {
        Ok(changes) => changes,
        Err(none) => {
            none.report_with(session, check, &format!("`changes` {how}"), advice);
            return None;
        }
    };
    for path in &changes.changed {
        session.check_path("the changed path", path);
    }
    if changes.token.len() > MAX_TOKEN {
        let len = changes.token.len();
        let message = format!("its token has {len} bytes; {MAX_TOKEN} are allowed");
        session.report.problem_with(Check::Token, message, advice::LONG_TOKEN);
    }
    Some(changes)
}

async fn changes(session: &mut Session<'_>, watched: &[String], since: Option<&str>) -> Result<ChangeSet, NoAnswer> {
    session.call("changes", Changes { watched: watched.into(), since: since.map(str::to_owned) }).await
}

fn check_quiet(session: &mut Session<'_>, changes: &ChangeSet, how: &str) {
    if changes.listing_changed || !changes.changed.is_empty() {
        let paths = match changes.changed.len() {
            1 => "1 changed path".to_owned(),
            paths => format!("{paths} changed paths"),
        };
        let listing = if changes.listing_changed { "the listing" } else { "not the listing" };
        let message = format!("called {how}, it reports {paths} and {listing}, but nothing changed");
        session.report.problem(Check::ChangesQuiet, message);
    }
}

async fn check_foreign_token(session: &mut Session<'_>, watched: &[String]) {
    let Some(all) =
        poll(session, watched, Some(FOREIGN_TOKEN), Check::BadToken, "with a token that it did not issue").await
    else {
        return;
    };
    let missing = watched.iter().filter(|path| !all.changed.contains(path)).count();
    if missing > 0 || !all.listing_changed {
        let listing = if all.listing_changed { "" } else { ", nor the listing" };
        let message = format!(
            "after a token that it did not issue, {missing} of {} watched paths are not reported as changed{listing}",
            watched.len()
        );
        session.report.problem(Check::BadToken, message);
    }
}

async fn check_edit(session: &mut Session<'_>, watched: &[String], since: &str, edit: Option<Edit<'_>>) {
    let Some(edit) = edit else {
        return session.report.skip(Check::ChangesReported, "no command that edits the data was given (`--edit`)");
    };
    if let Err(error) = edit().await {
        let message = format!("the data could not be edited: {error}");
        return session.report.problem_with(Check::ChangesReported, message, advice::EDIT_FAILED);
    }
    let mut may_prepare = session.is_prepared();
    for _ in 0..MAX_POLLS {
        let answer = changes(session, watched, Some(since)).await;
        if may_prepare && matches!(answer, Err(NoAnswer::Unavailable(_))) {
            // After such a poll, a host prepares the data again.
            may_prepare = false;
            session.prepare().await;
            continue;
        }
        let advice = Check::ChangesReported.advice();
        match accept(session, answer, Check::ChangesReported, "after the edit", advice) {
            Some(changes) if changes.listing_changed || !changes.changed.is_empty() => return,
            Some(_) => tokio::time::sleep(POLL_INTERVAL).await,
            None => return,
        }
    }
    session.report.problem(
        Check::ChangesReported,
        "the data were edited, and neither a watched path nor the listing is reported",
    );
}
