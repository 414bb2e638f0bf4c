//! Validation of answers: from the types of [`provider`] to the types of [`resource`](mcp_host_model::resource). All
//! answers of components and of native providers are validated here, and nowhere else.
//!
//! An invalid hint is dropped alone: a priority of 7, a malformed date, icon or MIME type. A path that leaves the
//! mount drops the entry from a listing, and fails a read. Each such fault is counted as the provider's; one log line
//! reports all drops from one answer.
//!
//! All of this is part of the call: a [`WorkBudget`] accounts for it, and it yields. An answer is *measured* first,
//! and rejected as a whole if it has more items than `limits.response-items` or needs more memory than `limits.memory`
//! leaves; allocation starts only after that. The caller's function decides which valid items are kept, so that items
//! which a principal may not see are filtered here, too.

mod dropped;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod hints;
mod measure;

use std::collections::HashSet;
use std::sync::Arc;

pub use self::hints::{HOST_PREFIX, is_icon_size, is_mime_type};

use mcp_host_base::text::{Excerpt, truncate};
use mcp_host_model::provider::{self, ProviderInfo, Template};
use mcp_host_model::resource::{
    Completion, MAX_TOKEN, Resource, ResourceBody, ResourceContents, ResourceTemplate, WatchedChanges,
};
use mcp_host_model::uri::{Mount, Path, PathError, ResourceId, Uri};

use self::dropped::DroppedItems;
use self::hints::Part;
use self::measure::{Measure, check_cost};
use super::fault_recorder::FaultRecorder;
use super::work_budget::{CLOCK_CHECK_INTERVAL_NS, WorkBudget};
use crate::bindings::Progress;
use crate::fault::Fault;

/// The maximum length of a provider's stored name, version and title, each in bytes.
const MAX_NAME: usize = 1024;
/// The maximum length of a provider's stored description in bytes.
const MAX_DESCRIPTION: usize = 65_536;
/// The maximum length of a stored message about a preparation, in bytes.
const MAX_PROGRESS: usize = 500;
/// The maximum length of a provider's cursor in bytes.
const MAX_CURSOR: usize = 4096;
/// The cost of a call of the filter, in nanoseconds of work. The clock is checked every eight calls, because the
/// number of rules is unknown here.
const FILTER_COST: usize = CLOCK_CHECK_INTERVAL_NS / 8;

/// One page of a provider's listing: the valid items that the filter keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct FilteredPage<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// The number of valid items on the page.
    pub size: usize,
    /// The provider's cursor of the next page.
    pub next_cursor: Option<String>,
}

/// The context in which a plugin's answers are validated.
pub(super) struct ValidationContext {
    /// The mount of its URIs.
    pub(super) mount: Mount,
    /// The maximum number of items in one answer.
    pub(super) max_items: usize,
    /// The maximum size of one answer in bytes, if lifting does not enforce it.
    pub(super) max_response_size: Option<u64>,
    /// The recorder of drops.
    pub(super) faults: Arc<FaultRecorder>,
}

/// Validates one answer.
pub(super) struct Validator {
    context: Arc<ValidationContext>,
    /// Whether the provider implements `changes`.
    watches: bool,
    work: WorkBudget,
    measure: Measure,
    dropped: DroppedItems,
}

impl Validator {
    /// Creates a validator for one answer of a plugin. `work` accounts for its work.
    pub(super) fn new(rules: Arc<ValidationContext>, watches: bool, work: WorkBudget) -> Self {
        Self { context: rules, watches, work, measure: Measure::default(), dropped: DroppedItems::default() }
    }

    /// Validates a description, and truncates it.
    pub(super) async fn info(mut self, info: ProviderInfo) -> Result<ProviderInfo, Fault> {
        let texts = [info.title.as_ref(), info.description.as_ref()].into_iter().flatten();
        let texts = texts.chain([&info.name, &info.version]);
        self.measure.add_text_bytes(texts.map(String::len).fold(0, usize::saturating_add));
        self.charge()?;
        Ok(truncate_info(info))
    }

