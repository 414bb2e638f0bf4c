//! Keyset pagination of a table: a page starts after the last row of the previous page, so inserted and deleted rows do
//! not shift the pages. By primary key, the start is found in the index, so every page has the same cost.
//!
//! Rows are ordered by the primary key, or by a column and then the primary key; in the latter case, the rows of
//! earlier pages are scanned. A table without a primary key is ordered by the location of its rows (`ctid`, `rowid`). A
//! view has neither, and has one page.

use crate::catalog::Table;
use crate::dialect::{self, Statement, quote};
use crate::route::RowsOptions;
use mcp_provider::sql::{DatabaseInfo, Rows, Value};
use mcp_provider::{Failure, Result};

/// The statement of a page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PageQuery {
    pub(crate) statement: Statement,
    /// The number of columns at the end of a row that are its position, and are not shown.
    positions: usize,
}

/// The order of rows.
struct Order<'a> {
    /// The column that the client chose, and whether the order descends.
    column: Option<(&'a str, bool)>,
    /// The columns that identify a row.
    key: Vec<&'a str>,
}

impl PageQuery {
    /// Creates the query of a page of `limit` rows. One more row is requested, to find out whether there is a next
    /// page. The statement has a limit, because the database would otherwise plan for all rows.
    pub(crate) fn new(info: &DatabaseInfo, table: &Table, options: &RowsOptions, limit: u32) -> Result<Self> {
        let order = Order::new(info, table, options.order.as_deref())?;
        let columns = selected(table, &options.columns)?;
        let positions: Vec<&str> = if order.key.is_empty() { Vec::new() } else { order.columns().collect() };
        let select: Vec<_> = columns.iter().chain(&positions).map(|name| quote(name)).collect();
        let (condition, parameters) = match options.after.as_deref() {
            None => (String::new(), Vec::new()),
            Some(_) if order.key.is_empty() => return Err(Failure::invalid("the table has no key, and so one page")),
            Some(after) => {
                let values = decode(after, positions.len(), order.column.is_some())?;
                (format!(" WHERE {}", order.behind(&values)), values)
            }
        };
        let by: Vec<_> = order.terms();
        let by = if by.is_empty() { String::new() } else { format!(" ORDER BY {}", by.join(", ")) };
        let name = format!("{}.{}", quote(&table.name.schema), quote(&table.name.table));
        // The condition has no placeholder for NULL, so NULL is not passed as a parameter.
        let parameters = parameters.into_iter().filter(|value| !matches!(value, Value::Null)).collect();
        Ok(Self {
            statement: Statement {
                sql: format!(
                    "SELECT {} FROM {name}{condition}{by} LIMIT {}",
                    select.join(", "),
                    limit.saturating_add(1)
                ),
                parameters,
            },
            positions: positions.len(),
        })
    }

    /// Removes the positions from the rows, and returns the last one, where the next page starts. `None` for the last
    /// page, for a view, and if a value of the key cannot be part of a path.
    pub(crate) fn split(&self, rows: &mut Rows) -> Option<String> {
        let width = rows.columns.len().saturating_sub(self.positions);
        let next = rows.rows.last().filter(|_| rows.has_more && self.positions > 0);
        let next = next.and_then(|row| encode(row.get(width..)?));
        rows.columns.truncate(width);
        for row in &mut rows.rows {
            row.truncate(width);
        }
        next
    }
}

impl<'a> Order<'a> {
    fn new(info: &DatabaseInfo, table: &'a Table, order: Option<&'a str>) -> Result<Self> {
        let column = match order {
            None => None,
            Some(order) => {
                let (name, descends) = order.strip_prefix('-').map_or((order, false), |name| (name, true));
                check_column(table, name)?;
                Some((name, descends))
            }
        };
        let mut key: Vec<_> = table.key.iter().map(String::as_str).collect();
        if key.is_empty() {
            key.extend(dialect::row_id(info, table.kind));
        }
        Ok(Self { column, key })
    }

