//! Japanese notation: names of fields, roles, digits and dates.
//!
//! All text is compared in the normalization form NFKC: full-width digits and letters equal ASCII, half-width katakana
//! equal katakana, `㋿` equals `令和`.

use jiff::civil::Date;
use unicode_normalization::UnicodeNormalization;

/// The eras since Meiji, each with its letter and the year before its first year. Their first days: 1868-10-23,
/// 1912-07-30, 1926-12-25, 1989-01-08 and 2019-05-01 (the imperial edict of Meiji 1, the announcements of the cabinet
/// for Taisho and Showa, the cabinet orders of 1989 and 2019 by the Era Name Act, 元号法). The Gregorian calendar is in
/// use since Meiji 6 (Proclamation 337 of the Grand Council of State, Meiji 5).
const ERAS: [(&str, char, i16); 5] =
    [("明治", 'm', 1867), ("大正", 't', 1911), ("昭和", 's', 1925), ("平成", 'h', 1988), ("令和", 'r', 2018)];

/// The first year in the Gregorian calendar.
const FIRST_YEAR: i16 = 1873;

/// The Japanese names of fields.
const FIELDS: [(&str, &[&str]); 8] = [
    ("title", &["題名", "表題", "題", "タイトル", "件名"]),
    ("description", &["説明", "概要", "要約"]),
    ("tags", &["タグ", "分類", "キーワード"]),
    ("audience", &["対象", "対象者"]),
    ("priority", &["優先度", "重要度"]),
    ("date", &["日付", "作成日", "更新日"]),
    ("language", &["言語"]),
    ("reading", &["読み", "よみ", "読み仮名", "ふりがな", "フリガナ"]),
];

/// Returns a text in NFKC.
pub(super) fn nfkc(text: &str) -> String {
    if text.is_ascii() { text.to_owned() } else { text.nfkc().collect() }
}

/// Returns the English name of a field. Other names are returned unchanged.
pub(super) fn field_name(name: &str) -> String {
    let name = nfkc(name.trim());
    let known = FIELDS.iter().find(|(_, names)| names.contains(&name.as_str()));
    known.map_or(name, |(english, _)| (*english).to_owned())
}

/// Returns the English names of the roles that a Japanese word denotes.
pub(super) fn roles(word: &str) -> Option<&'static [&'static str]> {
    match nfkc(word).to_lowercase().as_str() {
        "利用者" | "ユーザー" | "ユーザ" | "人" | "人間" => Some(&["user"]),
        "アシスタント" | "ai" | "モデル" => Some(&["assistant"]),
        "両方" | "全員" => Some(&["user", "assistant"]),
        _ => None,
    }
}

