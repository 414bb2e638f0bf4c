//! Arbitrary answers for fuzzing, and the invariants of validated answers.

#![allow(clippy::expect_used, reason = "a test that cannot be set up fails")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use mcp_host_model::resource::{Annotations, Meta, NOTICES_META_KEY, Notice, ResourceIcon, Role, Theme, Timestamp};
use mcp_host_sandbox::memory::{CallOwner, MemoryBudget};

use super::hints::{HOST_PREFIX, is_icon_size, is_mime_type};
use super::*;

/// The item limit of the validator.
const MAX_ITEMS: usize = 30;
/// The memory limit of the validator, in bytes.
pub const MEMORY_LIMIT: u64 = 1 << 20;

/// Checks any answer of a provider: it is rejected as a whole, or its validated part breaks no rule.
pub fn reply(data: &[u8]) {
    let mut made = Unstructured::new(data);
    // With too few bytes there is no answer to check.
    let _ = Reply::generate(&mut made).map(Reply::check);
}

/// An answer and its request.
struct Reply {
    watches: bool,
    requested: String,
    answer: ReplyKind,
}

enum ReplyKind {
    Page(provider::Page),
    Templates(provider::TemplatePage),
    Contents(Vec<provider::Contents>),
    Entry(provider::Entry),
    Completion(Completion),
    Changes(provider::ChangeSet),
}

impl Reply {
    fn check(self) {
        let mount = mount();
        let checker = validator(MAX_ITEMS, MEMORY_LIMIT, self.watches);
        let entry_is_good = |entry: &Resource| assert_valid_entry(entry, &mount, self.watches);
        let requested = mount.compose(&self.requested).map(|located| located.path);
        match self.answer {
            ReplyKind::Page(page) => {
                let count = page.entries.len();
                let Ok(page) = block_on(checker.page(page, Some(&self.requested), Some)) else { return };
                assert!(count <= MAX_ITEMS && page.items.len() <= count, "nothing is added");
                assert_ne!(page.next_cursor, Some(self.requested), "a cursor leads on");
                page.items.iter().for_each(entry_is_good);
            }
            ReplyKind::Templates(page) => {
                let count = page.templates.len();
                let Ok(page) = block_on(checker.template_page(page, Some(&self.requested), |_| true)) else { return };
                assert!(count <= MAX_ITEMS && page.items.len() <= count, "nothing is added");
                for template in &page.items {
                    assert!(template.uri_template.as_str().starts_with(mount.as_str()), "no template leaves its mount");
                    assert_valid_hints(
                        template.mime_type.as_deref(),
                        &template.annotations,
                        &template.icons,
                        &template.meta,
                    );
                }
            }
            ReplyKind::Contents(contents) => {
                let count = contents.len();
                let Ok(requested) = requested else { return };
                let Ok(contents) = block_on(checker.contents(contents, requested.as_str(), |_| true)) else { return };
                assert!((1..=MAX_ITEMS).contains(&count) && contents.len() == count, "a read is whole, or refused");
                contents.iter().for_each(|contents| entry_is_good(&contents.entry));
            }
            ReplyKind::Entry(entry) => {
                let Ok(requested) = requested else { return };
                let Ok(entry) = block_on(checker.stat_entry(entry, requested.as_str())) else { return };
                entry_is_good(&entry);
                let located = mount.compose(&self.requested).map(|located| located.uri);
                assert_eq!(located, Ok(entry.uri), "it is what was asked about");
            }
            ReplyKind::Completion(completion) => {
                let Ok(completion) = block_on(checker.completion(completion, true, |_| true)) else { return };
                assert!(completion.values.len() <= MAX_ITEMS, "nothing is added");
            }
            ReplyKind::Changes(changes) => {
                let watched: Vec<_> = requested.into_iter().map(String::from).collect();
                let Ok(changes) = block_on(checker.change_set(changes, &watched)) else { return };
                assert!(
                    changes.token.len() <= MAX_TOKEN && changes.changed.len() <= watched.len(),
                    "what is kept is bounded"
                );
                let is_watched = |path: &Path| watched.iter().any(|watched| watched == path.as_str());
                assert!(changes.changed.iter().all(is_watched), "only what is watched is told of");
            }
        }
    }
}

fn mount() -> Mount {
    "files://h/a/".parse().expect("a mount")
}

/// Creates a validator without a CPU limit, for a plugin with `memory` bytes.
pub(super) fn validator(items: usize, memory: u64, watches: bool) -> Validator {
    let faults = Arc::new(FaultRecorder::new("made-up".into(), 0));
    let rules = Arc::new(ValidationContext { mount: mount(), max_items: items, max_response_size: None, faults });
    Validator::new(
        rules,
        watches,
        WorkBudget::new(Arc::default(), Duration::MAX, MemoryBudget::new(memory, None), CallOwner::default()),
    )
}

/// Returns the result of a validation, which only yields and never waits.
pub(super) fn block_on<T>(check: impl Future<Output = T>) -> T {
    let mut check = pin!(check);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(checked) = check.as_mut().poll(&mut context) {
            return checked;
        }
    }
}

fn assert_valid_entry(entry: &Resource, mount: &Mount, watches: bool) {
    assert!(entry.uri.as_str().starts_with(mount.as_str()), "no path leaves its mount");
    assert!(watches || !entry.subscribable, "what nobody watches cannot be subscribed to");
    assert_valid_hints(entry.mime_type.as_deref(), &entry.annotations, &entry.icons, &entry.meta);
}