    fn columns(&self) -> impl Iterator<Item = &'a str> {
        self.column.map(|(name, _)| name).into_iter().chain(self.key.iter().copied())
    }

    fn terms(&self) -> Vec<String> {
        let column = self
            .column
            .map(|(name, descends)| format!("{} {} NULLS LAST", quote(name), if descends { "DESC" } else { "ASC" }));
        column.into_iter().chain(self.key.iter().map(|name| quote(name))).collect()
    }

    /// Returns the condition for rows after the row with these values.
    fn behind(&self, values: &[Value]) -> String {
        let Some((name, descends)) = self.column else {
            return format!("({}) > ({})", self.key_names(), placeholders(1, self.key.len()));
        };
        let (name, key) = (quote(name), self.key_names());
        // NULLs sort last.
        if matches!(values.first(), Some(Value::Null)) {
            return format!("{name} IS NULL AND ({key}) > ({})", placeholders(1, self.key.len()));
        }
        let (sign, behind) = (if descends { "<" } else { ">" }, placeholders(2, self.key.len()));
        format!("({name} {sign} $1 OR {name} = $1 AND ({key}) > ({behind}) OR {name} IS NULL)")
    }

    fn key_names(&self) -> String {
        self.key.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ")
    }
}

fn placeholders(first: usize, count: usize) -> String {
    let numbers = (first..).take(count).map(|number| format!("${number}"));
    numbers.collect::<Vec<_>>().join(", ")
}

/// Returns the columns that a client selects; all columns by default.
fn selected<'a>(table: &'a Table, names: &'a [String]) -> Result<Vec<&'a str>> {
    if names.is_empty() {
        return Ok(table.columns.iter().map(|column| column.name.as_str()).collect());
    }
    names.iter().map(|name| check_column(table, name).map(|()| name.as_str())).collect()
}

fn check_column(table: &Table, name: &str) -> Result<()> {
    if table.columns.iter().any(|column| column.name == name) {
        return Ok(());
    }
    let known: Vec<_> = table.columns.iter().take(50).map(|column| column.name.as_str()).collect();
    Err(Failure::invalid(format!("there is no column `{name}`; the columns are `{}`", known.join("`, `"))))
}

/// Encodes a position as a JSON list; `None` if a value cannot be compared.
fn encode(values: &[Value]) -> Option<String> {
    let json = values.iter().map(|value| {
        Some(match value {
            Value::Null => serde_json::Value::Null,
            Value::Boolean(value) => (*value).into(),
            Value::Integer(value) => (*value).into(),
            Value::Float(value) => serde_json::Number::from_f64(*value)?.into(),
            Value::Bytes(bytes) => serde_json::json!({ "bytes": crate::render::hex(bytes) }),
            Value::Array { .. } => return None,
            value => value.as_text()?.into(),
        })
    });
    Some(serde_json::Value::Array(json.collect::<Option<_>>()?).to_string())
}

