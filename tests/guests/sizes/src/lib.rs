//! A provider of resources of known sizes, for benchmarks.
//!
//! | path | reads as |
//! |---|---|
//! | `text/1024` | this many bytes of text, in lines of 64 |
//! | `blob/1024` | this many bytes, cycling through all values |
//! | `control/1024` | this many bytes of text, each U+0001, which JSON encodes in six |
//!
//! The config key `count` sets the number of listed resources `text/0`, `text/1` and so on (none by default). The
//! template `text/{size}` has three completions. With the config key `ttl`, all resources have that time to live, in
//! seconds. The provider's computation is minimal, so measurements show the overhead around it.

use std::time::Duration;

use mcp_provider::{
    Argument, Completion, Config, Contents, Entry, Failure, Info, Page, Provider, Result, Template, export,
};

/// One line of text, including its line feed.
const LINE: &str = "0123456789 abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXY\n";

/// The completions of `size`.
const COMPLETED_SIZES: [usize; 3] = [1 << 10, 64 << 10, 1 << 20];

/// The maximum size of a resource.
const MAX_SIZE: usize = 16 << 20;

struct Sizes {
    count: usize,
    ttl: Option<Duration>,
}

impl Provider for Sizes {
    fn describe() -> Info {
        Info::new("sizes", env!("CARGO_PKG_VERSION")).description("Resources of known sizes.")
    }

    fn open(config: &Config) -> Result<Self> {
        let ttl = config.parse("ttl")?.map(Duration::from_secs);
        Ok(Self { count: config.parse("count")?.unwrap_or(0), ttl })
    }

    fn list(&self, _parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let start = cursor.map_or(Ok(0), |cursor| cursor.parse().map_err(|_| Failure::invalid("expected a number")))?;
        let end = self.count.min(limit.saturating_add(start));
        let entries = (start..end).map(|size| self.entry(text_entry(size).size(size as u64))).collect();
        Ok(Page { entries, next_cursor: (end < self.count).then(|| end.to_string()) })
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let (kind, size) = path.split_once('/').ok_or(Failure::NotFound)?;
        let size: usize = size.parse().ok().filter(|size| *size <= MAX_SIZE).ok_or(Failure::NotFound)?;
        match kind {
            "text" => Ok(vec![Contents::text(self.entry(text_entry(size)), text(size))]),
            "control" => Ok(vec![Contents::text(self.entry(Entry::new(path, size.to_string())), "\u{1}".repeat(size))]),
            "blob" => Ok(vec![Contents::blob(self.entry(Entry::new(path, size.to_string())), blob(size))]),
            _ => Err(Failure::NotFound),
        }
    }

    fn templates(&self) -> Vec<Template> {
        vec![Template::new("text/{size}", "text").mime_type("text/plain")]
    }

    fn complete(&self, _template: &str, argument: &Argument, _known: &[Argument]) -> Result<Completion> {
        let usual = COMPLETED_SIZES.iter().map(ToString::to_string);
        Ok(Completion::matching(usual, &argument.value))
    }
}

impl Sizes {
    /// Adds the config's time to live to an entry.
    fn entry(&self, entry: Entry) -> Entry {
        match self.ttl {
            Some(ttl) => entry.ttl(ttl),
            None => entry,
        }
    }
}

fn text_entry(size: usize) -> Entry {
    Entry::new(format!("text/{size}"), size.to_string()).title("Text of a known size").mime_type("text/plain")
}

fn text(size: usize) -> String {
    let mut text = LINE.repeat(size.div_ceil(LINE.len()));
    text.truncate(size);
    text
}

fn blob(size: usize) -> Vec<u8> {
    let values: Vec<u8> = (0..=u8::MAX).collect();
    let mut blob = values.repeat(size.div_ceil(values.len()));
    blob.truncate(size);
    blob
}

export!(Sizes);

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(count: &str) -> Sizes {
        Sizes::open(&Config::from_pairs([("count", count)])).unwrap()
    }

    #[test]
    fn a_resource_has_the_size_that_its_path_says() {
        for size in [0, 1, 63, 64, 65, 255, 256, 257, 1 << 20] {
            for kind in ["text", "blob", "control"] {
                let contents = sizes("0").read(&format!("{kind}/{size}")).unwrap();
                assert_eq!(contents[0].as_bytes().len(), size, "{kind}");
            }
        }
        for path in ["", "text", "text/x", "text/99999999999", "other/1"] {
            assert_eq!(sizes("0").read(path), Err(Failure::NotFound), "{path}");
        }
    }

    #[test]
    fn pages_follow_one_another_without_gaps() {
        let first = sizes("5").list(None, None, 3).unwrap();
        let second = sizes("5").list(None, first.next_cursor.as_deref(), 3).unwrap();
        let paths: Vec<_> = first.entries.iter().chain(&second.entries).map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["text/0", "text/1", "text/2", "text/3", "text/4"]);
        assert_eq!(second.next_cursor, None);
    }
}
