//! HTML pages: metadata, encoding, and conversion to Markdown.

mod attributes;
mod head;
mod parse;
mod readable;

pub(crate) use head::{HeadMetadata, head_metadata};
pub(crate) use parse::encoding_label;

use htmd::HtmlToMarkdown;
use htmd::options::{BulletListMarker, Options};
use parse::parse;

/// The maximum size of HTML that is converted to Markdown. The conversion takes about fifty times as much memory.
const MAX_BYTES: usize = 1024 * 1024;

/// A page as Markdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Markdown {
    pub(crate) text: String,
    /// Whether the Markdown is truncated.
    pub(crate) is_cut: bool,
}

/// Converts a page with the address `url` to Markdown.
pub(crate) fn markdown(html: &str, url: &str) -> Markdown {
    let (beginning, rest) = html.split_at_checked(html.floor_char_boundary(MAX_BYTES)).unwrap_or((html, ""));
    let parsed = parse(beginning);
    let (worth_reading, has_lost_links) = readable::extract_readable(&parsed.document, url);
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder().options(options).build();
    let mut text = converter.tree_to_markdown(&worth_reading).trim().to_owned();
    if !text.is_empty() {
        text.push('\n');
    }
    Markdown { text, is_cut: parsed.is_cut || has_lost_links || !rest.is_empty() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(html: &str) -> String {
        markdown(html, "https://docs.rs/a/b?q").text
    }

    #[test]
    fn headings_lists_tables_code_and_links_are_kept() {
        let html = "<h1>T</h1><p>One <b>two</b> <a href='../c?d#e'>three</a>.</p><ul><li>x<li>y</ul>\
                    <pre><code class='language-rust'>let x = 1;</code></pre>\
                    <table><tr><th>a<th>b<tr><td>1<td>2</table><img src=p.png alt=P>";
        let text = text(html);
        for part in [
            "# T\n",
            "One **two** [three](https://docs.rs/c?d#e).",
            "- x\n- y\n",
            "```rust\nlet x = 1;\n```",
            "| a",
            "| 1",
            "![P](https://docs.rs/a/p.png)",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    }

    #[test]
    fn what_surrounds_the_text_is_left_out() {
        let html = "<head><title>no</title><style>no{}</style></head><body><header>no</header><nav>no</nav><p>yes</p>\
                    <script>no()</script><noscript>no</noscript><div hidden>no</div><div role=navigation>no</div>\
                    <!-- no --><svg><text>no</text></svg><form><button>no</button></form><footer>no</footer>";
        assert_eq!(text(html), "yes\n");
    }

    #[test]
    fn the_main_part_is_taken_where_there_is_one_with_something_in_it() {
        assert_eq!(text("<div>no</div><main><aside>yes</aside></main><div>no</div>"), "yes\n");
        assert_eq!(text("<div>no</div><div role=main>yes</div>"), "yes\n");
        assert_eq!(text("<div>yes</div><main> </main>"), "yes\n");
        assert_eq!(text("<article><header>yes</header></article>"), "yes\n");
    }

    #[test]
    fn a_link_that_leads_nowhere_is_plain_text() {
        assert_eq!(
            text("<a href='#x'>a</a> <a href='javascript:x()'>b</a> <a>c</a> <a href='data:,x'>d</a>"),
            "a b c d\n"
        );
        assert_eq!(text("x<img src='data:image/png;base64,AAAA'><img>"), "x\n");
        assert_eq!(text("<base href='//h/x/'><a href=y>z</a>"), "[z](https://h/x/y)\n");
    }

    #[test]
    fn nesting_beyond_measure_is_survived_and_its_text_kept() {
        for tag in ["div", "blockquote", "ul><li", "table><tr><td", "b", "a href=x", "font"] {
            let html = format!("<p>before{}deep inside", format!("<{tag}>").repeat(50_000));
            let text = text(&html);
            assert!(text.contains("before"), "{tag}");
        }
        assert!(text(&format!("{}deep inside{}", "<div>".repeat(300), "</div>".repeat(300))).contains("deep inside"));
        let script = format!("{}<script>no()</script>yes", "<div>".repeat(300));
        assert_eq!(text(&script), "yes\n");
    }

    #[test]
    fn a_page_beyond_measure_is_cut_and_says_so() {
        let long = "<p>word</p>".repeat(MAX_BYTES / 11 + 10);
        assert!(markdown(&long, "https://h/").is_cut);
        let many = "<i></i>".repeat(110_000);
        assert!(markdown(&many, "https://h/").is_cut);
        assert!(!markdown("<p>word", "https://h/").is_cut);
    }

    #[test]
    fn a_base_of_thousands_of_bytes_does_not_multiply_with_the_links() {
        let html = format!("<base href='https://h/{}/'>{}", "b".repeat(7000), "<a href=x>y</a> ".repeat(50_000));
        let markdown = markdown(&html, "https://h/");
        assert!(markdown.is_cut && markdown.text.len() < 4 * MAX_BYTES, "{}", markdown.text.len());
        assert!(markdown.text.ends_with("y y\n") && markdown.text.contains("bbb/x)"));
    }

    #[test]
    fn attributes_without_end_are_survived() {
        let attributes: String = (0..100_000).map(|n| format!(" a{n}")).collect();
        let html = format!("<title>T</title><p>before<i{attributes}>after");
        let markdown = markdown(&html, "https://h/");
        assert!(markdown.is_cut && markdown.text.starts_with("before"));
        assert!(markdown.text.ends_with("after\n"));
        assert_eq!(head_metadata(&format!("<meta{attributes}><title>T</title>")).title, None);
        let bodies: String = (0..50_000).map(|n| format!("<body a{n}>")).collect();
        assert_eq!(text(&format!("{bodies}x")), "x\n");
    }

    #[test]
    fn the_encoding_is_what_a_meta_element_says() {
        assert_eq!(encoding_label("<head><meta charset=Shift_JIS>").as_deref(), Some("Shift_JIS"));
        let old = "<title>x</title><meta http-equiv=content-type content='text/html; charset=euc-jp'>";
        assert_eq!(encoding_label(old).as_deref(), Some("euc-jp"));
        assert_eq!(encoding_label("<script><meta charset=x></script><p>"), None);
    }

    proptest! {
        #[test]
        fn no_page_breaks_it(
            parts in proptest::collection::vec(
                "</?(p|b|a|i|table|td|tr|select|option|svg|math|template|form|body|html|frameset|main|li|pre|code|img|br|h1)( (href|src|hidden)='?[a-z#:/]{0,5}'?)?>|[a-z&;<>`*\\[\\] ]{0,8}",
                0..40,
            )
        ) {
            let html = parts.concat();
            let _ = (markdown(&html, "https://h/"), head_metadata(&html), encoding_label(&html));
        }
    }
}
