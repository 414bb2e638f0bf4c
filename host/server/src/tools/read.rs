//! The tool `read_resource`.
//!
//! A model has room for some thousand tokens, and a resource may have megabytes: the text has at most `max_bytes`, and
//! continues at `offset`. If a resource has several formats, the text has the first one, which is the preferred one.
//! The last lines of the text list all omissions, by this tool or by the provider ([`Notice`]), and how to get the
//! omitted parts.

use mcp_host_base::text::{estimate_tokens, prefix};
use mcp_host_model::resource::{Notice, NoticeKind, ResourceBody, ResourceContents};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::description::{Description, object, result};
use super::output::{Forms, Output, Part, Structured, ToolError};
use crate::json::{Members, Writer};

/// The default size of a result in bytes: some 16,000 tokens of English.
const DEFAULT_BYTES: usize = 64 << 10;
/// The minimum size of a result in bytes, so that each call makes progress.
const MIN_BYTES: usize = 256;
/// The maximum size of a result in bytes.
const MAX_BYTES: usize = 16 << 20;
/// The maximum offset. JSON integers are exact up to this value.
const MAX_OFFSET: usize = 1 << 53;
/// The image types that are shown to models.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Describes the tool.
pub(super) fn describe() -> Description {
    Description {
        title: "Read a resource",
        text: "Returns the content of a resource: its text, or an image. Use a URI from another tool, or a URI template with its \
               variables filled in. A text longer than `max_bytes` is cut. Lines in brackets at the end say what was left out \
               and how to get it: with an `offset`, or from another URI.",
        input: object(
            json!({
                "uri": { "type": "string", "description": "The URI of the resource." },
                "offset": {
                    "type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "default": 0,
                    "description": "The byte at which the text begins. To continue a text, use the offset from the last line of the previous result.",
                },
                "max_bytes": {
                    "type": "integer", "minimum": MIN_BYTES, "maximum": MAX_BYTES, "default": DEFAULT_BYTES,
                    "description": "The maximum number of bytes of content. A token has about four bytes.",
                },
            }),
            &["uri"],
        ),
        output: output(),
    }
}

fn output() -> Value {
    let notice = result(
        json!({
            "kind": { "type": "string", "enum": ["cut", "incomplete", "stale"] },
            "text": { "type": "string" },
            "next": { "type": "string", "description": "The URI of the next part." },
        }),
        &["kind", "text"],
    );
    let contents = result(
        json!({
            "uri": { "type": "string" },
            "mimeType": { "type": "string" },
            "text": { "type": "string" },
            "blob": { "type": "string", "contentEncoding": "base64" },
            "notices": { "type": "array", "items": notice, "description": "What the content lacks: it is cut, incomplete or stale." },
        }),
        &["uri"],
    );
    result(
        json!({
            "contents": { "type": "array", "items": contents },
            "nextOffset": { "type": "integer", "description": "The `offset` of the rest of the text." },
        }),
        &["contents"],
    )
}

/// Calls the tool.
pub(super) async fn call(
    host: &Host,
    principal: &Principal,
    arguments: Option<&str>,
    forms: Forms,
) -> Result<Output, ToolError> {
    let arguments = Arguments::parse(arguments, &["uri", "offset", "max_bytes"])?;
    let uri = arguments.required_string("uri")?;
    let offset = arguments.integer("offset", 0..=MAX_OFFSET)?.unwrap_or(0);
    let max_bytes = arguments.integer("max_bytes", MIN_BYTES..=MAX_BYTES)?.unwrap_or(DEFAULT_BYTES);
    let contents = preferred(host.read(principal, &uri).await?);
    if offset > 0 && contents.len() > 1 {
        let found = contents.len();
        return Err(ToolError::Arguments(format!(
            "`offset`: expected 0, as the resource has {found} contents, each with a URI to read it by, found {offset}"
        )));
    }
    excerpt(contents, offset, max_bytes, forms)
}

/// A content with its omissions.
struct Excerpt {
    uri: String,
    mime_type: Option<String>,
    body: Option<ResourceBody>,
    notices: Vec<Notice>,
}

