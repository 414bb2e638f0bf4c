//! Reading any text gives a config or an error that can be rendered. The random inputs are the same in every run.

use mcp_host_model::uri::Mount;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

use super::*;

/// Texts that confuse parsers, and words of the config.
const FRAGMENTS: [&str; 48] = [
    "\"",
    "'",
    "\"\"\"",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    ",",
    ".",
    "=",
    "#",
    "\n",
    "\r",
    "\r\n",
    "\0",
    "\\",
    "\\u",
    "\t",
    "\u{feff}",
    "\u{202e}",
    "ノ",
    "é",
    " ",
    "-",
    "1e999",
    "nan",
    "0x",
    "99999999999999999999",
    "true",
    "2025-01-12",
    "[a]\n",
    "[[plugin]]\n",
    "[plugin.limits]\n",
    "a.b.c=1\n",
    "memory = ",
    "\"64MiB\"",
    "\"2s\"",
    "**/",
    "%",
    "[ab]",
    "{a,b}",
    "~",
    "../",
    "git://",
    "18446744073709551615s 1000ms",
    "*",
];

#[derive(Clone, Debug)]
enum Mutation {
    Insert(Index, &'static str),
    Remove(Index, usize),
    Repeat(Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        (any::<Index>(), select(&FRAGMENTS[..])).prop_map(|(at, text)| Mutation::Insert(at, text)),
        (any::<Index>(), 1..40usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        (any::<Index>(), 1..40usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
    ]
}

fn mutate(text: &str, mutations: &[Mutation]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for mutation in mutations {
        let (Mutation::Insert(at, _) | Mutation::Remove(at, _) | Mutation::Repeat(at, _)) = mutation;
        let at = at.index(characters.len().saturating_add(1));
        let upto = |length: &usize| characters.len().min(at.saturating_add(*length));
        let (end, replacement): (usize, Vec<char>) = match mutation {
            Mutation::Insert(_, text) => (at, text.chars().collect()),
            Mutation::Remove(_, length) => (upto(length), Vec::new()),
            Mutation::Repeat(_, length) => (at, characters[at..upto(length)].to_vec()),
        };
        characters.splice(at..end, replacement);
    }
    characters.into_iter().collect()
}

/// All configs in `tests/ui`, good and bad.
fn texts() -> Vec<String> {
    let files = configs("valid").into_iter().chain(configs("invalid"));
    files.map(|file| String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned()).collect()
}

/// Parses a text as if it stood beside the valid configs, and renders every error.
fn read(text: &str) {
    let Err(error) = Config::parse_in(text, Path::new("tests/ui/valid/mutated.toml"), &environment()) else { return };
    assert!(!error.diagnostics().is_empty());
    let lines = text.lines().count().saturating_add(1);
    for problem in error.diagnostics() {
        assert!(!problem.message().is_empty() && !problem.help().is_empty());
        assert!(problem.position().is_none_or(|place| (1..=lines).contains(&place.line) && place.column >= 1));
    }
    assert!(error.render(RenderStyle::Plain).starts_with("error: "));
    assert!(error.render(RenderStyle::Ansi).contains("\u{1b}["));
    let shown = error.to_string();
    assert!(!shown.contains(['\u{1b}', '\u{202e}', '\0', '\r']), "{shown:?}");
    assert!(!shown.contains("from a variable") && !shown.contains("from a file"));
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 1000, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_file_that_is_nearly_right_does_harm(
        text in select(texts()), mutations in prop::collection::vec(mutation(), 1..6)
    ) {
        read(&mutate(&text, &mutations));
    }

    #[test]
    fn no_text_does_harm(fragments in prop::collection::vec(select(&FRAGMENTS[..]), 0..40)) {
        read(&fragments.concat());
    }

    #[test]
    fn no_value_does_harm(fragments in prop::collection::vec(select(&FRAGMENTS[..]), 0..6)) {
        let value = fragments.concat();
        let _ = value.parse::<limits::Memory>();
        let _ = value.parse::<limits::Deadline>();
        let _ = value.parse::<PluginName>();
        let _ = value.parse::<GuestPath>();
        let _ = value.parse::<EnvName>();
        let _ = value.parse::<HttpAddress>();
        let _ = value.parse::<UriGlob>();
    }

    #[test]
    fn a_uri_written_as_a_glob_matches_that_uri(
        mount in select(vec!["git://Linux/", "notes:///", "web://", "files://h:80/a/"]),
        path in "([A-Za-z0-9/~_.%*!$&'()+,;=:@-]|%[0-9A-Fa-f]{2}|%7[eE]|a/){1,12}",
    ) {
        let uri = mount.parse::<Mount>().unwrap().compose(&path).map(|located| located.uri.to_string());
        if let (Ok(uri), Ok(glob)) = (uri, format!("{mount}{path}").parse::<UriGlob>()) {
            prop_assert!(glob.matches(&uri), "{glob} {uri}");
        }
    }
}

#[test]
fn a_file_with_countless_mistakes_is_answered_with_some() {
    let keys: String = (0..1000).map(|key| format!("k{key} = 1\n")).collect();
    let error = Config::parse_in(&keys, Path::new("mcp-host.toml"), &environment()).unwrap_err();
    assert_eq!(error.diagnostics().len(), 100);
    assert!(error.to_string().ends_with("mcp-host.toml: 1001 problems, of which the first 100 are shown"));
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    read(&format!("a = {}", "[".repeat(100_000)));
    read(&format!("a = {}1{}", "[".repeat(10_000), "]".repeat(10_000)));
    read(&"a.".repeat(10_000));
    read(&format!("[[plugin]]\nconfig = {}1{}", "{a=".repeat(10_000), "}".repeat(10_000)));
}