/// Parses a date: `令和7年1月12日`, `令和七年一月十二日（日）`, `R7.1.12`, `2025年1月12日`. A missing month or day is the first one. A year
/// beyond the end of its era is counted on, because documents written before the end use such years.
pub(super) fn date(text: &str) -> Option<Date> {
    let text: String = nfkc(text).to_lowercase().chars().filter(|c| !c.is_whitespace()).collect();
    // A weekday may follow.
    let text = text.split('(').next().unwrap_or_default();
    let (base, rest) = era(text);
    let (year, rest) = number(rest)?;
    let year = base.checked_add(i16::try_from(year).ok()?)?;
    if base > 0 && year < FIRST_YEAR {
        return None;
    }
    let (month, day) = match rest.strip_prefix('年') {
        Some("") => (1, 1),
        Some(rest) => {
            let (month, rest) = number(rest)?;
            match rest.strip_prefix('月')? {
                "" => (month, 1),
                rest => (month, number(rest).filter(|(_, rest)| *rest == "日")?.0),
            }
        }
        // `r7.1.12`; `2025.1.12` is not parsed here.
        None if base > 0 => {
            let separator = rest.chars().next().filter(|c| matches!(c, '.' | '/' | '-'))?;
            let (month, rest) = number(rest.strip_prefix(separator)?)?;
            (month, number(rest.strip_prefix(separator)?).filter(|(_, rest)| rest.is_empty())?.0)
        }
        None => return None,
    };
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// Returns the year before the first year of an era, and the rest of the text; 0 for years of the common era.
fn era(text: &str) -> (i16, &str) {
    let of_era = ERAS.iter().find_map(|(name, letter, base)| {
        let rest = text.strip_prefix(name).or_else(|| text.strip_prefix(*letter))?;
        Some((*base, rest))
    });
    of_era.unwrap_or_else(|| (0, text.strip_prefix("西暦").unwrap_or(text)))
}

/// Parses a number of at most four digits, in Arabic or Chinese numerals, or `元` (1). Returns the rest of the text.
fn number(text: &str) -> Option<(u16, &str)> {
    if let Some(rest) = text.strip_prefix('元') {
        return Some((1, rest));
    }
    let is_arabic = text.starts_with(|c: char| c.is_ascii_digit());
    let is_digit = |c: char| if is_arabic { c.is_ascii_digit() } else { c == '十' || kanji_digit(c).is_some() };
    let (digits, rest) = text.split_at_checked(text.find(|c| !is_digit(c)).unwrap_or(text.len()))?;
    let value = if is_arabic { digits.parse().ok()? } else { kanji_number(digits)? };
    (value > 0 && value <= 9999).then_some((value, rest))
}

/// Parses `七`, `十二`, `二十五`, `二〇二五`.
fn kanji_number(digits: &str) -> Option<u16> {
    let positional =
        |digits: &str| digits.chars().try_fold(0_u16, |value, c| value.checked_mul(10)?.checked_add(kanji_digit(c)?));
    match digits.split_once('十') {
        _ if digits.is_empty() => None,
        None => positional(digits),
        Some((tens, ones)) => {
            let tens = if tens.is_empty() { 1 } else { positional(tens)? };
            positional(ones)?.checked_add(tens.checked_mul(10)?)
        }
    }
}

fn kanji_digit(c: char) -> Option<u16> {
    let place = "〇一二三四五六七八九".chars().position(|digit| digit == c)?;
    u16::try_from(place).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_date_of_the_japanese_calendar_is_one_of_the_gregorian() {
        for (text, expected) in [
            ("令和7年1月12日", "2025-01-12"),
            ("令和 ７ 年 １ 月 １２ 日（日）", "2025-01-12"),
            ("令和元年5月1日", "2019-05-01"),
            ("㋿7年1月12日", "2025-01-12"),
            ("令和七年十二月二十五日", "2025-12-25"),
            ("平成31年4月30日", "2019-04-30"),
            ("平成３２年３月", "2020-03-01"),
            ("昭和64年1月7日", "1989-01-07"),
            ("昭和元年12月25日", "1926-12-25"),
            ("大正15年12月24日", "1926-12-24"),
            ("明治6年1月1日", "1873-01-01"),
            ("R7.1.12", "2025-01-12"),
            ("Ｈ３１/４/３０", "2019-04-30"),
            ("S39-10-10", "1964-10-10"),
            ("2025年1月12日", "2025-01-12"),
            ("西暦2025年", "2025-01-01"),
            ("二〇二五年一月十二日", "2025-01-12"),
        ] {
            assert_eq!(date(text).map(|date| date.to_string()).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_such_date_is_none() {
        for text in [
            "",
            "令和",
            "令和0年1月1日",
            "令和7年13月1日",
            "令和7年2月30日",
            "明治5年12月3日",
            "慶応3年1月1日",
            "R7.1",
            "R7.1/12",
            "2025.1.12",
            "令和7年1月12",
            "令和7年1月12日頃",
            "令和十十年",
            "年月日",
            "99999年1月1日",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_fields_are_known_in_japanese() {
        for (name, expected) in
            [("題名", "title"), ("ﾀｸﾞ", "tags"), ("優先度 ", "priority"), ("title", "title"), ("他", "他")]
        {
            assert_eq!(field_name(name), expected);
        }
    }

    proptest! {
        #[test]
        fn each_day_of_an_era_is_its_day(days in 0_i32..60_000) {
            let day = Date::new(1873, 1, 1).unwrap().saturating_add(jiff::Span::new().days(days));
            for (name, letter, base) in ERAS {
                if day.year() > base && day.year() < base.saturating_add(100) {
                    let year = day.year().saturating_sub(base);
                    let long = format!("{name}{year}年{}月{}日", day.month(), day.day());
                    let short = format!("{letter}{year}.{}.{}", day.month(), day.day());
                    prop_assert_eq!(date(&long), Some(day));
                    prop_assert_eq!(date(&short), Some(day));
                }
            }
        }

        #[test]
        fn no_text_breaks_the_parser(text in "[令和昭RSH0-9〇一十元年月日./０９ (]{0,14}") {
            let _ = date(&text);
        }
    }
}
