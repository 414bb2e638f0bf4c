//! The text layer of PDF files, page by page, with the interpreter of `hayro`.
//!
//! Glyphs are mapped to characters by the font's `ToUnicode` map, the glyph names or, in fonts of the predefined CJK
//! character collections, the CIDs. Each page begins with a line `--- page N ---`. A page without a text layer is
//! marked as such. Glyphs without a mapping become U+FFFD, and their number is at the end of the page.

use super::MAX_TEXT;
use hayro_interpret::font::GlyphRun;
use hayro_interpret::hayro_cmap::{BfString, WritingMode};
use hayro_interpret::kurbo::{Affine, BezPath, Point, Rect};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
    InterpreterSettings, SoftMask, interpret_page,
};
use hayro_syntax::{LoadPdfError, Pdf};

/// The maximum number of pages with a text layer. Further pages are omitted.
const MAX_PAGES: usize = 5000;

/// The minimum distance between two glyphs that counts as a space, in em.
const SPACE: f64 = 0.2;

/// The minimum distance between the baselines of two glyphs on different lines, in em.
const LINE: f64 = 0.5;

/// Converts a PDF file to text.
pub(super) fn to_text(bytes: Vec<u8>) -> Result<String, String> {
    let pdf = Pdf::new(bytes).map_err(|error| match error {
        LoadPdfError::Decryption(_) => "the PDF file is encrypted".to_owned(),
        LoadPdfError::Invalid => "it is not a readable PDF file".to_owned(),
    })?;
    let cache = InterpreterCache::new();
    let mut text = String::new();
    let pages = pdf.pages();
    for (index, page) in pages.iter().enumerate() {
        if text.len() > MAX_TEXT || index >= MAX_PAGES {
            let rest = pages.len().saturating_sub(index);
            text.push_str(&format!("--- {rest} more pages are left out: the text is too long ---\n"));
            break;
        }
        let mut layer = TextLayer::default();
        let area = Rect::new(0.0, 0.0, 1.0, 1.0);
        let settings = InterpreterSettings::default();
        let mut context = Context::new(Affine::IDENTITY, area, &cache, pdf.xref(), settings);
        interpret_page(page, &mut context, &mut layer);
        text.push_str(&format!("--- page {} ---\n", index.saturating_add(1)));
        text.push_str(&layer.finish());
    }
    Ok(text)
}

/// A device that collects characters and ignores everything else.
#[derive(Default)]
struct TextLayer {
    text: String,
    /// The number of glyphs without a character.
    unknown: usize,
    has_images: bool,
    /// The end of the last glyph.
    last: Option<Pen>,
}

/// A position on the page.
#[derive(Clone, Copy)]
struct Pen {
    end: Point,
    size: f64,
}

impl TextLayer {
    fn finish(mut self) -> String {
        if self.text.is_empty() {
            let reason = if self.has_images { "it is an image" } else { "it is empty or drawn" };
            return format!("(no text layer: {reason})\n");
        }
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        if self.unknown > 0 {
            let unknown = self.unknown;
            self.text.push_str(&format!("({unknown} glyphs have no character: their font has no map to Unicode)\n"));
        }
        self.text
    }

    /// Adds white space between the last glyph and the next one.
    #[expect(clippy::arithmetic_side_effects, reason = "coordinates are floating-point numbers")]
    fn move_to(&mut self, start: Point, size: f64, is_vertical: bool) {
        let Some(Pen { end, size: last_size }) = self.last else { return };
        let size = size.max(last_size).max(f64::MIN_POSITIVE);
        let (along, across) = (start - end).into();
        let (along, across) = if is_vertical { (-across, along) } else { (along, across) };
        let (along, across) = (along / size, across.abs() / size);
        if across > LINE || along < -1.0 {
            self.text.push('\n');
        } else if along > SPACE && !self.text.ends_with([' ', '\n']) {
            self.text.push(' ');
        }
    }