/// Returns each resource's contents in the preferred format, with a notice of the other formats.
fn preferred(contents: Vec<ResourceContents>) -> Vec<ResourceContents> {
    let mut kept: Vec<(ResourceContents, Vec<String>)> = Vec::with_capacity(contents.len());
    for one in contents {
        // The formats of one resource are adjacent.
        match kept.last_mut().filter(|(last, _)| last.entry.uri == one.entry.uri) {
            None => kept.push((one, Vec::new())),
            Some((_, others)) => {
                let kind = one.entry.mime_type.as_deref().unwrap_or("another type");
                others.push(format!("{kind} ({} bytes)", one.body.as_bytes().len()));
            }
        }
    }
    let noted = kept.into_iter().map(|(mut content, others)| {
        if !others.is_empty() {
            let text = format!("the same in other formats was left out: {}", others.join(", "));
            Notice::new(NoticeKind::Incomplete, text).push_to(&mut content.entry.meta);
        }
        content
    });
    noted.collect()
}

/// The bytes of a content in the text besides its URI and its body: a colon and line ends.
const HEADING: usize = ":\n\n\n".len();

/// Returns an output with at most `max_bytes` of the contents. If there are several, their URIs and notices count, too.
fn excerpt(
    contents: Vec<ResourceContents>,
    offset: usize,
    max_bytes: usize,
    forms: Forms,
) -> Result<Output, ToolError> {
    let are_several = contents.len() > 1;
    let (mut text, mut lines, mut images, mut excerpts) = (String::new(), String::new(), Vec::new(), Vec::new());
    let (mut remaining, mut next_offset) = (max_bytes, None);
    let mut contents = contents.into_iter();
    while let Some(ResourceContents { entry, body }) = contents.next() {
        let (uri, mut notices) = (String::from(entry.uri), Notice::all_in(&entry.meta));
        if are_several {
            let Some(left) = remaining.checked_sub(uri.len().saturating_add(HEADING)) else {
                let count = contents.len().saturating_add(1);
                lines.push_str(&format!(
                    "{}{count} further contents were left out for `max_bytes`: read each by its URI, the next is {uri}",
                    if lines.is_empty() { "" } else { "\n" }
                ));
                break;
            };
            remaining = left;
        }
        let mut copy = None;
        match body {
            ResourceBody::Text(all) => {
                let (shown, cut) = part(all, offset, remaining)?;
                remaining = remaining.saturating_sub(shown.len());
                next_offset = cut.as_ref().map(|cut| cut.end).filter(|_| !are_several);
                notices = with_cut(notices, cut.map(|cut| cut.notice()));
                copy = forms.structured.then(|| ResourceBody::Text(shown.clone()));
                match are_several {
                    true => text.push_str(&format!("{uri}:\n{shown}\n\n")),
                    false => text = shown,
                }
            }
            ResourceBody::Blob(bytes) => {
                let len = bytes.len().div_ceil(3).saturating_mul(4);
                let image = entry.mime_type.as_deref().filter(|kind| IMAGES.contains(kind));
                match len <= remaining {
                    true => {
                        remaining = remaining.saturating_sub(len);
                        copy = forms.structured.then(|| ResourceBody::Blob(bytes.clone()));
                        match image {
                            Some(kind) => images.push(Part::Image(kind.to_owned(), bytes)),
                            None => notices.push(left_out(entry.mime_type.as_deref(), bytes.len(), "it is no text")),
                        }
                    }
                    false => {
                        let why = format!("in base64 it takes more than the {remaining} bytes that `max_bytes` leaves");
                        notices.push(left_out(entry.mime_type.as_deref(), bytes.len(), &why));
                    }
                }
            }
        }
        for notice in notices.iter().filter(|notice| !notice.in_text) {
            let before = lines.len();
            if !lines.is_empty() {
                lines.push('\n');
            }
            if are_several {
                lines.push_str(&format!("{uri}: "));
            }
            lines.push_str(&notice.to_string());
            if are_several {
                remaining = remaining.saturating_sub(lines.len().saturating_sub(before));
            }
        }
        if forms.structured {
            excerpts.push(Excerpt { uri, mime_type: entry.mime_type, body: copy, notices });
        }
    }
    if !lines.is_empty() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&lines);
    }
    let text = (!text.is_empty() || images.is_empty()).then_some(Part::Text(text));
    let structured = forms.structured.then(|| structured(excerpts, next_offset));
    Ok(Output { content: text.into_iter().chain(images).collect(), structured, ..Output::default() })
}

