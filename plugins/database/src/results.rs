//! Results of queries, as the contents of a resource.

use crate::catalog::{Catalog, Table};
use crate::page::PageQuery;
use crate::render::{Notes, render};
use crate::route::{ResultOptions, RowsOptions, with_parameters};
use crate::settings::{Format, SavedQuery, Settings};
use crate::{query_entry, rows_entry};
use mcp_provider::sql::{QueryError, Rows, Value};
use mcp_provider::{Completion, Contents, Entry, Failure, Result};
use std::collections::BTreeMap;

/// Runs queries, and renders what they return.
pub(crate) struct Results<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) settings: &'a Settings,
}

impl Results<'_> {
    /// Rows of a table.
    pub(crate) fn rows(&self, path: &str, table: &Table, options: &RowsOptions) -> Result<Vec<Contents>> {
        let limit = self.limit(&options.result);
        let page = PageQuery::new(&self.catalog.info, table, options, limit)?;
        let statement = &page.statement;
        let result = self.catalog.database.query(&statement.sql, &statement.parameters, Some(limit));
        let mut rows = result.map_err(|error| match options.after {
            // The values of `after` are the client's.
            Some(_) => failure_of_value(error),
            None => error.into(),
        })?;
        let has_more = rows.has_more;
        let next = page.split(&mut rows).map(|after| {
            let limit = options.result.limit.map(|limit| limit.to_string());
            let columns = (!options.columns.is_empty()).then(|| options.columns.join(","));
            with_parameters(
                &table.name.rows_path(),
                &[
                    ("limit", limit.as_deref()),
                    ("columns", columns.as_deref()),
                    ("order", options.order.as_deref()),
                    ("format", options.result.format.map(Format::name)),
                    ("after", Some(&after)),
                ],
            )
        });
        let cut = page.single.filter(|_| has_more).map(str::to_owned);
        Ok(self.contents(&rows_entry(path, table), &rows, &Notes { next, cut }, &options.result))
    }

    /// The result of a saved query.
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
            return Err(Failure::invalid(format!("the query `{name}` has no parameter `{unknown}`")));
        }
        let parameters = query.parameters.iter().map(|parameter| {
            let value = values.get(&parameter.name).or(parameter.default.as_ref());
            let missing = || Failure::invalid(format!("expected a value of the parameter `{}`", parameter.name));
            value.map(|text| self.parameter(text)).ok_or_else(missing)
        });
        let parameters = parameters.collect::<Result<Vec<_>>>()?;
        let result = self.catalog.database.query(&query.sql, &parameters, Some(self.limit(options)));
        let rows = result.map_err(failure_of_value)?;
        Ok(self.contents(&query_entry(path, name, query), &rows, &limited(&rows), options))
    }

    /// The result of a client's own statement.
    pub(crate) fn free(&self, path: &str, statement: &str, options: &ResultOptions) -> Result<Vec<Contents>> {
        let result = self.catalog.database.query(statement, &[], Some(self.limit(options)));
        let rows = result.map_err(|error| match error {
            QueryError::Rejected { .. } => Failure::invalid(error.to_string()),
            error => error.into(),
        })?;
        let entry = Entry::new(path, "sql").mime_type(Format::Markdown.mime_type());
        Ok(self.contents(&entry, &rows, &limited(&rows), options))
    }

    /// The values of a parameter that begin with what was typed.
    pub(crate) fn values(&self, statement: &str, typed: &str) -> Result<Completion> {
        let run = |parameters: &[Value]| self.catalog.database.query(statement, parameters, None);
        let has_parameter = statement.contains("$1");
        let rows = if has_parameter { run(&[typed.into()]) } else { run(&[]) }?;
        let values = rows.rows.iter().filter_map(|row| match row.first()? {
            Value::Integer(value) => Some(value.to_string()),
            value => value.as_text().map(str::to_owned),
        });
        Ok(Completion::matching(values, typed))
    }

    /// The result of a statement as one text.
    pub(crate) fn version(&self, statement: &str) -> Result<String> {
        Ok(format!("{:?}", self.catalog.database.query(statement, &[], None)?.rows))
    }

    fn limit(&self, options: &ResultOptions) -> u32 {
        options.limit.unwrap_or(self.settings.page_size).min(self.catalog.info.max_rows)
    }

    /// A value of a path, which PostgreSQL converts to the type of the parameter. SQLite does not compare texts with
    /// numbers, so there a number is one.
    fn parameter(&self, text: &str) -> Value {
        let number = || text.parse::<i64>().ok().filter(|number| number.to_string() == text);
        match self.catalog.info.kind {
            mcp_provider::sql::Kind::Sqlite => number().map_or_else(|| text.into(), Value::from),
            _ => text.into(),
        }
    }

    /// The formats of a result, each a content of the resource.
    fn contents(&self, entry: &Entry, rows: &Rows, notes: &Notes, options: &ResultOptions) -> Vec<Contents> {
        let formats = options.format.map_or_else(|| self.settings.formats.clone(), |format| vec![format]);
        let content =
            |format: Format| Contents::text(entry.clone().mime_type(format.mime_type()), render(rows, notes, format));
        formats.into_iter().map(content).collect()
    }
}

/// What is said of a result that is cut off.
fn limited(rows: &Rows) -> Notes {
    let cut = rows.has_more.then(|| "a larger `limit`, up to that of the database, has more".to_owned());
    Notes { next: None, cut }
}

/// A statement with values of a client: one that the database cannot convert is the client's fault.
fn failure_of_value(error: QueryError) -> Failure {
    match error {
        QueryError::Rejected { sqlstate, message, .. } if sqlstate.starts_with("22") => {
            Failure::invalid(format!("a value does not fit its parameter: {message}"))
        }
        error => error.into(),
    }
}
