//! [`UriPattern`]: partially known URIs, such as all URIs below a mount, or the possible expansions of a
//! template while some of its variables have no value.

use super::mount::Mount;

/// A set of URIs in normal form, without their queries: all results of filling the gaps with texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UriPattern {
    parts: Vec<PatternPart>,
}

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternPart {
    /// Text that all URIs of the pattern have there.
    Text(String),
    /// Unknown text.
    Gap(Gap),
}

/// The texts that may fill a gap. Each may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Any text without a slash.
    Segment,
    /// Any text.
    Any,
}

impl UriPattern {
    /// One URI.
    pub fn text(uri: &str) -> Self {
        Self::default().and_text(uri)
    }

    /// All URIs below a mount, and the mount itself.
    pub fn below(mount: &Mount) -> Self {
        Self::text(mount.as_str()).gap(Gap::Any)
    }

    /// Appends a text.
    pub fn and_text(mut self, text: &str) -> Self {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(PatternPart::Text(before)) => before.push_str(text),
            _ => self.parts.push(PatternPart::Text(text.to_owned())),
        }
        self
    }

    /// Appends a gap.
    pub fn gap(mut self, gap: Gap) -> Self {
        self.parts.push(PatternPart::Gap(gap));
        self
    }

    /// Returns the pattern without its trailing slash, if it has one.
    pub fn without_last_slash(mut self) -> Self {
        if let Some(PatternPart::Text(text)) = self.parts.last_mut()
            && text.ends_with('/')
        {
            text.pop();
        }
        self
    }

    /// Its parts, in order.
    pub fn parts(&self) -> &[PatternPart] {
        &self.parts
    }

    /// The text before the first gap.
    pub fn literal_prefix(&self) -> &str {
        match self.parts.first() {
            Some(PatternPart::Text(text)) => text,
            _ => "",
        }
    }

    /// The URI, if there are no gaps.
    pub fn as_text(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [PatternPart::Text(text)] => Some(text),
            [] => Some(""),
            _ => None,
        }
    }

    /// Returns the pattern with other texts; none if `change` returns none for each text.
    pub fn map_texts(&self, change: impl Fn(usize, &str) -> Option<String>) -> Option<Self> {
        let mut is_changed = false;
        let parts = self.parts.iter().enumerate().map(|(index, part)| match part {
            PatternPart::Text(text) => match change(index, text) {
                Some(other) => {
                    is_changed = true;
                    PatternPart::Text(other)
                }
                None => part.clone(),
            },
            PatternPart::Gap(_) => part.clone(),
        });
        let parts = parts.collect();
        is_changed.then_some(Self { parts })
    }
}
