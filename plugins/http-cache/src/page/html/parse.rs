//! Bounded parsing of untrusted HTML.
//!
//! `html5ever` builds the same tree as a browser. Its work is bounded by the number of elements ([`MAX_ELEMENTS`];
//! further ones are dropped), of open elements ([`MAX_OPEN_ELEMENTS`]; further start tags are skipped and their text is
//! kept), because closing an element scans all open ones, and of attributes per tag ([`attributes`]). Only the first
//! [`MAX_HEAD`] bytes are searched for the head.

use super::attributes;
use html5ever::buffer_queue::BufferQueue;
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use html5ever::tree_builder::{Tracer, TreeBuilder, TreeBuilderOpts};
use html5ever::{Attribute, ExpandedName, QualName, TokenizerResult};
use log::LevelFilter;
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use std::borrow::Cow;
use std::cell::Cell;

/// The maximum number of elements in a tree.
const MAX_ELEMENTS: usize = 100_000;
/// The approximate maximum number of open elements.
const MAX_OPEN_ELEMENTS: usize = 400;
/// The number of tags between two counts of the open elements.
const COUNT_INTERVAL: usize = 64;
/// The maximum number of bytes parsed for the head of a page.
const MAX_HEAD: usize = 256 * 1024;
/// The number of bytes parsed between two checks of whether the head is complete.
const CHUNK: usize = 4096;

/// A parsed page.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The document.
    pub(crate) document: Handle,
    /// Whether content was dropped.
    pub(crate) is_cut: bool,
}

/// Parses a complete page.
pub(crate) fn parse(html: &str) -> Parsed {
    let _quiet = LogSilencer::new();
    let (html, has_lost_tags) = attributes::limit_attributes(html);
    let tokenizer = tokenizer();
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(&html));
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    let document = tokenizer.sink.builder.sink.dom.document.clone();
    Parsed { document, is_cut: has_lost_tags || tokenizer.sink.is_cut.get() }
}

/// Parses the head of a page, and stops when it is complete.
pub(crate) fn parse_head(html: &str) -> Handle {
    let _quiet = LogSilencer::new();
    let tokenizer = tokenizer();
    let input = BufferQueue::default();
    let head = html.get(..html.floor_char_boundary(MAX_HEAD)).unwrap_or(html);
    let (head, _) = attributes::limit_attributes(head);
    let mut rest: &str = &head;
    while !rest.is_empty() && !tokenizer.sink.builder.sink.has_body.get() {
        let (chunk, more) = rest.split_at_checked(rest.floor_char_boundary(CHUNK)).unwrap_or((rest, ""));
        input.push_back(StrTendril::from_slice(chunk));
        while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
        rest = more;
    }
    tokenizer.end();
    tokenizer.sink.builder.sink.dom.document.clone()
}

/// Returns the encoding label declared in the beginning of a page. Its ASCII characters must be readable.
pub(crate) fn encoding_label(beginning: &str) -> Option<String> {
    let _quiet = LogSilencer::new();
    let tokenizer = tokenizer();
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(beginning));
    loop {
        match tokenizer.feed(&input) {
            TokenizerResult::Done => return None,
            TokenizerResult::EncodingIndicator(label) => return Some(label.to_string()),
            TokenizerResult::Script(_) => {}
        }
    }
}

/// Disables logging while the value exists: the parser logs a line for each tag, which would flood the log.
struct LogSilencer(LevelFilter);

impl LogSilencer {
    fn new() -> Self {
        let before = Self(log::max_level());
        log::set_max_level(LevelFilter::Off);
        before
    }
}

impl Drop for LogSilencer {
    fn drop(&mut self) {
        log::set_max_level(self.0);
    }
}

fn tokenizer() -> Tokenizer<BoundedTreeBuilder> {
    let dom = RcDom::default();
    let tree = Tree { dom, elements: Cell::new(0), has_body: Cell::new(false) };
    let builder = TreeBuilder::new(tree, TreeBuilderOpts::default());
    let bounded =
        BoundedTreeBuilder { builder, tags: Cell::new(0), is_too_deep: Cell::new(false), is_cut: Cell::new(false) };
    Tokenizer::new(bounded, TokenizerOpts::default())
}

/// Forwards tokens to the tree builder, within bounds.
struct BoundedTreeBuilder {
    builder: TreeBuilder<Handle, Tree>,
    tags: Cell<usize>,
    is_too_deep: Cell<bool>,
    is_cut: Cell<bool>,
}

