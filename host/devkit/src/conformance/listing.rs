//! Checks of listings: pages (pagination), cursors, children.

use std::collections::HashSet;

use mcp_host_base::text::Excerpt;
use mcp_host_engine::function::ListEntries;
use mcp_host_model::provider::{Entry, Page};

use super::session::NoAnswer;
use super::values::without_ttl;
use super::{Check, MAX_PAGES, Session, advice};

/// The limit of a page: a server's default.
const PAGE_SIZE: u32 = 1000;
/// The maximum length of a cursor, in bytes.
const MAX_CURSOR: usize = 4096;
/// The number of consecutive empty pages after which a listing counts as endless.
const MAX_EMPTY_PAGES: usize = 100;
/// The maximum number of cursors from which a listing is resumed.
const MAX_RESUMED: usize = 20;
/// The maximum number of listable entries whose children are listed.
const MAX_PARENTS: usize = 20;
/// The maximum number of other entries whose children are listed, which must be refused.
const MAX_LEAVES: usize = 3;
/// A cursor that no provider issues.
const FOREIGN_CURSOR: &str = "mcp-host test: no cursor of yours {\"offset\":-1}";
/// A path without a resource.
pub(super) const UNKNOWN_PATH: &str = "mcp-host-test/no-such-resource";

/// A complete listing.
#[derive(Debug, Default)]
struct Listing {
    entries: Vec<Entry>,
    /// The pages with a cursor: the cursor, and the paths of the page.
    resumable: Vec<(String, Vec<String>)>,
}

impl Listing {
    fn paths(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.path.as_str())
    }
}

/// Checks the default listing and the listings of children. Returns all entries with valid paths, in normal form.
pub(super) async fn check(session: &mut Session<'_>) -> Vec<Entry> {
    let Some(listing) = walk(session, Check::ListingEnds, None, PAGE_SIZE).await else {
        let others =
            [Check::ListingStable, Check::ListingUnique, Check::CursorResume, Check::Readable, Check::StatAgrees];
        session.report.skip_after(Check::ListingEnds, &others, "the listing fails");
        return Vec::new();
    };
    check_unique(session, &listing);
    check_stable(session, &listing).await;
    check_resume(session, &listing).await;
    check_bad_cursor(session).await;
    let mut entries = valid_entries(session, listing.entries);
    let children = check_children(session, &entries).await;
    entries.extend(valid_entries(session, children));
    let mut seen = HashSet::new();
    entries.retain(|entry| seen.insert(entry.path.clone()));
    entries
}

/// Requests all pages. `None` if the listing does not end, which is reported.
async fn walk(session: &mut Session<'_>, check: Check, parent: Option<&str>, limit: u32) -> Option<Listing> {
    let what = parent.map_or("the listing".to_owned(), |parent| format!("the listing of `{}`", Excerpt(parent)));
    let (mut listing, mut cursor, mut empty) = (Listing::default(), None::<String>, 0_usize);
    let mut seen = HashSet::new();
    for _ in 0..MAX_PAGES {
        let page = match list(session, parent, cursor.as_deref(), limit).await {
            Ok(page) => page,
            Err(NoAnswer::Unavailable(fault)) => {
                let message = format!("{what} cannot be tested: {fault}");
                match session.unprepared(&fault) {
                    Some(reason) => session.report.skip(check, reason),
                    None if session.is_prepared() => {
                        session.report.problem_with(check, message, advice::UNAVAILABLE_PREPARED);
                    }
                    None => session.report.problem_with(check, message, advice::UNAVAILABLE),
                }
                return None;
            }
            Err(none) => {
                none.report_with(session, check, &what, advice::LISTING_REFUSED);
                return None;
            }
        };
        empty = if page.entries.is_empty() { empty.saturating_add(1) } else { 0 };
        if let Some(cursor) = cursor.take() {
            listing.resumable.push((cursor, page.entries.iter().map(|entry| entry.path.clone()).collect()));
        }
        listing.entries.extend(page.entries);
        let Some(next) = page.next_cursor else { return Some(listing) };
        let problem = if next.len() > MAX_CURSOR {
            let message = format!("{what} has a cursor of {} bytes; {MAX_CURSOR} are allowed", next.len());
            Some((message, advice::LONG_CURSOR))
        } else if !seen.insert(next.clone()) {
            let message = format!("{what} leads back to an earlier page: the cursor `{}` comes twice", Excerpt(&next));
            Some((message, Check::ListingEnds.advice()))
        } else if empty > MAX_EMPTY_PAGES {
            Some((format!("{what} has {empty} empty pages in a row"), advice::EMPTY_PAGES))
        } else {
            None
        };
        if let Some((problem, advice)) = problem {
            session.report.problem_with(check, problem, advice);
            return None;
        }
        cursor = Some(next);
    }
    session.report.note(check, format!("{what} has more than {MAX_PAGES} pages, of which no more were requested"));
    Some(listing)
}

