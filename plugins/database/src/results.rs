//! Results of queries as the contents of a resource.

use crate::catalog::{Catalog, Table};
use crate::page::PageQuery;
use crate::render::{MAX_CELL, has_cut_cells, render};
use crate::route::{ResultOptions, RowsOptions, quoted, with_parameter};
use crate::settings::{Format, SavedQuery, Settings};
use crate::{query_entry, rows_entry};
use mcp_provider::sql::{QueryError, Rows, Value};
use mcp_provider::{Completion, Contents, Entry, Failure, Notice, Result};
use std::collections::BTreeMap;

/// Runs queries, and renders their results.
pub(crate) struct Results<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) settings: &'a Settings,
}

impl Results<'_> {
    /// Reads rows of a table.
    pub(crate) fn rows(&self, path: &str, table: &Table, options: &RowsOptions) -> Result<Vec<Contents>> {
        let limit = self.limit(&options.result);
        let page = PageQuery::new(&self.catalog.info, table, options, limit)?;
        let statement = &page.statement;
        let result = self.catalog.database.query(&statement.sql, &statement.parameters, Some(limit));
        let mut rows = result.map_err(|error| match &options.after {
            // The client supplied the values of `after`.
            Some(after) => failure_of_values(error, &vec![("after", after.as_str()); statement.parameters.len()]),
            None => error.into(),
        })?;
        let notice = match page.split(&mut rows) {
            Some(after) => {
                let text = format!("{}, and there are more", count(&rows));
                Some(Notice::cut(text).next(with_parameter(path, "after", &after)))
            }
            None => self.one_page(path, &rows, &options.result),
        };
        Ok(self.contents(&rows_entry(path, table), &rows, notice, &options.result))
    }

    /// Reads the result of a saved query.
    pub(crate) fn saved(
        &self,
        path: &str,
        name: &str,
        query: &SavedQuery,
        values: &BTreeMap<String, String>,
        options: &ResultOptions,
    ) -> Result<Vec<Contents>> {
        let known = |name: &String| query.parameters.iter().any(|parameter| parameter.name == *name);
        if let Some(unknown) = values.keys().find(|name| !known(name)) {
            let names = query.parameters.iter().map(|parameter| parameter.name.as_str()).chain(["limit", "format"]);
            let names = names.collect::<Vec<_>>().join("`, `");
            return Err(Failure::invalid(format!("the query `{name}` has no parameter `{unknown}`; it has `{names}`")));
        }
        let values = query.parameters.iter().map(|parameter| {
            let parameter_name = parameter.name.as_str();
            let value = values.get(parameter_name).or(parameter.default.as_ref());
            let missing = || {
                let message = format!("expected a value of the parameter `{parameter_name}` of the query `{name}`");
                Failure::invalid(format!("{message}, found none: `{{mount}}query/{name}?{parameter_name}=VALUE`"))
            };
            value.map(|text| (parameter_name, text.as_str())).ok_or_else(missing)
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let parameters: Vec<_> = values.iter().map(|(_, text)| self.parameter(text)).collect();
        let result = self.catalog.database.query(&query.sql, &parameters, Some(self.limit(options)));
        let rows = result.map_err(|error| failure_of_values(error, &values))?;
        let notice = self.one_page(path, &rows, options);
        Ok(self.contents(&query_entry(path, name, query), &rows, notice, options))
    }

    /// Reads the result of a client's statement.
    pub(crate) fn free(&self, path: &str, statement: &str, options: &ResultOptions) -> Result<Vec<Contents>> {
        let result = self.catalog.database.query(statement, &[], Some(self.limit(options)));
        let rows = result.map_err(|error| match error {
            QueryError::Rejected { .. } => Failure::invalid(error.to_string()),
            error => error.into(),
        })?;
        let entry = Entry::new(path, "sql").mime_type(Format::Markdown.mime_type());
        let notice = self.one_page(path, &rows, options);
        Ok(self.contents(&entry, &rows, notice, options))
    }

    /// Returns the values of a parameter that start with the typed text.
    pub(crate) fn values(&self, statement: &str, typed: &str) -> Result<Completion> {
        let run = |parameters: &[Value]| self.catalog.database.query(statement, parameters, None);
        let has_parameter = statement.contains("$1");
        let rows = if has_parameter { run(&[typed.into()]) } else { run(&[]) }?;
        let values = rows.rows.iter().filter_map(|row| match row.first()? {
            Value::Integer(value) => Some(value.to_string()),
            value => value.as_text().map(str::to_owned),
        });
        let mut completion = Completion::matching(values, typed);
        if rows.has_more {
            (completion.total, completion.has_more) = (None, true);
        }
        Ok(completion)
    }

    /// Returns the result of a statement as one text.
    pub(crate) fn version(&self, statement: &str) -> Result<String> {
        Ok(format!("{:?}", self.catalog.database.query(statement, &[], None)?.rows))
    }

    fn limit(&self, options: &ResultOptions) -> u32 {
        options.limit.unwrap_or(self.settings.page_size).min(self.catalog.info.max_rows)
    }

    /// Converts a parameter of a path. PostgreSQL converts it to the parameter's type. SQLite does not compare texts
    /// with numbers, so there a numeric text becomes a number.
    fn parameter(&self, text: &str) -> Value {
        match self.catalog.info.kind {
            mcp_provider::sql::Kind::Sqlite => sqlite_parameter(text),
            _ => text.into(),
        }
    }

    /// Returns the notice of a truncated result without a next page. If a larger `limit` is allowed, the notice links
    /// to the same path with the largest one.
    fn one_page(&self, path: &str, rows: &Rows, options: &ResultOptions) -> Option<Notice> {
        let (limit, largest) = (self.limit(options), self.catalog.info.max_rows);
        let text = format!("{}, and there are more", count(rows));
        rows.has_more.then(|| match limit < largest {
            true => Notice::cut(format!("{text}; it has no next page, and at most {largest} rows (`limit`)"))
                .next(with_parameter(path, "limit", &largest.to_string())),
            false => Notice::cut(format!(
                "{text}, which cannot be reached: it has no next page, and the server allows {largest} rows of a result"
            )),
        })
    }

    /// Returns the contents of a result, one per format.
    fn contents(&self, entry: &Entry, rows: &Rows, notice: Option<Notice>, options: &ResultOptions) -> Vec<Contents> {
        let formats = options.format.map_or_else(|| self.settings.formats.clone(), |format| vec![format]);
        let content = |format: Format| {
            let entry = entry.clone().mime_type(format.mime_type());
            let entry = notice.iter().cloned().fold(entry, Entry::notice);
            let cells = (format == Format::Markdown && has_cut_cells(rows)).then(cut_cells);
            Contents::text(cells.into_iter().fold(entry, Entry::notice), render(rows, format))
        };
        formats.into_iter().map(content).collect()
    }
}

/// Returns the notice of a Markdown table with cut values. There is no next part: another format has the whole values.
fn cut_cells() -> Notice {
    Notice::cut(format!("values of more than {MAX_CELL} characters are cut in Markdown; `format=json` has them whole"))
}

/// Returns the number of rows as text.
fn count(rows: &Rows) -> String {
    match rows.rows.len() {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    }
}

/// Converts the error of a statement that has a client's values, each with the name of its parameter. A value that the
/// database cannot convert is an invalid request.
fn failure_of_values(error: QueryError, values: &[(&str, &str)]) -> Failure {
    let (sqlstate, message) = match &error {
        QueryError::Rejected { sqlstate, message, .. } => (sqlstate, message),
        _ => return error.into(),
    };
    // A violated constraint of a domain is of class 23.
    if !sqlstate.starts_with("22") && !sqlstate.starts_with("23") {
        return error.into();
    }
    let refused = parameter_number(message).and_then(|number| Some((number, values.get(number.checked_sub(1)?)?)));
    match refused {
        Some((number, (name, value))) => {
            let message = message.replacen(&format!("${number}"), &format!("`{name}`"), 1);
            Failure::invalid(format!("{message}; found {}", quoted(value)))
        }
        None if values.is_empty() || sqlstate.starts_with("23") => error.into(),
        None => {
            let mut found: Vec<_> = values.iter().map(|(name, value)| format!("`{name}`: {}", quoted(value))).collect();
            found.dedup();
            Failure::invalid(format!("a value does not fit its parameter: {message}; found {}", found.join(", ")))
        }
    }
}

/// Returns the number of the parameter that a message of the host names, such as `$1`.
fn parameter_number(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once('$')?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Converts a value for SQLite: to a number if SQLite itself would write that number in this form, so texts such as
/// `007`, `1.10` and `1e5` stay text.
fn sqlite_parameter(text: &str) -> Value {
    let integer = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    let float = || {
        text.parse::<f64>()
            .ok()
            .filter(|number| number.is_finite() && format!("{number:?}") == text && !text.contains('e'))
    };
    integer.map(Value::from).or_else(|| float().map(Value::Float)).unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_provider::sql::Database;

    /// Returns the notices of each content of a result that has further rows.
    fn notices(path: &str, value: &str, options: &ResultOptions) -> Vec<Vec<(String, Option<String>)>> {
        let catalog = Catalog { database: Database::open("shop"), info: crate::tests::postgresql() };
        let settings =
            Settings::parse(&mcp_provider::Config::from_pairs([("formats", r#"["markdown", "csv"]"#)])).unwrap();
        let results = Results { catalog: &catalog, settings: &settings };
        let mut rows = crate::tests::rows(&["a"], vec![vec![value.into()]]);
        rows.has_more = true;
        let contents = results.contents(&Entry::new(path, "a"), &rows, results.one_page(path, &rows, options), options);
        let of_content = |contents: &Contents| {
            let notices = contents.entry.meta["mcp-host/notices"].as_array().unwrap();
            let member = |notice: &serde_json::Value, name: &str| notice[name].as_str().map(str::to_owned);
            notices.iter().map(|notice| (member(notice, "text").unwrap(), member(notice, "next"))).collect()
        };
        contents.iter().map(of_content).collect()
    }

    #[test]
    fn a_result_without_a_next_page_leads_to_the_largest_one() {
        let notices_of = |limit, path| notices(path, "b", &ResultOptions { limit, format: None });
        let small = notices_of(Some(5), "query/of?customer=a%26b&limit=5&format=csv");
        let text = "1 row, and there are more; it has no next page, and at most 1000 rows (`limit`)";
        let next = "query/of?customer=a%26b&format=csv&limit=1000";
        assert_eq!(small, vec![vec![(text.to_owned(), Some(next.to_owned()))]; 2], "in each format");
        assert_eq!(notices_of(None, "main/v/rows")[0][0].1.as_deref(), Some("main/v/rows?limit=1000"));
        let [(text, next)] = &notices_of(Some(5000), "sql?q=a&limit=5000")[0][..] else { panic!("one notice") };
        assert!(text.contains("cannot be reached") && text.contains("1000 rows") && next.is_none(), "{text}");
    }

    #[test]
    fn a_value_that_is_cut_in_markdown_names_the_format_that_has_it_whole() {
        let found = notices("main/t/rows?limit=1", &"x".repeat(MAX_CELL + 1), &ResultOptions::default());
        let [markdown, csv] = &found[..] else { panic!("two formats") };
        assert!(markdown[1].0.contains("2000 characters") && markdown[1].0.contains("`format=json`"), "{found:?}");
        assert_eq!((&markdown[1].1, csv.len()), (&None, 1));
        assert_eq!(notices("main/t/rows", &"x".repeat(MAX_CELL), &ResultOptions::default())[0].len(), 1);
    }

    fn rejected(sqlstate: &str, message: &str) -> QueryError {
        QueryError::Rejected { sqlstate: sqlstate.to_owned(), message: message.to_owned(), position: None }
    }

    #[test]
    fn a_number_as_sqlite_writes_it_is_a_number() {
        for (text, number) in [
            ("2", Value::Integer(2)),
            ("-7", Value::Integer(-7)),
            ("2.5", Value::Float(2.5)),
            ("-0.5", Value::Float(-0.5)),
        ] {
            assert_eq!(sqlite_parameter(text), number);
        }
        for text in ["", "007", "1.10", "1e5", "inf", "NaN", "+1", ".5", "2.", "two"] {
            assert_eq!(sqlite_parameter(text), Value::from(text));
        }
    }

    #[test]
    fn a_value_that_is_refused_is_named_with_its_type_and_what_was_found() {
        let values = [("customer", "2 OR 1=1"), ("above", "6")];
        let invalid = |sqlstate: &str, message: &str| match failure_of_values(rejected(sqlstate, message), &values) {
            Failure::InvalidRequest(message) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            invalid("22P02", "the value of $1 cannot be converted to the type integer, or is out of its range"),
            "the value of `customer` cannot be converted to the type integer, or is out of its range; found \"2 OR 1=1\""
        );
        assert_eq!(invalid("23514", "the value of $2 is no price"), "the value of `above` is no price; found \"6\"");
        for message in ["a value is out of range", "the value of $3 is no price", "the value of $x is no price"] {
            let expected = format!(
                "a value does not fit its parameter: {message}; found `customer`: \"2 OR 1=1\", `above`: \"6\""
            );
            assert_eq!(invalid("22000", message), expected);
        }
        for (sqlstate, message) in [("42P02", "there is no parameter $3"), ("23514", "a check failed")] {
            let failure = failure_of_values(rejected(sqlstate, message), &values);
            assert!(matches!(failure, Failure::Internal(_)), "the statement is wrong, not a value: {failure:?}");
        }
        let failure = failure_of_values(rejected("22012", "a value is out of range"), &[]);
        assert!(matches!(failure, Failure::Internal(_)), "it is no value of a client: {failure:?}");
    }
}
