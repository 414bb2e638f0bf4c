//! Compares a glob with a partly known set of URIs: whether it could match one of them, and whether it matches all.
//!
//! The set is a [`UriPattern`]: texts with gaps between them. The glob becomes nondeterministic finite automata, one
//! for each combination of its alternatives, up to [`MAX_EXPANSIONS`]. Each automaton runs over the pattern:
//!
//! | part of the pattern | to match one of its URIs | to match all of them |
//! |---|---|---|
//! | text | each character is consumed | each character is consumed |
//! | gap | all states that any text for the gap leads to | the states that consume every text for the gap: a `*`, for a gap without slashes, or a `**` |
//!
//! The first comparison is exact, except for a glob with too many alternatives, which counts as a possible match. The
//! second one is conservative: a glob that matches all URIs only through several of its parts together counts as not
//! matching all.

use mcp_host_model::uri::{Gap, PatternPart, UriPattern};

/// The maximum number of automata for one glob.
const MAX_EXPANSIONS: usize = 64;

/// Returns whether a normalized glob could match a URI of the pattern. False positives are possible.
pub(super) fn reaches(glob: &str, pattern: &UriPattern) -> bool {
    if !has_common_prefix(glob, pattern) {
        return false;
    }
    let run = |glob: &String| Automaton::new(glob).matches(pattern, Automaton::any_text);
    expand_braces(glob).is_none_or(|globs| globs.iter().any(run))
}

/// Returns whether a normalized glob matches all URIs of the pattern. False negatives are possible.
pub(super) fn covers(glob: &str, pattern: &UriPattern) -> bool {
    if !has_common_prefix(glob, pattern) {
        return false;
    }
    let run = |glob: &String| Automaton::new(glob).matches(pattern, Automaton::every_text);
    expand_braces(glob).is_some_and(|globs| globs.iter().any(run))
}

/// Whether the texts before the first wildcard and before the first gap agree: a cheap check before the automaton.
fn has_common_prefix(glob: &str, pattern: &UriPattern) -> bool {
    let literal = glob.split(['*', '?', '{']).next().unwrap_or_default();
    // A `P/**` also matches `P`.
    let literal = literal.strip_suffix('/').unwrap_or(literal);
    let text = pattern.literal_prefix();
    let len = literal.len().min(text.len());
    literal.as_bytes().get(..len) == text.as_bytes().get(..len)
}

/// The characters that a transition consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    One(char),
    NoSlash,
    Any,
}

impl Class {
    fn contains(self, character: char) -> bool {
        match self {
            Self::One(one) => one == character,
            Self::NoSlash => character != '/',
            Self::Any => true,
        }
    }

    /// Whether some text for the gap has a character of this class.
    fn meets(self, gap: Gap) -> bool {
        gap == Gap::Any || self != Self::One('/')
    }

    /// Whether each character of each text for the gap is of this class.
    fn has_all_of(self, gap: Gap) -> bool {
        match gap {
            Gap::Segment => matches!(self, Self::NoSlash | Self::Any),
            Gap::Any => self == Self::Any,
        }
    }
}

/// A state. All transitions lead to the same state or to later states.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The characters that lead back to this state.
    repeat: Option<Class>,
    /// The characters that lead to the next state.
    next: Option<Class>,
    /// The states that are reached from this state without a character.
    empty: [Option<usize>; 2],
}

/// The automaton of a glob without alternatives. The last state accepts.
struct Automaton {
    states: Vec<State>,
}

impl Automaton {
    fn new(glob: &str) -> Self {
        let mut segments: Vec<&str> = glob.split('/').collect();
        segments.dedup_by(|next, before| *next == "**" && *before == "**");
        let last = segments.len().saturating_sub(1);
        let mut automaton = Self { states: vec![State::default()] };
        // A `**` that is not the last segment includes the slash after it.
        let mut has_slash = true;
        for (index, segment) in segments.into_iter().enumerate() {
            match segment {
                "**" if index == last && index == 0 => automaton.repeat(Class::Any),
                // `NAME+**`: the only segment that contains a `**`.
                segment if segment.len() > 2 && segment.ends_with("**") => {
                    segment.trim_end_matches('*').chars().for_each(|character| automaton.push(Class::One(character)));
                    automaton.repeat(Class::Any);
                }
                // Only a single `**` also matches the path above it.
                "**" if index == last => automaton.push_everything_below(!glob.ends_with("/**/**")),
                "**" => {
                    if !has_slash {
                        automaton.push(Class::One('/'));
                    }
                    automaton.push_segments();
                    has_slash = true;
                }
                segment => {
                    if !has_slash {
                        automaton.push(Class::One('/'));
                    }
                    has_slash = false;
                    for character in segment.chars() {
                        match character {
                            '*' => automaton.repeat(Class::NoSlash),
                            '?' => automaton.push(Class::NoSlash),
                            character => automaton.push(Class::One(character)),
                        }
                    }
                }
            }
        }
        automaton
    }

    fn end(&self) -> usize {
        self.states.len().saturating_sub(1)
    }

