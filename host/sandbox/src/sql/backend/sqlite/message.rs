//! The messages between the host and a process that runs SQLite: frames on the process's standard streams. Each frame
//! has its length in four bytes (big-endian) and a message in `postcard` format.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sql::bindings::databases::{Rows, Value};
use crate::sql::error::QueryError;

/// The first frame that a process sends.
pub(super) const HANDSHAKE: &[u8] = b"mcp-host sqlite";
/// The bytes of a frame besides the values of a result: names of columns, messages.
pub(super) const FRAME_OVERHEAD: u64 = 1 << 20;

/// A request to a process.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Request {
    /// The maximum time.
    pub(super) time: Duration,
    /// The maximum memory, in bytes.
    pub(super) heap: u64,
    pub(super) work: Work,
}

/// The kind of a request.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum Work {
    /// Open the file and read its schema.
    Check,
    /// Compile a query.
    Prepare { sql: String, parameters: Vec<Value> },
    /// Run a query.
    Query { sql: String, parameters: Vec<Value>, max_rows: u64, max_bytes: u64 },
}

/// The answer to [`Request`]. Only the answer to [`Work::Query`] has rows.
pub(super) type Answer = Result<Option<Rows>, QueryError>;

/// The length of a frame, as its prefix.
pub(super) fn length_prefix(frame: &[u8]) -> io::Result<[u8; 4]> {
    let length = u32::try_from(frame.len());
    length.map(u32::to_be_bytes).map_err(|_| io::Error::new(ErrorKind::InvalidInput, "the message is too long"))
}

/// Reads a frame of at most `most` bytes. None at the end of the stream.
pub(super) fn read_frame(from: &mut impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut prefix = [0; 4];
    match from.read_exact(&mut prefix) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u64::from(u32::from_be_bytes(prefix));
    if length > most {
        return Err(io::Error::new(ErrorKind::InvalidData, "the message is too long"));
    }
    let mut frame = Vec::new();
    from.take(length).read_to_end(&mut frame)?;
    Ok(Some(frame))
}

/// Writes a frame.
pub(super) fn write_frame(to: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    to.write_all(&length_prefix(frame)?)?;
    to.write_all(frame)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::bindings::databases::{Column, Row, Scalar};

    #[test]
    fn every_value_of_sqlite_arrives_as_it_was_sent() {
        let values = [
            Scalar::Null,
            Scalar::Integer(i64::MIN),
            Scalar::Float(f64::INFINITY),
            Scalar::Text("ü\0".to_owned()),
            Scalar::Bytes(vec![0, 255]),
        ];
        let columns = vec![Column { name: "a".to_owned(), type_name: String::new() }];
        let rows = vec![Row { values: values.map(Value::Scalar).into() }];
        let rows = Rows { columns, rows, has_more: true };
        let expected = format!("{rows:?}");
        for answer in [Ok(Some(rows)), Ok(None), Err(QueryError::rejected("42601", "no")), Err(QueryError::Timeout)] {
            let mut stream = Vec::new();
            write_frame(&mut stream, &postcard::to_allocvec(&answer).unwrap()).unwrap();
            let frame = read_frame(&mut &*stream, 1000).unwrap().unwrap();
            match (answer, postcard::from_bytes::<Answer>(&frame).unwrap()) {
                (Ok(Some(_)), Ok(Some(rows))) => assert_eq!(format!("{rows:?}"), expected),
                (Ok(None), Ok(None)) => {}
                (Err(error), Err(same)) => assert_eq!(error, same),
                (sent, received) => panic!("{sent:?} arrived as {received:?}"),
            }
        }
    }

    #[test]
    fn a_message_beyond_the_bound_is_not_read() {
        let mut stream = Vec::new();
        write_frame(&mut stream, b"12345").unwrap();
        assert!(read_frame(&mut &*stream, 4).is_err());
        assert_eq!(read_frame(&mut &*stream, 5).unwrap().unwrap(), b"12345");
        assert!(read_frame(&mut &b""[..], 5).unwrap().is_none());
    }
}
