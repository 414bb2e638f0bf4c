//! The subscriptions of a shared session: those in its cached record, and the changes that are not written yet.
//!
//! Both are keyed by the normal form of the URI, so all spellings of a resource are one subscription, and a request
//! costs one normalization and lookups in search trees, O(log n). The spelling of the first request is kept, because
//! notifications have it. Normal forms depend on the mounts, so they are computed again after a reload.
//!
//! The bounds of a [record](mcp_resource_host::host::SessionRecord) apply to the cached record with the changes:
//! [`MAX_SUBSCRIPTIONS`], and [`MAX_URI_BYTES`] of their spellings. They are checked before a change is added, whether
//! or not the record can be written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcp_resource_host::host::{Host, MAX_SUBSCRIPTIONS, MAX_URI_BYTES};

/// The maximum number of pending cancellations when one is added that is not known to be in the record.
const MAX_UNKNOWN_CANCELLED: usize = 64;

/// The normal forms of URIs at this host.
pub(super) trait NormalForms: Send + Sync {
    /// Returns a number that changes whenever normal forms may have changed.
    fn generation(&self) -> u64;

    /// Returns the normal form of a URI, which is the same for all its spellings; the URI itself if no plugin owns it.
    fn normal_form(&self, uri: &str) -> String;
}

impl NormalForms for Host {
    fn generation(&self) -> u64 {
        Self::generation(self)
    }

    fn normal_form(&self, uri: &str) -> String {
        self.normalize(uri).map_or_else(|| uri.to_owned(), String::from)
    }
}

/// A map by normal form.
type ByForm<T> = BTreeMap<Box<str>, T>;

/// A spelling of a URI. None if it is the normal form.
type Spelling = Option<Box<str>>;

/// A change that is not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pending {
    Subscribed(Spelling),
    Cancelled,
}

/// The pending changes at a point in time.
#[derive(Clone, Debug)]
pub(super) struct PendingSubscriptions {
    generation: u64,
    by_form: ByForm<Pending>,
}

/// The number of subscriptions, and the bytes of their spellings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    count: usize,
    bytes: usize,
}

/// The subscriptions of a session.
pub(super) struct Subscriptions {
    forms: Arc<dyn NormalForms>,
    /// The generation of the normal forms.
    generation: u64,
    /// The subscriptions in the record.
    recorded: ByForm<Spelling>,
    pending: ByForm<Pending>,
    /// The number of pending cancellations.
    cancelled: usize,
    /// The size of the record with the pending changes.
    size: Size,
}

impl Subscriptions {
    /// Creates the subscriptions of a record with these URIs.
    pub(super) fn new(forms: Arc<dyn NormalForms>, recorded: BTreeSet<String>) -> Self {
        let (generation, size) = (forms.generation(), Size::default());
        let mut new = Self { forms, generation, recorded: ByForm::new(), pending: ByForm::new(), cancelled: 0, size };
        new.set_recorded(recorded);
        new
    }

