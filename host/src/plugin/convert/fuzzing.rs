//! Answers that a fuzzer makes up, and what must hold of what is made of them.

#![allow(clippy::expect_used, reason = "a test that cannot be set up fails")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use arbitrary::{Arbitrary, Result, Unstructured};

use super::hints::{HOST_PREFIX, is_icon_size, is_mime_type};
use super::*;
use crate::plugin::limits::MemoryBudget;
use crate::resource::{Annotations, Icon, Meta, Timestamp};

/// What the checker lets through of one answer.
const ITEMS: usize = 30;
/// What an answer may take of the host's memory, in bytes.
pub(crate) const MEMORY: u64 = 1 << 20;

/// Any answer of a provider: it is refused as a whole, or nothing in what is left of it is against a rule.
pub(crate) fn reply(data: &[u8]) {
    let mut made = Unstructured::new(data);
    // With too few bytes there is no answer, and nothing to check.
    let _ = Reply::make(&mut made).map(Reply::check);
}

/// An answer, and what it answers.
struct Reply {
    watches: bool,
    asked: String,
    answer: Answer,
}

enum Answer {
    Page(contract::Page),
    Templates(contract::TemplatePage),
    Contents(Vec<contract::Contents>),
    Entry(contract::Entry),
    Completion(contract::Completion),
    Changes(contract::ChangeSet),
}

