//! Tokens: the common units of text in the index and in queries.
//!
//! | script | tokens |
//! |---|---|
//! | with spaces between words: Latin, Cyrillic, Greek, Arabic, Devanagari, … | words: maximal runs of letters, marks and digits |
//! | without, or with spaces that searchers omit: Han, Hiragana, Katakana, Hangul, Bopomofo, Thai, Lao, Khmer, Myanmar, Tibetan | bigrams: each two adjacent characters, and the last character of a run alone |
//!
//! Text is folded first: compatibility composition (NFKC), which includes full and half width, then lower case. So
//! `ｻｰﾊﾞｰ` and `サーバー`, and `Ａ` and `a`, are the same token.
//!
//! Two spellings of loanwords in katakana are folded, too ([`Katakana`]): the long vowel mark that JIS Z 8301 and older
//! style guides omit (`サーバー` and `サーバ`, `インターフェース` and `インタフェース`), and a small vowel after `ウ` (`ソフトウェア` and `ソフトウエア`).
//!
//! The last character of a run is a token, so that a query of one character, which is looked up as the prefix of a
//! bigram, finds it at any position.
//!
//! A token has its range in the original text. Words are truncated to [`MAX_WORD`] bytes.

use std::ops::Range;

use icu_normalizer::{ComposingNormalizer, ComposingNormalizerBorrowed};
use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup, Script};

/// The maximum number of indexed bytes of a word.
const MAX_WORD: usize = 64;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word of a script with words.
    Word,
    /// Two adjacent characters.
    Bigram,
    /// The last character of a run whose other characters are in bigrams.
    Last,
    /// The only character of a run.
    Single,
}

/// Calls `emit` for each token of the text: the folded token, its range in the text, and its kind.
pub(super) fn for_each_token(text: &str, emit: impl FnMut(&str, Range<usize>, TokenKind)) {
    let mut tokenizer =
        Tokenizer { emit, word: String::new(), word_range: 0..0, previous: None, katakana: Katakana::default() };
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let start = text.len().saturating_sub(rest.len());
        let len = unit_len(rest, character);
        let (unit, behind) = rest.split_at(len);
        rest = behind;
        let range = start..start.saturating_add(len);
        if character.is_ascii() && len == 1 {
            match character.is_ascii_alphanumeric() {
                true => tokenizer.push_word(character.to_ascii_lowercase(), range),
                false => tokenizer.flush(),
            }
        } else {
            tokenizer.push_unit(unit, &range);
        }
    }
    tokenizer.flush();
}

/// Returns the tokens of a text in their indexed form, separated by spaces.
pub(super) fn index_text(text: &str) -> String {
    let mut tokens = String::with_capacity(text.len());
    for_each_token(text, |token, _, _| {
        if !tokens.is_empty() {
            tokens.push(' ');
        }
        tokens.push_str(token);
    });
    tokens
}

/// The length in bytes of a character and its following marks, which are normalized together.
fn unit_len(text: &str, first: char) -> usize {
    let behind = text.get(first.len_utf8()..).unwrap_or_default();
    if behind.as_bytes().first().is_none_or(u8::is_ascii) {
        return first.len_utf8();
    }
    let marks = behind.chars().take_while(|character| joins_previous(*character)).map(char::len_utf8);
    marks.fold(first.len_utf8(), usize::saturating_add)
}

/// Whether normalization may compose the character with the previous one: marks, the voiced sound marks of half width,
/// and the vowels and final consonants of Hangul.
fn joins_previous(character: char) -> bool {
    matches!(character, '\u{ff9e}' | '\u{ff9f}' | '\u{1160}'..='\u{11ff}') || is_mark(character)
}

fn is_mark(character: char) -> bool {
    GeneralCategoryGroup::Mark.contains(CodePointMapData::<GeneralCategory>::new().get(character))
}

