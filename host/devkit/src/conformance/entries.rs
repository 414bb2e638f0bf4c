//! Checks of entries: reading, `stat`, and paths that do not exist.

use mcp_host_base::text::Excerpt;
use mcp_host_engine::function::{Read, Stat};
use mcp_host_engine::plugin::Fault;
use mcp_host_model::provider::{Contents, Entry};

use super::listing::UNKNOWN_PATH;
use super::session::NoAnswer;
use super::{Check, MAX_READ, Session, advice};

/// A tested entry, with the provider's answers.
pub(super) struct Sampled {
    pub(super) path: String,
    pub(super) contents: Option<Vec<Contents>>,
    pub(super) entry: Option<Entry>,
}

/// Reads the entries, or a sample of them. Returns the answers.
pub(super) async fn check(session: &mut Session<'_>, entries: &[Entry]) -> Vec<Sampled> {
    if entries.is_empty() {
        for check in [Check::Readable, Check::StatAgrees, Check::Utf8, Check::Sizes] {
            session.report.skip(check, "nothing is listed");
        }
    }
    let step = entries.len().div_ceil(MAX_READ).max(1);
    if step > 1 {
        session.report.note(Check::Readable, format!("of {} entries, one in {step} was read", entries.len()));
    }
    let mut sample = Vec::new();
    for listed in entries.iter().step_by(step) {
        let path = &listed.path;
        let contents = read(session, listed).await;
        let entry = stat(session, listed).await;
        sample.push(Sampled { path: path.clone(), contents, entry });
    }
    if !sample.is_empty() && sample.iter().all(|one| one.contents.is_none()) {
        for check in [Check::Readable, Check::Utf8, Check::Sizes] {
            session.report.skip(check, "nothing could be read");
        }
    }
    check_unknown(session).await;
    sample
}

async fn read(session: &mut Session<'_>, listed: &Entry) -> Option<Vec<Contents>> {
    let path = &listed.path;
    let what = format!("reading `{}`", Excerpt(path));
    match session.call(&what, Read { path: path.as_str().into() }).await {
        Ok(contents) => {
            session.check_contents(path, &contents, Some(listed));
            Some(contents)
        }
        Err(none) => {
            let advice = match &none {
                NoAnswer::Refused(Fault::InvalidRequest(_)) => advice::LISTED_INVALID,
                _ => advice::LISTED_NOT_FOUND,
            };
            none.report_with(session, Check::Readable, &what, advice);
            None
        }
    }
}

async fn stat(session: &mut Session<'_>, listed: &Entry) -> Option<Entry> {
    let path = &listed.path;
    let what = format!("`stat` of `{}`", Excerpt(path));
    let found = match session.call(&what, Stat { path: path.as_str().into() }).await {
        Ok(found) => found,
        Err(none) => {
            none.report_with(session, Check::StatAgrees, &what, advice::STAT_NOT_FOUND);
            return None;
        }
    };
    session.check_entry(&found);
    let normal = session.check_path("the path of `stat`", &found.path);
    let differs = |one: &Option<String>, two: &Option<String>| one.is_some() && two.is_some() && one != two;
    let differing = [
        ("path", normal.is_some_and(|normal| normal != *path)),
        ("name", found.name != listed.name),
        ("title", differs(&found.title, &listed.title)),
        ("mime-type", differs(&found.mime_type, &listed.mime_type)),
        ("size", found.size.is_some() && listed.size.is_some() && found.size != listed.size),
        ("listable", found.listable != listed.listable),
        ("subscribable", found.subscribable != listed.subscribable),
    ];
    let differing: Vec<_> = differing.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
    if !differing.is_empty() {
        session
            .report
            .problem(Check::StatAgrees, format!("{what} differs from the listing in: {}", differing.join(", ")));
    }
    Some(found)
}

async fn check_unknown(session: &mut Session<'_>) {
    let read = session.call("reading an unknown path", Read { path: UNKNOWN_PATH.into() }).await;
    check_refused(session, "reading", read.map(drop));
    let stat = session.call("`stat` of an unknown path", Stat { path: UNKNOWN_PATH.into() }).await;
    check_refused(session, "`stat` of", stat.map(drop));
}

fn check_refused(session: &mut Session<'_>, what: &str, answer: Result<(), NoAnswer>) {
    let what = format!("{what} `{UNKNOWN_PATH}`, which does not exist");
    match answer {
        Err(NoAnswer::Refused(_) | NoAnswer::Limited) => {}
        Err(none) => none.report(session, Check::NotFound, &what),
        Ok(()) => session.report.problem_with(Check::NotFound, format!("{what}, has an answer"), advice::HAS_ANSWER),
    }
}
