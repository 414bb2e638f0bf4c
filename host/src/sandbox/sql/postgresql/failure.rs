//! Errors of the client library and the server, as those of a query.

use std::error::Error;

use tokio_postgres::error::{DbError, ErrorPosition, SqlState};

use super::stream::Exceeded;
use crate::sandbox::sql::error::QueryError;
use crate::sandbox::sql::result::ResultBounds;

/// The classes of SQLSTATE whose messages have names and the words of the statement only. Those of other classes quote
/// stored values, as in `invalid input syntax for type integer: "…"`.
const CLASSES_WITHOUT_DATA: [&str; 8] = ["0A", "25", "26", "34", "3D", "3F", "42", "54"];

/// What other classes mean.
const CLASS_MEANINGS: [(&str, &str); 8] = [
    ("08", "the connection failed, or the parameters do not fit the statement"),
    ("21", "a subquery returned more than one row"),
    ("22", "a value cannot be converted, or is out of range"),
    ("2F", "a function failed"),
    ("38", "a function failed"),
    ("39", "a function failed"),
    ("53", "the server has too little memory, disk or connections"),
    ("55", "an object is not in the state that the statement needs"),
];

/// The error of a query. `prefix` is the length of what the host wrote in front of the statement, in characters.
pub(super) fn query_error(
    error: &tokio_postgres::Error,
    exceeded: Option<Exceeded>,
    bounds: ResultBounds,
    prefix: usize,
) -> QueryError {
    match (exceeded, error.as_db_error()) {
        (Some(Exceeded::Bytes), _) => QueryError::TooLarge(bounds.bytes),
        (Some(Exceeded::Memory), _) => QueryError::OutOfMemory,
        (None, Some(error)) => server_error(error, prefix),
        (None, None) => QueryError::Unreachable(with_cause(error)),
    }
}

fn server_error(error: &DbError, prefix: usize) -> QueryError {
    let code = error.code();
    if *code == SqlState::QUERY_CANCELED {
        return QueryError::Timeout;
    }
    let class = code.code().get(..2).unwrap_or_default();
    // Operator intervention: the server is stopped, or the administrator ended the connection.
    if class == "57" {
        return QueryError::Unreachable(error.message().to_owned());
    }
    let message = match CLASSES_WITHOUT_DATA.contains(&class) {
        true => error.message(),
        false => CLASS_MEANINGS
            .iter()
            .find(|(known, _)| *known == class)
            .map_or("the statement failed on the data", |(_, meaning)| *meaning),
    };
    let position = match error.position() {
        Some(ErrorPosition::Original(position)) => {
            let prefix = u32::try_from(prefix).unwrap_or(u32::MAX);
            position.checked_sub(prefix).filter(|position| *position > 0)
        }
        _ => None,
    };
    QueryError::Rejected { sqlstate: code.code().to_owned(), message: message.to_owned(), position }
}

/// The text of an error with its causes, for the admin.
pub(super) fn with_cause(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        // Many errors have the text of their cause in their own.
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        cause = error.source();
    }
    text
}