/// Whether text of the character's script is indexed by bigrams.
fn is_in_bigrams(character: char) -> bool {
    // The prolonged sound mark belongs to both kana.
    character == 'ー'
        || matches!(
            CodePointMapData::<Script>::new().get(character),
            Script::Han
                | Script::Hiragana
                | Script::Katakana
                | Script::Hangul
                | Script::Bopomofo
                | Script::Thai
                | Script::Lao
                | Script::Khmer
                | Script::Myanmar
                | Script::Tibetan
        )
}

struct Tokenizer<F> {
    emit: F,
    /// The current word, and its range.
    word: String,
    word_range: Range<usize>,
    /// The last character of a run of bigrams, its range, and whether it is the first one.
    previous: Option<(char, Range<usize>, bool)>,
    katakana: Katakana,
}

/// The minimum number of katakana before a long vowel mark that may be omitted: shorter words keep the mark in all
/// styles (`エラー`, `タワー`).
const MIN_BEFORE_MARK: usize = 3;

/// The current run of katakana.
#[derive(Default)]
struct Katakana {
    /// The number of characters, without omitted marks.
    len: usize,
    last: Option<char>,
    /// A long vowel mark that is omitted if it is the last character of the run.
    mark: Option<Range<usize>>,
}

/// Whether the character ends in the vowel `a`, which precedes the long vowel mark in loanwords in `-er`, `-or` and
/// `-ar`.
fn ends_in_a(character: char) -> bool {
    "アァカガサザタダナハバパマヤャラワ".contains(character)
}

impl<F: FnMut(&str, Range<usize>, TokenKind)> Tokenizer<F> {
    fn push_unit(&mut self, unit: &str, range: &Range<usize>) {
        const NFKC: ComposingNormalizerBorrowed<'static> = ComposingNormalizer::new_nfkc();
        for character in NFKC.normalize(unit).chars().flat_map(char::to_lowercase) {
            if is_in_bigrams(character) && (character.is_alphanumeric() || is_mark(character)) {
                self.push_folded(character, range);
            } else if character.is_alphanumeric() || (is_mark(character) && !self.word.is_empty()) {
                self.push_word(character, range.clone());
            } else {
                self.flush();
            }
        }
    }

    fn push_word(&mut self, character: char, range: Range<usize>) {
        self.flush_bigrams();
        if self.word.is_empty() {
            self.word_range = range.clone();
        }
        if self.word.len() < MAX_WORD {
            self.word.push(character);
        }
        self.word_range.end = range.end;
    }

    /// Folds the spelling of katakana. Any other character ends the run.
    fn push_folded(&mut self, character: char, range: &Range<usize>) {
        if !matches!(character, 'ァ'..='ヺ' | 'ー') {
            self.katakana = Katakana::default();
            return self.push_bigram(character, range.clone());
        }
        let Katakana { len, last, mark } = &mut self.katakana;
        if character == 'ー' && *len >= MIN_BEFORE_MARK {
            if !last.is_some_and(ends_in_a) {
                mark.get_or_insert_with(|| range.clone());
            }
            return;
        }
        let folded = match (*last, character) {
            (Some('ウ'), 'ィ') => 'イ',
            (Some('ウ'), 'ェ') => 'エ',
            (Some('ウ'), 'ォ') => 'オ',
            _ => character,
        };
        *len = len.saturating_add(1);
        *last = Some(folded);
        if let Some(mark) = mark.take() {
            self.push_bigram('ー', mark);
        }
        self.push_bigram(folded, range.clone());
    }

    fn push_bigram(&mut self, character: char, range: Range<usize>) {
        self.flush_word();
        let before = self.previous.replace((character, range.clone(), true));
        if let Some((first, first_range, _)) = before {
            self.previous = Some((character, range.clone(), false));
            let mut buffer = [0; 8];
            let split = first.encode_utf8(&mut buffer).len();
            let end = character.encode_utf8(buffer.get_mut(split..).unwrap_or_default()).len().saturating_add(split);
            let bigram = buffer.get(..end).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default();
            (self.emit)(bigram, first_range.start..range.end, TokenKind::Bigram);
        }
    }

    fn flush(&mut self) {
        self.flush_word();
        self.flush_bigrams();
    }

