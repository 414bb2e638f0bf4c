//! From the contract's types to the domain's: the one place where a provider's answer is checked.
//!
//! An entry survives what is wrong with its hints: a priority of 7, a date that is none, a bad icon or MIME type are dropped.
//! A path that leaves the mount drops the entry from a listing and refuses a read. Each such fault is the
//! provider's and is counted; one line of its log tells of all that was dropped from one answer.
//!
//! All of it is part of the call: it is accounted for as [`Work`], and yields. An answer is *measured* first, and refused as a
//! whole if it has more items than `limits.response-items` or needs more memory than `limits.memory` leaves; only then is anything made
//! of it. The one who asks says what to keep of the valid items, so that what a principal may not see is filtered here, too.

mod dropped;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod hints;
mod json;
mod measure;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use self::dropped::DroppedItems;
use self::measure::{Measure, check_cost};
use super::fault::Fault;
use super::fault_recorder::FaultRecorder;
use super::inspect::Info;
use super::work_budget::{CLOCK_CHECK_INTERVAL_NS, WorkBudget};
use crate::engine::bindings::contract;
use crate::resource::{Body, Completion, Contents, Entry, EntryTemplate};
use crate::text::Excerpt;
use crate::uri::{Mount, Path, ResourceId};

/// The longest token that a provider may give, in bytes.
const MAX_TOKEN: usize = 65536;
/// The longest cursor that a provider may give, in bytes.
const MAX_CURSOR: usize = 4096;
/// What asking whether to keep an item counts as, in nanoseconds of work: the clock is looked at every eight, as nobody knows
/// here how many rules there are.
const FILTER_COST: usize = CLOCK_CHECK_INTERVAL_NS / 8;

/// One page of a provider's listing, or what was kept of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// What was kept, each with its place among the valid items of the page, in order.
    pub items: Vec<(usize, T)>,
    /// How many valid items the page has.
    pub size: usize,
    /// The provider's cursor for the page after it.
    pub next_cursor: Option<String>,
}

/// What changed since a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// What to ask with next time.
    pub token: String,
    /// Those of the watched paths that changed, each once.
    pub changed: Vec<Path>,
    /// Whether what is listed changed.
    pub listing_changed: bool,
    /// In how long the provider thinks that it makes sense to ask again.
    pub poll_after: Option<Duration>,
}

/// What all answers of one plugin are checked against.
pub(super) struct ValidationContext {
    /// Where its URIs begin.
    pub(super) mount: Mount,
    /// How many items one answer may have.
    pub(super) max_items: usize,
    /// Where what is dropped is told.
    pub(super) faults: Arc<FaultRecorder>,
}

/// Checks one answer.
pub(super) struct Validator {
    context: Arc<ValidationContext>,
    /// Whether the provider can tell what changed.
    watches: bool,
    work: WorkBudget,
    measure: Measure,
    dropped: DroppedItems,
}

impl Validator {
    /// Checks an answer of a plugin with those rules. What it takes is accounted for by `work`.
    pub(super) fn new(rules: Arc<ValidationContext>, watches: bool, work: WorkBudget) -> Self {
        Self { context: rules, watches, work, measure: Measure::default(), dropped: DroppedItems::default() }
    }

    pub(super) async fn info(mut self, info: contract::ProviderInfo) -> Result<Info, Fault> {
        let texts = [info.title.as_ref(), info.description.as_ref()].into_iter().flatten();
        let texts = texts.chain([&info.name, &info.version]);
        self.measure.add_bytes(texts.map(String::len).fold(0, usize::saturating_add));
        self.charge()?;
        Ok(info.into())
    }

    /// The changes among the paths that were asked about, which are in normal form.
    pub(super) async fn change_set(
        mut self,
        changes: contract::ChangeSet,
        watched: &[String],
    ) -> Result<ChangeSet, Fault> {
        if changes.token.len() > MAX_TOKEN {
            let length = changes.token.len();
            return Err(Fault::Contract(format!("its token has {length} bytes; {MAX_TOKEN} are allowed")));
        }
        self.check_item_count("changes", &changes.changed)?;
        self.measure_texts(&changes.changed).await?;
        let mut changed = Vec::new();
        if !changes.changed.is_empty() {
            let entry = size_of::<(&str, Path)>().saturating_mul(2);
            self.measure.add_bytes(watched.len().saturating_mul(entry));
            self.charge()?;
            self.work.step(watched.len().saturating_mul(50)).await?;
            let mut unseen: HashSet<&str> = watched.iter().map(String::as_str).collect();
            for path in changes.changed {
                self.work.step(check_cost(&path, &[], None)).await?;
                let Some(located) = self.compose_or_drop("a changed path", &path) else { continue };
                if unseen.remove(located.path.as_str()) {
                    self.work.charge(located.path.as_str().len())?;
                    changed.push(located.path);
                }
            }
        }
        Ok(ChangeSet {
            changed,
            token: changes.token,
            listing_changed: changes.listing_changed,
            poll_after: changes.poll_after_ms.map(Duration::from_millis),
        })
    }

