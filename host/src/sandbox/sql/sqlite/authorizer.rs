//! What a statement of a guest may do: SQLite asks while it compiles one, for each thing that the statement would do.
//!
//! Only what a query needs is allowed, so what a later SQLite adds is denied.

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// Pragmas that only tell about the schema. Queries reach them as tables: `pragma_table_info('orders')`.
const SCHEMA_PRAGMAS: [&str; 7] =
    ["foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"];
/// Pragmas that full-text search reads, and that write if they have a value.
const READ_PRAGMAS: [&str; 2] = ["data_version", "page_size"];
/// Functions that do more than compute a value.
const DENIED_FUNCTIONS: [&str; 2] = ["fts3_tokenizer", "load_extension"];

/// Decides about one action.
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
