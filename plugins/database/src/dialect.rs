//! The SQL dialects: names, and the queries of the catalog.

use mcp_provider::sql::{DatabaseInfo, Kind, Value};

/// A statement with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) parameters: Vec<Value>,
}

/// Describes tables: one row per table, sorted by schema and name. Lists are JSON.
const POSTGRESQL_TABLES: &str = r"
SELECT n.nspname::text, c.relname::text, c.relkind::text, pg_catalog.obj_description(c.oid, 'pg_class'),
(
    SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', a.attname, 'type', pg_catalog.format_type(a.atttypid, a.atttypmod), 'required', a.attnotnull,
        'default', pg_catalog.pg_get_expr(d.adbin, d.adrelid), 'comment', pg_catalog.col_description(c.oid, a.attnum)
    ) ORDER BY a.attnum)
    FROM pg_catalog.pg_attribute a
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
)::text,
(
    SELECT pg_catalog.json_agg(a.attname ORDER BY k.n)
    FROM pg_catalog.pg_index i, pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, n),
        pg_catalog.pg_attribute a
    WHERE i.indrelid = c.oid AND i.indisprimary AND a.attrelid = c.oid AND a.attnum = k.number
)::text,
(
    SELECT pg_catalog.json_agg(pg_catalog.pg_get_constraintdef(o.oid) ORDER BY o.contype DESC, o.conname)
    FROM pg_catalog.pg_constraint o WHERE o.conrelid = c.oid AND o.contype IN ('c', 'f', 'p', 'u', 'x')
)::text,
(
    SELECT pg_catalog.json_agg(pg_catalog.pg_get_indexdef(i.indexrelid) ORDER BY i.indexrelid)
    FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid
)::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY ($1) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
AND (
    pg_catalog.has_table_privilege(c.oid, 'SELECT') OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
)
AND ($2::text IS NULL OR c.relname = $2::text) AND (n.nspname::text, c.relname::text) > ($3, $4)
ORDER BY n.nspname::text, c.relname::text";

/// The same for SQLite, which has one schema and no comments.
const SQLITE_TABLES: &str = r#"
SELECT 'main', l.name, l.type, NULL,
(
    SELECT json_group_array(json_object(
        'name', x.name, 'type', x.type, 'required', x."notnull" OR x.pk > 0, 'default', x.dflt_value
    ))
    FROM pragma_table_xinfo(l.name) x WHERE x.hidden <> 1
),
(SELECT json_group_array(k.name) FROM (SELECT x.name FROM pragma_table_xinfo(l.name) x WHERE x.pk > 0 ORDER BY x.pk) k),
(
    SELECT json_group_array('FOREIGN KEY (' || f."from" || ') REFERENCES ' || f."table" || coalesce(' (' || f."to" || ')', ''))
    FROM pragma_foreign_key_list(l.name) f
),
(
    SELECT json_group_array(s.sql) FROM sqlite_schema s
    WHERE s.type = 'index' AND s.tbl_name = l.name AND s.sql IS NOT NULL
)
FROM pragma_table_list l
WHERE l.schema = 'main' AND l.type IN ('table', 'view', 'virtual') AND l.name NOT LIKE 'sqlite\_%' ESCAPE '\'
AND ($1 IS NULL OR l.name = $1) AND l.name > $2
ORDER BY l.name"#;

/// The members of enums.
const POSTGRESQL_ENUMS: &str = r"
SELECT n.nspname::text, t.typname::text, pg_catalog.json_agg(e.enumlabel ORDER BY e.enumsortorder)::text
FROM pg_catalog.pg_enum e JOIN pg_catalog.pg_type t ON t.oid = e.enumtypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE n.nspname = ANY ($1) GROUP BY 1, 2 ORDER BY 1, 2";

/// Returns the statement that describes the tables of the schemas after a name, or one table.
pub(crate) fn tables(info: &DatabaseInfo, schemas: &[String], table: Option<&str>, behind: (&str, &str)) -> Statement {
    match info.kind {
        Kind::Sqlite => Statement { sql: SQLITE_TABLES.to_owned(), parameters: vec![table.into(), behind.1.into()] },
        _ => Statement {
            sql: POSTGRESQL_TABLES.to_owned(),
            parameters: vec![names(schemas), table.into(), behind.0.into(), behind.1.into()],
        },
    }
}

/// Returns the statement that lists the members of enums; `None` for a database without enums.
pub(crate) fn enums(info: &DatabaseInfo) -> Option<Statement> {
    let sql = POSTGRESQL_ENUMS.to_owned();
    (info.kind != Kind::Sqlite).then(|| Statement { sql, parameters: vec![names(&info.schemas)] })
}

/// Returns the column that identifies a row of a table without a primary key, if there is one.
pub(crate) fn row_id(info: &DatabaseInfo, kind: &str) -> Option<&'static str> {
    match (info.kind, kind) {
        (Kind::Sqlite, "table") => Some("rowid"),
        (Kind::Postgresql, "table" | "materialized view") => Some("ctid"),
        _ => None,
    }
}

/// Quotes a name.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn names(names: &[String]) -> Value {
    let dimensions = vec![u32::try_from(names.len()).unwrap_or(u32::MAX)];
    Value::Array { dimensions, elements: names.iter().map(|name| name.as_str().into()).collect() }
}