    /// Validates the changes of the watched paths, which are in normal form.
    pub(super) async fn change_set(
        mut self,
        changes: provider::ChangeSet,
        watched: &[String],
    ) -> Result<WatchedChanges, Fault> {
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
                let located = self.compose(&path);
                let Some(located) = self.drop_rejected("a changed path", located) else { continue };
                if unseen.remove(located.path.as_str()) {
                    self.work.charge(located.path.as_str().len())?;
                    changed.push(located.path);
                }
            }
        }
        Ok(WatchedChanges {
            changed,
            token: changes.token,
            listing_changed: changes.listing_changed,
            poll_after: changes.poll_after,
        })
    }

    /// Validates the progress of a preparation, after a call with this token.
    pub(super) async fn progress(mut self, progress: Progress, token: Option<&str>) -> Result<Progress, Fault> {
        let Progress { next_token, percent, message, again_after } = progress;
        let texts = [next_token.as_ref(), message.as_ref()].into_iter().flatten();
        self.measure.add_text_bytes(texts.map(String::len).fold(0, usize::saturating_add));
        self.charge()?;
        match &next_token {
            Some(next) if next.len() > MAX_TOKEN => {
                let length = next.len();
                return Err(Fault::Contract(format!("its token has {length} bytes; {MAX_TOKEN} are allowed")));
            }
            Some(next) if token == Some(next.as_str()) => {
                return Err(Fault::Contract("its token is the one that it was called with".to_owned()));
            }
            _ => {}
        }
        if let Some(percent) = percent.filter(|percent| *percent > 100) {
            return Err(Fault::Contract(format!("it is prepared to {percent} per cent; 100 are allowed")));
        }
        let message = message.map(|message| truncate(message, MAX_PROGRESS));
        Ok(Progress { next_token, percent, message, again_after })
    }

    /// Validates the entries of a page, and returns the part that `keep` returns of each.
    pub(super) async fn page<T>(
        mut self,
        page: provider::Page,
        requested: Option<&str>,
        mut keep: impl FnMut(Resource) -> Option<T>,
    ) -> Result<FilteredPage<T>, Fault> {
        let next_cursor = validate_cursor(page.next_cursor, requested)?;
        self.check_item_count("entries", &page.entries)?;
        self.measure_entries(&page.entries).await?;
        self.charge()?;
        let mut kept = FilteredItems::with_capacity(page.entries.len());
        let mut entries = page.entries.into_iter();
        while let Some(next) = entries.as_slice().first() {
            let cost = check_cost(&next.path, &next.icons, next.meta.as_deref());
            self.work.step(cost.saturating_add(FILTER_COST)).await?;
            let Some(entry) = entries.next() else { break };
            let uri = self.compose_uri(&entry.path);
            if let Some(uri) = self.drop_rejected("an entry", uri) {
                kept.push(keep(self.convert_entry(entry, uri, Part::Listed)));
            }
        }
        Ok(FilteredPage { items: kept.items, size: kept.size, next_cursor })
    }

    /// Validates the templates of a page, and returns those for which the filter returns true.
    pub(super) async fn template_page(
        mut self,
        page: provider::TemplatePage,
        requested: Option<&str>,
        mut filter: impl FnMut(&ResourceTemplate) -> bool,
    ) -> Result<FilteredPage<ResourceTemplate>, Fault> {
        let next_cursor = validate_cursor(page.next_cursor, requested)?;
        self.check_item_count("templates", &page.templates)?;
        self.measure_templates(&page.templates).await?;
        self.charge()?;
        let mut kept = FilteredItems::with_capacity(page.templates.len());
        let mut templates = page.templates.into_iter();
        while let Some(next) = templates.as_slice().first() {
            let cost = check_cost(&next.path_template, &next.icons, next.meta.as_deref());
            // A template's path is parsed more often than an entry's.
            let cost = cost.saturating_add(next.path_template.len().saturating_mul(50));
            self.work.step(cost.saturating_add(FILTER_COST)).await?;
            if let Some(template) = templates.next().and_then(|template| self.convert_template(template)) {
                kept.push(filter(&template).then_some(template));
            }
        }
        Ok(FilteredPage { items: kept.items, size: kept.size, next_cursor })
    }

    pub(super) async fn contents(
        mut self,
        contents: Vec<provider::Contents>,
        requested: &str,
        mut filter: impl FnMut(&ResourceContents) -> bool,
    ) -> Result<Vec<ResourceContents>, Fault> {
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
            let text = if let provider::Body::TextBytes(bytes) = &next.body { bytes.len() } else { 0 };
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

    fn convert_contents(&mut self, contents: provider::Contents) -> Result<ResourceContents, Fault> {
        let uri = self.compose_uri(&contents.entry.path)?;
        let entry = self.convert_entry(contents.entry, uri, Part::Contents);
        let body = match contents.body {
            provider::Body::Text(text) => ResourceBody::Text(text),
            provider::Body::TextBytes(bytes) => {
                let text = String::from_utf8(bytes);
                ResourceBody::Text(text.map_err(|error| {
                    let uri = Excerpt(entry.uri.as_str());
                    Fault::Contract(format!("the text of {uri} is not UTF-8: {}", error.utf8_error()))
                })?)
            }
            provider::Body::Blob(bytes) => ResourceBody::Blob(bytes),
        };
        Ok(ResourceContents { entry, body })
    }

    /// Validates the entry of the requested path, which is in normal form.
    pub(super) async fn stat_entry(mut self, entry: provider::Entry, requested: &str) -> Result<Resource, Fault> {
        self.work.step(check_cost(&entry.path, &entry.icons, entry.meta.as_deref())).await?;
        self.measure_entry(&entry)?;
        self.charge()?;
        let located = self.compose(&entry.path)?;
        if located.path.as_str() != requested {
            let (requested, found) = (Excerpt(requested), Excerpt(&entry.path));
            return Err(Fault::Contract(format!(
                "the entry of `{requested}` was requested, and the entry of `{found}` returned"
            )));
        }
        Ok(self.convert_entry(entry, located.uri, Part::Listed))
    }

    /// Validates a completion: removes the hidden values, then truncates the others to the number that a client may
    /// get. Unless the completion is unrestricted, some values may be hidden. The answer does not depend on them, as
    /// long as the provider offers all that match ([`Completion::MAX_OFFERED`]).
    pub(super) async fn completion(
        mut self,
        given: Completion,
        is_unrestricted: bool,
        mut filter: impl FnMut(&str) -> bool,
    ) -> Result<Completion, Fault> {
        self.check_item_count("completions", &given.values)?;
        self.measure_texts(&given.values).await?;
        self.charge()?;
        let offered = given.values.len();
        let mut values = Vec::new();
        let mut has_more = false;
        for value in given.values {
            // The filter expands and routes the value's URI.
            self.work.step(CLOCK_CHECK_INTERVAL_NS).await?;
            if !filter(&value) {
                continue;
            }
            // One value beyond the maximum shows that there are more.
            has_more = values.len() == Completion::MAX_VALUES;
            if has_more {
                break;
            }
            values.push(value);
        }
        if !is_unrestricted {
            // What the provider says of further values includes hidden ones. It counts only if the provider could not
            // offer all: then visible ones may be missing, too.
            let is_cut = given.has_more && offered >= Completion::MAX_OFFERED;
            let has_more = has_more || is_cut || values.len() == Completion::MAX_VALUES;
            return Ok(Completion { values, total: None, has_more });
        }
        let total = given.total.filter(|_| values.len() == offered.min(Completion::MAX_VALUES));
        Ok(Completion { values, total, has_more: has_more || given.has_more })
    }

    /// Records the fault of a rejected path, which drops its part of the answer.
    fn drop_rejected<T>(&mut self, part: &'static str, composed: Result<T, Fault>) -> Option<T> {
        composed.inspect_err(|fault| self.dropped.record(part, || format!("{part} was left out: {fault}"))).ok()
    }

    /// Composes the path with the mount.
    fn compose(&self, path: &str) -> Result<ResourceId, Fault> {
        self.context.mount.compose(path).map_err(|error| rejected_path(path, &error))
    }

    /// Composes the URI of the path.
    fn compose_uri(&self, path: &str) -> Result<Uri, Fault> {
        self.context.mount.compose_uri(path).map_err(|error| rejected_path(path, &error))
    }

    fn convert_entry(&mut self, entry: provider::Entry, uri: Uri, part: Part) -> Resource {
        let name = match entry.name.is_empty() {
            true => last_segment(&uri, &self.context.mount).to_owned(),
            false => entry.name,
        };
        let path = entry.path.as_str();
        let mut resource = Resource {
            name,
            title: entry.title,
            description: entry.description,
            mime_type: self.mime_type(entry.mime_type, path),
            size: entry.size,
            annotations: self.annotations(entry.audience, entry.priority, entry.last_modified, path),
            icons: self.icons(entry.icons, path),
            listable: entry.listable,
            subscribable: entry.subscribable && self.watches,
            ttl: entry.ttl,
            meta: self.meta(entry.meta, path, part),
            uri,
        };
        if resource.is_directory() {
            // They change with children that may be hidden from some principals.
            resource.size = None;
            resource.annotations.last_modified = None;
        }
        resource
    }

    fn convert_template(&mut self, template: Template) -> Option<ResourceTemplate> {
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
        Some(ResourceTemplate {
            uri_template,
            name: template.name,
            title: template.title,
            description: template.description,
            mime_type: self.mime_type(template.mime_type, path),
            annotations: self.annotations(template.audience, template.priority, template.last_modified, path),
            icons: self.icons(template.icons, path),
            meta: self.meta(template.meta, path, Part::Listed),
        })
    }
}

