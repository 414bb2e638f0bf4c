//! A provider with a few resources that use every feature of a resource, and every kind of failure.
//!
//! | path | reads as |
//! |---|---|
//! | `all` | a text; its entry has every member |
//! | `plain` | a text; its entry has no optional member |
//! | `binary` | five bytes that are not UTF-8 |
//! | `several` | the same text as Markdown and as JSON, with a TTL of 30 and 10 seconds |
//! | `folder` | the contents of `folder/a` and `folder/b`, although it is not listable |
//! | `collection` | the contents of the first two of its children `collection/000`, `collection/001` and so on |
//! | `album` | a text, the same text as JSON, and the content of `album/cover`; its children are `album/cover` and `collection` |
//! | `slow` | nothing before its deadline: the read sleeps for an hour |
//! | `denied`, `internal`, `invalid`, `unavailable` | the failure of that name |
//!
//! The config key `collection` sets the number of children of `collection` (three by default).

use std::time::Duration;

use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Icon, Info, Page, PathTemplate, Provider, Result,
    Retry, Role, Template, Theme, export, keyset, log,
};

/// The template with every member.
const ITEM: &str = "item/{group}/{number}";

/// The groups of items.
const GROUPS: [&str; 3] = ["even", "every", "odd"];

/// The number of items per group.
const NUMBERS: u32 = 250;

/// The number of children of `collection`, by default.
const COLLECTION_SIZE: usize = 3;

struct Sample {
    collection_size: usize,
}

impl Provider for Sample {
    fn describe() -> Info {
        Info::new("sample", env!("CARGO_PKG_VERSION")).watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        Ok(Self { collection_size: config.parse("collection")?.unwrap_or(COLLECTION_SIZE) })
    }

    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let entries = match parent {
            None => vec![all(), binary(), plain()],
            Some("collection") => self.collection_items().collect(),
            Some("album") => vec![cover(), collection()],
            Some(other) => {
                self.stat(other)?;
                return Err(Failure::invalid("expected `collection` or `album` as the parent"));
            }
        };
        Ok(keyset::page(entries, cursor, limit, |entry| &entry.path)?.map(|entry| entry))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        if let Some(captures) = PathTemplate::parse(ITEM)?.matches(path) {
            let number = captures.get("number").unwrap_or_default();
            return Ok(vec![Contents::text(Entry::new(path, number), number)]);
        }
        match path {
            "all" => Ok(vec![Contents::text(all(), "All of it.\n")]),
            "plain" => Ok(vec![Contents::text(plain(), "Plain.\n")]),
            "binary" => Ok(vec![Contents::blob(binary(), [0xFF, 0x00, 0xFE, 0x01, 0xFD])]),
            "several" => Ok(vec![
                Contents::text(several().mime_type("text/markdown").ttl(Duration::from_secs(30)), "# Several\n"),
                Contents::text(several().mime_type("application/json").ttl(Duration::from_secs(10)), "[\"several\"]"),
            ]),
            "folder" => Ok(["folder/a", "folder/b"].map(|path| Contents::text(Entry::new(path, path), path)).into()),
            "collection" => {
                Ok(self.collection_items().take(2).map(|entry| Contents::text(entry.clone(), entry.path)).collect())
            }
            "album" => Ok(vec![
                Contents::text(album(), "An album.\n"),
                Contents::text(album().mime_type("application/json"), "[\"album\"]"),
                Contents::blob(cover(), [0x89, 0x50]),
            ]),
            "album/cover" => Ok(vec![Contents::blob(cover(), [0x89, 0x50])]),
            path if path.starts_with("collection/") => match self.collection_items().find(|entry| entry.path == path) {
                Some(entry) => Ok(vec![Contents::text(entry, path)]),
                None => Err(Failure::NotFound),
            },
            "slow" => {
                // Tests wait for this line to know that the read is in progress.
                log::info!("a slow read has begun");
                std::thread::sleep(Duration::from_secs(3600));
                Ok(vec![Contents::text(Entry::new(path, path), path)])
            }
            "denied" => Err(Failure::denied("the keeper says no")),
            "internal" => Err(Failure::internal("a secret")),
            "invalid" => Err(Failure::invalid("expected another path")),
            "unavailable" => Err(Failure::from(Retry::new("the well is dry").after(Duration::from_secs(7)))),
            _ => Err(Failure::NotFound),
        }
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        let known = [all(), binary(), plain(), collection(), album(), cover(), Entry::new("folder", "folder")];
        match known.into_iter().chain(self.collection_items()).find(|entry| entry.path == path) {
            Some(entry) => Ok(entry),
            None => self.read(path)?.into_iter().map(|one| one.entry).next().ok_or(Failure::NotFound),
        }
    }

    fn templates(&self) -> Vec<Template> {
        let item = Template::new(ITEM, "item")
            .title("Items")
            .description("One item of a group.")
            .mime_type("text/plain")
            .audience([Role::Assistant])
            .priority(0.25)
            .icon(icon())
            .meta("example.com/kind", "item");
        vec![item, Template::new("other/{name}", "other")]
    }

    fn complete(&self, _template: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
        let group = known.iter().find(|argument| argument.name == "group").map(|argument| argument.value.as_str());
        let numbers = (0..NUMBERS).filter(|number| match group {
            Some("even") => number % 2 == 0,
            Some("odd") => number % 2 == 1,
            _ => true,
        });
        match argument.name.as_str() {
            "group" => Ok(Completion::matching(GROUPS, &argument.value)),
            "number" => Ok(Completion::matching(numbers.map(|number| number.to_string()), &argument.value)),
            _ => Ok(Completion::default()),
        }
    }

    fn changes(&self, _watched: &[String], _since: Option<&str>) -> Result<Changes> {
        Ok(Changes::none("now"))
    }
}

impl Sample {
    fn collection_items(&self) -> impl Iterator<Item = Entry> {
        (0..self.collection_size)
            .map(|n| Entry::new(format!("collection/{n:03}"), format!("{n:03}")).mime_type("text/plain"))
    }
}

fn collection() -> Entry {
    Entry::directory("collection", "collection").title("A collection").subscribable().ttl(Duration::from_secs(20))
}

fn album() -> Entry {
    Entry::new("album", "album").mime_type("text/plain").listable()
}

fn cover() -> Entry {
    Entry::new("album/cover", "cover").mime_type("image/png").size(9999)
}

fn all() -> Entry {
    Entry::new("all", "all")
        .title("All there is")
        .description("Has every member that a resource can have.")
        .mime_type("text/plain")
        .size(11)
        .audience([Role::User, Role::Assistant])
        .priority(0.8)
        .last_modified("2025-01-12T15:00:58Z")
        .icon(icon())
        .subscribable()
        .ttl(Duration::from_secs(60))
        .meta("example.com/branch", "main")
}

fn plain() -> Entry {
    Entry::new("plain", "plain")
}

fn binary() -> Entry {
    Entry::new("binary", "binary").mime_type("application/octet-stream").size(5).ttl(Duration::from_secs(90))
}

fn several() -> Entry {
    Entry::new("several", "several")
}

fn icon() -> Icon {
    Icon::new("https://example.com/icon.png").mime_type("image/png").size("48x48").theme(Theme::Dark)
}

export!(Sample);
