//! The action of the key `r`: choosing a resource, and showing its content.
//!
//! Bounded: [`MAX_LINES`] lines and [`MAX_BYTES`] of each content, and [`MAX_CONTENTS`] contents.

use std::time::Instant;

use bytesize::ByteSize;
use mcp_host_model::resource::{ResourceBody, ResourceContents};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;

use crate::error::reason_of_command;
use crate::messages::Messages;
use crate::{escape, hint};

/// The maximum number of lines shown per content.
const MAX_LINES: usize = 200;
/// The maximum number of bytes shown per content.
const MAX_BYTES: usize = 64 << 10;
/// The maximum number of contents shown.
const MAX_CONTENTS: usize = 8;

/// Returns the URI for the user's input: the number of a resource in the shown listing, a URI, or a path below the only
/// mount.
pub(super) fn chosen_uri(typed: &str, shown: &[String], host: &Host) -> Result<String, String> {
    if let Ok(number) = typed.parse::<usize>() {
        let uri = number.checked_sub(1).and_then(|index| shown.get(index));
        return uri.cloned().ok_or_else(|| match shown.len() {
            0 => "the listing has no resources; type a URI".to_owned(),
            last => format!("there is no resource {number}; the numbers are 1 to {last}"),
        });
    }
    if host.normalize(typed).is_none()
        && let [plugin] = &*host.plugins()
        && !typed.contains("://")
    {
        return Ok(format!("{}{}", plugin.mount, typed.trim_start_matches('/')));
    }
    Ok(typed.to_owned())
}

/// Reads a resource as `local`, and prints the content or the error.
pub(super) async fn read(host: &Host, uri: &str, messages: &Messages) {
    let began = Instant::now();
    match host.read(&Principal::LOCAL, uri).await {
        Ok(contents) => {
            let elapsed = super::format_elapsed(began.elapsed());
            messages
                .print_lines(&contents.iter().take(MAX_CONTENTS).map(|one| show(one, &elapsed)).collect::<String>());
            let hidden = contents.len().saturating_sub(MAX_CONTENTS);
            if hidden > 0 {
                messages.print_line(&format!("and {hidden} more contents; `mcp-host read --json` shows all"));
            }
        }
        Err(error) => {
            messages.error(&reason_of_command(&error.to_string()));
            if let Some(hint) = hint::for_read(host, &Principal::LOCAL, uri, &error).await {
                messages.help(&hint);
            }
        }
    }
}

/// A content with its name, escaped.
fn show(contents: &ResourceContents, elapsed: &str) -> String {
    let bytes = contents.body.as_bytes();
    let mime_type = contents.entry.mime_type.as_deref().map(|name| format!("{}, ", escape::line(name)));
    let size = ByteSize(bytes.len() as u64);
    let uri = escape::line(contents.entry.uri.as_str());
    let heading = format!("==> {uri} ({}{size}, {elapsed}) <==\n", mime_type.unwrap_or_default());
    match &contents.body {
        ResourceBody::Blob(_) => format!("{heading}binary: not shown\n"),
        ResourceBody::Text(text) => {
            let (shown, is_cut) = beginning(text);
            let mut shown = escape::lines(shown).into_owned();
            if !shown.is_empty() && !shown.ends_with('\n') {
                shown.push('\n');
            }
            let rest = if is_cut { "…\n" } else { "" };
            format!("{heading}{shown}{rest}")
        }
    }
}

/// The part of a text to show, and whether it is truncated.
fn beginning(text: &str) -> (&str, bool) {
    let end =
        text.match_indices('\n').nth(MAX_LINES.saturating_sub(1)).map_or(text.len(), |(at, _)| at.saturating_add(1));
    let end = text.floor_char_boundary(end.min(MAX_BYTES));
    (text.get(..end).unwrap_or_default(), end < text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_the_beginning_is_shown() {
        assert_eq!(beginning("a\nb"), ("a\nb", false));
        let lines = "é\n".repeat(MAX_LINES);
        assert_eq!(beginning(&lines), (&*lines, false));
        let longer = lines.clone() + "x";
        let (shown, is_cut) = beginning(&longer);
        assert_eq!((shown, is_cut), (&*lines, true));
        let long = format!("x{}", "é".repeat(MAX_BYTES));
        let (shown, is_cut) = beginning(&long);
        assert_eq!((shown.len(), is_cut), (MAX_BYTES - 1, true));
    }
}