    fn flush_word(&mut self) {
        if !self.word.is_empty() {
            (self.emit)(&self.word, self.word_range.clone(), TokenKind::Word);
            self.word.clear();
        }
    }

    fn flush_bigrams(&mut self) {
        self.katakana = Katakana::default();
        if let Some((character, range, is_single)) = self.previous.take() {
            let kind = if is_single { TokenKind::Single } else { TokenKind::Last };
            (self.emit)(character.encode_utf8(&mut [0; 4]), range, kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(text: &str) -> Vec<(String, String)> {
        let mut tokens = Vec::new();
        for_each_token(text, |token, range, _| tokens.push((token.to_owned(), text.get(range).unwrap().to_owned())));
        tokens
    }

    #[test]
    fn words_are_tokens_where_words_are_separated_and_bigrams_elsewhere() {
        assert_eq!(index_text("The quick_brown fox, 42 times."), "the quick brown fox 42 times");
        assert_eq!(index_text("検索エンジンの使い方"), "検索 索エ エン ンジ ジン ンの の使 使い い方 方");
        assert_eq!(index_text("Rustの本"), "rust の本 本");
        assert_eq!(index_text("서울에서"), "서울 울에 에서 서");
        assert_eq!(index_text("木"), "木");
        assert_eq!(index_text("हिन्दी में"), "हिन्दी में");
        assert_eq!(index_text("— … !"), "");
    }

    #[test]
    fn width_case_and_composition_make_no_difference() {
        for (one, other) in [
            ("ｻｰﾊﾞｰ", "サーバー"),
            ("ＡＢＣ１２", "abc12"),
            ("e\u{301}cole É", "école é"),
            ("か\u{3099}", "が"),
            ("ﬁle", "file"),
            ("\u{1112}\u{1161}\u{11ab}", "한"),
        ] {
            assert_eq!(index_text(one), index_text(other), "{one}");
        }
    }

    #[test]
    fn common_spellings_of_loanwords_make_no_difference() {
        for (one, other) in [
            ("サーバー", "サーバ"),
            ("ユーザー", "ユーザ"),
            ("インターフェース", "インタフェース"),
            ("ユーザーガイド", "ユーザガイド"),
            ("コンピューターの本", "コンピュータの本"),
            ("メモリー", "メモリ"),
            ("カテゴリー一覧", "カテゴリ一覧"),
            ("ｻｰﾊﾞ ｻｰﾊﾞｰ", "サーバー サーバ"),
            ("ソフトウェア", "ソフトウエア"),
            ("ウィンドウ", "ウインドウ"),
            ("サーバーA", "サーバA"),
        ] {
            assert_eq!(index_text(one), index_text(other), "{one}");
        }
        for (one, other) in [
            ("ビール", "ビル"),
            ("エラー", "エラ"),
            ("カード", "カド"),
            ("パスポート", "パスポト"),
            ("コーヒー", "コヒ"),
        ] {
            assert_ne!(index_text(one), index_text(other), "{one}");
        }
        assert_eq!(index_text("サーバールーム"), "サー ーバ バル ルー ーム ム");
    }

    #[test]
    fn a_token_has_the_range_of_the_text_as_it_was_written() {
        let of = tokens("Ａb ｶﾞｽ");
        let pairs: Vec<_> = of.iter().map(|(token, text)| (token.as_str(), text.as_str())).collect();
        assert_eq!(pairs, [("ab", "Ａb"), ("ガス", "ｶﾞｽ"), ("ス", "ｽ")]);
    }

    #[test]
    fn a_long_word_is_cut() {
        assert_eq!(index_text(&"x".repeat(1000)).len(), MAX_WORD);
    }

    proptest! {
        #[test]
        fn any_text_has_tokens_with_valid_ranges_in_order_and_no_separators(text in "\\PC{0,80}") {
            let mut last = 0;
            for_each_token(&text, |token, range, _| {
                assert!(text.get(range.clone()).is_some_and(|part| !part.is_empty()), "{range:?}");
                assert!(range.start >= last);
                last = range.start;
                assert!(!token.is_empty() && !token.contains(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()), "{token:?}");
            });
        }
    }
}
