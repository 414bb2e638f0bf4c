//! The result of a query while it is read: bounded in rows and bytes, its memory charged to the plugin.

use super::bindings::databases::{Column, Row, Rows, Value};
use super::bindings::{columns_size, row_size, rows_size};
use super::error::QueryError;
use crate::memory::Reservation;

/// The bounds of a query's result.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultBounds {
    /// The maximum number of rows.
    pub(super) rows: usize,
    /// The maximum size in bytes.
    pub(super) bytes: u64,
}

/// A result with its memory.
pub(super) struct ChargedRows {
    pub(super) rows: Rows,
    /// Held until the guest has the result.
    pub(super) _memory: Reservation,
}

impl ChargedRows {
    /// Charges rows that another process has read: `memory` is resized to the query's own memory (`base`) plus the
    /// rows.
    pub(super) fn charge(rows: Rows, mut memory: Reservation, base: usize) -> Result<Self, QueryError> {
        let resized = memory.try_resize(base.saturating_add(rows_size(&rows)));
        resized.map(|()| Self { rows, _memory: memory }).map_err(|_| QueryError::OutOfMemory)
    }
}

/// The result of a query, to which rows are added.
pub(super) struct ResultBuilder {
    rows: Rows,
    bounds: ResultBounds,
    bytes: u64,
    /// The memory of the query, to which the memory of the result is added.
    memory: Reservation,
    /// The size of the reservation without the result.
    base: usize,
}

impl ResultBuilder {
    /// Creates a result without rows. `memory` holds the query's own memory.
    pub(super) fn new(columns: Vec<Column>, bounds: ResultBounds, memory: Reservation) -> Result<Self, QueryError> {
        let bytes = columns_size(&columns);
        let (rows, base) = (Rows { columns, rows: Vec::new(), has_more: false }, memory.bytes());
        let mut result = Self { rows, bounds, bytes: 0, memory, base };
        result.charge(bytes)?;
        Ok(result)
    }

    /// Adds a row. Returns false, without adding it, if the result already has the maximum number of rows.
    pub(super) fn push(&mut self, values: Vec<Value>) -> Result<bool, QueryError> {
        if self.rows.rows.len() >= self.bounds.rows {
            self.rows.has_more = true;
            return Ok(false);
        }
        self.charge(row_size(&values))?;
        self.rows.rows.push(Row { values });
        Ok(true)
    }

    /// Ends the result.
    pub(super) fn finish(self) -> ChargedRows {
        ChargedRows { rows: self.rows, _memory: self.memory }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.bytes > self.bounds.bytes {
            return Err(QueryError::TooLarge(self.bounds.bytes));
        }
        let held = self.base.saturating_add(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        self.memory.try_resize(held).map_err(|_| QueryError::OutOfMemory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{CallOwner, MemoryAccount, MemoryBudget};
    use crate::sql::bindings::databases::Scalar;

    fn builder(rows: usize, bytes: u64, memory: u64) -> ResultBuilder {
        let memory = MemoryAccount::new(MemoryBudget::new(memory, None), CallOwner::default()).reservation();
        ResultBuilder::new(Vec::new(), ResultBounds { rows, bytes }, memory).unwrap()
    }

    fn text(length: usize) -> Vec<Value> {
        vec![Value::Scalar(Scalar::Text("x".repeat(length)))]
    }

    #[test]
    fn rows_beyond_the_bound_are_more() {
        let mut result = builder(2, 10_000, 10_000);
        assert_eq!((result.push(text(1)), result.push(text(1))), (Ok(true), Ok(true)));
        assert!(!result.rows.has_more);
        assert_eq!(result.push(text(1)), Ok(false));
        let rows = result.finish().rows;
        assert_eq!((rows.rows.len(), rows.has_more), (2, true));
    }

    #[test]
    fn a_result_that_is_too_large_fails_by_the_bound_or_by_the_memory_of_the_plugin() {
        assert_eq!(builder(9, 1000, 10_000).push(text(1000)), Err(QueryError::TooLarge(1000)));
        assert_eq!(builder(9, 10_000, 1000).push(text(1000)), Err(QueryError::OutOfMemory));
    }
}