    /// Consumes one character.
    fn push(&mut self, class: Class) {
        if let Some(state) = self.states.last_mut() {
            state.next = Some(class);
        }
        self.states.push(State::default());
    }

    /// Consumes any number of characters.
    fn repeat(&mut self, class: Class) {
        if let Some(state) = self.states.last_mut() {
            state.repeat = Some(class);
        }
    }

    /// Consumes any number of segments, each with the slash after it.
    fn push_segments(&mut self) {
        let (inner, after) = (self.end().saturating_add(1), self.end().saturating_add(2));
        if let Some(state) = self.states.last_mut() {
            state.empty = [Some(inner), Some(after)];
        }
        let inner = State { repeat: Some(Class::Any), next: Some(Class::One('/')), ..State::default() };
        self.states.extend([inner, State::default()]);
    }

    /// Consumes a slash and everything after it; with `optional` also nothing.
    fn push_everything_below(&mut self, optional: bool) {
        let end = self.end().saturating_add(2);
        if let Some(state) = self.states.last_mut() {
            state.next = Some(Class::One('/'));
            state.empty = [optional.then_some(end), None];
        }
        let inner = State { repeat: Some(Class::Any), empty: [Some(end), None], ..State::default() };
        self.states.extend([inner, State::default()]);
    }

    /// Runs the automaton over a pattern; `gap` returns the states after a gap.
    fn matches(&self, pattern: &UriPattern, gap: impl Fn(&Self, &[bool], Gap) -> Vec<bool>) -> bool {
        let mut at = vec![false; self.states.len()];
        if let Some(first) = at.first_mut() {
            *first = true;
        }
        self.close(&mut at);
        for part in pattern.parts() {
            at = match part {
                PatternPart::Text(text) => text.chars().fold(at, |at, character| self.step(&at, character)),
                PatternPart::Gap(kind) => gap(self, &at, *kind),
            };
            if !at.contains(&true) {
                return false;
            }
        }
        at.last().copied().unwrap_or_default()
    }

    fn step(&self, at: &[bool], character: char) -> Vec<bool> {
        let mut after = vec![false; at.len()];
        for (index, state) in self.states_of(at) {
            let stays = state.repeat.is_some_and(|class| class.contains(character));
            let advances = state.next.is_some_and(|class| class.contains(character));
            set(&mut after, index, stays);
            set(&mut after, index.saturating_add(1), advances);
        }
        self.close(&mut after);
        after
    }

    /// The states that some text for the gap leads to.
    fn any_text(&self, at: &[bool], gap: Gap) -> Vec<bool> {
        let mut after = at.to_vec();
        for (index, state) in self.states.iter().enumerate() {
            if !after.get(index).copied().unwrap_or_default() {
                continue;
            }
            set(&mut after, index.saturating_add(1), state.next.is_some_and(|class| class.meets(gap)));
            state.empty.into_iter().flatten().for_each(|to| set(&mut after, to, true));
        }
        after
    }

    /// States that every text for the gap leads to.
    fn every_text(&self, at: &[bool], gap: Gap) -> Vec<bool> {
        let mut after = vec![false; at.len()];
        for (index, state) in self.states_of(at) {
            set(&mut after, index, state.repeat.is_some_and(|class| class.has_all_of(gap)));
        }
        self.close(&mut after);
        after
    }

    /// Adds the states that are reached without a character.
    fn close(&self, at: &mut [bool]) {
        for (index, state) in self.states.iter().enumerate() {
            if at.get(index).copied().unwrap_or_default() {
                state.empty.into_iter().flatten().for_each(|to| set(at, to, true));
            }
        }
    }

    fn states_of(&self, at: &[bool]) -> impl Iterator<Item = (usize, &State)> {
        self.states.iter().enumerate().zip(at).filter(|(_, is_in)| **is_in).map(|(state, _)| state)
    }
}

fn set(states: &mut [bool], index: usize, is_in: bool) {
    if let Some(state) = states.get_mut(index) {
        *state |= is_in;
    }
}

