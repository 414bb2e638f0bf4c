//! The filters of a search: kinds and languages that resources can have. Any other value would match nothing in any
//! index.

use crate::declare::checked_text;
use crate::reader::Schema;

/// The types of MIME types: the registered ones (RFC 6838, 8081 and 9695), and `inode` for directories.
const TYPES: [&str; 12] = [
    "application",
    "audio",
    "example",
    "font",
    "haptics",
    "image",
    "inode",
    "message",
    "model",
    "multipart",
    "text",
    "video",
];

/// The languages that language detection distinguishes.
const LANGUAGES: [&str; 16] =
    ["ar", "de", "en", "es", "fr", "hi", "it", "ja", "ko", "nl", "pt", "ru", "sv", "tr", "vi", "zh"];

checked_text! {
    /// The kind of the resources that a search finds: a MIME type such as `text/markdown`, or a registered type before
    /// the slash, such as `text`. For an unregistered type, write `chemical/*`.
    pub struct KindFilter, KindFilterError as "a MIME type, or its part before the slash", such as "\"text/markdown\"",
    schema Schema::pattern(&format!("^([a-z0-9.+-]+/([a-z0-9.+-]+|[*])|{})$", TYPES.join("|"))),
    valid if |text| text.parse::<super::MediaRange>().is_ok() || TYPES.contains(&text),
    otherwise |_, _| format!("write {}, in lower case", KindFilter::EXPECTED)
}

impl KindFilter {
    /// The description of a valid value, for people.
    pub const EXPECTED: &str = "a MIME type such as `text/markdown`, a registered type such as `text`, or `TYPE/*`";
}

checked_text! {
    /// The ISO 639-1 code of a detected language: `ar`, `de`, `en`, `es`, `fr`, `hi`, `it`, `ja`, `ko`, `nl`, `pt`,
    /// `ru`, `sv`, `tr`, `vi` or `zh`.
    pub struct LanguageCode, LanguageCodeError as "the code of a language that texts are found to be in", such as "\"en\"",
    schema Schema::pattern(&format!("^({})$", LANGUAGES.join("|"))),
    valid if |text| LANGUAGES.contains(&text),
    otherwise |_, _| format!("write {}", LanguageCode::expected())
}

impl LanguageCode {
    /// All codes.
    pub const ALL: [&str; 16] = LANGUAGES;

    /// The description of a valid value, for people.
    pub fn expected() -> String {
        format!("one of `{}`, without a region", LANGUAGES.join("`, `"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_type_or_a_registered_part_before_the_slash() {
        for kind in ["text/markdown", "text/*", "text", "inode", "chemical/*", "image/svg+xml"] {
            assert!(kind.parse::<KindFilter>().is_ok(), "{kind}");
        }
        for kind in ["", " ", "markdown", "text/", "/markdown", "*/*", "text/a/b", "text/html; charset=utf-8", "Text"] {
            assert!(kind.parse::<KindFilter>().is_err(), "{kind}");
        }
    }

    #[test]
    fn a_language_is_a_code_without_a_region() {
        for code in LanguageCode::ALL {
            assert!(code.parse::<LanguageCode>().is_ok(), "{code}");
        }
        for code in ["", "xx", "en-US", "english", "EN"] {
            assert!(code.parse::<LanguageCode>().is_err(), "{code}");
        }
    }
}