    /// Returns whether there are pending changes.
    pub(super) fn has_changes(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the pending changes.
    pub(super) fn pending(&self) -> PendingSubscriptions {
        PendingSubscriptions { generation: self.generation, by_form: self.pending.clone() }
    }

    /// Replaces the subscriptions in the record: it was read. Of several spellings of a resource, the first is kept.
    pub(super) fn set_recorded(&mut self, uris: BTreeSet<String>) {
        self.renew_forms();
        self.recorded = ByForm::new();
        for uri in uris {
            let form = self.forms.normal_form(&uri);
            let spelling = (uri != form).then(|| uri.into());
            self.recorded.entry(form.into()).or_insert(spelling);
        }
        self.size = self.measured();
    }

    /// Adds a pending subscription. It is written even if the cached record has it, because the cache may be outdated.
    /// Returns false if there would be too many subscriptions, or too many bytes of URIs.
    #[must_use]
    pub(super) fn subscribe(&mut self, uri: &str) -> bool {
        self.renew_forms();
        let form = self.forms.normal_form(uri);
        let known = match (self.recorded.get(&*form), self.pending.get(&*form)) {
            (Some(spelling), _) | (None, Some(Pending::Subscribed(spelling))) => Some(spelling.clone()),
            (None, Some(Pending::Cancelled) | None) => None,
        };
        let spelling = known.unwrap_or_else(|| (uri != form).then(|| uri.into()));
        if self.length(&form).is_none() {
            let bytes = self.size.bytes.saturating_add(length(&form, &spelling));
            if self.size.count >= MAX_SUBSCRIPTIONS || bytes > MAX_URI_BYTES {
                return false;
            }
        }
        self.set_pending(&form, Some(Pending::Subscribed(spelling)));
        true
    }

    /// Adds a pending cancellation. One that is not known to be in the record is forgotten if many are pending.
    pub(super) fn cancel(&mut self, uri: &str) {
        self.renew_forms();
        let form = self.forms.normal_form(uri);
        let is_kept = self.recorded.contains_key(&*form) || self.cancelled < MAX_UNKNOWN_CANCELLED;
        self.set_pending(&form, is_kept.then_some(Pending::Cancelled));
    }

    /// Removes the pending change of a resource.
    pub(super) fn withdraw(&mut self, uri: &str) {
        self.renew_forms();
        let form = self.forms.normal_form(uri);
        self.set_pending(&form, None);
    }

    /// Applies pending changes that were written.
    pub(super) fn set_written(&mut self, written: PendingSubscriptions) {
        self.renew_forms();
        let by_form = match written.generation == self.generation {
            true => written.by_form,
            false => self.with_new_forms(written.by_form, Pending::spelling),
        };
        for (form, change) in by_form {
            // Changes that were made meanwhile are still pending.
            if self.pending.get(&form).is_some_and(|pending| pending.is_same(&change)) {
                self.pending.remove(&form);
            }
            match change {
                Pending::Subscribed(spelling) => {
                    self.recorded.entry(form).or_insert(spelling);
                }
                Pending::Cancelled => {
                    self.recorded.remove(&form);
                }
            }
        }
        self.count_cancelled();
        self.size = self.measured();
    }

    /// Returns whether the session has a subscription to a resource with this normal form.
    pub(super) fn contains(&mut self, form: &str) -> bool {
        self.renew_forms();
        self.length(form).is_some()
    }

    /// Returns the normal form of a URI.
    pub(super) fn normal_form(&self, uri: &str) -> String {
        self.forms.normal_form(uri)
    }

    /// Returns the URIs of all subscriptions, as requested.
    pub(super) fn uris(&self) -> BTreeSet<String> {
        self.all().map(|(form, spelling)| spelled(form, spelling).to_owned()).collect()
    }

    /// Returns the same URIs by normal form.
    pub(super) fn by_form(&mut self) -> BTreeMap<String, String> {
        self.renew_forms();
        self.all().map(|(form, spelling)| (form.to_owned(), spelled(form, spelling).to_owned())).collect()
    }

    /// The subscriptions in the record with the pending changes.
    fn all(&self) -> impl Iterator<Item = (&str, &Spelling)> {
        let recorded = self.recorded.iter();
        let recorded = recorded.filter(move |(form, _)| self.pending.get(*form) != Some(&Pending::Cancelled));
        let new = self.pending.iter().filter_map(move |(form, change)| match change {
            Pending::Subscribed(spelling) if !self.recorded.contains_key(form) => Some((form, spelling)),
            _ => None,
        });
        recorded.chain(new).map(|(form, spelling)| (&**form, spelling))
    }

    /// The bytes of the spelling of a subscription. None if there is none.
    fn length(&self, form: &str) -> Option<usize> {
        match (self.pending.get(form), self.recorded.get(form)) {
            (Some(Pending::Cancelled), _) | (None, None) => None,
            (_, Some(spelling)) | (Some(Pending::Subscribed(spelling)), None) => Some(length(form, spelling)),
        }
    }

    /// Sets or removes the pending change of a resource.
    fn set_pending(&mut self, form: &str, change: Option<Pending>) {
        let is_cancelled = change == Some(Pending::Cancelled);
        let before = self.length(form);
        let replaced = match change {
            Some(change) => self.pending.insert(form.into(), change),
            None => self.pending.remove(form),
        };
        let was_cancelled = replaced == Some(Pending::Cancelled);
        self.cancelled =
            self.cancelled.saturating_sub(usize::from(was_cancelled)).saturating_add(usize::from(is_cancelled));
        self.size = self.size.without(before).with(self.length(form));
    }

    fn measured(&self) -> Size {
        self.all().fold(Size::default(), |size, (form, spelling)| size.with(Some(length(form, spelling))))
    }

    fn count_cancelled(&mut self) {
        self.cancelled = self.pending.values().filter(|change| **change == Pending::Cancelled).count();
    }

    /// Computes all normal forms again if a reload may have changed them.
    fn renew_forms(&mut self) {
        let generation = self.forms.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        let (recorded, pending) = (std::mem::take(&mut self.recorded), std::mem::take(&mut self.pending));
        self.recorded = self.with_new_forms(recorded, |spelling| spelling.as_deref());
        self.pending = self.with_new_forms(pending, Pending::spelling);
        self.count_cancelled();
        self.size = self.measured();
    }

    /// Returns a map by the current normal forms.
    fn with_new_forms<T: Respelled>(&self, old: ByForm<T>, spelling: impl Fn(&T) -> Option<&str>) -> ByForm<T> {
        let renewed = old.into_iter().map(|(form, value)| {
            let uri: Box<str> = spelling(&value).map_or(form, Box::from);
            let form = self.forms.normal_form(&uri);
            let value = value.respelled((*uri != *form).then_some(uri));
            (form.into(), value)
        });
        renewed.collect()
    }
}

/// A value with a spelling.
trait Respelled {
    fn respelled(self, spelling: Spelling) -> Self;
}

impl Respelled for Spelling {
    fn respelled(self, spelling: Spelling) -> Self {
        spelling
    }
}

impl Respelled for Pending {
    fn respelled(self, spelling: Spelling) -> Self {
        match self {
            Self::Subscribed(_) => Self::Subscribed(spelling),
            Self::Cancelled => Self::Cancelled,
        }
    }
}

impl Pending {
    /// Returns the spelling, if it differs from the normal form.
    fn spelling(&self) -> Option<&str> {
        match self {
            Self::Subscribed(spelling) => spelling.as_deref(),
            Self::Cancelled => None,
        }
    }

