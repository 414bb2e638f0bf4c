//! The plugin's configuration.

use mcp_provider::{Config, Failure, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

const DATABASE: &str = "database";
const FORMATS: &str = "formats";
const FREE_SQL: &str = "free-sql";
const PAGE_SIZE: &str = "page-size";
const QUERIES: &str = "queries";

/// A format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// A table of Markdown.
    Markdown,
    /// JSON with the columns and their types.
    Json,
    /// CSV with a header (RFC 4180).
    Csv,
}

impl Format {
    /// All formats, in the order of a resource's contents.
    pub(crate) const ALL: [Self; 3] = [Self::Markdown, Self::Json, Self::Csv];

    /// Returns the name in paths and in the config.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Json => "json",
            Self::Csv => "csv",
        }
    }

    /// Returns the media type.
    pub(crate) fn mime_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown",
            Self::Json => "application/json",
            Self::Csv => "text/csv",
        }
    }
}

/// A query saved in the config.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SavedQuery {
    /// The statement, with placeholders `$1` and so on.
    pub(crate) sql: String,
    /// A title for people.
    pub(crate) title: Option<String>,
    /// A description.
    pub(crate) description: Option<String>,
    /// The parameters: `$1` is the first.
    #[serde(default)]
    pub(crate) parameters: Vec<Parameter>,
    /// A statement without parameters whose result changes whenever the query's result changes. Without it, the query
    /// itself is run to detect changes.
    pub(crate) version: Option<String>,
}

/// A parameter of a saved query.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameter {
    /// The name in the path.
    pub(crate) name: String,
    /// The value if the path has none. Without a default, the parameter is required.
    pub(crate) default: Option<String>,
    /// A statement whose first column contains values of the parameter. Its parameter `$1`, if present, is the typed
    /// text.
    pub(crate) complete: Option<String>,
}

/// The parsed config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The database; `None` for the only granted one.
    pub(crate) database: Option<String>,
    /// The formats of rows; at least one.
    pub(crate) formats: Vec<Format>,
    /// Whether clients may send their own statements.
    pub(crate) free_sql: bool,
    /// The default number of rows of a page.
    pub(crate) page_size: u32,
    /// The saved queries, by name.
    pub(crate) queries: BTreeMap<String, SavedQuery>,
}

impl Settings {
    /// Parses the config. An unknown key is an error, because it is most likely a typo.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        config.refuse_unknown(&[DATABASE, FORMATS, FREE_SQL, PAGE_SIZE, QUERIES])?;
        let settings = Self {
            database: config.get(DATABASE).map(str::to_owned),
            formats: config.deserialize(FORMATS)?.unwrap_or_else(|| Format::ALL.to_vec()),
            free_sql: config.parse(FREE_SQL)?.unwrap_or(false),
            page_size: config.parse(PAGE_SIZE)?.unwrap_or(50),
            queries: config.deserialize(QUERIES)?.unwrap_or_default(),
        };
        if settings.formats.is_empty() || settings.page_size == 0 {
            return Err(Failure::internal(format!("config keys `{FORMATS}` and `{PAGE_SIZE}`: expected at least one")));
        }
        for (name, query) in &settings.queries {
            check_query(name, query)?;
        }
        Ok(settings)
    }
}

fn check_query(name: &str, query: &SavedQuery) -> Result<()> {
    let fault = |what: String| Failure::internal(format!("config key `{QUERIES}`, query `{name}`: {what}"));
    if !is_plain(name) {
        return Err(fault("expected a name of a-z, A-Z, 0-9, `-` and `_`".to_owned()));
    }
    for (index, parameter) in query.parameters.iter().enumerate() {
        // The names become variables of a path template.
        let is_variable = is_plain(&parameter.name) && !parameter.name.contains('-');
        if !is_variable || ["format", "limit"].contains(&parameter.name.as_str()) {
            let expected = "expected letters, digits and `_`, and neither `format` nor `limit`";
            return Err(fault(format!("the parameter name `{}`: {expected}", parameter.name)));
        }
        if query.parameters.iter().take(index).any(|other| other.name == parameter.name) {
            return Err(fault(format!("the parameter `{}` is there twice", parameter.name)));
        }
    }
    Ok(())
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::parse(&Config::from_pairs(pairs.iter().copied()))
    }

    #[test]
    fn an_empty_config_is_enough() {
        let settings = parse(&[]).unwrap();
        assert_eq!((settings.formats.len(), settings.page_size, settings.free_sql), (3, 50, false));
        assert!(settings.database.is_none() && settings.queries.is_empty());
    }

    #[test]
    fn queries_have_parameters_in_their_order() {
        let queries = r#"{"of": {"sql": "SELECT $1", "parameters": [{"name": "a"}, {"name": "b", "default": "1"}]}}"#;
        let settings = parse(&[("queries", queries), ("formats", r#"["csv"]"#)]).unwrap();
        let names: Vec<_> = settings.queries["of"].parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(settings.formats, [Format::Csv]);
    }

    #[test]
    fn what_cannot_be_served_is_a_fault_that_names_the_key() {
        for (key, value) in [
            ("query", "{}"),
            ("formats", r#"["xml"]"#),
            ("formats", "[]"),
            ("page-size", "0"),
            ("free-sql", "maybe"),
            ("queries", r#"{"a b": {"sql": "SELECT 1"}}"#),
            ("queries", r#"{"a": {"sq": "SELECT 1"}}"#),
            ("queries", r#"{"a": {"sql": "SELECT 1", "parameters": [{"name": "limit"}]}}"#),
            ("queries", r#"{"a": {"sql": "SELECT 1", "parameters": [{"name": "x"}, {"name": "x"}]}}"#),
        ] {
            let error = parse(&[(key, value)]).unwrap_err();
            assert!(matches!(&error, Failure::Internal(message) if message.contains(key)), "{value}: {error:?}");
        }
    }
}