impl BoundedTreeBuilder {
    /// Returns whether this start tag exceeds the nesting limit.
    fn is_too_nested(&self, name: &str) -> bool {
        let tags = self.tags.get().wrapping_add(1);
        self.tags.set(tags);
        if tags.is_multiple_of(COUNT_INTERVAL) {
            let open = HandleCounter(Cell::new(0));
            self.builder.trace_handles(&open);
            self.is_too_deep.set(open.0.get() > MAX_OPEN_ELEMENTS);
        }
        // Text-only elements do not nest, and without the tag, their text would become the page's text.
        const TEXT_ONLY: [&str; 8] = ["script", "style", "title", "textarea", "iframe", "noframes", "noscript", "xmp"];
        self.is_too_deep.get() && !TEXT_ONLY.contains(&name)
    }
}

impl TokenSink for BoundedTreeBuilder {
    type Handle = Handle;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Handle> {
        if let Token::TagToken(tag) = &token
            && tag.kind == html5ever::tokenizer::StartTag
            && self.is_too_nested(&tag.name)
        {
            return TokenSinkResult::Continue;
        }
        if self.builder.sink.elements.get() > MAX_ELEMENTS && token != Token::EOFToken {
            self.is_cut.set(true);
            return TokenSinkResult::Continue;
        }
        self.builder.process_token(token, line)
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Counts the handles that the tree builder holds.
struct HandleCounter(Cell<usize>);

impl Tracer for HandleCounter {
    type Handle = Handle;

    fn trace_handle(&self, _: &Handle) {
        self.0.set(self.0.get().saturating_add(1));
    }
}

/// A tree that counts its elements and drops parse errors.
struct Tree {
    dom: RcDom,
    elements: Cell<usize>,
    has_body: Cell<bool>,
}

impl TreeSink for Tree {
    type Handle = Handle;
    type Output = RcDom;
    type ElemName<'a> = ExpandedName<'a>;

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Handle {
        self.elements.set(self.elements.get().saturating_add(1));
        if &*name.local == "body" {
            self.has_body.set(true);
        }
        self.dom.create_element(name, attrs, flags)
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    /// Comments are not part of the readable page.
    fn create_comment(&self, _: StrTendril) -> Handle {
        self.dom.create_comment(StrTendril::new())
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Handle {
        self.dom.create_comment(StrTendril::new())
    }

    fn finish(self) -> RcDom {
        self.dom
    }

    fn get_document(&self) -> Handle {
        self.dom.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        self.dom.elem_name(target)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.dom.append(parent, child);
    }

    fn append_based_on_parent_node(&self, element: &Handle, previous: &Handle, child: NodeOrText<Handle>) {
        self.dom.append_based_on_parent_node(element, previous, child);
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.dom.get_template_contents(target)
    }

    fn same_node(&self, x: &Handle, y: &Handle) -> bool {
        self.dom.same_node(x, y)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.dom.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &Handle, child: NodeOrText<Handle>) {
        self.dom.append_before_sibling(sibling, child);
    }

    /// Attributes of a second `<html>` or `<body>` are irrelevant for readers, and comparing a thousand of them takes
    /// long.
    fn add_attrs_if_missing(&self, _: &Handle, _: Vec<Attribute>) {}

    fn remove_from_parent(&self, target: &Handle) {
        self.dom.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        self.dom.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &Handle) -> bool {
        self.dom.is_mathml_annotation_xml_integration_point(handle)
    }
}

/// Returns the name of an element, in lower case; `None` for other nodes.
pub(crate) fn name(node: &Handle) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(&name.local),
        _ => None,
    }
}

/// Returns the value of an attribute of an element.
pub(crate) fn attribute(node: &Handle, name: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else { return None };
    attrs.borrow().iter().find(|attribute| &*attribute.name.local == name).map(|attribute| attribute.value.to_string())
}

/// Iterates over a node and its descendants, in document order, without recursion.
pub(crate) fn walk(root: &Handle) -> impl Iterator<Item = Handle> {
    let mut ahead = vec![root.clone()];
    std::iter::from_fn(move || {
        let node = ahead.pop()?;
        ahead.extend(node.children.borrow().iter().rev().cloned());
        Some(node)
    })
}

/// Returns all text below a node.
pub(crate) fn text(root: &Handle) -> String {
    let mut text = String::new();
    for node in walk(root) {
        if let NodeData::Text { contents } = &node.data {
            text.push_str(&contents.borrow());
        }
    }
    text
}
