//! The tables of the database, as its catalog describes them.

use crate::dialect;
use crate::route::TableName;
use mcp_provider::sql::{Database, DatabaseInfo, Value};
use mcp_provider::{Failure, Result};
use serde::Deserialize;

/// The maximum number of tables in a dictionary.
const MAX_TABLES: usize = 2000;
/// The number of rows of the catalog that one query reads.
const BATCH: u32 = 200;

/// A table, view or similar relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: TableName,
    /// `table`, `view`, `materialized view`, `foreign table`, `partitioned table` or `virtual table`.
    pub(crate) kind: &'static str,
    pub(crate) comment: Option<String>,
    pub(crate) columns: Vec<Column>,
    /// The columns of the primary key.
    pub(crate) key: Vec<String>,
    /// Keys and checks, as SQL.
    pub(crate) constraints: Vec<String>,
    /// Indexes, as SQL.
    pub(crate) indexes: Vec<String>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) type_name: String,
    #[serde(deserialize_with = "boolean")]
    pub(crate) required: bool,
    pub(crate) default: Option<String>,
    #[serde(default)]
    pub(crate) comment: Option<String>,
}

/// An enum with its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Enum {
    pub(crate) name: String,
    pub(crate) members: Vec<String>,
}

/// A boolean, which SQLite writes as a number.
fn boolean<'d, D: serde::Deserializer<'d>>(deserializer: D) -> std::result::Result<bool, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_bool().unwrap_or_else(|| value.as_i64() != Some(0)))
}

/// The database, with its description.
#[derive(Debug, Clone)]
pub(crate) struct Catalog {
    pub(crate) database: Database,
    pub(crate) info: DatabaseInfo,
}

impl Catalog {
    /// Returns one table.
    pub(crate) fn table(&self, name: &TableName) -> Result<Table> {
        if !self.info.schemas.contains(&name.schema) {
            return Err(Failure::NotFound);
        }
        let schemas = std::slice::from_ref(&name.schema);
        let tables = self.batch(schemas, Some(&name.table), ("", ""), 1)?.0;
        tables.into_iter().next().ok_or(Failure::NotFound)
    }

    /// Returns at most `limit` tables of a schema after a name, and whether there are more.
    pub(crate) fn tables_of(&self, schema: &str, behind: &str, limit: u32) -> Result<(Vec<Table>, bool)> {
        if !self.info.schemas.iter().any(|known| known == schema) {
            return Err(Failure::NotFound);
        }
        self.batch(&[schema.to_owned()], None, (schema, behind), limit)
    }

    /// Returns all tables, at most [`MAX_TABLES`], and whether there are more.
    pub(crate) fn all(&self) -> Result<(Vec<Table>, bool)> {
        let mut tables: Vec<Table> = Vec::new();
        loop {
            let last = tables.last().map(|table| table.name.clone());
            let behind = last.as_ref().map_or(("", ""), |name| (&name.schema, &name.table));
            let (batch, has_more) = self.batch(&self.info.schemas, None, behind, BATCH)?;
            tables.extend(batch);
            if !has_more || tables.len() >= MAX_TABLES {
                return Ok((tables, has_more));
            }
        }
    }

    /// Returns at most `limit` tables of all schemas after a table, and whether there are more.
    pub(crate) fn all_behind(&self, behind: Option<&TableName>, limit: u32) -> Result<(Vec<Table>, bool)> {
        let behind = behind.map_or(("", ""), |name| (&name.schema, &name.table));
        self.batch(&self.info.schemas, None, behind, limit)
    }

    /// Returns the enums.
    pub(crate) fn enums(&self) -> Result<Vec<Enum>> {
        let Some(statement) = dialect::enums(&self.info) else { return Ok(Vec::new()) };
        let rows = self.database.query(&statement.sql, &statement.parameters, None)?;
        let parsed = rows.rows.iter().map(|row| match &row[..] {
            [schema, name, members] => {
                Ok(Enum { name: format!("{}.{}", text(schema), text(name)), members: list(members)? })
            }
            _ => Err(unexpected()),
        });
        parsed.collect()
    }

    fn batch(
        &self,
        schemas: &[String],
        table: Option<&str>,
        behind: (&str, &str),
        limit: u32,
    ) -> Result<(Vec<Table>, bool)> {
        let statement = dialect::tables(&self.info, schemas, table, behind);
        let rows = self.database.query(&statement.sql, &statement.parameters, Some(limit))?;
        let tables = rows.rows.iter().map(|row| parse(row)).collect::<Result<_>>()?;
        Ok((tables, rows.has_more))
    }
}

fn parse(row: &[Value]) -> Result<Table> {
    let [schema, name, kind, comment, columns, key, constraints, indexes] = row else { return Err(unexpected()) };
    Ok(Table {
        name: TableName { schema: text(schema).to_owned(), table: text(name).to_owned() },
        kind: match text(kind) {
            "v" | "view" => "view",
            "m" => "materialized view",
            "f" => "foreign table",
            "p" => "partitioned table",
            "virtual" => "virtual table",
            _ => "table",
        },
        comment: comment.as_text().map(str::to_owned),
        columns: list(columns)?,
        key: list(key)?,
        constraints: list(constraints)?,
        indexes: list(indexes)?,
    })
}

fn text(value: &Value) -> &str {
    value.as_text().unwrap_or_default()
}

/// Reads a JSON list; NULL is an empty list.
fn list<T: for<'d> Deserialize<'d>>(value: &Value) -> Result<Vec<T>> {
    let Some(text) = value.as_text() else { return Ok(Vec::new()) };
    serde_json::from_str(text).map_err(|_| unexpected())
}

fn unexpected() -> Failure {
    Failure::internal("the catalog of the database has another form than expected")
}
