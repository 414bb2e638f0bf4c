//! The data dictionary in Markdown and JSON.

use crate::catalog::{Enum, Table};
use mcp_provider::sql::{DatabaseInfo, Kind};
use serde_json::{Value, json};
use std::fmt::Write;

/// Describes one table in Markdown.
pub(crate) fn table_markdown(table: &Table) -> String {
    let name = format!("{}.{}", table.name.schema, table.name.table);
    let mut text = format!("# {name}");
    if table.kind != "table" {
        let _ = write!(text, " ({})", table.kind);
    }
    text.push('\n');
    if let Some(comment) = &table.comment {
        let _ = write!(text, "\n{comment}\n");
    }
    text.push_str("\n| column | type | | comment |\n| --- | --- | --- | --- |\n");
    for column in &table.columns {
        let is_key = table.key.contains(&column.name);
        let default = column.default.as_ref().map(|default| format!("default {default}"));
        let marks = [is_key.then(|| "key".to_owned()), column.required.then(|| "required".to_owned()), default];
        let marks: Vec<_> = marks.into_iter().flatten().collect();
        let cells = [&column.name, &column.type_name, &marks.join(", "), column.comment.as_deref().unwrap_or("")];
        let cells = cells.map(|cell| cell.replace('|', "\\|").replace(['\r', '\n'], " "));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    for (heading, lines) in [("Constraints", &table.constraints), ("Indexes", &table.indexes)] {
        if !lines.is_empty() {
            let lines: Vec<_> = lines.iter().map(|line| format!("- `{}`\n", line.replace(['\r', '\n'], " "))).collect();
            let _ = write!(text, "\n{heading}:\n\n{}", lines.concat());
        }
    }
    text
}

/// Describes the database and its enums in JSON. `has_more` states that some tables are not described.
pub(crate) fn to_json(info: &DatabaseInfo, enums: &[Enum], has_more: bool) -> Value {
    let kind = if info.kind == Kind::Sqlite { "sqlite" } else { "postgresql" };
    json!({
        "kind": kind,
        "version": info.version,
        "enums": enums.iter().map(|Enum { name, members }| json!({ "name": name, "members": members })).collect::<Vec<_>>(),
        "hasMore": has_more,
    })
}

/// Describes one table in JSON.
pub(crate) fn table_json(table: &Table) -> Value {
    let columns = table.columns.iter().map(|column| {
        json!({
            "name": column.name,
            "type": column.type_name,
            "required": column.required,
            "default": column.default,
            "comment": column.comment,
        })
    });
    json!({
        "schema": table.name.schema,
        "name": table.name.table,
        "kind": table.kind,
        "comment": table.comment,
        "columns": columns.collect::<Vec<_>>(),
        "key": table.key,
        "constraints": table.constraints,
        "indexes": table.indexes,
    })
}