/// A truncated text.
struct Cut {
    start: usize,
    end: usize,
    len: usize,
    tokens: usize,
}

impl Cut {
    fn notice(&self) -> Notice {
        let Self { start, end, len, tokens } = self;
        let shown = end.saturating_sub(*start).max(1);
        let all = len.saturating_mul(*tokens).div_euclid(shown);
        let text = match end > start {
            true => format!(
                "bytes {start} to {} of {len}, about {tokens} of {all} tokens; continue with the offset {end}",
                end.saturating_sub(1)
            ),
            false => format!("all {len} bytes were left out by `max_bytes`; read it by its URI"),
        };
        Notice::new(NoticeKind::Cut, text)
    }
}

/// Adds the notice of a cut that was made here. A reader continues with the rest of this text, whose end names the
/// provider's next part.
fn with_cut(mut notices: Vec<Notice>, cut: Option<Notice>) -> Vec<Notice> {
    if cut.is_some() {
        notices.retain(|notice| notice.kind != NoticeKind::Cut);
        // The corresponding line of the text is not shown.
        notices.iter_mut().for_each(|notice| notice.in_text = false);
    }
    notices.extend(cut);
    notices
}

/// Returns at most `max_bytes` of a text from an offset on, in whole characters, and in whole lines if they are not too
/// long.
fn part(mut text: String, offset: usize, max_bytes: usize) -> Result<(String, Option<Cut>), ToolError> {
    let len = text.len();
    if offset > len {
        let message = format!("`offset`: expected at most {len}, the bytes of the text, found {offset}");
        return Err(ToolError::Arguments(message));
    }
    let start = text.floor_char_boundary(offset);
    if start > 0 {
        text.drain(..start);
    }
    if text.len() <= max_bytes {
        text.shrink_to_fit();
        return Ok((text, None));
    }
    let shown = prefix(&text, max_bytes);
    let line_end = shown.rfind('\n').map(|last| last.saturating_add(1));
    let shown_len = line_end.filter(|end| *end > shown.len().div_euclid(2)).unwrap_or(shown.len());
    text.truncate(shown_len);
    text.shrink_to_fit();
    let tokens = estimate_tokens(&text);
    Ok((text, Some(Cut { start, end: start.saturating_add(shown_len), len, tokens })))
}

/// The notice of binary data that is left out of the text.
fn left_out(kind: Option<&str>, len: usize, why: &str) -> Notice {
    let text = format!("{}, {len} bytes, is not in this text: {why}", kind.unwrap_or("binary data"));
    Notice::new(NoticeKind::Incomplete, text)
}

fn structured(excerpts: Vec<Excerpt>, next_offset: Option<usize>) -> Structured {
    let footprint = excerpts.iter().map(Excerpt::footprint).fold(0, usize::saturating_add);
    Structured::new(footprint, move |writer| {
        writer.object(|members| {
            members.member("contents").array(excerpts, |writer: &mut Writer<'_>, one| {
                writer.object(|members| one.write(members));
            });
            if let Some(next_offset) = next_offset {
                members.serialize("nextOffset", &next_offset);
            }
        });
    })
}

impl Excerpt {
    fn footprint(&self) -> usize {
        let Self { uri, mime_type, body, notices } = self;
        let body = body.as_ref().map_or(0, |body| body.as_bytes().len());
        let notices = notices.iter().map(Notice::footprint).fold(0, usize::saturating_add);
        let texts = uri.capacity().saturating_add(mime_type.as_ref().map_or(0, String::capacity));
        [size_of::<Self>(), texts, body, notices].into_iter().fold(0, usize::saturating_add)
    }

