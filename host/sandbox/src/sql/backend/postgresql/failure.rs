//! Conversion of errors of the client library and the server to query errors.

use mcp_host_base::text::with_causes;
use tokio_postgres::error::{DbError, ErrorPosition, SqlState};
use tokio_postgres::types::{Kind, Type};

use super::stream::Exceeded;
use crate::sql::error::QueryError;
use crate::sql::result::ResultBounds;

/// The phase in which the statement was refused. Only messages of the parser are passed on: the parser has seen names
/// and words of the statement, but no row. A running statement can put any value that it has read into a message, such
/// as `relation "…" does not exist` by a cast to `regclass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase<'a> {
    /// The parser, with the length of the host's text before the statement, in characters.
    Parse { prefix: usize },
    /// The conversion of the values to the types of the parameters, or the planner.
    Bind { types: &'a [Type] },
    /// The planner, or the running statement.
    Run,
}

/// The classes of SQLSTATE whose parser messages contain only names and words of the statement. Messages of other
/// classes quote values, as in `invalid input syntax for type integer: "…"`.
const CLASSES_WITHOUT_DATA: [&str; 8] = ["0A", "25", "26", "34", "3D", "3F", "42", "54"];

/// The meanings of codes, which come first, and of classes.
const MEANINGS: [(&str, &str); 16] = [
    ("25006", "the transaction is read-only: the statement, or a function that it calls, writes"),
    ("42501", "permission denied: the role has no right to what the statement uses"),
    ("0A", "the statement, or a function that it calls, does what is not supported"),
    ("25", "the statement, or a function that it calls, does what the transaction does not allow"),
    ("3D", "a name that the statement has computed does not exist"),
    ("3F", "a name that the statement has computed does not exist"),
    ("42", "a name or an expression that the statement has computed is not valid"),
    ("54", "the statement exceeds a limit of the server"),
    ("08", "the connection failed, or the parameters do not fit the statement"),
    ("21", "a subquery returned more than one row"),
    ("22", "a value cannot be converted, or is out of range"),
    ("2F", "a function failed"),
    ("38", "a function failed"),
    ("39", "a function failed"),
    ("53", "the server has too little memory, disk or connections"),
    ("55", "an object is not in the state that the statement needs"),
];

/// The error of a query.
pub(super) fn query_error(
    error: &tokio_postgres::Error,
    exceeded: Option<Exceeded>,
    bounds: ResultBounds,
    phase: Phase<'_>,
) -> QueryError {
    match (exceeded, error.as_db_error()) {
        (Some(Exceeded::Bytes), _) => QueryError::TooLarge(bounds.bytes),
        (Some(Exceeded::Memory), _) => QueryError::OutOfMemory,
        (Some(Exceeded::Requests), _) => nested_types(),
        (None, Some(error)) => server_error(error, phase),
        (None, None) => QueryError::Unreachable(with_causes(error)),
    }
}

/// The error for a result with types that are nested too deeply, or too many.
pub(super) fn nested_types() -> QueryError {
    QueryError::rejected("54001", "the columns and parameters have too many types, or types that are nested too deeply")
}

fn server_error(error: &DbError, phase: Phase<'_>) -> QueryError {
    let code = error.code();
    if *code == SqlState::QUERY_CANCELED {
        return QueryError::Timeout;
    }
    let class = code.code().get(..2).unwrap_or_default();
    // Class 57 is operator intervention: the server was stopped, or its administrator ended the connection.
    if class == "57" {
        return QueryError::Unreachable("the server was stopped, or its administrator ended the connection".to_owned());
    }
    let meaning = || meaning(code.code()).to_owned();
    let (message, position) = match phase {
        Phase::Parse { prefix } if CLASSES_WITHOUT_DATA.contains(&class) => {
            (error.message().to_owned(), position(error, prefix))
        }
        Phase::Parse { prefix } => (meaning(), position(error, prefix)),
        Phase::Bind { types } => (refused_value(error.where_(), types).unwrap_or_else(meaning), None),
        Phase::Run => (meaning(), None),
    };
    QueryError::Rejected { sqlstate: code.code().to_owned(), message, position }
}

/// Names the parameter whose value was refused, and its type. The last line of the context has the parameter's number
/// as a word, such as `unnamed portal parameter $1`, in any language of the server.
fn refused_value(context: Option<&str>, types: &[Type]) -> Option<String> {
    let mut words = context?.lines().next_back()?.split_whitespace();
    let number: usize = words.find_map(|word| word.strip_prefix('$')?.parse().ok())?;
    let expected = sql_name(types.get(number.checked_sub(1)?)?);
    Some(format!("the value of ${number} cannot be converted to the type {expected}, or is out of its range"))
}

/// The SQL name of a type.
fn sql_name(ty: &Type) -> String {
    if let Kind::Array(element) = ty.kind() {
        return format!("{}[]", sql_name(element));
    }
    let name = match ty.name() {
        "bool" => "boolean",
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "timetz" => "time with time zone",
        "timestamptz" => "timestamp with time zone",
        other => other,
    };
    name.to_owned()
}

/// The position in the statement, in characters from 1.
fn position(error: &DbError, prefix: usize) -> Option<u32> {
    let Some(ErrorPosition::Original(position)) = error.position() else { return None };
    let prefix = u32::try_from(prefix).unwrap_or(u32::MAX);
    position.checked_sub(prefix).filter(|position| *position > 0)
}

fn meaning(code: &str) -> &'static str {
    let known = MEANINGS.iter().find(|(known, _)| code.starts_with(known));
    known.map_or("the statement failed on the data", |(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_own_meaning_or_that_of_its_class() {
        assert!(meaning("42501").starts_with("permission denied"));
        assert!(meaning("42P01").contains("computed"));
        assert_eq!(meaning("P0001"), "the statement failed on the data");
    }

    #[test]
    fn a_value_that_is_refused_is_named_by_its_parameter_with_the_type() {
        let types = [Type::TEXT, Type::INT4, Type::TIMESTAMPTZ_ARRAY];
        let refused = |context: &str| refused_value(Some(context), &types);
        let expected = "the value of $2 cannot be converted to the type integer, or is out of its range";
        for context in [
            "unnamed portal parameter $2",
            "unnamed portal parameter $2 = '2 OR $1'",
            "unbenanntes Portal, Parameter $2",
            "JSON data, line 1: $1\nunnamed portal parameter $2",
        ] {
            assert_eq!(refused(context).as_deref(), Some(expected), "{context}");
        }
        assert!(refused("unnamed portal parameter $3").unwrap().contains("the type timestamp with time zone[]"));
        for context in ["", "parameter $0", "parameter $4", "parameter $x", "$1\nPL/pgSQL function f(integer) line 1"] {
            assert_eq!(refused(context), None, "{context}");
        }
        assert_eq!(refused_value(None, &types), None);
    }
}