fn assert_valid_hints(mime_type: Option<&str>, annotations: &Annotations, icons: &[ResourceIcon], meta: &Meta) {
    assert!(mime_type.is_none_or(is_mime_type), "a MIME type is one");
    assert!(annotations.priority.is_none_or(|priority| (0.0..=1.0).contains(&priority.value())), "a priority is one");
    let date = annotations.last_modified.as_ref();
    assert!(date.is_none_or(|date| Timestamp::new(date.as_str()).is_some()), "a date is one");
    for icon in icons {
        assert!(ResourceIcon::new(icon.src()).is_some(), "an icon has a source that a client may fetch");
        assert!(icon.sizes.iter().all(|size| is_icon_size(size)), "sizes are sizes");
    }
    let is_reserved = |key: &String| key.starts_with(HOST_PREFIX) && key != NOTICES_META_KEY;
    assert!(!meta.keys().any(is_reserved), "nobody speaks for the host");
    assert!(meta.get(NOTICES_META_KEY).is_none_or(Notice::are_valid), "notices have their form");
}

impl Reply {
    fn generate(made: &mut Unstructured<'_>) -> Result<Self> {
        let (watches, requested) = (bool::arbitrary(made)?, String::arbitrary(made)?);
        let answer = match made.int_in_range(0..=5)? {
            0 => {
                let (entries, next_cursor) = (arbitrary_vec(made, entry)?, Option::arbitrary(made)?);
                ReplyKind::Page(provider::Page { entries, next_cursor })
            }
            1 => {
                let (templates, next_cursor) = (arbitrary_vec(made, template)?, Option::arbitrary(made)?);
                ReplyKind::Templates(provider::TemplatePage { templates, next_cursor })
            }
            2 => ReplyKind::Contents(arbitrary_vec(made, contents)?),
            3 => ReplyKind::Entry(entry(made)?),
            4 => {
                let (values, total, has_more) =
                    (arbitrary_vec(made, String::arbitrary)?, Option::arbitrary(made)?, false);
                ReplyKind::Completion(Completion { values, total, has_more })
            }
            _ => {
                let mut changes = provider::ChangeSet::none(String::arbitrary(made)?);
                changes.changed = arbitrary_vec(made, String::arbitrary)?;
                changes.listing_changed = bool::arbitrary(made)?;
                changes.poll_after = Option::<u64>::arbitrary(made)?.map(Duration::from_millis);
                ReplyKind::Changes(changes)
            }
        };
        Ok(Self { watches, requested, answer })
    }
}

/// Generates a number of items, sometimes one more than allowed.
fn arbitrary_vec<'a, T>(made: &mut Unstructured<'a>, one: fn(&mut Unstructured<'a>) -> Result<T>) -> Result<Vec<T>> {
    let count = made.int_in_range(0..=MAX_ITEMS + 1)?;
    (0..count).map(|_| one(made)).collect()
}

fn entry(made: &mut Unstructured<'_>) -> Result<provider::Entry> {
    let mut entry = provider::Entry::new(String::arbitrary(made)?, String::arbitrary(made)?);
    entry.mime_type = Option::arbitrary(made)?;
    entry.size = Option::arbitrary(made)?;
    entry.audience = audience(made)?;
    entry.priority = Option::arbitrary(made)?;
    entry.last_modified = Option::arbitrary(made)?;
    entry.icons = arbitrary_vec(made, icon)?;
    entry.listable = bool::arbitrary(made)?;
    entry.subscribable = bool::arbitrary(made)?;
    entry.ttl = Option::<u64>::arbitrary(made)?.map(Duration::from_millis);
    entry.meta = Option::arbitrary(made)?;
    Ok(entry)
}

fn template(made: &mut Unstructured<'_>) -> Result<Template> {
    let mut template = Template::new(String::arbitrary(made)?, String::arbitrary(made)?);
    template.mime_type = Option::arbitrary(made)?;
    template.audience = audience(made)?;
    template.priority = Option::arbitrary(made)?;
    template.last_modified = Option::arbitrary(made)?;
    template.icons = arbitrary_vec(made, icon)?;
    template.meta = Option::arbitrary(made)?;
    Ok(template)
}

fn contents(made: &mut Unstructured<'_>) -> Result<provider::Contents> {
    let entry = entry(made)?;
    let body = match made.int_in_range(0..=2)? {
        0 => provider::Body::Text(String::arbitrary(made)?),
        1 => provider::Body::TextBytes(Vec::arbitrary(made)?),
        _ => provider::Body::Blob(Vec::arbitrary(made)?),
    };
    Ok(provider::Contents::from_parts(entry, body))
}

fn audience(made: &mut Unstructured<'_>) -> Result<Vec<Role>> {
    Ok(if bool::arbitrary(made)? { vec![Role::User] } else { Vec::new() })
}

fn icon(made: &mut Unstructured<'_>) -> Result<provider::Icon> {
    let mut icon = provider::Icon::new(String::arbitrary(made)?);
    icon.theme = bool::arbitrary(made)?.then_some(Theme::Dark);
    icon.mime_type = Option::arbitrary(made)?;
    icon.sizes = arbitrary_vec(made, String::arbitrary)?;
    Ok(icon)
}