    pub(super) async fn page(
        mut self,
        page: contract::Page,
        requested: Option<&str>,
        mut filter: impl FnMut(&Entry) -> bool,
    ) -> Result<Page<Entry>, Fault> {
        let next_cursor = validate_cursor(page.next_cursor, requested)?;
        self.check_item_count("entries", &page.entries)?;
        self.measure_entries(&page.entries).await?;
        self.charge()?;
        let mut kept = FilteredItems::with_capacity(page.entries.len());
        let mut entries = page.entries.into_iter();
        while let Some(next) = entries.as_slice().first() {
            let cost = check_cost(&next.path, &next.icons, next.meta.as_deref());
            self.work.step(cost.saturating_add(FILTER_COST)).await?;
            if let Some(entry) = entries.next()
                && let Some(located) = self.compose_or_drop("an entry", &entry.path)
            {
                kept.push(self.convert_entry(entry, located), &mut filter);
            }
        }
        Ok(Page { items: kept.items, size: kept.size, next_cursor })
    }

    pub(super) async fn template_page(
        mut self,
        page: contract::TemplatePage,
        requested: Option<&str>,
        mut filter: impl FnMut(&EntryTemplate) -> bool,
    ) -> Result<Page<EntryTemplate>, Fault> {
        let next_cursor = validate_cursor(page.next_cursor, requested)?;
        self.check_item_count("templates", &page.templates)?;
        self.measure_templates(&page.templates).await?;
        self.charge()?;
        let mut kept = FilteredItems::with_capacity(page.templates.len());
        let mut templates = page.templates.into_iter();
        while let Some(next) = templates.as_slice().first() {
            let cost = check_cost(&next.path_template, &next.icons, next.meta.as_deref());
            // Its path is parsed more often than that of an entry.
            let cost = cost.saturating_add(next.path_template.len().saturating_mul(50));
            self.work.step(cost.saturating_add(FILTER_COST)).await?;
            if let Some(template) = templates.next().and_then(|template| self.convert_template(template)) {
                kept.push(template, &mut filter);
            }
        }
        Ok(Page { items: kept.items, size: kept.size, next_cursor })
    }

    pub(super) async fn contents(
        mut self,
        contents: Vec<contract::Contents>,
        requested: &str,
        mut filter: impl FnMut(&Contents) -> bool,
    ) -> Result<Vec<Contents>, Fault> {
        self.check_item_count("contents", &contents)?;
        if contents.is_empty() {
            return Err(Fault::Contract(format!(
                "reading `{}` gave neither contents nor a failure",
                Excerpt(requested)
            )));
        }
        self.measure_contents(&contents).await?;
        self.charge()?;
        let mut kept = Vec::with_capacity(contents.len());
        let mut contents = contents.into_iter();
        while let Some(next) = contents.as_slice().first() {
            let text = if let contract::Body::TextBytes(bytes) = &next.body { bytes.len() } else { 0 };
            let cost = check_cost(&next.entry.path, &next.entry.icons, next.entry.meta.as_deref());
            self.work.step(cost.saturating_add(text.div_ceil(4)).saturating_add(FILTER_COST)).await?;
            if let Some(one) = contents.next() {
                let one = self.convert_contents(one)?;
                if filter(&one) {
                    kept.push(one);
                }
            }
        }
        Ok(kept)
    }

    fn convert_contents(&mut self, contents: contract::Contents) -> Result<Contents, Fault> {
        let located = self.compose(&contents.entry.path)?;
        let entry = self.convert_entry(contents.entry, located);
        let body = match contents.body {
            contract::Body::Text(text) => Body::Text(text),
            contract::Body::TextBytes(bytes) => {
                let text = String::from_utf8(bytes);
                Body::Text(text.map_err(|error| {
                    let uri = Excerpt(entry.uri.as_str());
                    Fault::Contract(format!("the text of {uri} is not UTF-8: {}", error.utf8_error()))
                })?)
            }
            contract::Body::Blob(bytes) => Body::Blob(bytes),
        };
        Ok(Contents { entry, body })
    }

