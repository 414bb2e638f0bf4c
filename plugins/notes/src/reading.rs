//! The order of listings by reading: the front matter field `reading`, else the title, else the name.
//!
//! Readings are compared as in a dictionary: katakana equal hiragana; voicing, small kana and long vowel marks count
//! only where everything else is equal. Each page of a sorted listing reads the beginning of every note, so this order
//! must be configured (`order = "reading"`), and applies to at most [`MAX_SORTED`] files.

use folder::{Found, Walk};
use mcp_provider::{Entry, Page, Result, keyset};
use unicode_normalization::UnicodeNormalization;

/// The maximum number of files that are sorted. A longer listing is in order of path.
const MAX_SORTED: usize = 10_000;

/// The maximum number of entries on a page, which keeps a page below the host's limits whatever its notes contain.
const MAX_PAGE: usize = 100;

/// An item with its sort key.
struct Sorted {
    key: String,
    found: Found,
}

/// Returns a page of a walk's items, in order of their readings. Items without a reading are omitted. Returns `None` if
/// the walk has too many items.
pub(crate) fn page(
    mut walk: Walk<'_>,
    cursor: Option<&str>,
    limit: usize,
    reading: impl Fn(&Found) -> Option<String>,
    entry: impl Fn(&Found) -> Option<Entry>,
) -> Result<Option<Page>> {
    let mut shown: Vec<Found> = Vec::new();
    while let Some(found) = walk.next_found()? {
        if shown.len() >= MAX_SORTED {
            return Ok(None);
        }
        shown.push(found);
    }
    let sorted = |found: Found| {
        // The path makes the key unique.
        let key = format!("{}\0{}", sort_key(&reading(&found)?), found.names);
        Some(Sorted { key, found })
    };
    let mut items: Vec<Sorted> = shown.into_iter().filter_map(sorted).collect();
    items.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    let page = keyset::page(items, cursor, limit.min(MAX_PAGE), |item| item.key.as_str())?;
    page.try_map(|item| Ok(entry(&item.found))).map(Some)
}

/// Returns the sort key of a reading.
fn sort_key(reading: &str) -> String {
    let hiragana: String = reading.nfkc().flat_map(char::to_lowercase).map(to_hiragana).collect();
    let letters = hiragana.nfd().filter(|c| !matches!(c, '\u{3099}' | '\u{309a}' | 'ー') && !c.is_whitespace());
    letters.map(to_large).chain(['\u{1}']).chain(hiragana.chars()).collect()
}

fn to_hiragana(c: char) -> char {
    match c {
        'ァ'..='ヶ' => u32::from(c).checked_sub(0x60).and_then(char::from_u32).unwrap_or(c),
        c => c,
    }
}

/// Returns the full-size form of a small kana.
fn to_large(c: char) -> char {
    match c {
        'ぁ' => 'あ',
        'ぃ' => 'い',
        'ぅ' => 'う',
        'ぇ' => 'え',
        'ぉ' => 'お',
        'っ' => 'つ',
        'ゃ' => 'や',
        'ゅ' => 'ゆ',
        'ょ' => 'よ',
        'ゎ' => 'わ',
        'ゕ' => 'か',
        'ゖ' => 'け',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_in_the_order_of_a_dictionary() {
        let ordered = ["あい", "アイス", "ガス", "かぜ", "きゃく", "きやすめ", "サーバ", "さばく", "ﾊﾟﾝ", "ひと", "わ"];
        for pair in ordered.windows(2) {
            assert!(sort_key(pair[0]) < sort_key(pair[1]), "{pair:?}");
        }
        assert!(sort_key("かす") < sort_key("がす"), "what is voiced comes behind");
    }
}
