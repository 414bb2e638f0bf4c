//! Jupyter notebooks (nbformat 3 and 4) as Markdown.
//!
//! Markdown cells are copied, code cells and their outputs are put into fences. An output is cut after [`MAX_OUTPUT`]
//! bytes or [`MAX_OUTPUT_LINES`] lines, with the number of omitted bytes; an image is named, not included. The original
//! file contains everything.

use super::MAX_TEXT;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// The maximum size of an output, in bytes.
const MAX_OUTPUT: usize = 2000;
/// The maximum number of lines of an output.
const MAX_OUTPUT_LINES: usize = 40;
/// The maximum number of outputs of one cell.
const MAX_OUTPUTS: usize = 20;

#[derive(Deserialize)]
struct Notebook {
    #[serde(default)]
    cells: Vec<Cell>,
    #[serde(default)]
    worksheets: Vec<Worksheet>,
    #[serde(default)]
    metadata: Metadata,
    nbformat: Option<u32>,
}

#[derive(Deserialize)]
struct Worksheet {
    #[serde(default)]
    cells: Vec<Cell>,
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(default)]
    language_info: Language,
    #[serde(default)]
    kernelspec: Kernel,
}

#[derive(Deserialize, Default)]
struct Language {
    name: Option<String>,
}

#[derive(Deserialize, Default)]
struct Kernel {
    language: Option<String>,
}

#[derive(Deserialize)]
struct Cell {
    cell_type: String,
    #[serde(default, alias = "input")]
    source: Text,
    #[serde(default)]
    outputs: Vec<Output>,
    level: Option<u8>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    text: Option<Text>,
    #[serde(default)]
    data: Data,
    ename: Option<String>,
    evalue: Option<String>,
}

/// The forms of an output. Forms other than text are not parsed.
#[derive(Deserialize, Default)]
struct Data {
    #[serde(rename = "text/plain")]
    plain: Option<Text>,
    #[serde(rename = "text/markdown")]
    markdown: Option<Text>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

/// Text, as one string or as its lines.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Whole(String),
    Lines(Vec<String>),
}

impl Default for Text {
    fn default() -> Self {
        Self::Whole(String::new())
    }
}

impl Text {
    fn join(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Lines(lines) => lines.concat(),
        }
    }
}

/// Converts a notebook to Markdown.
pub(super) fn to_markdown(json: &[u8]) -> Result<String, String> {
    let notebook: Notebook = serde_json::from_slice(json).map_err(|error| format!("it is not a notebook: {error}"))?;
    let Notebook { cells, worksheets, metadata, nbformat } = notebook;
    if nbformat.is_none() {
        return Err("it is not a notebook: it has no `nbformat`".to_owned());
    }
    let language = metadata.language_info.name.or(metadata.kernelspec.language).unwrap_or_default();
    // The language is part of the line that opens a fence.
    let language = language.split_whitespace().next().unwrap_or_default().replace('`', "");
    let mut parts = Vec::new();
    let mut size: usize = 0;
    for cell in cells.iter().chain(worksheets.iter().flat_map(|sheet| &sheet.cells)) {
        for part in cell_parts(cell, &language) {
            size = size.saturating_add(part.len());
            parts.push(part);
        }
        if size > MAX_TEXT {
            parts.push("*(The rest of the notebook is left out: it is too long.)*".to_owned());
            break;
        }
    }
    let mut markdown = parts.join("\n\n");
    markdown.push('\n');
    Ok(markdown)
}

fn cell_parts(cell: &Cell, language: &str) -> Vec<String> {
    let source = cell.source.join();
    let source = source.trim_end_matches('\n');
    let mut parts = match (cell.cell_type.as_str(), source) {
        (_, "") => Vec::new(),
        ("markdown" | "html", source) => vec![source.to_owned()],
        ("heading", source) => {
            let level = usize::from(cell.level.unwrap_or(1).clamp(1, 6));
            vec![format!("{} {source}", "#".repeat(level))]
        }
        ("code", source) => vec![fence(language, source)],
        (_, source) => vec![fence("", source)],
    };
    for output in cell.outputs.iter().take(MAX_OUTPUTS) {
        parts.push(output_part(output));
    }
    let more = cell.outputs.len().saturating_sub(MAX_OUTPUTS);
    if more > 0 {
        parts.push(format!("*({more} more outputs)*"));
    }
    parts
}

