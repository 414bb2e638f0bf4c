//! The plugin's configuration.

use crate::id::Id;
use jiff::SignedDuration;
use mcp_provider::{Config, Failure, Result};
use serde::de::DeserializeOwned;
use std::time::Duration;

const URL: &str = "url";
const FOLDERS: &str = "folders";
const QUERIES: &str = "queries";
const UNLISTED: &str = "unlisted";
const FOLLOW_SHORTCUTS: &str = "follow-shortcuts";
const BUCKET: &str = "bucket";
const REFRESH: &str = "refresh";
const TIMEOUT: &str = "timeout";
const MAX_FOLDERS: &str = "max-folders";
const MAX_FILES: &str = "max-files";
const MAX_READ: &str = "max-read";
const CHUNK_SIZE: &str = "chunk-size";
const CHUNK_OVERLAP: &str = "chunk-overlap";
const KEYS: [&str; 13] = [
    URL,
    FOLDERS,
    QUERIES,
    UNLISTED,
    FOLLOW_SHORTCUTS,
    BUCKET,
    REFRESH,
    TIMEOUT,
    MAX_FOLDERS,
    MAX_FILES,
    MAX_READ,
    CHUNK_SIZE,
    CHUNK_OVERLAP,
];

/// The address of the API, by default.
const DEFAULT_URL: &str = "https://www.googleapis.com";
/// The expected form of the API's address, for messages.
const SERVER: &str = "the address of the API, such as `https://www.googleapis.com`";

/// The maximum number of folders, and of queries, in the config.
const MAX_NAMED: usize = 100;

/// The parsed config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The address of the API, without a trailing slash.
    pub(crate) url: String,
    /// The folders and shared drives that are listed, with everything below them.
    pub(crate) folders: Vec<Id>,
    /// The queries, in Drive's language, whose results are listed.
    pub(crate) queries: Vec<String>,
    /// Whether files that are not listed can be read and found, too.
    pub(crate) unlisted: bool,
    /// Whether shortcuts are followed, even out of the folders.
    pub(crate) follow_shortcuts: bool,
    /// The bucket of texts and of the folder tree.
    pub(crate) bucket: String,
    /// The time to live of the folder tree and of metadata.
    pub(crate) refresh: Duration,
    /// The timeout of all requests of one call.
    pub(crate) timeout: Duration,
    pub(crate) max_folders: usize,
    pub(crate) max_files: usize,
    /// The maximum number of bytes that one read returns.
    pub(crate) max_read: usize,
    /// The maximum size of a chunk in bytes, without its overlap.
    pub(crate) chunk_size: usize,
    /// The maximum overlap of a chunk with the previous one, in bytes.
    pub(crate) chunk_overlap: usize,
}

impl Settings {
    /// Parses the config. An unknown key is an error, because it is most likely a typo.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        config.refuse_unknown(&KEYS)?;
        let size = |key: &str, default: usize, least: usize| -> Result<usize> {
            Ok(config.size(key)?.unwrap_or(default).max(least))
        };
        let number =
            |key: &str, default: usize| Ok::<_, Failure>(config.parse::<usize>(key)?.unwrap_or(default).max(1));
        let settings = Self {
            url: config.server(URL, SERVER)?.unwrap_or_else(|| DEFAULT_URL.to_owned()),
            folders: list(config, FOLDERS, "a list of ids of folders or shared drives, or `root`")?,
            queries: list(config, QUERIES, "a list of queries such as `name contains 'plan'`")?,
            unlisted: config.parse(UNLISTED)?.unwrap_or(false),
            follow_shortcuts: config.parse(FOLLOW_SHORTCUTS)?.unwrap_or(false),
            bucket: config.get(BUCKET).unwrap_or("drive").to_owned(),
            refresh: duration(config, REFRESH, Duration::from_secs(60))?,
            timeout: duration(config, TIMEOUT, Duration::from_secs(4))?,
            max_folders: number(MAX_FOLDERS, 500)?,
            max_files: number(MAX_FILES, 10_000)?,
            max_read: size(MAX_READ, 8 << 20, 1024)?,
            chunk_size: size(CHUNK_SIZE, 4000, 500)?,
            chunk_overlap: size(CHUNK_OVERLAP, 200, 0)?,
        };
        if settings.folders.is_empty() && settings.queries.is_empty() && !settings.unlisted {
            return Err(Failure::internal(format!(
                "config keys `{FOLDERS}` and `{QUERIES}`: expected at least one folder or query, since nothing else is served; \
                 `{UNLISTED} = true` serves whatever the account can read"
            )));
        }
        if settings.queries.iter().any(|query| query.trim().is_empty() || query.len() > 2000) {
            return Err(Config::fault(QUERIES, "queries of 1 to 2000 bytes", "another length"));
        }
        if settings.chunk_overlap.saturating_mul(2) > settings.chunk_size {
            return Err(Config::fault(
                CHUNK_OVERLAP,
                "at most half of `chunk-size`",
                settings.chunk_overlap.to_string(),
            ));
        }
        Ok(settings)
    }
}