    /// The entry of the path that was asked for, which is in normal form.
    pub(super) async fn stat_entry(mut self, entry: contract::Entry, requested: &str) -> Result<Entry, Fault> {
        self.work.step(check_cost(&entry.path, &entry.icons, entry.meta.as_deref())).await?;
        self.measure_entry(&entry)?;
        self.charge()?;
        let located = self.compose(&entry.path)?;
        if located.path.as_str() != requested {
            let (requested, found) = (Excerpt(requested), Excerpt(&entry.path));
            return Err(Fault::Contract(format!("asked about `{requested}`, it told about `{found}`")));
        }
        Ok(self.convert_entry(entry, located))
    }

    /// The completion, cut to what a client may be shown.
    pub(super) async fn completion(
        mut self,
        given: contract::Completion,
        mut filter: impl FnMut(&str) -> bool,
    ) -> Result<Completion, Fault> {
        self.check_item_count("completions", &given.values)?;
        self.measure_texts(&given.values).await?;
        self.charge()?;
        // Those behind the last that may be shown are not looked at.
        let offered = given.values.len();
        let mut values = Vec::new();
        for value in given.values.into_iter().take(Completion::MAX_VALUES) {
            // To know it, its URI is expanded and routed.
            self.work.step(CLOCK_CHECK_INTERVAL_NS).await?;
            if filter(&value) {
                values.push(value);
            }
        }
        let has_more = given.has_more || offered > Completion::MAX_VALUES;
        let total = given.total.filter(|_| values.len() == offered.min(Completion::MAX_VALUES));
        Ok(Completion { values, total, has_more })
    }

    /// The path behind the mount; one that is refused drops that part of the answer.
    fn compose_or_drop(&mut self, part: &'static str, path: &str) -> Option<ResourceId> {
        let located = self.compose(path);
        located.inspect_err(|fault| self.dropped.record(part, || format!("{part} was left out: {fault}"))).ok()
    }

    /// The path behind the mount.
    fn compose(&self, path: &str) -> Result<ResourceId, Fault> {
        self.context
            .mount
            .compose(path)
            .map_err(|error| Fault::Contract(format!("its path `{}` is refused: {error}", Excerpt(path))))
    }

    fn convert_entry(&mut self, entry: contract::Entry, located: ResourceId) -> Entry {
        let name = if entry.name.is_empty() { last_segment(&located.path).to_owned() } else { entry.name };
        let path = entry.path.as_str();
        Entry {
            name,
            title: entry.title,
            description: entry.description,
            mime_type: self.mime_type(entry.mime_type, path),
            size: entry.size,
            annotations: self.annotations(entry.annotations, path),
            icons: self.icons(entry.icons, path),
            listable: entry.listable,
            subscribable: entry.subscribable && self.watches,
            ttl: entry.ttl_ms.map(Duration::from_millis),
            meta: self.meta(entry.meta, path),
            uri: located.uri,
        }
    }

    fn convert_template(&mut self, template: contract::EntryTemplate) -> Option<EntryTemplate> {
        let path = template.path_template.as_str();
        let uri_template = match self.context.mount.compose_template(path) {
            Ok(uri_template) => uri_template,
            Err(error) => {
                let path = Excerpt(path);
                self.dropped.record("template", || {
                    format!("a template was left out: broke the contract: `{path}` is refused: {error}")
                });
                return None;
            }
        };
        Some(EntryTemplate {
            uri_template,
            name: template.name,
            title: template.title,
            description: template.description,
            mime_type: self.mime_type(template.mime_type, path),
            annotations: self.annotations(template.annotations, path),
            icons: self.icons(template.icons, path),
            meta: self.meta(template.meta, path),
        })
    }
}

/// What was dropped is told however the call goes on.
impl Drop for Validator {
    fn drop(&mut self) {
        self.dropped.log(&self.context.faults);
    }
}

/// The items of a page that are kept.
struct FilteredItems<T> {
    items: Vec<(usize, T)>,
    size: usize,
}

impl<T> FilteredItems<T> {
    /// None yet of at most so many, the memory for which is charged.
    fn with_capacity(capacity: usize) -> Self {
        Self { items: Vec::with_capacity(capacity), size: 0 }
    }

