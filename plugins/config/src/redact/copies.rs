//! Copies of secrets. A text that is secret by its key is redacted everywhere, because substitution (`${TOKEN}` in
//! dotenv) and aliases (YAML) copy it below harmless keys.

use super::placeholder;
use aho_corasick::{AhoCorasick, MatchKind};
use std::collections::BTreeSet;

/// The minimum length of a secret whose copies are redacted, in characters. Shorter secrets occur in many texts by
/// chance.
const MIN: usize = 4;
/// The minimum length of a secret whose copies inside of words are redacted: `main` occurs in `domain` by chance.
const MIN_IN_WORD: usize = 8;
/// The maximum size of all secrets, which bounds the automaton (Aho-Corasick) that finds them.
const MAX_BYTES: usize = 256 << 10;

/// The texts that are secret by their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Secrets {
    texts: BTreeSet<String>,
    bytes: usize,
}

impl Secrets {
    /// Adds a text, unless it is too short or the maximum size is reached.
    pub(super) fn add(&mut self, text: &str) {
        let bytes = self.bytes.saturating_add(text.len());
        if text.chars().count() >= MIN && bytes <= MAX_BYTES && self.texts.insert(text.to_owned()) {
            self.bytes = bytes;
        }
    }

    /// Returns the finder of copies.
    pub(super) fn finder(&self) -> Finder {
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::LeftmostLongest);
        // Fails only beyond 2^31 states.
        let automaton = (!self.texts.is_empty()).then(|| builder.build(&self.texts).ok()).flatten();
        Finder { automaton }
    }
}

/// Finds copies of secrets.
pub(super) struct Finder {
    automaton: Option<AhoCorasick>,
}

impl Finder {
    /// Redacts the copies in a text.
    pub(super) fn redact(&self, text: &mut String) {
        let Some(automaton) = &self.automaton else { return };
        let mut redacted = String::new();
        let mut done = 0;
        for found in automaton.find_iter(text.as_str()) {
            let copy = text.get(found.range()).unwrap_or_default();
            let before = text.get(..found.start()).and_then(|before| before.chars().next_back());
            let after = text.get(found.end()..).and_then(|after| after.chars().next());
            let is_in_word = [before, after].into_iter().flatten().any(char::is_alphanumeric);
            if is_in_word && copy.chars().count() < MIN_IN_WORD {
                continue;
            }
            redacted.push_str(text.get(done..found.start()).unwrap_or_default());
            redacted.push_str(&placeholder(copy));
            done = found.end();
        }
        if done > 0 {
            redacted.push_str(text.get(done..).unwrap_or_default());
            *text = redacted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(secrets: &[&str], text: &str) -> String {
        let mut known = Secrets::default();
        secrets.iter().for_each(|secret| known.add(secret));
        let mut text = text.to_owned();
        known.finder().redact(&mut text);
        text
    }

    #[test]
    fn a_copy_is_redacted_as_a_whole_text_and_inside_of_one() {
        let secrets = ["hunter2host", "main", "abc", "日本語です"];
        for (text, expected) in [
            ("hunter2host", "<redacted: 8 to 15 characters>"),
            ("prehunter2hostpost", "pre<redacted: 8 to 15 characters>post"),
            ("main", "<redacted: 1 to 7 characters>"),
            ("app/main at db", "app/<redacted: 1 to 7 characters> at db"),
            ("(日本語です)", "(<redacted: 1 to 7 characters>)"),
            ("domain", "domain"),
            ("abc", "abc"),
        ] {
            assert_eq!(redacted(&secrets, text), expected, "{text}");
        }
        assert_eq!(redacted(&[], "main"), "main");
    }
}
