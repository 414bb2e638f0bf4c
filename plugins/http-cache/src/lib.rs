//! A provider of web pages with an HTTP cache.
//!
//! A path is a URL without its scheme: `docs.rs/serde/`. The `README.md` of this crate is for users; for the code, see
//! `address` for paths and URLs, `cache` for caching and requests, `page` for the conversion of content, `changes` for
//! tokens. External effects are behind three traits, [`Origin`], [`Store`] and [`Clock`].

mod address;
mod cache;
mod changes;
mod clock;
mod complete;
mod listing;
mod origin;
mod page;
mod resource_entry;
mod settings;
mod sitemap;
mod snapshot;

pub use clock::{Clock, HostClock};
pub use origin::{FetchError, Origin, Request, Response, WasiHttpOrigin};

use address::Address;
use cache::{Cache, Want};
use mcp_provider::keyvalue::{LazyBucket, Store};
use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, Provider, Result, Template, export,
};
use settings::Settings;

// The administrator chooses the origins, so none is declared here.
mcp_provider::needs! {
    "keyvalue": [{ "bucket": "pages", "why": "the cache; without it every read sends a request" }],
    "config": {
        "seeds": { "type": "array", "default": [], "address": true, "why": "pages that are listed whether or not they are cached" },
        "sitemaps": { "type": "array", "default": [], "address": true, "why": "sitemaps whose pages are listed" },
        "plain-http": { "type": "array", "default": [], "why": "hosts that are accessed without TLS" },
        "formats": { "type": "array", "default": ["markdown", "html"], "why": "the formats of HTML pages, the preferred first" },
        "bucket": { "type": "string", "default": "pages", "why": "the key-value bucket of the cache" },
        "max-body-bytes": { "type": "integer", "default": 8388608, "why": "the largest page that is read" },
        "max-stale-seconds": { "type": "integer", "default": 604800, "why": "how long a stale page is served while its origin fails" },
        "check-seconds": { "type": "integer", "default": 60, "why": "the interval between revalidations of a subscribed page that has no freshness lifetime" },
        "timeout-ms": { "type": "integer", "default": 4000, "why": "how long one call waits for origins; below the plugin's deadline" }
    }
}

/// A provider of web pages.
pub struct HttpCache {
    cache: Cache,
    settings: Settings,
}

impl HttpCache {
    /// Creates a provider with other implementations of the external effects.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`] if the config is invalid.
    pub fn with(
        config: &Config,
        origin: Box<dyn Origin>,
        store: Box<dyn Store>,
        clock: Box<dyn Clock>,
    ) -> Result<Self> {
        let settings = Settings::parse(config)?;
        Ok(Self { cache: Cache::new(origin, store, clock, &settings), settings })
    }
}

impl Provider for HttpCache {
    fn describe() -> Info {
        Info::new("http-cache", env!("CARGO_PKG_VERSION"))
            .title("Web pages")
            .description(
                "A path is a URL without its scheme, such as `docs.rs/serde/latest/serde/`. HTML is served as \
                 readable Markdown and unchanged. Pages are cached for as long as their origins allow; \
                 `http-cache/stale` in `_meta` marks one that could not be revalidated.",
            )
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        let store = LazyBucket::new(Settings::parse(config)?.bucket);
        Self::with(config, Box::new(WasiHttpOrigin), Box::new(store), Box::new(HostClock))
    }

    /// Without a parent: stored pages, seeds, and the pages of sitemaps, sorted by path.
    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        match parent {
            None => listing::list(self, cursor, limit),
            Some(_) => Err(Failure::invalid("expected no parent: pages have no children")),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let address = Address::from_resource_path(path, &self.settings.plain)?;
        let page = self.cache.fetch(&address, Want::Body, self.cache.deadline())?;
        let entry = resource_entry::entry(path, &address, &page, &self.cache, &self.settings);
        Ok(resource_entry::contents(&entry, page, &self.settings))
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        let address = Address::from_resource_path(path, &self.settings.plain)?;
        let page = self.cache.fetch(&address, Want::Entry, self.cache.deadline())?;
        Ok(resource_entry::entry(path, &address, &page, &self.cache, &self.settings))
    }

    fn templates(&self) -> Vec<Template> {
        complete::templates(&self.settings)
    }

    fn complete(&self, _: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
        Ok(complete::complete(self, argument, known))
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        Ok(changes::changes(self, watched, since))
    }
}

export!(HttpCache);
