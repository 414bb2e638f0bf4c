//! What a search can be narrowed to: kinds and languages that resources can have. Another value would find nothing, whatever is
//! indexed.

use std::fmt;
use std::str::FromStr;

use crate::config::error::{Suggest, quote};
use crate::config::reader::{FromNode, Node, Schema};

/// The types of MIME types: those that are registered (RFC 6838, 8081 and 9695), and that of directories.
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

/// The languages that a text is found to be in.
const LANGUAGES: [&str; 16] =
    ["ar", "de", "en", "es", "fr", "hi", "it", "ja", "ko", "nl", "pt", "ru", "sv", "tr", "vi", "zh"];

checked_text! {
    /// The kind of the resources that a search finds: a MIME type such as `text/markdown`, or a registered type before the slash,
    /// such as `text`. All of another type are `chemical/*`.
    KindFilter, KindFilterError, "a MIME type, or its part before the slash", "\"text/markdown\"",
    "^([a-z0-9.+-]+/([a-z0-9.+-]+|[*])|application|audio|example|font|haptics|image|inode|message|model|multipart|text|video)$",
    "write a MIME type such as `text/markdown`, a registered type such as `text`, or `TYPE/*`, in lower case",
    |text| text.parse::<super::MediaRange>().is_ok() || TYPES.contains(&text)
}

#[cfg(feature = "search")]
impl KindFilter {
    /// What is expected of one, for people.
    pub(crate) const EXPECTED: &str =
        "a MIME type such as `text/markdown`, a registered type such as `text`, or `TYPE/*`";
}

checked_text! {
    /// The ISO 639-1 code of a language that a text is found to be in: `ar`, `de`, `en`, `es`, `fr`, `hi`, `it`, `ja`, `ko`, `nl`,
    /// `pt`, `ru`, `sv`, `tr`, `vi` or `zh`.
    LanguageCode, LanguageCodeError, "the code of a language that texts are found to be in", "\"en\"",
    "^(ar|de|en|es|fr|hi|it|ja|ko|nl|pt|ru|sv|tr|vi|zh)$",
    "write one of `ar`, `de`, `en`, `es`, `fr`, `hi`, `it`, `ja`, `ko`, `nl`, `pt`, `ru`, `sv`, `tr`, `vi`, `zh`, without a region",
    |text| LANGUAGES.contains(&text)
}

impl LanguageCode {
    /// All of them.
    pub const ALL: [&str; 16] = LANGUAGES;

    /// What is expected of one, for people.
    #[cfg(feature = "search")]
    pub(crate) fn expected() -> String {
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
    fn the_messages_and_the_patterns_have_all_values() {
        let (kinds, languages) = (format!("{:?}", KindFilter::schema()), format!("{:?}", LanguageCode::schema()));
        assert!(kinds.contains(&TYPES.join("|")), "{kinds}");
        assert!(languages.contains(&LANGUAGES.join("|")), "{languages}");
        let help = LanguageCodeError(String::new()).suggestion("");
        assert!(help.contains(&LANGUAGES.join("`, `")), "{help}");
        for code in ["", "xx", "en-US", "english", "EN"] {
            assert!(code.parse::<LanguageCode>().is_err(), "{code}");
        }
    }
}