    fn push(&mut self, character: Option<BfString>) {
        match character {
            Some(BfString::Char(character)) => self.push_char(character),
            Some(BfString::String(string)) => string.chars().for_each(|character| self.push_char(character)),
            None => {
                self.unknown = self.unknown.saturating_add(1);
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    fn push_char(&mut self, character: char) {
        // Control characters of wrong maps are not text.
        if !character.is_control() {
            self.text.push(character);
        }
    }
}

impl<'a> Device<'a> for TextLayer {
    #[expect(clippy::arithmetic_side_effects, reason = "coordinates are floating-point numbers")]
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, _: &DrawMode) {
        let is_vertical = run.writing_mode() == WritingMode::Vertical;
        for glyph in run.glyphs() {
            if self.text.len() > MAX_TEXT {
                return;
            }
            let transform = props.transform * glyph.transform();
            let [a, b, c, d, ..] = transform.as_coeffs();
            // Glyph space has a thousand units per em.
            let (size, width) = (c.hypot(d) * 1000.0, a.hypot(b));
            let start = transform * Point::ZERO;
            self.move_to(start, size, is_vertical);
            self.push(glyph.as_unicode());
            let advance = match &**glyph {
                hayro_interpret::font::Glyph::Outline(glyph) => glyph.advance_width(),
                hayro_interpret::font::Glyph::Type3(glyph) => glyph.advance_width(),
            };
            let advance = f64::from(advance.unwrap_or(500.0));
            let end = if is_vertical {
                Point::new(start.x, start.y - size)
            } else {
                Point::new(start.x + advance * width, start.y)
            };
            self.last = Some(Pen { end, size });
        }
    }

    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {
        self.has_images = true;
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a PDF file with one page per content stream, and one font.
    fn pdf(font: &str, contents: &[&str]) -> Vec<u8> {
        let pages = 5..5 + contents.len() * 2;
        let kids: String = pages.clone().step_by(2).map(|id| format!("{id} 0 R ")).collect();
        let mut objects = vec![
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            format!("<< /Type /Pages /Count {} /Kids [{kids}] >>", contents.len()),
            font.to_owned(),
            "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Ryumin-Light /CIDSystemInfo << /Registry (Adobe) \
             /Ordering (Japan1) /Supplement 2 >> /FontDescriptor << /Type /FontDescriptor /FontName /Ryumin-Light \
             /Flags 4 /FontBBox [0 0 1000 1000] /ItalicAngle 0 /Ascent 880 /Descent -120 /StemV 80 >> >>"
                .to_owned(),
        ];
        for (id, content) in pages.step_by(2).zip(contents) {
            let stream = id + 1;
            objects.push(format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 500 500] /Resources << /Font << /F 3 0 R >> >> \
                 /Contents {stream} 0 R >>"
            ));
            objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
        }
        let mut file = "%PDF-1.4\n".to_owned();
        let mut offsets = Vec::new();
        for (index, object) in objects.iter().enumerate() {
            offsets.push(file.len());
            file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", index + 1));
        }
        let (xref, count) = (file.len(), objects.len() + 1);
        file.push_str(&format!("xref\n0 {count}\n0000000000 65535 f \n"));
        offsets.iter().for_each(|offset| file.push_str(&format!("{offset:010} 00000 n \n")));
        file.push_str(&format!("trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{xref}\n%%EOF\n"));
        file.into_bytes()
    }

    const HELVETICA: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>";

    fn japanese(encoding: &str) -> String {
        format!(
            "<< /Type /Font /Subtype /Type0 /BaseFont /Ryumin-Light /Encoding /{encoding} /DescendantFonts [4 0 R] >>"
        )
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02X}")).collect()
    }

    #[test]
    fn pages_are_text_with_their_lines_and_words() {
        let first = "BT /F 12 Tf 50 400 Td (Hello) Tj 40 0 Td (world) Tj 0 -20 Td (again) Tj ET";
        let text = to_text(pdf(HELVETICA, &[first, "0 0 10 10 re f"])).unwrap();
        assert_eq!(text, "--- page 1 ---\nHello world\nagain\n--- page 2 ---\n(no text layer: it is empty or drawn)\n");
    }

    #[test]
    fn japanese_text_in_the_predefined_cmaps_is_decoded_without_an_embedded_font() {
        let text = "日本語の文書";
        let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let jis: Vec<u8> = encoding_rs::EUC_JP.encode(text).0.iter().map(|byte| byte & 0x7f).collect();
        for (cmap, bytes) in [
            ("90ms-RKSJ-H", encoding_rs::SHIFT_JIS.encode(text).0.into_owned()),
            ("90msp-RKSJ-H", encoding_rs::SHIFT_JIS.encode(text).0.into_owned()),
            ("EUC-H", encoding_rs::EUC_JP.encode(text).0.into_owned()),
            ("H", jis),
            ("UniJIS-UTF16-H", utf16.clone()),
            ("UniJIS-UCS2-H", utf16.clone()),
            ("UniJIS-UTF16-V", utf16),
        ] {
            let content = format!("BT /F 12 Tf 50 400 Td <{}> Tj ET", hex(&bytes));
            let read = to_text(pdf(&japanese(cmap), &[&content])).unwrap();
            assert_eq!(read, format!("--- page 1 ---\n{text}\n"), "{cmap}");
        }
    }

    #[test]
    fn invisible_text_over_a_scanned_page_is_its_text() {
        let content = "BT 3 Tr /F 12 Tf 50 400 Td (recognized) Tj ET";
        assert!(to_text(pdf(HELVETICA, &[content])).unwrap().contains("recognized"));
    }

    #[test]
    fn what_is_no_pdf_is_refused_with_the_reason() {
        for bytes in [&b""[..], b"%PDF-1.4", b"no pdf"] {
            assert_eq!(to_text(bytes.to_vec()).unwrap_err(), "it is not a readable PDF file");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn a_damaged_file_is_converted_or_refused(
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            cut in any::<prop::sample::Index>(), is_cut in any::<bool>(),
        ) {
            let content = "BT /F 12 Tf 50 400 Td <93FA967B> Tj ET q 1 0 0 1 5 5 cm Q";
            let mut bytes = pdf(&japanese("90ms-RKSJ-H"), &[content]);
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if is_cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            let _ = to_text(bytes);
        }
    }
}