    /// One more valid item.
    fn push(&mut self, item: T, filter: &mut impl FnMut(&T) -> bool) {
        if filter(&item) {
            self.items.push((self.size, item));
        }
        self.size = self.size.saturating_add(1);
    }
}

/// A cursor that leads on: short enough, and not the one that led here.
fn validate_cursor(next: Option<String>, requested: Option<&str>) -> Result<Option<String>, Fault> {
    match next {
        Some(next) if next.len() > MAX_CURSOR => {
            Err(Fault::Contract(format!("its cursor has {} bytes; {MAX_CURSOR} are allowed", next.len())))
        }
        Some(next) if requested == Some(next.as_str()) => {
            Err(Fault::Contract("its cursor leads back to the page that it came with".to_owned()))
        }
        next => Ok(next),
    }
}

fn last_segment(path: &Path) -> &str {
    let path = path.as_str();
    let path = path.split('?').next().unwrap_or(path).trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::fuzzing::{block_on, validator};
    use super::*;

    const MEMORY_LIMIT: u64 = 1 << 20;

    fn entry(path: &str, meta: Option<&str>) -> contract::Entry {
        contract::Entry {
            path: path.to_owned(),
            name: String::new(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            annotations: None,
            icons: Vec::new(),
            listable: false,
            subscribable: false,
            ttl_ms: None,
            meta: meta.map(str::to_owned),
        }
    }

    fn page(entries: Vec<contract::Entry>) -> contract::Page {
        contract::Page { entries, next_cursor: None }
    }

    #[test]
    fn what_is_kept_of_a_page_has_its_place_among_what_is_valid() {
        let entries = ["a", "../b", "c", "d", "e"].map(|path| entry(path, None));
        let filter = |entry: &Entry| !entry.uri.as_str().ends_with("/c");
        let page = block_on(validator(10, MEMORY_LIMIT, false).page(page(entries.into()), None, filter)).unwrap();
        let kept: Vec<_> = page.items.iter().map(|(place, entry)| (*place, entry.name.as_str())).collect();
        assert_eq!((kept, page.size), (vec![(0, "a"), (2, "d"), (3, "e")], 4));
    }

    #[test]
    fn changes_are_those_of_what_is_watched_and_each_is_told_once() {
        let watched = ["a", "b", "c"].map(str::to_owned);
        let changed = ["b", "./b", "x", "../a", "%61", "b"].repeat(1000);
        let given = contract::ChangeSet {
            token: String::new(),
            changed: changed.into_iter().map(str::to_owned).collect(),
            listing_changed: false,
            poll_after_ms: None,
        };
        let changes = block_on(validator(10_000, MEMORY_LIMIT, true).change_set(given, &watched)).unwrap();
        assert_eq!(changes.changed.iter().map(Path::as_str).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn only_values_that_may_be_shown_are_looked_at() {
        let values = (0..1000).map(|value| value.to_string()).collect();
        let given = contract::Completion { values, total: Some(1000), has_more: false };
        let mut seen = 0;
        let filter = |_: &str| {
            seen += 1;
            seen > 1
        };
        let completion = block_on(validator(1000, MEMORY_LIMIT, false).completion(given, filter)).unwrap();
        assert_eq!((seen, completion.values.len()), (100, 99));
        assert_eq!((completion.total, completion.has_more), (None, true), "what is hidden is not counted");
    }

    #[test]
    fn an_answer_is_measured_before_anything_is_made_of_it() {
        let made = |_: &Entry| panic!("it was refused");
        let wide = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(100));
        let refused =
            block_on(validator(100, MEMORY_LIMIT, false).page(page(vec![entry("a", Some(&wide))]), None, made));
        assert!(matches!(refused, Err(Fault::Items { found: 103, limit: 100, .. })), "{refused:?}");
        for entries in [vec![entry("a", Some(&wide)); 100], vec![entry(&"x".repeat(1_100_000), None)]] {
            let refused = block_on(validator(1_000_000, MEMORY_LIMIT, false).page(page(entries), None, made));
            assert_eq!(refused.map(drop), Err(Fault::Memory(MEMORY_LIMIT)));
        }
    }

    #[test]
    fn a_cursor_that_does_not_lead_on_is_refused() {
        assert_eq!(validate_cursor(Some("b".into()), Some("a")), Ok(Some("b".to_owned())));
        assert_eq!(validate_cursor(None, Some("a")), Ok(None));
        validate_cursor(Some("a".into()), Some("a")).unwrap_err();
        validate_cursor(Some("x".repeat(MAX_CURSOR + 1)), None).unwrap_err();
    }
}
