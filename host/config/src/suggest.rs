//! Suggestions for misspelled words.

use mcp_host_model::uri::Mount;

use super::diagnostic::Diagnostic;
use super::upstream_entry::LIMITS_OF_COMPONENTS;

/// Adds a suggestion to a problem.
pub(super) fn did_you_mean<'k>(
    problem: Diagnostic,
    written: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Diagnostic {
    suggest(problem, closest(written, known))
}

/// Adds this suggestion to a problem, if there is one.
pub(super) fn suggest(problem: Diagnostic, meant: Option<&str>) -> Diagnostic {
    match meant {
        Some(meant) => problem.label(format!("did you mean `{meant}`?")),
        None => problem,
    }
}

/// Names of keys in other programs: the table, the name, and our key. A key with a dot is in another table.
const ALIASES: [(&str, &str, &str); 13] = [
    ("principal", "token", "token-sha256"),
    ("principal", "sha256", "token-sha256"),
    ("http", "listen", "server.http"),
    ("http", "address", "server.http"),
    ("http", "bind", "server.http"),
    ("http", "port", "server.http"),
    ("server", "listen", "http"),
    ("server", "address", "http"),
    ("server", "bind", "http"),
    ("server", "port", "http"),
    ("admin", "address", "listen"),
    ("plugin.limits", "timeout", "deadline"),
    ("upstream.limits", "timeout", "deadline"),
];

/// Keys that a table has because another one has them, and that are refused there.
const REFUSED: [(&str, &[&str]); 2] = [("plugin.limits", &["program-cpu"]), ("upstream.limits", &LIMITS_OF_COMPONENTS)];

/// Returns whether a key of this table is always refused, so that no message names it as a valid one.
pub(super) fn is_refused(table: &str, key: &str) -> bool {
    REFUSED.iter().any(|(of, keys)| *of == table && keys.contains(&key))
}

/// Returns our key for a name that other programs use, in this table. A key in another table has that table's name and
/// a dot in front.
pub(super) fn alias(table: &str, written: &str) -> Option<&'static str> {
    let is_this = |(of, key, _): &&(&str, &str, &str)| *of == table && *key == written;
    ALIASES.iter().find(is_this).map(|(.., meant)| *meant)
}

/// Returns the word of `known` that the author probably meant.
pub fn closest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Longer than any known word with a typo. Bounds the cost of a comparison, which is the product of both lengths.
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

/// Returns the key that the author probably meant: one with a typo, or the only one that begins with what is written.
pub(super) fn closest_key<'k>(written: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> Option<&'k str> {
    /// The minimum length of an abbreviation.
    const MIN_BEGINNING: usize = 3;
    closest(written, known.clone()).or_else(|| {
        let mut beginning =
            known.into_iter().filter(|word| written.len() >= MIN_BEGINNING && word.starts_with(written));
        beginning.next().filter(|_| beginning.next().is_none())
    })
}

/// Returns the mount that is most similar to the beginning of a URI or a glob: by scheme first, then as a whole.
pub fn nearest_mount<'m>(written: &str, mounts: impl IntoIterator<Item = &'m Mount>) -> Option<&'m Mount> {
    mounts.into_iter().min_by_key(|mount| {
        let mount = mount.as_str();
        let beginning: String = written.chars().take(mount.len()).collect();
        let of_schemes = strsim::damerau_levenshtein(scheme(&beginning), scheme(mount));
        (of_schemes, strsim::damerau_levenshtein(&beginning, mount))
    })
}

fn scheme(uri: &str) -> &str {
    uri.split_once(':').map_or(uri, |(scheme, _)| scheme)
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

    #[test]
    fn a_key_is_suggested_for_its_beginning_if_no_other_has_the_same() {
        let known = ["memory", "http-timeout", "http-rate-limit", "certificate"];
        for (written, meant) in [("mem", "memory"), ("cert", "certificate"), ("memori", "memory")] {
            assert_eq!(closest_key(written, known), Some(meant), "{written}");
        }
        for written in ["", "m", "http", "timeout"] {
            assert_eq!(closest_key(written, known), None, "{written}");
        }
        assert_eq!(alias("plugin.limits", "timeout"), Some("deadline"));
    }

    #[test]
    fn the_mount_of_the_most_similar_scheme_is_the_nearest() {
        let mounts: [Mount; 3] = ["notes:///", "git://linux/", "git://tools/"].map(|mount| mount.parse().unwrap());
        for (written, nearest) in [
            ("git:/x/README.md", "git://linux/"),
            ("git://tool/README.md", "git://tools/"),
            ("gti://linux/README.md", "git://linux/"),
            ("note://linux/README.md", "notes:///"),
            ("git", "git://linux/"),
        ] {
            assert_eq!(nearest_mount(written, &mounts).map(Mount::as_str), Some(nearest), "{written}");
        }
        assert_eq!(nearest_mount("git://linux/", []), None);
    }
}
