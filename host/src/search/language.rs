//! The language of a text: its ISO 639-1 code, found from the letters of its beginning.

use whichlang::{Lang, detect_language};

use crate::text::prefix;

/// The bytes of a text that are looked at.
const SAMPLE: usize = 4096;
/// A text with fewer letters has no known language.
const MIN_LETTERS: usize = 20;

/// Returns the code of the language that a text is most likely in; none for a text with few letters.
pub(super) fn detect(text: &str) -> Option<&'static str> {
    let sample = prefix(text, SAMPLE);
    if sample.chars().filter(|character| character.is_alphabetic()).take(MIN_LETTERS).count() < MIN_LETTERS {
        return None;
    }
    Some(code(detect_language(sample)))
}

/// A [`LanguageCode`](crate::config::search::LanguageCode).
fn code(language: Lang) -> &'static str {
    match language {
        Lang::Ara => "ar",
        Lang::Cmn => "zh",
        Lang::Deu => "de",
        Lang::Eng => "en",
        Lang::Fra => "fr",
        Lang::Hin => "hi",
        Lang::Ita => "it",
        Lang::Jpn => "ja",
        Lang::Kor => "ko",
        Lang::Nld => "nl",
        Lang::Por => "pt",
        Lang::Rus => "ru",
        Lang::Spa => "es",
        Lang::Swe => "sv",
        Lang::Tur => "tr",
        Lang::Vie => "vi",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::search::LanguageCode;

    #[test]
    fn what_can_be_searched_for_is_what_texts_are_found_to_be_in() {
        let mut codes = whichlang::LANGUAGES.map(code);
        codes.sort_unstable();
        assert_eq!(codes, LanguageCode::ALL);
    }

    #[test]
    fn a_text_has_the_language_of_its_beginning() {
        for (text, expected) in [
            ("The host owns everything that must be right once and for all.", Some("en")),
            ("ホストは、一度だけ正しく実装すべきものをすべて担当します。", Some("ja")),
            ("Der Server beantwortet jede Anfrage, die er versteht.", Some("de")),
            ("42 -- 17", None),
            ("", None),
        ] {
            assert_eq!(detect(text), expected, "{text}");
        }
    }
}