/// Drops are logged, however the call ends.
impl Drop for Validator {
    fn drop(&mut self) {
        self.dropped.log(&self.context.faults);
    }
}

/// The kept items of a page.
struct FilteredItems<T> {
    items: Vec<T>,
    size: usize,
}

impl<T> FilteredItems<T> {
    /// Allocates capacity for the items, whose memory has been charged.
    fn with_capacity(capacity: usize) -> Self {
        Self { items: Vec::with_capacity(capacity), size: 0 }
    }

    /// Counts a valid item, and adds its kept part.
    fn push(&mut self, kept: Option<T>) {
        self.items.extend(kept);
        self.size = self.size.saturating_add(1);
    }
}

/// Truncates the texts of a description to the maximum stored lengths.
pub(super) fn truncate_info(mut info: ProviderInfo) -> ProviderInfo {
    info.name = truncate(info.name, MAX_NAME);
    info.version = truncate(info.version, MAX_NAME);
    info.title = info.title.map(|title| truncate(title, MAX_NAME));
    info.description = info.description.map(|description| truncate(description, MAX_DESCRIPTION));
    info
}

/// Validates a cursor: it is short enough, and differs from the cursor of the same page.
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

fn rejected_path(path: &str, error: &PathError) -> Fault {
    Fault::Contract(format!("its path `{}` is refused: {error}", Excerpt(path)))
}

