//! Paths: parsing and writing.

use crate::settings::Format;
use mcp_provider::{Failure, Result, path};
use std::collections::BTreeMap;

/// The template of the rows of a table.
pub(crate) const ROWS_TEMPLATE: &str = "{schema}/{table}/rows{?limit,after,columns,order,format}";
/// The template of the description of a table.
pub(crate) const SCHEMA_TEMPLATE: &str = "{schema}/{table}/schema";
/// The template of a client's own statement.
pub(crate) const SQL_TEMPLATE: &str = "sql{?q,limit,format}";

/// The maximum number of bytes of a value that a message quotes.
const MAX_QUOTED: usize = 64;

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// All tables with their columns.
    Dictionary,
    /// The tables of a schema.
    Schema(String),
    /// The description of a table.
    Table(TableName),
    /// Rows of a table.
    Rows(TableName, RowsOptions),
    /// A saved query with the values of its parameters.
    Query(String, BTreeMap<String, String>, ResultOptions),
    /// A client's own statement.
    Sql(String, ResultOptions),
}

/// The name of a table with its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) schema: String,
    pub(crate) table: String,
}

impl TableName {
    /// Returns the path of the table's description.
    pub(crate) fn schema_path(&self) -> String {
        format!("{}/{}/schema", path::encode_segment(&self.schema), path::encode_segment(&self.table))
    }

    /// Returns the path of the table's first rows.
    pub(crate) fn rows_path(&self) -> String {
        format!("{}/{}/rows", path::encode_segment(&self.schema), path::encode_segment(&self.table))
    }
}

/// The number and the format of the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResultOptions {
    pub(crate) limit: Option<u32>,
    pub(crate) format: Option<Format>,
}

/// The options of a request for rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RowsOptions {
    pub(crate) result: ResultOptions,
    /// The position after which the rows start, as returned by a page.
    pub(crate) after: Option<String>,
    /// The columns; empty for all.
    pub(crate) columns: Vec<String>,
    /// The column that orders the rows, with the prefix `-` for descending order.
    pub(crate) order: Option<String>,
}

impl Route {
    /// Parses a path.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (names, query) = path::split_query(text);
        let values = Values::parse(query)?;
        match names.split('/').collect::<Vec<_>>()[..] {
            ["dictionary"] => values.none(Self::Dictionary),
            ["sql"] => {
                let statement = values.0.get("q").cloned();
                let statement = statement.ok_or_else(|| Failure::invalid("expected a statement in `q`"))?;
                Ok(Self::Sql(statement, values.result_options(&["q"])?))
            }
            ["query", name] => {
                let options = ResultOptions { limit: values.limit()?, format: values.format()? };
                let Values(mut values) = values;
                values.retain(|name, _| name != "limit" && name != "format");
                Ok(Self::Query(path::decode_segment(name)?, values, options))
            }
            [schema] if !schema.is_empty() => values.none(Self::Schema(path::decode_segment(schema)?)),
            [schema, table, kind @ ("schema" | "rows")] => {
                let name = TableName { schema: path::decode_segment(schema)?, table: path::decode_segment(table)? };
                if kind == "schema" {
                    return values.none(Self::Table(name));
                }
                let columns = values.0.get("columns").map(|columns| columns.split(',').map(str::to_owned).collect());
                let options = RowsOptions {
                    result: values.result_options(&["after", "columns", "order"])?,
                    after: values.0.get("after").cloned(),
                    columns: columns.unwrap_or_default(),
                    order: values.0.get("order").cloned(),
                };
                Ok(Self::Rows(name, options))
            }
            _ => Err(Failure::NotFound),
        }
    }
}

/// The decoded parameters of a path.
struct Values(BTreeMap<String, String>);

impl Values {
    fn parse(query: Option<&str>) -> Result<Self> {
        let mut values = BTreeMap::new();
        for pair in query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            // A value may contain a slash, a segment may not.
            let decoded = |text: &str| path::decode_segment(&text.replace('/', "%2F"));
            if values.insert(decoded(name)?, decoded(value)?).is_some() {
                return Err(Failure::invalid(format!("expected the parameter `{name}` once")));
            }
        }
        Ok(Self(values))
    }

    fn none(self, route: Route) -> Result<Route> {
        if self.0.is_empty() { Ok(route) } else { Err(Failure::invalid("expected a path without parameters")) }
    }

    fn result_options(&self, known: &[&str]) -> Result<ResultOptions> {
        let is_known = |name: &&String| known.contains(&name.as_str()) || ["limit", "format"].contains(&name.as_str());
        if let Some(unknown) = self.0.keys().find(|name| !is_known(name)) {
            let known = [known, &["limit", "format"]].concat().join("`, `");
            return Err(Failure::invalid(format!("the parameter `{unknown}` is unknown; expected `{known}`")));
        }
        Ok(ResultOptions { limit: self.limit()?, format: self.format()? })
    }

    fn limit(&self) -> Result<Option<u32>> {
        let Some(text) = self.0.get("limit") else { return Ok(None) };
        let limit = text.parse::<u32>().ok().filter(|limit| *limit > 0);
        let expected = || format!("expected an integer from 1 in `limit`, found {}", quoted(text));
        limit.map(Some).ok_or_else(|| Failure::invalid(expected()))
    }

    fn format(&self) -> Result<Option<Format>> {
        let Some(name) = self.0.get("format") else { return Ok(None) };
        let format = Format::ALL.into_iter().find(|format| format.name() == name);
        let expected = || format!("expected `markdown`, `json` or `csv` in `format`, found {}", quoted(name));
        format.map(Some).ok_or_else(|| Failure::invalid(expected()))
    }
}

