//! Word documents (Office Open XML, ECMA-376) as Markdown: headings, paragraphs, lists and tables of the main part.
//!
//! The crate `zip` reads the archive and `quick-xml` the XML, as streams. Deleted text of tracked changes, field codes,
//! images and comments are omitted. At most [`MAX_XML`] bytes of a part are read, whatever size the archive declares.

use super::MAX_TEXT;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::collections::HashMap;
use std::io::{BufReader, Cursor, Read};
use zip::ZipArchive;

/// The maximum size of one part, uncompressed.
const MAX_XML: u64 = 64 * 1024 * 1024;

/// The maximum number of nested elements. Word nests a few dozen.
const MAX_DEPTH: usize = 512;

/// The main part and its styles.
const MAIN: &str = "word/document.xml";
const STYLES: &str = "word/styles.xml";

type Xml<'a> = Reader<BufReader<Box<dyn Read + 'a>>>;

/// Converts a document to Markdown.
pub(super) fn to_markdown(bytes: Vec<u8>) -> Result<String, String> {
    let fault = |error: &dyn std::fmt::Display| format!("it is not a readable docx file: {error}");
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| fault(&error))?;
    // Without styles, headings are paragraphs.
    let headings = open(&mut archive, STYLES).map(heading_levels).unwrap_or_default();
    let main = open(&mut archive, MAIN).map_err(|error| fault(&error))?;
    let mut document = Document { headings, ..Document::default() };
    document.read(main).map_err(|error| fault(&error))?;
    document.end_paragraph();
    let mut markdown = document.blocks.join("\n\n");
    markdown.push('\n');
    Ok(markdown)
}

fn open<'a>(archive: &'a mut ZipArchive<Cursor<Vec<u8>>>, name: &str) -> Result<Xml<'a>, zip::result::ZipError> {
    let part: Box<dyn Read> = Box::new(archive.by_name(name)?.take(MAX_XML));
    let mut reader = Reader::from_reader(BufReader::new(part));
    reader.config_mut().check_end_names = false;
    Ok(reader)
}

/// Returns the levels of the styles that are headings, by id. Ids are translated, names are not.
fn heading_levels(mut styles: Xml<'_>) -> HashMap<String, usize> {
    let (mut levels, mut id, mut buffer) = (HashMap::new(), None, Vec::new());
    loop {
        buffer.clear();
        let element = match styles.read_event_into(&mut buffer) {
            Ok(Event::Start(element) | Event::Empty(element)) => element,
            Ok(Event::Eof) | Err(_) => return levels,
            Ok(_) => continue,
        };
        match element.local_name().as_ref() {
            b"style" => id = attribute(&element, b"styleId"),
            b"name" => {
                let name = attribute(&element, b"val").unwrap_or_default().to_lowercase();
                let number = name.strip_prefix("heading ").and_then(|number| number.parse().ok());
                let level = if name == "title" { Some(1) } else { number };
                if let Some((id, level)) = id.take().zip(level) {
                    levels.insert(id, level);
                }
            }
            _ => {}
        }
    }
}

fn attribute(element: &BytesStart<'_>, name: &[u8]) -> Option<String> {
    let mut attributes = element.attributes();
    let attribute = attributes
        .with_checks(false)
        .filter_map(Result::ok)
        .find(|attribute| attribute.key.local_name().as_ref() == name)?;
    attribute.unescape_value().ok().map(std::borrow::Cow::into_owned)
}

/// The state of a document's conversion.
#[derive(Default)]
struct Document {
    headings: HashMap<String, usize>,
    /// The finished blocks of Markdown.
    blocks: Vec<String>,
    size: usize,
    /// The text of the current paragraph.
    text: String,
    /// The level of the current paragraph as a heading.
    level: Option<usize>,
    /// The depth of the current paragraph as a list item, from 0.
    item: Option<usize>,
    /// Whether the last block is a list.
    is_in_list: bool,
    /// The rows of the current outermost table.
    rows: Vec<Vec<String>>,
    tables: usize,
    /// The number of open elements whose text is omitted.
    skipped: usize,
    /// Whether the current element contains text of the document.
    is_text: bool,
    depth: usize,
}

