//! The resources that the official conformance suite requests, when mounted at `test://`.
//!
//! | path | reads as |
//! |---|---|
//! | `static-text` | the text that the suite expects |
//! | `static-binary` | an image of one pixel |
//! | `template/{id}/data` | a text with this id |
//! | `watched-resource` | a subscribable text that never changes |

use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, PathTemplate, Provider, Result,
    Template, export,
};

/// The template of a resource that is read by expanding its path.
const TEMPLATE: &str = "template/{id}/data";

/// A PNG of one red pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8, 2,
    0, 0, 0, 0x90, 0x77, 0x53, 0xDE, 0, 0, 0, 12, b'I', b'D', b'A', b'T', 8, 0xD7, 0x63, 0xF8, 0xCF, 0xC0, 0, 0, 3, 1,
    1, 0, 0x18, 0xDD, 0x8D, 0xB0, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xAE, 0x42, 0x60, 0x82,
];

struct Conformance;

impl Provider for Conformance {
    fn describe() -> Info {
        Info::new("conformance", env!("CARGO_PKG_VERSION")).watches(true)
    }

    fn open(_: &Config) -> Result<Self> {
        Ok(Self)
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        Ok(Page::last([text(), binary(), watched()]))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let contents = match path {
            "static-text" => Contents::text(text(), "This is the content of the static text resource."),
            "static-binary" => Contents::blob(binary(), PIXEL),
            "watched-resource" => Contents::text(watched(), "Watched."),
            _ => {
                let captures = PathTemplate::parse(TEMPLATE)?.matches(path).ok_or(Failure::NotFound)?;
                let id = captures.get("id").unwrap_or_default();
                Contents::text(Entry::new(path, id).mime_type("text/plain"), format!("The data of {id}."))
            }
        };
        Ok(vec![contents])
    }

    fn templates(&self) -> Vec<Template> {
        vec![Template::new(TEMPLATE, "template").mime_type("text/plain")]
    }

    fn complete(&self, _template: &str, argument: &Argument, _known: &[Argument]) -> Result<Completion> {
        Ok(Completion::matching(["123", "124", "456"], &argument.value))
    }

    fn changes(&self, _watched: &[String], _since: Option<&str>) -> Result<Changes> {
        Ok(Changes::none("now"))
    }
}

fn text() -> Entry {
    Entry::new("static-text", "static-text").mime_type("text/plain")
}

fn binary() -> Entry {
    Entry::new("static-binary", "static-binary").mime_type("image/png").size(PIXEL.len() as u64)
}

fn watched() -> Entry {
    Entry::new("watched-resource", "watched-resource").mime_type("text/plain").subscribable()
}

export!(Conformance);