impl Reply {
    fn check(self) {
        let mount = mount();
        let checker = checker(ITEMS, MEMORY, self.watches);
        let entry_is_good = |entry: &Entry| entry_holds(entry, &mount, self.watches);
        let asked = mount.compose(&self.asked).map(|located| located.path);
        match self.answer {
            Answer::Page(page) => {
                let count = page.entries.len();
                let Ok(page) = done(checker.page(page, Some(&self.asked), |_| true)) else { return };
                assert!(count <= ITEMS && page.items.len() <= count, "nothing is added");
                assert_ne!(page.next_cursor, Some(self.asked), "a cursor leads on");
                page.items.iter().for_each(|(_, entry)| entry_is_good(entry));
            }
            Answer::Templates(page) => {
                let count = page.templates.len();
                let Ok(page) = done(checker.template_page(page, Some(&self.asked), |_| true)) else { return };
                assert!(count <= ITEMS && page.items.len() <= count, "nothing is added");
                for (_, template) in &page.items {
                    assert!(template.uri_template.as_str().starts_with(mount.as_str()), "no template leaves its mount");
                    holds(template.mime_type.as_deref(), &template.annotations, &template.icons, &template.meta);
                }
            }
            Answer::Contents(contents) => {
                let count = contents.len();
                let Ok(asked) = asked else { return };
                let Ok(contents) = done(checker.contents(contents, asked.as_str(), |_| true)) else { return };
                assert!((1..=ITEMS).contains(&count) && contents.len() == count, "a read is whole, or refused");
                contents.iter().for_each(|contents| entry_is_good(&contents.entry));
            }
            Answer::Entry(entry) => {
                let Ok(asked) = asked else { return };
                let Ok(entry) = done(checker.stat_entry(entry, asked.as_str())) else { return };
                entry_is_good(&entry);
                let located = mount.compose(&self.asked).map(|located| located.uri);
                assert_eq!(located, Ok(entry.uri), "it is what was asked about");
            }
            Answer::Completion(completion) => {
                let Ok(completion) = done(checker.completion(completion, |_| true)) else { return };
                assert!(completion.values.len() <= ITEMS, "nothing is added");
            }
            Answer::Changes(changes) => {
                let watched: Vec<_> = asked.into_iter().map(String::from).collect();
                let Ok(changes) = done(checker.change_set(changes, &watched)) else { return };
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

/// A checker that takes as long as it likes, of a plugin with so much memory.
pub(super) fn checker(items: usize, memory: u64, watches: bool) -> Checker {
    let faults = Arc::new(Faults::new("made-up".into(), 0));
    let rules = Arc::new(AnswerRules { mount: mount(), items, faults });
    Checker::new(rules, watches, Work::new(Arc::default(), Duration::MAX, MemoryBudget::new(memory, None)))
}

/// What a check comes to. There is nothing that it could wait for: it only yields.
pub(super) fn done<T>(check: impl Future<Output = T>) -> T {
    let mut check = pin!(check);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(checked) = check.as_mut().poll(&mut context) {
            return checked;
        }
    }
}

fn entry_holds(entry: &Entry, mount: &Mount, watches: bool) {
    assert!(entry.uri.as_str().starts_with(mount.as_str()), "no path leaves its mount");
    assert!(watches || !entry.subscribable, "what nobody watches cannot be subscribed to");
    holds(entry.mime_type.as_deref(), &entry.annotations, &entry.icons, &entry.meta);
}

fn holds(mime_type: Option<&str>, annotations: &Annotations, icons: &[Icon], meta: &Meta) {
    assert!(mime_type.is_none_or(is_mime_type), "a MIME type is one");
    assert!(annotations.priority.is_none_or(|priority| (0.0..=1.0).contains(&priority.value())), "a priority is one");
    let date = annotations.last_modified.as_ref();
    assert!(date.is_none_or(|date| Timestamp::new(date.as_str()).is_some()), "a date is one");
    for icon in icons {
        assert!(Icon::new(icon.src()).is_some(), "an icon has a source that a client may fetch");
        assert!(icon.sizes.iter().all(|size| is_icon_size(size)), "sizes are sizes");
    }
    assert!(!meta.keys().any(|key| key.starts_with(HOST_PREFIX)), "nobody speaks for the host");
}

impl Reply {
    fn make(made: &mut Unstructured<'_>) -> Result<Self> {
        let (watches, asked) = (bool::arbitrary(made)?, String::arbitrary(made)?);
        let answer = match made.int_in_range(0..=5)? {
            0 => {
                let (entries, next_cursor) = (many(made, entry)?, Option::arbitrary(made)?);
                Answer::Page(contract::Page { entries, next_cursor })
            }
            1 => {
                let (templates, next_cursor) = (many(made, template)?, Option::arbitrary(made)?);
                Answer::Templates(contract::TemplatePage { templates, next_cursor })
            }
            2 => Answer::Contents(many(made, contents)?),
            3 => Answer::Entry(entry(made)?),
            4 => {
                let (values, total, has_more) = (many(made, String::arbitrary)?, Option::arbitrary(made)?, false);
                Answer::Completion(contract::Completion { values, total, has_more })
            }
            _ => Answer::Changes(contract::ChangeSet {
                token: String::arbitrary(made)?,
                changed: many(made, String::arbitrary)?,
                listing_changed: bool::arbitrary(made)?,
                poll_after_ms: Option::arbitrary(made)?,
            }),
        };
        Ok(Self { watches, asked, answer })
    }
}

/// So many that sometimes one is too many.
fn many<'a, T>(made: &mut Unstructured<'a>, one: fn(&mut Unstructured<'a>) -> Result<T>) -> Result<Vec<T>> {
    let count = made.int_in_range(0..=ITEMS + 1)?;
    (0..count).map(|_| one(made)).collect()
}

fn entry(made: &mut Unstructured<'_>) -> Result<contract::Entry> {
    Ok(contract::Entry {
        path: String::arbitrary(made)?,
        name: String::arbitrary(made)?,
        title: None,
        description: None,
        mime_type: Option::arbitrary(made)?,
        size: Option::arbitrary(made)?,
        annotations: annotations(made)?,
        icons: many(made, icon)?,
        listable: bool::arbitrary(made)?,
        subscribable: bool::arbitrary(made)?,
        ttl_ms: Option::arbitrary(made)?,
        meta: Option::arbitrary(made)?,
    })
}

fn template(made: &mut Unstructured<'_>) -> Result<contract::EntryTemplate> {
    Ok(contract::EntryTemplate {
        path_template: String::arbitrary(made)?,
        name: String::arbitrary(made)?,
        title: None,
        description: None,
        mime_type: Option::arbitrary(made)?,
        annotations: annotations(made)?,
        icons: many(made, icon)?,
        meta: Option::arbitrary(made)?,
    })
}

fn contents(made: &mut Unstructured<'_>) -> Result<contract::Contents> {
    let entry = entry(made)?;
    let body = match made.int_in_range(0..=2)? {
        0 => contract::Body::Text(String::arbitrary(made)?),
        1 => contract::Body::TextBytes(Vec::arbitrary(made)?),
        _ => contract::Body::Blob(Vec::arbitrary(made)?),
    };
    Ok(contract::Contents { entry, body })
}

fn annotations(made: &mut Unstructured<'_>) -> Result<Option<contract::Annotations>> {
    if !bool::arbitrary(made)? {
        return Ok(None);
    }
    let audience = if bool::arbitrary(made)? { vec![contract::Role::User] } else { Vec::new() };
    let (priority, last_modified) = (Option::arbitrary(made)?, Option::arbitrary(made)?);
    Ok(Some(contract::Annotations { audience, priority, last_modified }))
}

fn icon(made: &mut Unstructured<'_>) -> Result<contract::Icon> {
    let theme = bool::arbitrary(made)?.then_some(contract::Theme::Dark);
    let (src, mime_type) = (String::arbitrary(made)?, Option::arbitrary(made)?);
    Ok(contract::Icon { src, mime_type, sizes: many(made, String::arbitrary)?, theme })
}
