//! The authorizer of guests' statements. SQLite calls it for each action of a statement while it compiles the
//! statement.
//!
//! It is an allowlist of the actions that queries need, so actions of future SQLite versions are denied.
//!
//! SQLite calls the authorizer for the functions of a statement and of the views that it uses, but not for the
//! functions of a generated column, which it compiles with the schema. So a statement that reads a table with such a
//! column has the same limit of values as if it called the functions itself ([`GeneratedColumns`]).

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// Pragmas that only describe the schema. Queries use them as tables: `pragma_table_info('orders')`.
const SCHEMA_PRAGMAS: [&str; 7] =
    ["foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"];
/// Pragmas that full-text search reads. With a value, they would write.
const READ_PRAGMAS: [&str; 2] = ["data_version", "page_size"];
/// Functions that do more than compute a value.
const DENIED_FUNCTIONS: [&str; 2] = ["fts3_tokenizer", "load_extension"];

/// Functions that take time in the product of the lengths of two values, and the maximum length of values in statements
/// with them if a call cannot be ended (`Functions::Uninterruptible`). With these limits, each call takes at most about
/// half a second.
const QUADRATIC_FUNCTIONS: [(&str, i32); 10] = [
    ("like", 256 << 10),
    ("glob", 256 << 10),
    ("instr", 256 << 10),
    ("replace", 256 << 10),
    ("json_patch", 64 << 10),
    ("jsonb_patch", 64 << 10),
    ("trim", 16 << 10),
    ("ltrim", 16 << 10),
    ("rtrim", 16 << 10),
    ("unhex", 16 << 10),
];
/// The minimum of these limits.
pub(super) const MIN_VALUE: i32 = 16 << 10;

/// The maximum length of values in a statement with this action, if the action limits it.
pub(super) fn max_value(action: AuthAction<'_>) -> Option<i32> {
    let AuthAction::Function { function_name } = action else { return None };
    max_value_beside(function_name)
}

/// The maximum length of values in a statement with this function, if the function limits it.
pub(super) fn max_value_beside(function: &str) -> Option<i32> {
    let known = QUADRATIC_FUNCTIONS.iter().find(|(name, _)| function.eq_ignore_ascii_case(name));
    known.map(|(_, max_value)| *max_value)
}

/// Allows or denies one action.
pub(super) fn authorize(context: AuthContext<'_>) -> Authorization {
    let is_allowed = match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !is_one_of(&DENIED_FUNCTIONS, function_name),
        AuthAction::Pragma { pragma_name, pragma_value } => {
            is_one_of(&SCHEMA_PRAGMAS, pragma_name) || pragma_value.is_none() && is_one_of(&READ_PRAGMAS, pragma_name)
        }
        _ => false,
    };
    if is_allowed { Authorization::Allow } else { Authorization::Deny }
}

fn is_one_of(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Tables with generated columns, by their definitions. `hidden` is 2 for a virtual one, and 3 for a stored one.
const TABLES: &str = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND EXISTS \
                      (SELECT 1 FROM pragma_table_xinfo(sqlite_schema.name) WHERE hidden IN (2, 3))";

/// The tables with generated columns, and the maximum length of values in statements that read them.
#[derive(Debug, Default)]
pub(super) struct GeneratedColumns(Vec<(String, i32)>);

impl GeneratedColumns {
    /// Reads the schema.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare(TABLES)?;
        let mut tables = Vec::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(max_value) = max_value_of(row.get_ref(1)?.as_str()?) {
                tables.push((row.get(0)?, max_value));
            }
        }
        Ok(Self(tables))
    }

    /// Returns the maximum length of values in a statement with this action, if the action limits it.
    pub(super) fn max_value(&self, action: AuthAction<'_>) -> Option<i32> {
        let AuthAction::Read { table_name, .. } = action else { return None };
        self.0.iter().find(|(name, _)| name == table_name).map(|(_, max_value)| *max_value)
    }
}

/// Returns the maximum length of values with the functions that the definition of a table may call. Each word of the
/// definition, quoted or not, may be the name of a function.
fn max_value_of(sql: &str) -> Option<i32> {
    let words = sql.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.filter_map(max_value_beside).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_bounded_by_the_words_in_it() {
        assert_eq!(max_value_of("CREATE TABLE t(a, b AS (a || 'x'), instructions)"), None);
        assert_eq!(max_value_of("CREATE TABLE t(a, b AS (\"INSTR\" (a,a)))"), Some(256 << 10));
        assert_eq!(max_value_of("CREATE TABLE t(a, b AS(replace(a,'x',trim(a))))"), Some(16 << 10));
    }
}
