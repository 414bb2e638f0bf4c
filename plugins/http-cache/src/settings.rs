//! The plugin's configuration.

use crate::address::{Address, PlainHosts};
use mcp_provider::{Config, Failure, Result};
use std::time::Duration;

const SEEDS: &str = "seeds";
const SITEMAPS: &str = "sitemaps";
const PLAIN_HTTP: &str = "plain-http";
const FORMATS: &str = "formats";
const BUCKET: &str = "bucket";
const MAX_BODY_BYTES: &str = "max-body-bytes";
const MAX_STALE_SECONDS: &str = "max-stale-seconds";
const CHECK_SECONDS: &str = "check-seconds";
const TIMEOUT_MS: &str = "timeout-ms";
const KEYS: [&str; 9] =
    [SEEDS, SITEMAPS, PLAIN_HTTP, FORMATS, BUCKET, MAX_BODY_BYTES, MAX_STALE_SECONDS, CHECK_SECONDS, TIMEOUT_MS];

/// The maximum length of the path of a listed page, so that it fits into a cursor.
pub(crate) const MAX_PATH_LEN: usize = 2048;

/// A format in which an HTML page is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Markdown of the readable part.
    Markdown,
    /// The original HTML.
    Html,
}

/// The parsed config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Pages that are listed even if they are not stored.
    pub(crate) seeds: Vec<Address>,
    /// Sitemaps whose pages are listed.
    pub(crate) sitemaps: Vec<Address>,
    /// Hosts that are requested without TLS.
    pub(crate) plain: PlainHosts,
    /// The formats of HTML pages, the preferred first; at least one.
    pub(crate) formats: Vec<Format>,
    /// The bucket of stored pages.
    pub(crate) bucket: String,
    /// The maximum size of a body, in bytes.
    pub(crate) max_body: usize,
    /// The time for which a page is served stale while its origin fails, unless the origin specifies one.
    pub(crate) max_stale: Duration,
    /// The minimum check interval of a watched page without a freshness lifetime.
    pub(crate) check_interval: Duration,
    /// The timeout of all requests to origins of one call.
    pub(crate) timeout: Duration,
}

impl Settings {
    /// Parses the config. An unknown key is an error, because it is most likely a typo.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        config.refuse_unknown(&KEYS)?;
        let plain: PlainHosts = config.texts(PLAIN_HTTP)?.unwrap_or_default().into_iter().collect();
        let seconds = |key: &str, default: u64| {
            Ok::<_, Failure>(Duration::from_secs(config.parse::<u32>(key)?.map_or(default, u64::from)))
        };
        let pages = |key: &str, rest: &str| -> Result<Vec<Address>> {
            let pages = config.texts(key)?.unwrap_or_default();
            pages.iter().map(|page| address(key, page, rest, &plain)).collect()
        };
        Ok(Self {
            seeds: pages(SEEDS, "/")?,
            sitemaps: pages(SITEMAPS, "/sitemap.xml")?,
            formats: config
                .texts(FORMATS)?
                .map_or_else(|| Ok(vec![Format::Markdown, Format::Html]), |names| formats(&names))?,
            bucket: config.get(BUCKET).unwrap_or("pages").to_owned(),
            max_body: config.parse(MAX_BODY_BYTES)?.unwrap_or(8 * 1024 * 1024),
            max_stale: seconds(MAX_STALE_SECONDS, 7 * 24 * 60 * 60)?,
            check_interval: seconds(CHECK_SECONDS, 60)?.max(Duration::from_secs(1)),
            timeout: Duration::from_millis(config.parse::<u32>(TIMEOUT_MS)?.map_or(4000, u64::from)),
            plain,
        })
    }
}

/// Parses a page in the config: a path below the mount, or a URL. `rest` is the default path of a host.
fn address(key: &str, page: &str, rest: &str, plain: &PlainHosts) -> Result<Address> {
    let path = page.strip_prefix("https://").or_else(|| page.strip_prefix("http://")).unwrap_or(page);
    let whole = if path.contains('/') { path.to_owned() } else { format!("{path}{rest}") };
    let address = Address::parse(&whole, plain).ok().filter(|address| address.path().len() <= MAX_PATH_LEN);
    address.ok_or_else(|| {
        Config::fault(key, &format!("pages such as `docs.rs/serde/`, of at most {MAX_PATH_LEN} bytes"), page)
    })
}

fn formats(names: &[String]) -> Result<Vec<Format>> {
    let mut formats = Vec::new();
    for name in names {
        let format = match name.as_str() {
            "markdown" => Format::Markdown,
            "html" => Format::Html,
            _ => return Err(Config::fault(FORMATS, "`markdown` or `html`", name.as_str())),
        };
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    if formats.is_empty() { Err(Config::fault(FORMATS, "at least one format", "[]")) } else { Ok(formats) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_config_is_enough() {
        let settings = Settings::parse(&Config::default()).unwrap();
        assert_eq!((settings.bucket.as_str(), settings.timeout), ("pages", Duration::from_secs(4)));
        assert_eq!(settings.formats, [Format::Markdown, Format::Html]);
        assert!(settings.seeds.is_empty() && settings.sitemaps.is_empty());
    }

    #[test]
    fn pages_are_named_by_path_or_url_and_a_host_alone_by_its_first_page_or_its_sitemap() {
        let config = Config::from_pairs([
            (SEEDS, r#"["docs.rs/serde", "https://example.com/a?b=c", "example.com"]"#),
            (SITEMAPS, r#"["docs.rs", "example.com/maps/all.xml"]"#),
            (PLAIN_HTTP, r#"["Example.com"]"#),
        ]);
        let settings = Settings::parse(&config).unwrap();
        let urls = |pages: &[Address]| pages.iter().map(Address::url).collect::<Vec<_>>();
        assert_eq!(urls(&settings.seeds), ["https://docs.rs/serde", "http://example.com/a?b=c", "http://example.com/"]);
        assert_eq!(urls(&settings.sitemaps), ["https://docs.rs/sitemap.xml", "http://example.com/maps/all.xml"]);
    }

    #[test]
    fn an_unknown_or_malformed_key_is_a_fault_for_the_log() {
        for pair in [
            ("seed", "[]"),
            (SEEDS, "docs.rs"),
            (SEEDS, r#"["a b/"]"#),
            (SITEMAPS, "[1]"),
            (FORMATS, r#"["pdf"]"#),
            (FORMATS, "[]"),
            (MAX_BODY_BYTES, "much"),
            (CHECK_SECONDS, "-1"),
        ] {
            assert!(matches!(Settings::parse(&Config::from_pairs([pair])), Err(Failure::Internal(_))), "{pair:?}");
        }
    }

    #[test]
    fn a_watched_page_is_never_asked_for_without_a_pause() {
        let config = Config::from_pairs([(CHECK_SECONDS, "0")]);
        assert_eq!(Settings::parse(&config).unwrap().check_interval, Duration::from_secs(1));
    }
}
