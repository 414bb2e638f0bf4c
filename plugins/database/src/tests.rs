//! Helpers of the modules' tests, and tests that need no database.

use mcp_provider::sql::{Column, DatabaseInfo, Kind, Rows, Value};

use super::*;

/// Returns the description of a PostgreSQL server.
pub(crate) fn postgresql() -> DatabaseInfo {
    DatabaseInfo {
        kind: Kind::Postgresql,
        version: "15.18".to_owned(),
        schemas: vec!["public".to_owned()],
        max_rows: 1000,
        max_bytes: 1 << 20,
    }
}

/// Returns a result with these columns.
pub(crate) fn rows(columns: &[&str], rows: Vec<Vec<Value>>) -> Rows {
    let column = |name: &&str| Column { name: (*name).to_owned(), type_name: String::new() };
    Rows { columns: columns.iter().map(column).collect(), rows, has_more: false }
}

fn provider(pairs: &[(&str, &str)]) -> DatabaseProvider {
    DatabaseProvider::open(&Config::from_pairs(pairs.iter().copied())).unwrap()
}

#[test]
fn saved_queries_with_parameters_are_templates_and_free_sql_is_one_if_it_is_switched_on() {
    let queries = r#"{"of": {"sql": "SELECT $1", "parameters": [{"name": "customer"}]}, "all": {"sql": "SELECT 1"}}"#;
    let templates = |pairs: &[(&str, &str)]| -> Vec<_> {
        provider(pairs).templates().into_iter().map(|template| template.path_template).collect()
    };
    let of = "query/of{?customer,limit,format}";
    assert_eq!(templates(&[("queries", queries)]), [ROWS_TEMPLATE, SCHEMA_TEMPLATE, of]);
    assert_eq!(templates(&[("free-sql", "true")]), [ROWS_TEMPLATE, SCHEMA_TEMPLATE, SQL_TEMPLATE]);
}

#[test]
fn free_sql_does_not_exist_unless_it_is_switched_on() {
    assert!(matches!(provider(&[]).read("sql?q=SELECT%201"), Err(Failure::NotFound)));
    assert!(matches!(provider(&[("free-sql", "true")]).read("sql?q=SELECT%201"), Err(Failure::Internal(_))));
}

#[test]
fn a_query_that_was_not_saved_does_not_exist() {
    assert!(matches!(provider(&[]).read("query/orders"), Err(Failure::NotFound)));
}
