//! Documents as text, with the original.

use super::{Fixture, meta};
use mcp_provider::{Failure, Provider};
use serde_json::json;

fn notebook(cells: usize) -> String {
    let cell = json!({ "cell_type": "code", "source": "1 + 1", "outputs": [
        { "output_type": "execute_result", "data": { "text/plain": "2" } },
        { "output_type": "stream", "text": "x\n".repeat(5000) },
    ] });
    json!({ "nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": vec![cell; cells] }).to_string()
}

#[test]
fn a_notebook_is_markdown_with_bounded_outputs_and_its_parts_are_those_of_the_file() {
    let fixture = Fixture::new([("a.ipynb", notebook(1))]);
    let contents = fixture.read("a.ipynb").unwrap();
    assert_eq!(contents.entry.mime_type.as_deref(), Some("text/markdown"));
    let text = contents.as_text().unwrap();
    assert!(text.starts_with("```\n1 + 1\n```\n\n```\n2\n```\n") && text.contains("… 9920 more bytes"), "{text}");
    assert_eq!(fixture.read("a.ipynb?as=text").unwrap().as_text(), Some(text));
    assert_eq!(fixture.read("a.ipynb?bytes=0-").unwrap().as_text(), Some(notebook(1).as_str()));
    assert_eq!(fixture.read("a.ipynb?as=text&lines=2").unwrap().as_text(), Some("1 + 1\n"));
}

#[test]
fn the_text_of_a_long_document_continues_by_lines_of_the_text() {
    let fixture = Fixture::with_config([("a.ipynb", notebook(50))], [("max-read", "2000")]);
    let whole = Fixture::new([("a.ipynb", notebook(50))]).read("a.ipynb?as=text").unwrap();
    let (mut text, mut path) = (String::new(), "a.ipynb".to_owned());
    loop {
        let part = fixture.read(&path).unwrap();
        text.push_str(part.as_text().unwrap());
        match meta(&part.entry, "files/next-range") {
            Some(next) => path = format!("a.ipynb?{next}"),
            None => break,
        }
    }
    assert_eq!(Some(text.as_str()), whole.as_text());
}

#[test]
fn what_is_no_document_is_served_as_it_is_with_the_reason() {
    let fixture = Fixture::new([("a.ipynb", "{}"), ("b.pdf", "no pdf"), ("c.docx", "no docx")]);
    for path in ["a.ipynb", "b.pdf", "c.docx"] {
        let contents = fixture.read(path).unwrap();
        assert!(meta(&contents.entry, "files/text-fault").unwrap().starts_with("it is not a"), "{path}");
        assert_eq!(contents.as_bytes(), std::fs::read(fixture.path(path)).unwrap());
        assert!(matches!(fixture.provider.read(&format!("{path}?as=text")), Err(Failure::Denied(_))), "{path}");
    }
}

#[test]
fn a_document_beyond_the_limit_is_its_beginning_with_the_reason() {
    let config = [("max-document", "1KiB"), ("max-read", "100")];
    let fixture = Fixture::with_config([("a.ipynb", notebook(1))], config);
    let contents = fixture.read("a.ipynb").unwrap();
    assert!(meta(&contents.entry, "files/text-fault").unwrap().contains("at most 1024"));
    assert_eq!(meta(&contents.entry, "files/next-range"), Some("bytes=100-"));
}

#[test]
fn a_pdf_file_is_text_beside_the_original() {
    let pdf = include_bytes!("hello.pdf").as_slice();
    let fixture = Fixture::new([("a.pdf", pdf)]);
    let contents = fixture.provider.read("a.pdf").unwrap();
    let types: Vec<_> = contents.iter().map(|one| one.entry.mime_type.as_deref().unwrap()).collect();
    assert_eq!(types, ["text/plain", "application/pdf"]);
    assert_eq!(contents[0].as_text(), Some("--- page 1 ---\nHello world\n"));
    assert_eq!(contents[1].as_bytes(), pdf);
    assert!(contents.iter().all(|one| one.entry.path == "a.pdf"));
    assert_eq!(fixture.read("a.pdf?as=text").unwrap().as_text(), contents[0].as_text());
    assert_eq!(fixture.provider.stat("a.pdf?as=text").unwrap().mime_type.as_deref(), Some("text/plain"));
}
