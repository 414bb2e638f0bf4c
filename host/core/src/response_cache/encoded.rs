//! Encoded responses: JSON of a server, which is opaque here, with the data for access decisions and cache
//! hints.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use mcp_host_engine::plugin::FilteredPage;
use mcp_host_model::resource::{Footprint, Resource, ResourceContents};
use mcp_host_model::uri::{Mount, Uri};

use crate::access::Policy;

/// The JSON form of a response. Revisions of MCP with equal forms encode objects equally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EncodingForm(pub u8);

/// A page of a provider's listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageKey<'a> {
    /// The provider's cursor.
    pub(crate) cursor: Option<&'a str>,
    /// The requested number of items.
    pub(crate) size: u32,
    pub(crate) form: EncodingForm,
}

/// Identifies which resources a principal sees: two principals with the same id always see the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ViewId(pub(super) u64);

impl ViewId {
    /// The view of principals that may list and read everything below the mount.
    pub(crate) const WHOLE: Self = Self(u64::MAX);

    /// Returns the view that a policy gives of the plugin at this mount.
    pub(crate) fn of(policy: &Policy, mount: &Mount) -> Self {
        if policy.shows_all_below(mount) { Self::WHOLE } else { Self(policy.id()) }
    }

    /// Returns the view, unless it shows everything.
    pub(super) fn part(self) -> Option<Self> {
        (self != Self::WHOLE).then_some(self)
    }
}

/// The response to a read, for one principal.
pub enum ReadResponse {
    /// Contents that are not cached.
    Contents(Vec<ResourceContents>),
    /// Contents that are cached, all of which the principal may read.
    Encoded {
        /// The contents.
        contents: Arc<EncodedContents>,
        /// Whether they were cached before.
        is_hit: bool,
    },
}

/// All contents of a read as JSON.
#[derive(Debug)]
pub struct EncodedContents {
    /// The array of contents.
    pub json: Bytes,
    /// The resources that the contents belong to.
    pub uris: Box<[Uri]>,
    /// The next parts that their notices name.
    pub next_parts: Box<[Uri]>,
    /// The size of the contents in bytes before they were encoded.
    pub len: u64,
    /// When the response expires.
    pub expires: Instant,
}

/// The number of access decisions after which a task yields.
const DECISIONS_BETWEEN_YIELDS: usize = 64;
/// The maximum number of views whose visible items a page remembers.
const MAX_VIEWS: usize = 16;

/// The memory for an item in addition to its URI: its expiry, and a run for every second item of each view.
const ITEM_OVERHEAD: usize = size_of::<Option<Instant>>() + MAX_VIEWS * size_of::<Range<usize>>() / 2;

/// Resources as JSON.
#[derive(Debug)]
pub struct EncodedResources {
    /// The objects, separated by commas.
    pub json: Bytes,
    /// The URI of each resource, and the end of its object in the JSON.
    pub items: Vec<(Uri, usize)>,
}

/// The items of a page that a view shows, as ranges of consecutive items.
type Runs = Arc<[Range<usize>]>;

/// A page of a provider's listing as JSON: all its valid items.
#[derive(Debug)]
pub(crate) struct EncodedPage {
    resources: EncodedResources,
    /// When each item expires; none if it has no time to live.
    ends: Vec<Option<Instant>>,
    /// The provider's cursor of the next page.
    next_cursor: Option<String>,
    /// The visible runs of the views that were decided last.
    visible: Mutex<VecDeque<(ViewId, Runs)>>,
}

/// Whether the visible part of a page may be served. Hidden items make no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Validity {
    /// All items are valid.
    Holds,
    /// All items have a time to live, and one of them has expired.
    Expired,
    /// An item has no time to live.
    NeverHolds,
}

/// Consecutive items of a page, at least one.
#[derive(Clone, Debug)]
pub struct EncodedRun {
    page: Arc<EncodedPage>,
    range: Range<usize>,
}

/// A resource of a listing, or several resources of a cached page.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all of them are resources, which are not to be boxed one by one")]
pub enum ListedResources {
    /// A resource that is not cached.
    One(Resource),
    /// Resources of a cached page.
    Encoded(EncodedRun),
}

impl EncodedPage {
    /// Creates a page of encoded resources, with the time at which each expires; none for a resource without
    /// a time to live.
    pub(super) fn new(resources: EncodedResources, ends: Vec<Option<Instant>>, next_cursor: Option<String>) -> Self {
        Self { resources, ends, next_cursor, visible: Mutex::default() }
    }

