//! Generated columns whose expressions call functions that take long for long values.
//!
//! SQLite asks the [authorizer](super::authorizer) about the functions of a statement and of the views that it uses, but not
//! about those of a generated column, which it has compiled with the schema. So a statement that reads a table with such a
//! column has shorter values, as if it called the functions itself.

use rusqlite::Connection;
use rusqlite::hooks::AuthAction;

use super::authorizer;

/// Tables with generated columns, by their definitions. `hidden` is 2 for a virtual one, and 3 for a stored one.
const TABLES: &str = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND EXISTS \
                      (SELECT 1 FROM pragma_table_xinfo(sqlite_schema.name) WHERE hidden IN (2, 3))";

/// The tables of a database with such columns, and the maximum length of values in statements that read them.
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

    /// Returns the maximum length of values in a statement that does this, if it bounds them.
    pub(super) fn max_value(&self, action: AuthAction<'_>) -> Option<i32> {
        let AuthAction::Read { table_name, .. } = action else { return None };
        self.0.iter().find(|(name, _)| name == table_name).map(|(_, max_value)| *max_value)
    }
}

/// Returns the maximum length of values beside the functions that the definition of a table may call: each of its words, quoted or
/// not, may be the name of one.
fn max_value_of(sql: &str) -> Option<i32> {
    let words = sql.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.filter_map(authorizer::max_value_beside).min()
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
