//! Lists of files in Markdown.

use mcp_provider::Entry;

/// Returns a list of links, each with type and time of modification. `up` leads from the resource to the mount.
pub(crate) fn list(title: &str, entries: &[Entry], up: &str) -> String {
    let mut text = format!("# {}\n\n", inline(title));
    if entries.is_empty() {
        text.push_str("Nothing.\n");
    }
    for entry in entries {
        let name = inline(entry.title.as_deref().unwrap_or(&entry.name));
        text.push_str(&format!("- [{name}]({up}{})", entry.path));
        if let Some(folder) = entry.meta.get("drive/folder").and_then(|folder| folder.as_str()) {
            text.push_str(&format!(", in {}", inline(folder)));
        }
        if !entry.path.starts_with("folder/") {
            // The owner of a file chooses its type.
            text.push_str(&format!(", {}", inline(entry.mime_type.as_deref().unwrap_or("a file"))));
        }
        if let Some(time) = &entry.last_modified {
            text.push_str(&format!(", {}", inline(time.as_str())));
        }
        text.push('\n');
    }
    text
}

/// Returns a text on one line that is no markup.
fn inline(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => escaped.push(' '),
            '[' | ']' | '\\' | '<' | '*' | '_' | '`' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_or_a_type_is_no_markup() {
        let entries = [Entry::new("file/a", "x").title("a](http://h)\n# *b*").mime_type("text/plain\r\n# *c*")];
        let text = list("All", &entries, "../");
        assert_eq!(text, "# All\n\n- [a\\](http://h) # \\*b\\*](../file/a), text/plain  # \\*c\\*\n");
    }
}