    /// Returns the approximate memory of the page, in bytes.
    pub(super) fn memory(&self) -> usize {
        let item = |(uri, _): &(Uri, usize)| {
            uri.as_str().len().saturating_add(size_of::<(Uri, usize)>()).saturating_add(ITEM_OVERHEAD)
        };
        let cursor = self.next_cursor.as_ref().map_or(0, String::len);
        let items = self.resources.items.iter().map(item).fold(0, usize::saturating_add);
        items.saturating_add(self.resources.json.len()).saturating_add(cursor)
    }

    /// Returns the runs of items that a view shows. Yields in between, because a provider decides how many
    /// items there are.
    pub(super) async fn visible_runs(&self, view: ViewId, is_visible: impl Fn(&Uri) -> bool) -> Runs {
        let known = self.visible.lock().iter().find(|(known, _)| *known == view).map(|(_, runs)| runs.clone());
        if let Some(runs) = known {
            return runs;
        }
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (index, (uri, _)) in self.resources.items.iter().enumerate() {
            yield_between_decisions(index).await;
            if is_visible(uri) {
                let next = index.saturating_add(1);
                match runs.last_mut().filter(|run| run.end == index) {
                    Some(run) => run.end = next,
                    None => runs.push(index..next),
                }
            }
        }
        let runs: Runs = runs.into();
        let mut visible = self.visible.lock();
        visible.truncate(MAX_VIEWS.saturating_sub(1));
        visible.push_front((view, runs.clone()));
        runs
    }

    /// Returns whether all items of these runs are valid at this time.
    pub(super) fn validity(&self, runs: &[Range<usize>], now: Instant) -> Validity {
        runs.iter().map(|run| self.validity_of(run, now)).max().unwrap_or(Validity::Holds)
    }

    fn validity_of(&self, run: &Range<usize>, now: Instant) -> Validity {
        let ends = self.ends.get(run.clone()).unwrap_or_default();
        // `None` is the minimum.
        match ends.iter().min() {
            Some(None) => Validity::NeverHolds,
            Some(Some(end)) if *end <= now => Validity::Expired,
            _ => Validity::Holds,
        }
    }

    /// Returns the items of these runs.
    pub(super) fn visible(self: &Arc<Self>, runs: &[Range<usize>]) -> FilteredPage<ListedResources> {
        let run =
            |range: &Range<usize>| ListedResources::Encoded(EncodedRun { page: self.clone(), range: range.clone() });
        FilteredPage {
            items: runs.iter().map(run).collect(),
            size: self.resources.items.len(),
            next_cursor: self.next_cursor.clone(),
        }
    }

    /// The start of an item's object in the JSON.
    fn start(&self, index: usize) -> usize {
        let before = index.checked_sub(1).and_then(|before| self.resources.items.get(before));
        before.map_or(0, |(_, end)| end.saturating_add(",".len()))
    }

    /// The end of an item's object in the JSON.
    fn end(&self, index: usize) -> usize {
        self.resources.items.get(index).map_or(0, |(_, end)| *end)
    }
}

