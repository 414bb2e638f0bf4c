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

/// Functions that take time in the product of the lengths of two values, and how long values may be beside them, where nothing
/// can end a call (`Functions::Uninterruptible`): each of these takes about half a second at most.
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
/// The least of them.
pub(super) const MIN_VALUE: i32 = 16 << 10;

/// The maximum length of values in a statement that does this, if it bounds them.
pub(super) fn max_value(action: AuthAction<'_>) -> Option<i32> {
    let AuthAction::Function { function_name } = action else { return None };
    max_value_beside(function_name)
}

/// The maximum length of values beside a function, if it bounds them.
pub(super) fn max_value_beside(function: &str) -> Option<i32> {
    let known = QUADRATIC_FUNCTIONS.iter().find(|(name, _)| function.eq_ignore_ascii_case(name));
    known.map(|(_, max_value)| *max_value)
}

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