/// Expands the alternatives of a glob; `None` if there are too many. Alternatives are not nested.
fn expand_braces(glob: &str) -> Option<Vec<String>> {
    let mut globs = vec![String::new()];
    let mut rest = glob;
    while let Some((before, behind)) = rest.split_once('{') {
        let (words, behind) = behind.split_once('}')?;
        rest = behind;
        let words: Vec<_> = words.split(',').collect();
        if globs.len().saturating_mul(words.len()) > MAX_EXPANSIONS {
            return None;
        }
        globs = globs.iter().flat_map(|glob| words.iter().map(move |word| [glob, before, word].concat())).collect();
    }
    globs.iter_mut().for_each(|glob| glob.push_str(rest));
    Some(globs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::UriGlob;

    fn below(mount: &str) -> UriPattern {
        UriPattern::text(mount).gap(Gap::Any)
    }

    /// The pattern for a text, in which `<seg>` and `<any>` are gaps.
    fn pattern(text: &str) -> UriPattern {
        let mut pattern = UriPattern::default();
        for part in text.split_inclusive('>') {
            let (literal, gap) = match part.split_once('<') {
                Some((literal, "seg>")) => (literal, Some(Gap::Segment)),
                Some((literal, _)) => (literal, Some(Gap::Any)),
                None => (part, None),
            };
            pattern = pattern.and_text(literal);
            pattern = gap.into_iter().fold(pattern, UriPattern::gap);
        }
        pattern
    }

    #[test]
    fn a_glob_reaches_a_mount_if_it_could_match_something_below_it() {
        for (glob, mount) in [
            ("**", "git://linux/"),
            ("**/.env", "git://linux/"),
            ("git://linux/**", "git://linux/"),
            ("git://*/**", "git://linux/"),
            ("git://l?n*x/a", "git://linux/"),
            ("git://**/a", "git://linux/"),
            ("{git,notes}://{linux,}/a", "notes:///"),
            ("{git://linux,notes://}/a", "notes:///"),
            ("web://evil.example/**", "web://"),
            ("web://evil.example", "web://"),
            ("files://nas/projects/", "files://nas/projects/"),
            ("files://nas/**", "files://nas/projects/"),
            (&format!("git://{}/", "{a,b}".repeat(60)), "git://linux/"),
        ] {
            assert!(reaches(glob, &below(mount)), "{glob} reaches {mount}");
        }
        for (glob, mount) in [
            ("gti://linux/**", "git://linux/"),
            ("git://linu/**", "git://linux/"),
            ("git://linux", "git://linux/"),
            ("git://lin*", "git://linux/"),
            ("git://{a,b}/**", "git://linux/"),
            ("files://nas/*", "files://nas/projects/"),
            ("notes://a/**", "notes:///"),
        ] {
            assert!(!reaches(glob, &below(mount)), "{glob} does not reach {mount}");
        }
    }

    #[test]
    fn a_glob_covers_a_pattern_if_it_matches_whatever_the_gaps_have() {
        for (glob, covered) in [
            ("**", "git://x/<any>"),
            ("git://x/**", "git://x/<any>"),
            ("git://x/blob/**", "git://x/blob/<seg>/a.txt"),
            ("git://x/blob/*/a.txt", "git://x/blob/<seg>/a.txt"),
            ("**/.env", "git://x/blob/<seg>/.env"),
            ("**/.env", "git://x/blob/<any>/.env"),
            ("git://x/{a,b}/*/c*", "git://x/b/<seg>/c<seg>"),
            ("git://*/**", "git://x/<any>"),
        ] {
            assert!(covers(glob, &pattern(covered)), "{glob} covers {covered}");
        }
        for (glob, other) in [
            ("git://x/*", "git://x/<any>"),
            ("git://x/{,b}/**", "git://x/<any>"),
            ("**/.env", "git://x/<any>"),
            ("**/.env", "git://x/<any>.env"),
            ("git://x/a/**", "git://x/<seg>/b"),
            ("git://x/?/b", "git://x/<seg>/b"),
            ("git://y/**", "git://x/<any>"),
        ] {
            assert!(!covers(glob, &pattern(other)), "{glob} does not cover {other}");
        }
    }

    proptest! {
        #[test]
        fn an_automaton_matches_a_text_as_the_glob_does(
            glob in r"(a://x|\*\*)(/([ab.]{1,3}|\*|\*\*|\?|[ab]\*|\*[ab]|\{a,b\}|\{,b\})){0,4}",
            uri in r"a://x(/[ab.]{0,3}){0,4}",
        ) {
            // Globs with dot segments are rejected.
            let Ok(parsed) = glob.parse::<UriGlob>() else { return Ok(()) };
            let text = UriPattern::text(&uri);
            prop_assert_eq!(reaches(&glob, &text), parsed.matches(&uri), "{} {}", glob, uri);
            prop_assert_eq!(covers(&glob, &text), parsed.matches(&uri), "{} {}", glob, uri);
        }

        #[test]
        fn what_is_reached_and_covered_agrees_with_every_text_for_the_gaps(
            glob in r"(a://x|\*\*)(/([ab]{1,2}|\*|\*\*|\?|[ab]\*|\{a,b\}|\{,b\})){0,3}",
            shape in r"a://x/([ab]{0,2}(<seg>|<any>)?/?){0,3}",
            fill in proptest::collection::vec(r"[ab/]{0,3}", 3),
        ) {
            let (parsed, partial): (UriGlob, _) = (glob.parse().unwrap(), pattern(&shape));
            let mut fill = fill.into_iter();
            let uri: String = partial.parts().iter().map(|part| match part {
                PatternPart::Text(text) => text.clone(),
                PatternPart::Gap(Gap::Segment) => fill.next().unwrap_or_default().replace('/', ""),
                PatternPart::Gap(Gap::Any) => fill.next().unwrap_or_default(),
            }).collect();
            if parsed.matches(&uri) {
                prop_assert!(reaches(&glob, &partial), "{} matches {} of {}", glob, uri, shape);
            } else {
                prop_assert!(!covers(&glob, &partial), "{} does not match {} of {}", glob, uri, shape);
            }
        }
    }
}