    fn write(self, members: &mut Members<'_, '_>) {
        members.text("uri", self.uri);
        members.optional_text("mimeType", self.mime_type);
        if let Some(body) = self.body {
            crate::wire::body(members, body);
        }
        if !self.notices.is_empty() {
            members.member("notices").array(self.notices, |writer: &mut Writer<'_>, notice| {
                writer.object(|members| {
                    members.text("kind", notice.kind.name());
                    members.text("text", notice.text);
                    members.optional_text("next", notice.next);
                });
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, offset: usize, max_bytes: usize) -> String {
        let (shown, cut) = part(text.to_owned(), offset, max_bytes).unwrap();
        cut.map_or_else(|| shown.clone(), |cut| format!("{shown}|{}", cut.notice()))
    }

    #[test]
    fn a_text_is_cut_at_a_line_and_says_where_it_continues() {
        let text = "line 1\nline 2\nline 3\n";
        assert_eq!(
            read(text, 0, 16),
            "line 1\nline 2\n|[cut: bytes 0 to 13 of 21, about 4 of 6 tokens; continue with the offset 14]"
        );
        assert_eq!(read(text, 14, 16), "line 3\n");
        assert_eq!(read(text, 21, 16), "");
        assert!(part(text.to_owned(), 22, 16).is_err());
    }

    #[test]
    fn several_contents_take_no_more_than_asked_for_and_the_rest_is_named() {
        let mount: mcp_host_model::uri::Mount = "a:///".parse().unwrap();
        let contents: Vec<_> = (0..500)
            .map(|number| {
                let uri = mount.compose(&format!("file-{number}")).unwrap().uri;
                let entry = mcp_host_model::resource::Resource::named(uri, "file");
                ResourceContents { entry, body: ResourceBody::Text("text\n".to_owned()) }
            })
            .collect();
        let output = excerpt(contents, 0, 256, Forms { links: false, structured: true }).unwrap();
        let [Part::Text(text)] = &output.content[..] else { panic!("no text") };
        let (shown, last) = text.rsplit_once('\n').unwrap();
        assert!(shown.len() <= 256 && shown.starts_with("a:///file-0:\ntext\n"), "{shown}");
        let next = shown.matches("a:///file-").count();
        let rest = 500 - next;
        assert_eq!(
            last,
            format!(
                "{rest} further contents were left out for `max_bytes`: read each by its URI, the next is a:///file-{next}"
            )
        );
        assert!(output.structured.unwrap().footprint < 16 << 10);
    }

    #[test]
    fn a_text_names_one_place_to_continue_and_says_nothing_twice() {
        let mount: mcp_host_model::uri::Mount = "a:///".parse().unwrap();
        let notice = |kind, text: &str, next: Option<&str>, in_text| {
            let (text, next) = (text.to_owned(), next.map(str::to_owned));
            Notice { kind, text, next, in_text }
        };
        let notices = [
            notice(NoticeKind::Cut, "lines 1 to 9 of 99", Some("a:///b?lines=10-"), false),
            notice(NoticeKind::Incomplete, "the search ended", None, true),
        ];
        let shown = |text: String, notices: &[Notice]| {
            let mut entry = mcp_host_model::resource::Resource::named(mount.compose("b").unwrap().uri, "b");
            notices.iter().for_each(|notice| notice.clone().push_to(&mut entry.meta));
            let contents = vec![ResourceContents { entry, body: ResourceBody::Text(text) }];
            let output = excerpt(contents, 0, 256, Forms { links: false, structured: false }).unwrap();
            match output.content.into_iter().next() {
                Some(Part::Text(text)) => text,
                _ => panic!("no text"),
            }
        };
        // The whole text: the provider's next part, and its own last line once.
        let whole = shown("1\n# the search ended\n".to_owned(), &notices);
        assert_eq!(whole, "1\n# the search ended\n[cut: lines 1 to 9 of 99; the next part is a:///b?lines=10-]");
        // A part: the rest of this text, without the notice at its end.
        let part = shown("1\n".repeat(1000), &notices);
        assert!(!part.contains("lines=10-") && part.matches("continue with the offset").count() == 1, "{part}");
        assert_eq!(part.matches("the search ended").count(), 1, "{part}");
    }

    #[test]
    fn the_parts_of_a_text_are_the_text_however_it_is_cut() {
        let text = "日本語のテキスト\n".repeat(300) + &"x".repeat(5000);
        for max_bytes in [256, 257, 1000, 100_000] {
            let (mut offset, mut all) = (0, String::new());
            loop {
                let (shown, cut) = part(text.clone(), offset, max_bytes).unwrap();
                assert!(shown.len() <= max_bytes && shown.capacity() <= max_bytes.max(text.len()));
                all.push_str(&shown);
                match cut {
                    Some(cut) => offset = cut.end,
                    None => break,
                }
            }
            assert_eq!(all, text);
        }
    }
}
