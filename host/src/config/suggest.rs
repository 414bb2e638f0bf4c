//! Suggestions for misspelled words.

use super::error::Diagnostic;

/// Adds a suggestion to a problem.
pub(super) fn did_you_mean<'k>(
    problem: Diagnostic,
    written: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Diagnostic {
    match closest(written, known) {
        Some(meant) => problem.label(format!("did you mean `{meant}`?")),
        None => problem,
    }
}

/// Returns the word of `known` that was probably meant.
pub(super) fn closest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Longer than any known word with a typo. The cost of a comparison is the product of both lengths.
    const MAX_WORD_LEN: usize = 32;
    if written.len() > MAX_WORD_LEN {
        return None;
    }
    let written = written.to_lowercase();
    known
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(&written, word), word))
        .filter(|(distance, word)| *distance <= (word.len().saturating_add(1) / 3).min(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Joins words for a message: each in backticks, separated by commas.
pub(super) fn join_quoted<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_suggested_for_its_typos_only() {
        let known = ["memory", "deadline", "ro", "rw", "*"];
        for (written, meant) in [("memry", "memory"), ("Deadline", "deadline"), ("daedline", "deadline"), ("r", "ro")] {
            assert_eq!(closest(written, known), Some(meant), "{written}");
        }
        for written in ["", "a", "time", "line", "memory-of-a-plugin", &"deadline".repeat(10)] {
            assert_eq!(closest(written, known), None, "{written}");
        }
    }
}