fn output_part(output: &Output) -> String {
    if let Some(name) = &output.ename {
        let value = output.evalue.as_deref().unwrap_or_default();
        return fence("", &bounded(&format!("{name}: {value}")));
    }
    if let Some(text) = output.text.as_ref().or(output.data.plain.as_ref()) {
        let text = fence("", &bounded(&text.join()));
        // A figure has a short text in addition to its image.
        return match image(&output.data) {
            Some(kind) => format!("{text}\n\n*({kind} output)*"),
            None => text,
        };
    }
    if let Some(markdown) = &output.data.markdown {
        return bounded(&markdown.join());
    }
    let kinds: Vec<&str> = output.data.others.keys().map(String::as_str).collect();
    let kinds = if kinds.is_empty() { "empty".to_owned() } else { kinds.join(", ") };
    format!("*({} output)*", bounded(&kinds))
}

fn image(data: &Data) -> Option<&str> {
    data.others.keys().map(String::as_str).find(|kind| kind.starts_with("image/"))
}

/// Returns the beginning of an output, with the number of omitted bytes.
fn bounded(text: &str) -> String {
    let text = text.trim_end_matches('\n');
    let lines_end = text.match_indices('\n').nth(MAX_OUTPUT_LINES.saturating_sub(1)).map_or(text.len(), |(end, _)| end);
    let end = text.floor_char_boundary(lines_end.min(MAX_OUTPUT));
    match text.split_at_checked(end) {
        Some((kept, "")) => kept.to_owned(),
        Some((kept, rest)) => format!("{kept}\n… {} more bytes", rest.len()),
        None => text.to_owned(),
    }
}

/// Puts text into a fence that is longer than every fence in the text.
fn fence(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    format!("{fence}{language}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn markdown(notebook: &serde_json::Value) -> String {
        to_markdown(notebook.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn cells_become_markdown_and_fences() {
        let notebook = json!({
            "nbformat": 4, "nbformat_minor": 5, "metadata": { "language_info": { "name": "python" } },
            "cells": [
                { "cell_type": "markdown", "metadata": {}, "source": ["# 解析\n", "本文"] },
                { "cell_type": "code", "metadata": {}, "execution_count": 1, "source": "print(1)\n", "outputs": [
                    { "output_type": "stream", "name": "stdout", "text": ["1\n"] },
                    { "output_type": "display_data", "data": { "image/png": "iVBOR", "text/plain": "<Figure>" } },
                    { "output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\u{1b}[31m"] },
                ] },
                { "cell_type": "raw", "source": "raw" },
            ],
        });
        assert_eq!(
            markdown(&notebook),
            "# 解析\n本文\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\n```\n<Figure>\n```\n\n*(image/png output)*\n\n\
             ```\nValueError: no\n```\n\n```\nraw\n```\n"
        );
    }

    #[test]
    fn a_long_output_is_its_beginning_and_says_so() {
        let output = |text: String| {
            json!({ "nbformat": 4, "cells": [
                { "cell_type": "code", "source": "", "outputs": [{ "output_type": "stream", "text": text }] } ] })
        };
        let lines = markdown(&output("x\n".repeat(1000)));
        assert_eq!((lines.matches("x\n").count(), lines.contains("… 1920 more bytes")), (40, true), "{lines}");
        let wide = markdown(&output("日".repeat(10_000)));
        assert!(wide.len() < 2100 && wide.contains("… 28002 more bytes"), "{}", wide.len());
    }

    #[test]
    fn a_notebook_of_the_old_format_has_its_cells_in_worksheets() {
        let notebook = json!({ "nbformat": 3, "worksheets": [{ "cells": [
            { "cell_type": "heading", "level": 2, "source": "H" },
            { "cell_type": "code", "input": "1+1", "outputs": [] } ] }] });
        assert_eq!(markdown(&notebook), "## H\n\n```\n1+1\n```\n");
    }

    #[test]
    fn code_with_a_fence_is_in_a_longer_one() {
        assert_eq!(fence("", "```"), "````\n```\n````");
    }

    #[test]
    fn what_is_no_notebook_is_refused_with_the_reason() {
        for json in ["", "{}", "[]", "{\"nbformat\":4,\"cells\":3}"] {
            assert!(to_markdown(json.as_bytes()).unwrap_err().starts_with("it is not a notebook"), "{json}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_converted_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = to_markdown(&bytes);
        }
    }
}