/// Decodes a position of `count` values. Only the value of the column that orders the rows, which is the first, may be
/// NULL.
fn decode(text: &str, count: usize, has_order: bool) -> Result<Vec<Value>> {
    let invalid = || Failure::invalid("expected in `after` what a page told as its `next`");
    let values: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|_| invalid())?;
    let decoded = values.iter().map(|value| match value {
        serde_json::Value::Null => Some(Value::Null),
        serde_json::Value::Bool(value) => Some((*value).into()),
        serde_json::Value::Number(number) => number.as_i64().map(Value::from).or(number.as_f64().map(Value::from)),
        serde_json::Value::String(text) => Some(text.as_str().into()),
        value => crate::render::from_hex(value.get("bytes")?.as_str()?).map(Value::Bytes),
    });
    let decoded = decoded.collect::<Option<Vec<_>>>().ok_or_else(invalid)?;
    let has_null_in_key = decoded.iter().skip(usize::from(has_order)).any(|value| matches!(value, Value::Null));
    if decoded.len() == count && !has_null_in_key { Ok(decoded) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Column;
    use crate::route::TableName;

    fn table(kind: &'static str, key: &[&str]) -> Table {
        let column = |name: &str| Column {
            name: name.to_owned(),
            type_name: "int4".to_owned(),
            required: true,
            default: None,
            comment: None,
        };
        Table {
            name: TableName { schema: "public".to_owned(), table: "a \"b\"".to_owned() },
            kind,
            comment: None,
            columns: ["id", "line", "price"].map(column).to_vec(),
            key: key.iter().map(|name| (*name).to_owned()).collect(),
            constraints: Vec::new(),
            indexes: Vec::new(),
        }
    }

    fn query(table: &Table, after: Option<&str>, order: Option<&str>) -> Result<PageQuery> {
        let options = RowsOptions {
            after: after.map(str::to_owned),
            columns: vec!["price".to_owned()],
            order: order.map(str::to_owned),
            ..RowsOptions::default()
        };
        PageQuery::new(&crate::tests::postgresql(), table, &options, 10)
    }

    #[test]
    fn a_page_begins_behind_the_key_of_the_last_row() {
        let table = table("table", &["id", "line"]);
        let first = query(&table, None, None).unwrap().statement;
        assert_eq!(first.sql, r#"SELECT "price", "id", "line" FROM "public"."a ""b""" ORDER BY "id", "line" LIMIT 11"#);
        let next = query(&table, Some("[7,\"x\"]"), None).unwrap().statement;
        assert_eq!(
            next.sql,
            r#"SELECT "price", "id", "line" FROM "public"."a ""b""" WHERE ("id", "line") > ($1, $2) ORDER BY "id", "line" LIMIT 11"#
        );
        assert_eq!(next.parameters, [Value::from(7), Value::from("x")]);
    }

    #[test]
    fn rows_without_a_value_in_the_ordering_column_come_last() {
        let table = table("table", &["id"]);
        let condition = |after: &str, order: &str| {
            let query = query(&table, Some(after), Some(order)).unwrap().statement;
            let condition = query.sql.split_once("WHERE ").unwrap().1.split_once(" ORDER BY").unwrap().0.to_owned();
            (condition, query.parameters.len())
        };
        let behind =
            |sign: &str| format!(r#"("price" {sign} $1 OR "price" = $1 AND ("id") > ($2) OR "price" IS NULL)"#);
        assert_eq!(condition("[5,1]", "price"), (behind(">"), 2));
        assert_eq!(condition("[5,1]", "-price"), (behind("<"), 2));
        assert_eq!(condition("[null,1]", "price"), (r#""price" IS NULL AND ("id") > ($1)"#.to_owned(), 1));
    }

    #[test]
    fn a_table_without_a_key_is_read_where_its_rows_are_and_a_view_has_one_page() {
        let sql = query(&table("table", &[]), Some("[\"(0,1)\"]"), None).unwrap().statement.sql;
        assert!(sql.contains(r#"WHERE ("ctid") > ($1) ORDER BY "ctid""#), "{sql}");
        let mut rows = crate::tests::rows(&["price"], vec![vec![Value::from(1)]]);
        rows.has_more = true;
        assert_eq!(query(&table("view", &[]), None, None).unwrap().split(&mut rows), None);
        assert!(matches!(query(&table("view", &[]), Some("[1]"), None), Err(Failure::InvalidRequest(_))));
    }

    #[test]
    fn names_that_are_no_columns_and_positions_that_no_page_told_are_invalid() {
        let table = table("table", &["id"]);
        for (after, order) in [
            (None, Some("nothing")),
            (None, Some("id; DROP TABLE a")),
            (Some("1"), None),
            (Some("[1,2]"), None),
            (Some("[[1]]"), None),
            (Some("[null]"), None),
            (Some("[1,null]"), Some("price")),
        ] {
            assert!(matches!(query(&table, after, order), Err(Failure::InvalidRequest(_))), "{after:?} {order:?}");
        }
    }

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let values = [Value::Null, Value::from(-1), Value::from(true), Value::from("ü\""), Value::Bytes(vec![0, 255])];
        let written = encode(&values[1..]).unwrap();
        assert_eq!(decode(&written, 4, false).unwrap(), values[1..]);
        assert_eq!(decode(&encode(&values[..2]).unwrap(), 2, true).unwrap(), values[..2]);
    }
}