/// Returns the last segment of the path of a URI below the mount; empty for the mount itself.
fn last_segment<'u>(uri: &'u Uri, mount: &Mount) -> &'u str {
    let path = uri.as_str().strip_prefix(mount.as_str()).unwrap_or_default();
    let path = path.split('?').next().unwrap_or(path).trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::fuzzing::{block_on, validator};
    use super::*;

    const MEMORY_LIMIT: u64 = 1 << 20;

    fn entry(path: &str, meta: Option<&str>) -> provider::Entry {
        let mut entry = provider::Entry::new(path, "");
        entry.meta = meta.map(str::to_owned);
        entry
    }

    fn page(entries: Vec<provider::Entry>) -> provider::Page {
        provider::Page { entries, next_cursor: None }
    }

    #[test]
    fn what_is_kept_of_a_page_is_in_order_and_all_that_is_valid_counts() {
        let entries = ["a", "../b", "c", "d", "e"].map(|path| entry(path, None));
        let keep = |entry: Resource| (!entry.uri.as_str().ends_with("/c")).then_some(entry);
        let page = block_on(validator(10, MEMORY_LIMIT, false).page(page(entries.into()), None, keep)).unwrap();
        let kept: Vec<_> = page.items.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!((kept, page.size), (vec!["a", "d", "e"], 4));
    }

    #[test]
    fn what_changes_with_hidden_children_is_left_out_of_a_directory() {
        let time = std::time::SystemTime::UNIX_EPOCH;
        let of = |entry: provider::Entry| {
            let page = page(vec![entry.size(7).last_modified(time)]);
            let kept = block_on(validator(10, MEMORY_LIMIT, false).page(page, None, Some)).unwrap();
            let entry = kept.items.into_iter().next().unwrap();
            (entry.size, entry.annotations.last_modified.is_some())
        };
        assert_eq!(of(provider::Entry::directory("a", "a")), (None, false));
        assert_eq!(of(provider::Entry::new("a", "a").listable()), (Some(7), true), "it has content of its own");
        assert_eq!(of(provider::Entry::new("a", "a")), (Some(7), true));
    }

    #[test]
    fn changes_are_those_of_what_is_watched_and_each_is_told_once() {
        let watched = ["a", "b", "c"].map(str::to_owned);
        let changed = ["b", "./b", "x", "../a", "%61", "b"].repeat(1000);
        let mut given = provider::ChangeSet::none("");
        given.changed = changed.into_iter().map(str::to_owned).collect();
        let changes = block_on(validator(10_000, MEMORY_LIMIT, true).change_set(given, &watched)).unwrap();
        assert_eq!(changes.changed.iter().map(Path::as_str).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn progress_is_bounded_and_goes_on() {
        let progress = |given: Progress| block_on(validator(10, MEMORY_LIMIT, false).progress(given, Some("before")));
        let with = |token: &str, percent, message: &str| Progress {
            next_token: Some(token.to_owned()),
            percent: Some(percent),
            message: Some(message.to_owned()),
            again_after: None,
        };
        let good = with(&"t".repeat(MAX_TOKEN), 100, "3 of 5");
        assert_eq!(progress(good.clone()), Ok(good));
        for wrong in [with(&"t".repeat(MAX_TOKEN + 1), 0, ""), with("before", 0, ""), with("t", 101, "")] {
            assert!(matches!(progress(wrong), Err(Fault::Contract(_))));
        }
        let long = progress(with("t", 1, &"é".repeat(MAX_PROGRESS))).unwrap().message.unwrap();
        assert!(long.len() <= MAX_PROGRESS + "…".len(), "{}", long.len());
        let huge = "x".repeat(usize::try_from(MEMORY_LIMIT).unwrap());
        assert!(matches!(progress(with("t", 1, &huge)), Err(Fault::Memory(_) | Fault::MemoryInUse(_))));
    }

    fn complete(given: &Completion, is_unrestricted: bool, is_visible: impl Fn(&str) -> bool) -> (Completion, usize) {
        let mut seen = 0;
        let filter = |value: &str| {
            seen += 1;
            is_visible(value)
        };
        let completed =
            block_on(validator(1000, MEMORY_LIMIT, false).completion(given.clone(), is_unrestricted, filter));
        (completed.unwrap(), seen)
    }

    fn offer(values: impl Iterator<Item = usize>, total: Option<u32>, has_more: bool) -> Completion {
        Completion { values: values.map(|value| value.to_string()).collect(), total, has_more }
    }

    #[test]
    fn no_more_values_are_looked_at_than_it_takes_to_know_that_there_are_more() {
        let (completion, seen) = complete(&offer(0..1000, Some(1000), false), true, |_| true);
        assert_eq!((seen, completion), (101, offer(0..100, Some(1000), true)));
    }

    #[test]
    fn what_is_hidden_changes_nothing_in_a_completion() {
        let is_visible = |value: &str| value.parse::<usize>().unwrap() % 10 == 0;
        for (visible, total, has_more) in [(0, None, false), (300, Some(30), false), (1000, Some(100), true)] {
            let all = offer(0..visible, total, has_more);
            let alone = offer((0..visible).step_by(10), Some(7), !has_more);
            let (hidden, _) = complete(&all, false, is_visible);
            assert_eq!(hidden, complete(&alone, false, is_visible).0, "{visible}");
            assert_eq!((hidden.values.len(), hidden.total), (visible / 10, None));
        }
    }

    #[test]
    fn hidden_values_before_the_visible_ones_take_no_places() {
        const VISIBLE: usize = 42;
        for hidden in [0, 57, 58, 100, 900] {
            let is_visible = |value: &str| value.parse::<usize>().unwrap() >= hidden;
            let all = offer(0..hidden + VISIBLE, None, false);
            let (completion, seen) = complete(&all, false, is_visible);
            assert_eq!(completion, offer(hidden..hidden + VISIBLE, None, false), "{hidden}");
            assert_eq!(seen, hidden + VISIBLE);
        }
        let is_visible = |value: &str| value.parse::<usize>().unwrap() >= 500;
        let (completion, _) = complete(&offer(0..601, None, false), false, is_visible);
        assert_eq!(completion, offer(500..600, None, true), "there is one visible value more than a client gets");
    }

    #[test]
    fn only_a_provider_that_offers_all_that_it_may_tells_a_restricted_client_of_more() {
        let is_visible = |value: &str| value.parse::<usize>().unwrap() < 42;
        for (offered, has_more, expected) in [(1000, true, true), (1000, false, false), (100, true, false)] {
            let (completion, _) = complete(&offer(0..offered, Some(5000), has_more), false, is_visible);
            assert_eq!(completion, offer(0..42, None, expected), "{offered} {has_more}");
        }
    }

    #[test]
    fn an_answer_is_measured_before_anything_is_made_of_it() {
        let made = |_: Resource| -> Option<Resource> { panic!("it was refused") };
        let wide = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(100));
        let refused =
            block_on(validator(100, MEMORY_LIMIT, false).page(page(vec![entry("a", Some(&wide))]), None, made));
        assert!(matches!(refused, Err(Fault::ResponseItems { found: 103, limit: 100, .. })), "{refused:?}");
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