/// Returns the beginning of a value, for a message.
pub(crate) fn quoted(value: &str) -> String {
    match value.split_at_checked(value.floor_char_boundary(MAX_QUOTED)) {
        Some((beginning, rest)) if !rest.is_empty() => format!("\"{}…\"", beginning.escape_debug()),
        _ => format!("{value:?}"),
    }
}

/// Returns a path with the given value of a parameter, in place of its current value.
pub(crate) fn with_parameter(path_of: &str, name: &str, value: &str) -> String {
    let (resource, query) = path_of.split_once('?').unwrap_or((path_of, ""));
    let is_other = |pair: &&str| !pair.is_empty() && pair.split('=').next() != Some(name);
    let others: String = query.split('&').filter(is_other).flat_map(|pair| [pair, "&"]).collect();
    // These characters separate parameters in a query, but are allowed in a segment.
    let value = path::encode_segment(value).replace('&', "%26").replace('=', "%3D").replace('+', "%2B");
    format!("{resource}?{others}{name}={value}")
}

/// Returns the template of a saved query with its parameters.
pub(crate) fn query_template<'a>(name: &str, parameters: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = parameters.chain(["limit", "format"]).collect();
    format!("query/{name}{{?{}}}", names.join(","))
}

/// Returns the name of the saved query in a template of [`query_template`].
pub(crate) fn template_query(template: &str) -> Option<&str> {
    template.strip_prefix("query/")?.split_once('{').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(schema: &str, table: &str) -> TableName {
        TableName { schema: schema.to_owned(), table: table.to_owned() }
    }

    #[test]
    fn paths_mean_tables_rows_and_queries() {
        let rows = RowsOptions {
            result: ResultOptions { limit: Some(5), format: Some(Format::Csv) },
            after: Some("[1,\"a/b\"]".to_owned()),
            columns: vec!["id".to_owned(), "a name".to_owned()],
            order: Some("-price".to_owned()),
        };
        let values = BTreeMap::from([("customer".to_owned(), "a&b".to_owned())]);
        for (text, expected) in [
            ("dictionary", Route::Dictionary),
            ("public", Route::Schema("public".to_owned())),
            ("public/order%20lines/schema", Route::Table(table("public", "order lines"))),
            ("public/query/rows", Route::Rows(table("public", "query"), RowsOptions::default())),
            (
                "a/b/rows?limit=5&after=%5B1%2C%22a%2Fb%22%5D&columns=id,a%20name&order=-price&format=csv",
                Route::Rows(table("a", "b"), rows),
            ),
            ("query/orders?customer=a%26b", Route::Query("orders".to_owned(), values, ResultOptions::default())),
            ("sql?q=SELECT%201", Route::Sql("SELECT 1".to_owned(), ResultOptions::default())),
        ] {
            assert_eq!(Route::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_path_is_not_found_or_invalid() {
        for text in ["", "a/b", "a/b/c", "a/b/rows/c", "query", "query/a/b"] {
            let route = Route::parse(text);
            assert!(matches!(route, Err(Failure::NotFound)) || text == "query", "{text}: {route:?}");
        }
        for text in [
            "sql",
            "a/b/rows?limit=0",
            "a/b/rows?x=1",
            "a/b/rows?format=xml",
            "dictionary?a=1",
            "a/b/rows?limit=1&limit=2",
        ] {
            assert!(matches!(Route::parse(text), Err(Failure::InvalidRequest(_))), "{text}");
        }
    }

    #[test]
    fn a_wrong_parameter_is_told_what_is_expected_and_what_was_found() {
        let long = format!("a/b/rows?format={}", "x".repeat(100));
        let found = format!("expected `markdown`, `json` or `csv` in `format`, found \"{}…\"", "x".repeat(MAX_QUOTED));
        for (text, expected) in [
            ("a/b/rows?limit=-1", "expected an integer from 1 in `limit`, found \"-1\""),
            ("sql?q=a&x=1", "the parameter `x` is unknown; expected `q`, `limit`, `format`"),
            (long.as_str(), found.as_str()),
        ] {
            assert_eq!(Route::parse(text), Err(Failure::invalid(expected)), "{text}");
        }
    }

    #[test]
    fn written_paths_and_templates_are_read_again() {
        let name = table("My Schema", "a/b?");
        assert_eq!(Route::parse(&name.schema_path()), Ok(Route::Table(name.clone())));
        let text = with_parameter(&with_parameter(&name.rows_path(), "after", "1"), "limit", "3");
        let text = with_parameter(&text, "after", "[\"ü&=/\"]");
        let Ok(Route::Rows(read, options)) = Route::parse(&text) else { panic!("{text}") };
        assert_eq!((read, options.after.as_deref(), options.result.limit), (name, Some("[\"ü&=/\"]"), Some(3)));
        let template = query_template("orders", ["customer"].into_iter());
        assert_eq!(template_query(&template), Some("orders"));
        for template in [ROWS_TEMPLATE, SCHEMA_TEMPLATE, SQL_TEMPLATE, &template] {
            assert!(mcp_provider::PathTemplate::parse(template).is_ok(), "{template}");
        }
    }
}
