//! The language of a text: its ISO 639-1 code, detected from its beginning.
//!
//! The script decides first, at any length: kana are Japanese and Hangul is Korean. Among the languages of the Latin
//! script, the classifier (`whichlang`) proposes one. The proposal counts only if the text has [`MIN_FUNCTION_WORDS`]
//! function words of that language and not more of another one: the classifier answers for any text, even a list of
//! names, and is often wrong for a short one. Letters that Arabic or Russian lack indicate another language of the same
//! script. All other texts are undetermined.

use std::collections::HashMap;

use whichlang::{Lang, detect_language};

use mcp_host_base::text::prefix;

/// The maximum number of inspected bytes of a text.
const SAMPLE: usize = 4096;
/// The minimum number of letters. A text with fewer letters has a known language only if its script determines it.
const MIN_LETTERS: usize = 20;
/// The minimum number of function words of a language in a text in Latin script.
const MIN_FUNCTION_WORDS: usize = 2;

/// Frequent words of the languages in Latin script.
const FUNCTION_WORDS: [(&str, &str); 10] = [
    ("de", "der die das und ist nicht ein eine zu den dem des mit von auf für sich im es wird er sie auch als an"),
    ("en", "the and of to in is that for it with as on are be this by at or from an have not you which must all"),
    ("es", "el la los las de que y en un una es por con para se no del al como más su lo este son"),
    ("fr", "le la les des de et est un une que pour dans qui sur pas au du ce il ne par avec sont vous"),
    ("it", "il la di che e un una per non con del della sono è le gli da in si come più al dei nel"),
    ("nl", "de het een en van is dat niet op te voor met zijn die in er aan ook wordt als bij om naar"),
    ("pt", "o a os as de que e em um uma para não com do da no na por se mais é como são dos ao"),
    ("sv", "och att det som en är på för av med den till inte om ett har de jag från kan vi var så"),
    ("tr", "ve bir bu için da de ile olarak çok gibi daha en ne olan değil kadar sonra her ama ya"),
    ("vi", "và của là các có cho không được trong một với người này để những khi từ đã như về"),
];

/// The numbers of a text's letters by script.
#[derive(Default)]
struct Letters {
    all: usize,
    kana: usize,
    hangul: usize,
    latin: usize,
    /// The number of letters that only other languages of the script have.
    foreign: usize,
}

/// Returns the code of the most likely language of a text; `None` if it is undetermined.
pub(super) fn detect(text: &str) -> Option<&'static str> {
    let sample = prefix(text, SAMPLE);
    let letters = Letters::of(sample);
    // Japanese and Korean technical texts contain many Latin words.
    let is_share = |count: usize| count >= 2 && count.saturating_mul(10) >= letters.all;
    if is_share(letters.kana) && letters.kana >= letters.hangul {
        return Some("ja");
    }
    if is_share(letters.hangul) {
        return Some("ko");
    }
    if letters.all < MIN_LETTERS || letters.foreign > 0 {
        return None;
    }
    let likely = code(detect_language(sample));
    if letters.latin.saturating_mul(2) < letters.all {
        // A Japanese text would have had kana.
        return (!matches!(likely, "ja" | "ko")).then_some(likely);
    }
    let found = function_words(sample);
    let of = |language| found.get(language).copied().unwrap_or_default();
    let most = found.values().copied().max().unwrap_or_default();
    (of(likely) >= MIN_FUNCTION_WORDS && of(likely) == most).then_some(likely)
}

impl Letters {
    fn of(text: &str) -> Self {
        let mut letters = Self::default();
        for character in text.chars().filter(|character| character.is_alphabetic()) {
            letters.all = letters.all.saturating_add(1);
            let kind = match character {
                'ぁ'..='ゖ' | 'ァ'..='ヺ' | 'ｦ'..='ﾟ' => &mut letters.kana,
                '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '가'..='힣' => &mut letters.hangul,
                'پ' | 'چ' | 'ژ' | 'گ' | 'ٹ' | 'ڈ' | 'і' | 'ї' | 'є' | 'ґ' | 'ў' | 'ј' | 'љ' | 'њ' | 'ћ' | 'ђ' => {
                    &mut letters.foreign
                }
                'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => &mut letters.latin,
                _ => continue,
            };
            *kind = kind.saturating_add(1);
        }
        letters
    }
}

/// Counts each language's function words in a text.
fn function_words(text: &str) -> HashMap<&'static str, usize> {
    let mut found = HashMap::new();
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split(|character: char| !character.is_alphabetic()).collect();
    for (language, known) in FUNCTION_WORDS {
        let count = words.iter().filter(|word| known.split(' ').any(|known| known == **word)).count();
        found.insert(language, count);
    }
    found
}

/// Returns the [`LanguageCode`](mcp_host_config::search::LanguageCode).
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
    use mcp_host_config::search::LanguageCode;

    #[test]
    fn what_can_be_searched_for_is_what_texts_are_found_to_be_in() {
        let mut codes = whichlang::LANGUAGES.map(code);
        codes.sort_unstable();
        assert_eq!(codes, LanguageCode::ALL);
        for (language, _) in FUNCTION_WORDS {
            assert!(codes.contains(&language));
        }
    }

    #[test]
    fn a_text_has_the_language_of_its_beginning() {
        for (text, expected) in [
            ("The host owns everything that must be right once and for all.", Some("en")),
            ("ホストは、一度だけ正しく実装すべきものをすべて担当します。", Some("ja")),
            ("Der Server beantwortet jede Anfrage, die er versteht.", Some("de")),
            ("Servern svarar på varje fråga som den förstår, och det är bra.", Some("sv")),
            ("Le serveur répond à chaque question qui est dans la liste.", Some("fr")),
            ("El servidor responde a las preguntas que se entienden en la lista.", Some("es")),
            ("Сервер отвечает на каждый запрос, который он понимает.", Some("ru")),
            ("服务器会回答它能够理解的每一个请求并且记录下来供以后查询使用。", Some("zh")),
            ("서버는 이해하는 모든 요청에 답합니다.", Some("ko")),
        ] {
            assert_eq!(detect(text), expected, "{text}");
        }
    }

    #[test]
    fn kana_are_japanese_however_short_the_text_is() {
        for text in ["サーバ", "メモ", "ｻｰﾊﾞｰ", "お知らせ", "Rust と WebAssembly の入門"] {
            assert_eq!(detect(text), Some("ja"), "{text}");
        }
    }

    #[test]
    fn a_text_whose_language_cannot_be_told_has_none() {
        for text in [
            "42 -- 17",
            "",
            "会議",
            "Call Anna, Bjorn, Karin. Tack! Milk eggs flour",
            "Ada Lovelace Grace Hopper Alan Turing Edsger Dijkstra",
            "alpha beta gamma delta epsilon zeta eta theta iota kappa",
            "Сервер відповідає на кожен запит, який він розуміє, і записує його.",
            "سرور به هر درخواستی که می‌فهمد پاسخ می‌دهد و گزارش می‌کند",
        ] {
            assert_eq!(detect(text), None, "{text}");
        }
        // A note in English that was once classified as Swedish must be English or undetermined.
        for text in
            ["Remember the milk on Friday", "Meeting notes: budget, hiring, travel", "TODO fix login bug in staging"]
        {
            assert!(matches!(detect(text), None | Some("en")), "{text}");
        }
    }
}