impl Document {
    fn read(&mut self, mut xml: Xml<'_>) -> Result<(), quick_xml::Error> {
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            match xml.read_event_into(&mut buffer)? {
                Event::Start(element) => {
                    self.depth = self.depth.saturating_add(1);
                    self.start(&element);
                }
                Event::Empty(element) => {
                    self.start(&element);
                    self.end(element.local_name().as_ref());
                }
                Event::End(element) => {
                    self.depth = self.depth.saturating_sub(1);
                    self.end(element.local_name().as_ref());
                }
                Event::Text(text) if self.is_text && self.skipped == 0 => {
                    self.text.push_str(&text.decode().unwrap_or_default());
                }
                Event::GeneralRef(entity) if self.is_text && self.skipped == 0 => {
                    let resolved = match entity.resolve_char_ref() {
                        Ok(Some(character)) => Some(character.to_string()),
                        _ => quick_xml::escape::resolve_xml_entity(&entity.decode().unwrap_or_default())
                            .map(str::to_owned),
                    };
                    self.text.push_str(&resolved.unwrap_or_default());
                }
                Event::Eof => return Ok(()),
                _ => {}
            }
            if self.depth > MAX_DEPTH || self.size.saturating_add(self.text.len()) > MAX_TEXT {
                self.end_paragraph();
                self.blocks.push("*(The rest of the document is left out: it is too long or too deep.)*".to_owned());
                return Ok(());
            }
        }
    }

    fn start(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            // Deleted text, field codes, and the second form of alternate content.
            b"del" | b"instrText" | b"delText" | b"Fallback" | b"moveFrom" => {
                self.skipped = self.skipped.saturating_add(1);
            }
            b"t" => self.is_text = true,
            b"pStyle" => {
                let style = attribute(element, b"val").unwrap_or_default();
                self.level = self.headings.get(&style).copied().or(self.level);
            }
            b"outlineLvl" => {
                let level = attribute(element, b"val").and_then(|level| level.parse::<usize>().ok());
                self.level = self.level.or(level.filter(|level| *level < 9).map(|level| level.saturating_add(1)));
            }
            b"numPr" => self.item = self.item.or(Some(0)),
            b"ilvl" if self.item.is_some() => {
                self.item = attribute(element, b"val").and_then(|level| level.parse().ok()).or(self.item);
            }
            b"tab" if self.skipped == 0 && !self.text.is_empty() => self.text.push('\t'),
            b"br" | b"cr" if self.skipped == 0 => self.text.push('\n'),
            b"noBreakHyphen" => self.text.push('-'),
            b"tbl" => {
                if self.tables == 0 {
                    self.end_paragraph();
                }
                self.tables = self.tables.saturating_add(1);
            }
            b"tr" if self.tables == 1 => self.rows.push(Vec::new()),
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"del" | b"instrText" | b"delText" | b"Fallback" | b"moveFrom" => {
                self.skipped = self.skipped.saturating_sub(1);
            }
            b"t" => self.is_text = false,
            b"p" if self.tables > 0 => self.text.push(' '),
            b"p" => self.end_paragraph(),
            b"tc" if self.tables == 1 => {
                let cell = std::mem::take(&mut self.text);
                let cell = cell.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
                if let Some(row) = self.rows.last_mut() {
                    row.push(cell);
                }
                (self.level, self.item) = (None, None);
            }
            b"tbl" => {
                self.tables = self.tables.saturating_sub(1);
                if self.tables == 0 {
                    self.end_table();
                }
            }
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        let text = std::mem::take(&mut self.text);
        let (level, item) = (self.level.take(), self.item.take());
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let is_item = level.is_none() && item.is_some();
        let block = match (level, item) {
            (Some(level), _) => format!("{} {}", "#".repeat(level.clamp(1, 6)), text.replace('\n', " ")),
            (None, Some(depth)) => format!("{}- {text}", "  ".repeat(depth.min(8))),
            (None, None) => text.to_owned(),
        };
        match self.blocks.last_mut().filter(|_| is_item && self.is_in_list) {
            Some(list) => {
                list.push('\n');
                list.push_str(&block);
                self.size = self.size.saturating_add(block.len());
            }
            None => self.push(block),
        }
        self.is_in_list = is_item;
    }

    fn end_table(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        if columns == 0 {
            return;
        }
        let line = |cells: &[String]| {
            let cells = cells.iter().map(String::as_str).chain(std::iter::repeat("")).take(columns);
            format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
        };
        let mut lines: Vec<String> = rows.iter().map(|row| line(row)).collect();
        lines.insert(1.min(lines.len()), format!("|{}", " --- |".repeat(columns.min(1000))));
        self.push(lines.join("\n"));
        self.is_in_list = false;
    }

    fn push(&mut self, block: String) {
        self.size = self.size.saturating_add(block.len());
        self.blocks.push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    fn docx(parts: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, xml) in parts {
            archive.start_file(*name, SimpleFileOptions::default()).unwrap();
            archive.write_all(xml.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    fn body(xml: &str) -> String {
        format!("<?xml version=\"1.0\"?><w:document xmlns:w=\"w\"><w:body>{xml}</w:body></w:document>")
    }

    fn markdown(xml: &str) -> String {
        let styles = "<w:styles><w:style w:styleId=\"1\"><w:name w:val=\"heading 1\"/></w:style>\
                      <w:style w:styleId=\"a\"><w:name w:val=\"Normal\"/></w:style></w:styles>";
        to_markdown(docx(&[(MAIN, &body(xml)), (STYLES, styles)])).unwrap()
    }

    #[test]
    fn paragraphs_headings_lists_and_tables_become_markdown() {
        let paragraph = |properties: &str, text: &str| {
            format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
        };
        let item = |level: u8, text: &str| paragraph(&format!("<w:numPr><w:ilvl w:val=\"{level}\"/></w:numPr>"), text);
        let row = |cells: &[&str]| {
            let cells: String = cells.iter().map(|cell| format!("<w:tc>{}</w:tc>", paragraph("", cell))).collect();
            format!("<w:tr>{cells}</w:tr>")
        };
        let xml = [
            paragraph("<w:pStyle w:val=\"1\"/>", "見出し"),
            paragraph("<w:pStyle w:val=\"a\"/>", "A &amp; B &#x65e5;"),
            item(0, "one"),
            item(1, "deep"),
            format!("<w:tbl>{}{}</w:tbl>", row(&["a", "b|c"]), row(&["d"])),
            "<w:p><w:r><w:t xml:space=\"preserve\">x </w:t><w:tab/><w:t>y</w:t><w:br/></w:r><w:del><w:r><w:delText>gone\
             </w:delText></w:r></w:del></w:p>"
                .to_owned(),
        ]
        .concat();
        assert_eq!(
            markdown(&xml),
            "# 見出し\n\nA & B 日\n\n- one\n  - deep\n\n| a | b\\|c |\n| --- | --- |\n| d |  |\n\nx \ty\n"
        );
    }

    #[test]
    fn a_bomb_ends_at_the_bound() {
        let text = "a".repeat(1 << 20);
        let xml = format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>").repeat(30);
        let long = markdown(&xml);
        assert!(long.len() < MAX_TEXT + (2 << 20) && long.contains("left out"), "{}", long.len());
        let deep = markdown(&"<w:x>".repeat(100_000));
        assert!(deep.contains("left out"));
    }

    #[test]
    fn what_is_no_document_is_refused_with_the_reason() {
        let no_main = docx(&[("other.xml", "<x/>")]);
        for bytes in [b"".to_vec(), b"PK\x03\x04".to_vec(), no_main] {
            assert!(to_markdown(bytes).unwrap_err().starts_with("it is not a readable docx file"));
        }
    }

    proptest! {
        #[test]
        fn a_damaged_document_is_converted_or_refused(at in 0usize..2000, byte in any::<u8>(), cut in 0usize..2000) {
            let mut bytes = docx(&[(MAIN, &body("<w:p><w:r><w:t>text</w:t></w:r></w:p>")), (STYLES, "<w:styles/>")]);
            let len = bytes.len();
            bytes[at % len] = byte;
            let _ = to_markdown(bytes.clone());
            bytes.truncate(cut % len);
            let _ = to_markdown(bytes);
        }
    }
}
