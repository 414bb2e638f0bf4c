//! Extraction of the readable part of a page, with absolute links.
//!
//! If the page marks its main part (`<main>`, `role="main"`), that part is used; if not, the body without its header,
//! footer and sidebars. Scripts, styles, navigation, controls and hidden elements are removed. Links become absolute,
//! so readers of the text alone can follow them. Elements deeper than [`MAX_DEPTH`] become plain text, because the
//! conversion is recursive.

use super::parse::{attribute, name, walk};
use crate::address::absolute;
use html5ever::tendril::StrTendril;
use markup5ever_rcdom::{Handle, Node, NodeData};
use std::cell::RefCell;
use std::rc::Rc;

/// The maximum total size of link targets on a page in bytes. Further links become plain text. A page can declare a
/// long base URL in a few bytes.
const MAX_LINK_BYTES: usize = 1024 * 1024;

/// The maximum nesting depth of elements.
pub(crate) const MAX_DEPTH: usize = 100;

/// Elements without readable content.
const NOISE: [&str; 27] = [
    "script", "style", "noscript", "template", "iframe", "object", "embed", "applet", "svg", "canvas", "nav", "button",
    "input", "select", "textarea", "datalist", "dialog", "audio", "video", "map", "menu", "head", "link", "meta",
    "base", "frameset", "search",
];
/// Roles of parts without readable content.
const NOISE_ROLES: [&str; 6] = ["navigation", "search", "banner", "contentinfo", "menu", "dialog"];
/// Elements that frame a page without a marked main part. Inside of an article, they belong to the article.
const FRAME: [&str; 3] = ["header", "footer", "aside"];

/// Returns the readable part of a page with the address `url`, and whether links were dropped.
pub(crate) fn extract_readable(document: &Handle, url: &str) -> (Handle, bool) {
    let mut link_budget = MAX_LINK_BYTES;
    let base = base(document, url);
    let is_main = |node: &Handle| name(node) == Some("main") || attribute(node, "role").as_deref() == Some("main");
    let main = walk(document).find(|node| is_main(node) && !is_hidden(node) && has_words(node));
    let root = main.clone().or_else(|| walk(document).find(|node| name(node) == Some("body")));
    let root = root.unwrap_or_else(|| document.clone());
    let mut ahead = vec![Step { node: root.clone(), depth: 0, is_framed: main.is_none() }];
    while let Some(Step { node, depth, is_framed }) = ahead.pop() {
        if depth >= MAX_DEPTH {
            let text = StrTendril::from_slice(&readable_text(&node));
            *node.children.borrow_mut() = vec![Node::new(NodeData::Text { contents: RefCell::new(text) })];
            continue;
        }
        node.children.borrow_mut().retain(|child| is_kept(child, is_framed));
        let children: Vec<Handle> = node.children.borrow().iter().map(Rc::clone).collect();
        for node in children {
            resolve_link(&node, &base, &mut link_budget);
            let is_framed = is_framed && name(&node) != Some("article");
            ahead.push(Step { node, depth: depth.saturating_add(1), is_framed });
        }
    }
    (root, link_budget == 0)
}

struct Step {
    node: Handle,
    depth: usize,
    /// Whether a header, footer or sidebar here frames the page.
    is_framed: bool,
}

fn is_kept(node: &Handle, is_framed: bool) -> bool {
    match &node.data {
        NodeData::Text { .. } => true,
        NodeData::Element { name, .. } => {
            let name = &*name.local;
            let is_noise = NOISE.contains(&name) || (is_framed && FRAME.contains(&name));
            let has_noisy_role = || attribute(node, "role").is_some_and(|role| NOISE_ROLES.contains(&role.as_str()));
            let is_picture_of_nothing = || {
                let source = attribute(node, "src").unwrap_or_default();
                name == "img" && (source.is_empty() || source.starts_with("data:"))
            };
            !is_noise && !is_hidden(node) && !has_noisy_role() && !is_picture_of_nothing()
        }
        _ => false,
    }
}

/// Returns the text below a node, without unreadable parts.
fn readable_text(root: &Handle) -> String {
    let mut text = String::new();
    let mut ahead = vec![Rc::clone(root)];
    while let Some(node) = ahead.pop() {
        if let NodeData::Text { contents } = &node.data {
            text.push_str(&contents.borrow());
        }
        ahead.extend(node.children.borrow().iter().rev().filter(|child| is_kept(child, false)).map(Rc::clone));
    }
    text
}

fn is_hidden(node: &Handle) -> bool {
    attribute(node, "hidden").is_some() || attribute(node, "aria-hidden").as_deref() == Some("true")
}

fn has_words(node: &Handle) -> bool {
    let is_word = |node: Handle| match &node.data {
        NodeData::Text { contents } => contents.borrow().contains(|c: char| !c.is_whitespace()),
        _ => false,
    };
    walk(node).any(is_word)
}

/// Makes the target of a link or picture absolute. A target that is invalid or exceeds the budget is removed.
fn resolve_link(node: &Handle, base: &str, link_budget: &mut usize) {
    let NodeData::Element { name, attrs, .. } = &node.data else { return };
    let which = match &*name.local {
        "a" => "href",
        "img" => "src",
        _ => return,
    };
    attrs.borrow_mut().retain_mut(|attribute| {
        if &*attribute.name.local != which {
            return true;
        }
        let reference = attribute.value.trim();
        let leads = if reference.starts_with('#') || *link_budget == 0 { None } else { absolute(base, reference) };
        let is_link = |url: &String| ["https:", "http:", "mailto:"].iter().any(|scheme| url.starts_with(scheme));
        match leads.filter(is_link) {
            Some(url) => {
                *link_budget = link_budget.saturating_sub(url.len());
                attribute.value = StrTendril::from(url);
                true
            }
            None => false,
        }
    });
}

/// Returns the base URL of links.
fn base(document: &Handle, url: &str) -> String {
    let base = walk(document).find(|node| name(node) == Some("base")).and_then(|node| attribute(&node, "href"));
    base.and_then(|base| absolute(url, &base)).map_or_else(|| url.to_owned(), without_fragment)
}

fn without_fragment(url: String) -> String {
    match url.split_once('#') {
        Some((url, _)) => url.to_owned(),
        None => url,
    }
}