    /// Returns whether both are subscriptions, or both are cancellations.
    fn is_same(&self, other: &Self) -> bool {
        (*self == Self::Cancelled) == (*other == Self::Cancelled)
    }
}

impl Size {
    /// Returns the size with a subscription whose spelling has this length.
    fn with(self, length: Option<usize>) -> Self {
        let Some(length) = length else { return self };
        Self { count: self.count.saturating_add(1), bytes: self.bytes.saturating_add(length) }
    }

    /// Returns the size without this subscription.
    fn without(self, length: Option<usize>) -> Self {
        let Some(length) = length else { return self };
        Self { count: self.count.saturating_sub(1), bytes: self.bytes.saturating_sub(length) }
    }
}

/// Returns a URI in its spelling.
fn spelled<'a>(form: &'a str, spelling: &'a Spelling) -> &'a str {
    spelling.as_deref().unwrap_or(form)
}

fn length(form: &str, spelling: &Spelling) -> usize {
    spelled(form, spelling).len()
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use super::*;

    /// The normal form is the URI in lower case, and in the second generation the URI itself. Counts normalizations.
    #[derive(Default)]
    pub(in crate::http::sessions) struct LowerCase {
        generation: AtomicU64,
        count: AtomicUsize,
    }

    impl NormalForms for LowerCase {
        fn generation(&self) -> u64 {
            self.generation.load(Ordering::Relaxed)
        }

        fn normal_form(&self, uri: &str) -> String {
            self.count.fetch_add(1, Ordering::Relaxed);
            if self.generation() == 1 { uri.to_owned() } else { uri.to_lowercase() }
        }
    }

    fn set<const N: usize>(uris: [&str; N]) -> BTreeSet<String> {
        uris.map(str::to_owned).into()
    }

    fn subscriptions<const N: usize>(recorded: [&str; N]) -> (Arc<LowerCase>, Subscriptions) {
        let forms = Arc::new(LowerCase::default());
        let subscriptions = Subscriptions::new(forms.clone(), set(recorded));
        (forms, subscriptions)
    }

    #[test]
    fn spellings_of_one_resource_are_one_subscription() {
        let (_, mut subscriptions) = subscriptions(["A://x/f", "a://x/F", "a://x/g"]);
        assert_eq!(subscriptions.uris(), set(["A://x/f", "a://x/g"]));
        for spelling in ["a://x/h", "a://x/H", "A://x/H", "a://X/f"] {
            assert!(subscriptions.subscribe(spelling));
        }
        assert_eq!(subscriptions.uris(), set(["A://x/f", "a://x/g", "a://x/h"]));
        assert_eq!(subscriptions.pending.len(), 2);
        subscriptions.cancel("a://x/f");
        assert!(!subscriptions.contains("a://x/f") && subscriptions.contains("a://x/h"));
        subscriptions.withdraw("A://X/F");
        assert_eq!(subscriptions.by_form().remove("a://x/f"), Some("A://x/f".to_owned()));
    }

    #[test]
    fn a_subscription_beyond_the_bounds_of_a_record_is_refused_though_none_is_written() {
        let (forms, mut many) = subscriptions([]);
        for number in 0..MAX_SUBSCRIPTIONS {
            assert!(many.subscribe(&format!("a://x/{number}")));
        }
        assert_eq!(forms.count.load(Ordering::Relaxed), MAX_SUBSCRIPTIONS, "one normalization each");
        assert!(!many.subscribe("a://x/more"));
        assert!(many.subscribe("A://x/7"), "it is there");
        assert_eq!(many.pending.len(), MAX_SUBSCRIPTIONS);
        many.cancel("a://x/7");
        assert!(many.subscribe("a://x/more") && !many.subscribe("a://x/7"));

        let (_, mut long) = subscriptions([]);
        let uri = |number: usize| format!("a://x/{number:0>8186}");
        for number in 0..MAX_URI_BYTES / 8192 {
            assert!(long.subscribe(&uri(number)));
        }
        assert_eq!(long.size.bytes, MAX_URI_BYTES);
        assert!(!long.subscribe("a://x/more"));
        long.cancel(&uri(0));
        assert!(long.subscribe("a://x/more"));
    }

    #[test]
    fn cancellations_of_what_is_not_known_are_bounded() {
        let (_, mut subscriptions) = subscriptions(["a://x/f"]);
        for number in 0..2 * MAX_UNKNOWN_CANCELLED {
            subscriptions.cancel(&format!("a://x/{number}"));
        }
        assert_eq!(subscriptions.pending.len(), MAX_UNKNOWN_CANCELLED);
        subscriptions.cancel("a://x/f");
        assert_eq!(subscriptions.uris(), set([]), "it is known");
        subscriptions.withdraw("a://x/0");
        assert_eq!(subscriptions.cancelled, MAX_UNKNOWN_CANCELLED);
    }

    #[test]
    fn what_was_written_is_not_pending_any_more_and_what_was_changed_meanwhile_is() {
        let (_, mut subscriptions) = subscriptions(["a://x/b", "a://x/c"]);
        assert!(subscriptions.subscribe("A://x/a"));
        subscriptions.cancel("a://x/b");
        let written = subscriptions.pending();
        subscriptions.set_written(written);
        assert!(!subscriptions.has_changes());
        assert_eq!(subscriptions.uris(), set(["A://x/a", "a://x/c"]));

        assert!(subscriptions.subscribe("a://x/d") && subscriptions.subscribe("a://x/e"));
        let written = subscriptions.pending();
        subscriptions.cancel("a://x/d");
        assert!(subscriptions.subscribe("a://x/f"));
        subscriptions.set_written(written);
        assert_eq!(subscriptions.pending.keys().map(|form| &**form).collect::<Vec<_>>(), ["a://x/d", "a://x/f"]);
        assert_eq!(subscriptions.uris(), set(["A://x/a", "a://x/c", "a://x/e", "a://x/f"]));
        assert_eq!((subscriptions.size, subscriptions.cancelled), (subscriptions.measured(), 1));
    }

    #[test]
    fn after_a_reload_normal_forms_are_computed_again() {
        let (forms, mut subscriptions) = subscriptions(["A://x/f"]);
        assert!(subscriptions.subscribe("A://x/g"));
        let written = subscriptions.pending();
        forms.generation.store(1, Ordering::Relaxed);
        subscriptions.cancel("A://x/f");
        subscriptions.set_written(written);
        assert_eq!(subscriptions.uris(), set(["A://x/g"]));
        assert!(subscriptions.contains("A://x/g") && !subscriptions.contains("a://x/g"));
        forms.generation.store(2, Ordering::Relaxed);
        assert!(subscriptions.contains("a://x/g"));
        assert_eq!((subscriptions.size, subscriptions.cancelled), (subscriptions.measured(), 1));
    }
}