async fn list(
    session: &mut Session<'_>,
    parent: Option<&str>,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Page, NoAnswer> {
    let function = ListEntries { parent: parent.map(Into::into), cursor: cursor.map(Into::into), limit };
    session.call("list-entries", function).await
}

fn check_unique(session: &mut Session<'_>, listing: &Listing) {
    let mut seen = HashSet::new();
    for path in listing.paths() {
        let normal = session.mount().compose(path).map_or_else(|_| path.to_owned(), |id| id.path.as_str().to_owned());
        if !seen.insert(normal) {
            session.report.problem(Check::ListingUnique, format!("`{}` is listed more than once", Excerpt(path)));
        }
    }
}

async fn check_stable(session: &mut Session<'_>, first: &Listing) {
    let Some(second) = walk(session, Check::ListingStable, None, PAGE_SIZE).await else { return };
    if first.entries.len() != second.entries.len() {
        let (first, second) = (first.entries.len(), second.entries.len());
        let message = format!("first {first} entries, then {second}");
        session.report.problem_with(Check::ListingStable, message, advice::OTHER_NUMBER);
        return;
    }
    let differing = first.entries.iter().zip(&second.entries).find(|(one, two)| without_ttl(one) != without_ttl(two));
    if let Some((one, two)) = differing {
        let (one, two) = (Excerpt(&one.path), Excerpt(&two.path));
        if one.0 == two.0 {
            let message = format!("`{one}` has other metadata the second time");
            session.report.problem_with(Check::ListingStable, message, advice::OTHER_METADATA);
        } else {
            let message = format!("where `{one}` was listed first, `{two}` is the second time");
            session.report.problem(Check::ListingStable, message);
        }
    }
}

/// Lists in small pages, and requests some of them again, the last first.
async fn check_resume(session: &mut Session<'_>, whole: &Listing) {
    let limit = u32::try_from(whole.entries.len().div_ceil(4)).unwrap_or(PAGE_SIZE).clamp(1, PAGE_SIZE);
    let Some(paged) = walk(session, Check::CursorResume, None, limit).await else { return };
    if paged.resumable.is_empty() {
        let reason = match whole.entries.len() {
            0 | 1 => "there are fewer than two entries",
            _ => "the listing has one page, whatever limit is requested",
        };
        return session.report.skip(Check::CursorResume, reason);
    }
    if !whole.paths().eq(paged.paths()) {
        let (whole, paged) = (whole.entries.len(), paged.entries.len());
        session.report.problem_with(
            Check::CursorResume,
            format!("in pages of {limit} the listing has other entries, or another order: {paged} instead of {whole}"),
            advice::PAGED_DIFFERENTLY,
        );
    }
    let step = paged.resumable.len().div_ceil(MAX_RESUMED).max(1);
    for (cursor, expected) in paged.resumable.iter().rev().step_by(step) {
        match list(session, None, Some(cursor), limit).await {
            Ok(page) if page.entries.iter().map(|entry| &entry.path).eq(expected) => {}
            Ok(_) => {
                let cursor = Excerpt(cursor);
                let message = format!("the cursor `{cursor}` leads to another page when it is used again");
                session.report.problem(Check::CursorResume, message);
            }
            Err(none) => none.report(session, Check::CursorResume, "using a cursor again"),
        }
    }
}

/// If the provider uses the last path of a page as the cursor, it cannot recognize foreign cursors. So a page in the
/// answer is not a fault.
async fn check_bad_cursor(session: &mut Session<'_>) {
    for cursor in [FOREIGN_CURSOR, ""] {
        let what = format!("the cursor `{cursor}`, which it did not issue");
        match list(session, None, Some(cursor), PAGE_SIZE).await {
            Err(NoAnswer::Refused(_) | NoAnswer::Limited) => {}
            Err(none) => none.report(session, Check::BadCursor, &what),
            Ok(_) => session.report.note(Check::BadCursor, format!("{what}, is answered by a page")),
        }
    }
}

/// Lists the children of listable entries, and tries to list the children of others. Returns the children.
async fn check_children(session: &mut Session<'_>, entries: &[Entry]) -> Vec<Entry> {
    let (listable, others): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.listable);
    if listable.is_empty() {
        session.report.skip(Check::Children, "no entry is listable");
        return Vec::new();
    }
    if listable.len() > MAX_PARENTS {
        let message =
            format!("of {} listable entries, the children of the first {MAX_PARENTS} were listed", listable.len());
        session.report.note(Check::Children, message);
    }
    let mut children = Vec::new();
    for parent in listable.iter().take(MAX_PARENTS) {
        let listing = walk(session, Check::Children, Some(&parent.path), PAGE_SIZE).await;
        listing.iter().for_each(|listing| check_unique(session, listing));
        children.extend(listing.into_iter().flat_map(|listing| listing.entries));
    }
    let others = others.iter().take(MAX_LEAVES).map(|entry| (entry.path.as_str(), "is not listable"));
    for (path, why) in others.chain([(UNKNOWN_PATH, "does not exist")]) {
        let what = format!("listing `{}`, which {why}", Excerpt(path));
        match list(session, Some(path), None, PAGE_SIZE).await {
            Err(NoAnswer::Refused(_) | NoAnswer::Limited) => {}
            Err(none) => none.report(session, Check::Children, &what),
            Ok(_) => {
                let message = format!("{what}, is answered by a page");
                session.report.problem_with(Check::Children, message, advice::NO_CHILDREN_OF);
            }
        }
    }
    children
}

/// Returns the entries with valid paths, normalized. Reports other entries, and invalid hints.
fn valid_entries(session: &mut Session<'_>, entries: Vec<Entry>) -> Vec<Entry> {
    let mut valid = Vec::new();
    for mut entry in entries {
        session.check_entry(&entry);
        if let Some(path) = session.check_path("the listed path", &entry.path) {
            entry.path = path;
            valid.push(entry);
        }
    }
    valid
}