impl EncodedRun {
    /// The objects, separated by commas.
    pub fn json(&self) -> Bytes {
        self.page.resources.json.slice(self.json_range())
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns how many of the first items take at most the given number of bytes of JSON.
    pub(crate) fn count_within(&self, bytes: usize) -> usize {
        let most = self.page.start(self.range.start).saturating_add(bytes);
        let items = self.page.resources.items.get(self.range.clone()).unwrap_or_default();
        items.partition_point(|(_, end)| *end <= most)
    }

    /// Keeps the first `count` items and returns the others, if there are any.
    pub(crate) fn split_off(&mut self, count: usize) -> Option<Self> {
        let middle = self.range.start.saturating_add(count).min(self.range.end);
        let rest = middle..self.range.end;
        self.range.end = middle;
        (!rest.is_empty()).then(|| Self { page: self.page.clone(), range: rest })
    }

    fn json_range(&self) -> Range<usize> {
        self.page.start(self.range.start)..self.page.end(self.range.end.saturating_sub(1))
    }
}

impl ListedResources {
    /// Returns the time for which all resources are valid from `now` on; zero if a provider sets none.
    pub fn ttl(&self, now: Instant) -> Duration {
        match self {
            Self::One(entry) => entry.ttl.unwrap_or_default(),
            Self::Encoded(run) => {
                let ends = run.page.ends.get(run.range.clone()).unwrap_or_default();
                let end = ends.iter().min().copied().flatten();
                end.map_or(Duration::ZERO, |end| end.saturating_duration_since(now))
            }
        }
    }
}

impl Footprint for ListedResources {
    fn footprint(&self) -> usize {
        match self {
            Self::One(entry) => entry.footprint(),
            Self::Encoded(run) => run.json_range().len(),
        }
    }
}

/// Yields after each [`DECISIONS_BETWEEN_YIELDS`] decisions.
pub(super) async fn yield_between_decisions(index: usize) {
    if index % DECISIONS_BETWEEN_YIELDS == DECISIONS_BETWEEN_YIELDS - 1 {
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_model::uri::Mount;

    /// A page of items with these JSON texts.
    fn page(texts: &[&str]) -> Arc<EncodedPage> {
        let mount: Mount = "test:///".parse().unwrap();
        let mut json = String::new();
        let mut items = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            json.push_str(if index == 0 { "" } else { "," });
            json.push_str(text);
            items.push((mount.compose(&index.to_string()).unwrap().uri, json.len()));
        }
        let now = Instant::now();
        let ends = (1..).map(|seconds| Some(now + Duration::from_secs(seconds))).take(texts.len()).collect();
        Arc::new(EncodedPage::new(EncodedResources { json: json.into(), items }, ends, None))
    }

    fn texts(runs: &[EncodedRun]) -> Vec<Bytes> {
        runs.iter().map(EncodedRun::json).collect()
    }

    #[tokio::test]
    async fn a_view_shows_runs_of_items_and_is_decided_once() {
        let page = page(&["{0}", "{1}", "{22}", "{3}"]);
        let even = |uri: &Uri| !uri.as_str().ends_with('1');
        let runs = page.visible_runs(ViewId(1), even).await;
        let runs: Vec<_> = runs.iter().map(|run| EncodedRun { page: page.clone(), range: run.clone() }).collect();
        assert_eq!(texts(&runs), ["{0}", "{22},{3}"]);
        let again = page.visible_runs(ViewId(1), |_| unreachable!("it was decided")).await;
        assert_eq!(*again, [0..1, 2..4]);
        assert!(page.visible_runs(ViewId(2), |_| false).await.is_empty());
        for view in 0..100 {
            page.visible_runs(ViewId(view), |_| true).await;
        }
        assert_eq!(page.visible.lock().len(), MAX_VIEWS);
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "they are runs")]
    fn only_the_items_that_a_view_shows_decide_whether_it_may_be_served() {
        let now = Instant::now();
        let seconds = |seconds| Some(now + Duration::from_secs(seconds));
        let resources = EncodedResources { json: Bytes::new(), items: Vec::new() };
        let page = EncodedPage::new(resources, vec![seconds(1), seconds(9), None], None);
        for (runs, seconds, expected) in [
            (vec![], 100, Validity::Holds),
            (vec![0..2], 0, Validity::Holds),
            (vec![0..2], 1, Validity::Expired),
            (vec![1..2], 8, Validity::Holds),
            (vec![0..1, 2..3], 0, Validity::NeverHolds),
        ] {
            assert_eq!(page.validity(&runs, now + Duration::from_secs(seconds)), expected, "{runs:?} {seconds}");
        }
    }

    #[test]
    fn a_run_is_cut_between_items() {
        let mut run = EncodedRun { page: page(&["{0}", "{1}", "{22}", "{3}"]), range: 1..4 };
        assert_eq!(run.json(), "{1},{22},{3}");
        let counts = [0, 2, 3, 7, 8, 11, 12, 100].map(|bytes| run.count_within(bytes));
        assert_eq!(counts, [0, 0, 1, 1, 2, 2, 3, 3]);
        let now = Instant::now();
        assert_eq!(ListedResources::Encoded(run.clone()).ttl(now).as_secs_f64().ceil(), 2.0);
        let rest = run.split_off(1).unwrap();
        assert_eq!(texts(&[run.clone(), rest]), ["{1}", "{22},{3}"]);
        assert!(run.split_off(1).is_none());
        assert_eq!(run.len(), 1);
    }
}
