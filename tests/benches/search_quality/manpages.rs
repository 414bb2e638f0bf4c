//! Manual pages of Debian, in Japanese and in English.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::judged::JudgedSet;
use super::target;

/// The sections of `manpages-ja`; and the sections of `manpages-dev` with their translations in `manpages-ja-dev`.
const SECTIONS: [u8; 6] = [1, 4, 5, 6, 7, 8];
const DEVELOPERS_SECTIONS: [u8; 2] = [2, 3];
/// The titles of the section with the name and what it is.
const NAME_TITLES: [&str; 3] = ["NAME", "名前", "名称"];

/// A manual page as plain text.
struct Page {
    /// What the section NAME says: `ls - list directory contents`.
    name: String,
    /// Everything else.
    text: String,
}

impl Page {
    /// What the section NAME says without the name, by which the page would be found too easily; none if that is
    /// English.
    fn japanese_description(&self) -> Option<String> {
        let (_, description) = self.name.split_once(" - ")?;
        (!description.is_ascii()).then(|| description.to_owned())
    }
}

/// Japanese pages: the description in the NAME line finds its page.
pub(crate) fn known_items() -> JudgedSet {
    let pages = read_pages(&target("debian/usr/share/man/ja"), &SECTIONS);
    let items = pages.into_values().filter_map(|page| Some((page.japanese_description()?, page.text))).collect();
    JudgedSet::known_items("Japanese manual pages, by their descriptions", items)
}

/// English pages: the description in the NAME line of the Japanese translation finds the original.
pub(crate) fn originals() -> JudgedSet {
    let mut translations = read_pages(&target("debian/usr/share/man/ja"), &DEVELOPERS_SECTIONS);
    let mut items = Vec::new();
    for (name, page) in read_pages(&target("debian/usr/share/man"), &DEVELOPERS_SECTIONS) {
        let Some(translation) = translations.remove(&name) else { continue };
        items.extend(translation.japanese_description().map(|text| (text, page.text)));
    }
    JudgedSet::known_items("English manual pages, by Japanese descriptions", items)
}

/// The pages of a language, by the names of their files, which end with the section.
fn read_pages(folder: &Path, sections: &[u8]) -> BTreeMap<String, Page> {
    let mut pages = BTreeMap::new();
    for section in sections.iter().map(|number| folder.join(format!("man{number}"))) {
        for file in fs::read_dir(section).unwrap().map(|entry| entry.unwrap()) {
            let mut roff = String::new();
            let is_text = MultiGzDecoder::new(fs::File::open(file.path()).unwrap()).read_to_string(&mut roff).is_ok();
            if let Some(page) = parse(&roff).filter(|_| is_text && file.file_type().unwrap().is_file()) {
                pages.insert(file.file_name().into_string().unwrap(), page);
            }
        }
    }
    pages
}

/// The text of a page in roff; none if it only includes another one, or has no name.
fn parse(roff: &str) -> Option<Page> {
    let (mut page, mut is_in_name) = (Page { name: String::new(), text: String::new() }, false);
    for line in roff.lines() {
        let macro_line = line.strip_prefix(['.', '\'']).map(str::trim_start);
        let (name, rest) = macro_line.map_or(("", line), |line| line.split_once(' ').unwrap_or((line, "")));
        match name {
            "so" => return None,
            "TH" | "Dd" | "Dt" | "Os" => {}
            _ if name.starts_with("\\\"") => {}
            "SH" | "Sh" => {
                is_in_name = NAME_TITLES.contains(&plain(rest).as_str());
                if !is_in_name {
                    page.text += &format!("\n{}\n", plain(rest));
                }
            }
            _ if is_in_name => page.name += &format!("{} ", plain(rest)),
            _ => page.text += &format!("{}\n", plain(rest)),
        }
    }
    page.name = page.name.trim().to_owned();
    (!page.name.is_empty() && !page.text.trim().is_empty()).then_some(page)
}

/// A line without requests of roff for fonts and characters.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut characters = line.chars().filter(|character| *character != '"');
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('f') if characters.next() == Some('(') => drop((characters.next(), characters.next())),
            Some('(') => drop((characters.next(), characters.next())),
            Some('-') => text.push('-'),
            Some('e') => text.push('\\'),
            _ => {}
        }
    }
    text.trim().to_owned()
}