/// Parses a list of at most [`MAX_NAMED`] items.
fn list<T: DeserializeOwned>(config: &Config, key: &str, expected: &str) -> Result<Vec<T>> {
    let Some(value) = config.json(key)? else { return Ok(Vec::new()) };
    let items: Vec<T> =
        serde_json::from_value(value).map_err(|error| Config::fault(key, expected, error.to_string()))?;
    if items.len() > MAX_NAMED {
        return Err(Config::fault(key, &format!("at most {MAX_NAMED} items"), items.len().to_string()));
    }
    Ok(items)
}

fn duration(config: &Config, key: &str, default: Duration) -> Result<Duration> {
    let parse = |text: &str| {
        let duration = Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()?;
        (Duration::from_millis(1)..=Duration::from_secs(86_400)).contains(&duration).then_some(duration)
    };
    Ok(config.parse_with(key, "a duration of at most a day, such as `30s` or `5m`", parse)?.unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings> {
        let folders = Some((FOLDERS, r#"["F"]"#)).filter(|_| !pairs.iter().any(|(key, _)| *key == FOLDERS));
        Settings::parse(&Config::from_pairs(pairs.iter().copied().chain(folders)))
    }

    #[test]
    fn a_folder_is_enough() {
        let settings = parse(&[]).unwrap();
        assert_eq!((settings.url.as_str(), settings.folders.len()), ("https://www.googleapis.com", 1));
        assert_eq!((settings.unlisted, settings.follow_shortcuts, settings.chunk_size), (false, false, 4000));
        assert_eq!(parse(&[(REFRESH, "5m")]).unwrap().refresh, Duration::from_secs(300));
    }

    #[test]
    fn an_unknown_or_malformed_key_is_a_fault_that_names_it() {
        for (key, value) in [
            ("folder", "[]"),
            (URL, "ftp://h"),
            (URL, "http://me:secret@h/"),
            (FOLDERS, "x"),
            (FOLDERS, r#"["a'b"]"#),
            (FOLDERS, "[1]"),
            (QUERIES, "{}"),
            (QUERIES, r#"[" "]"#),
            (UNLISTED, "maybe"),
            (REFRESH, "soon"),
            (TIMEOUT, "-4s"),
            (MAX_READ, "much"),
            (MAX_FILES, "-1"),
            (CHUNK_OVERLAP, "3000"),
        ] {
            let fault = parse(&[(key, value)]).unwrap_err().to_string();
            assert!(fault.starts_with(&format!("internal: config key `{key}`")), "{fault}");
        }
        let fault = parse(&[(FOLDERS, "[]")]).unwrap_err().to_string();
        assert!(fault.contains("expected at least one folder or query"), "{fault}");
        assert!(parse(&[(FOLDERS, "[]"), (UNLISTED, "true")]).is_ok());
    }
}
