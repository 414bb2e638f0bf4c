//! The journal of systemd, used where standard error is connected to it (`JOURNAL_STREAM`, systemd.exec(5)): lines of
//! the log become entries with fields, in the journal's own protocol.
//!
//! | field | value |
//! |---|---|
//! | `MESSAGE` | the message with its fields, as in a line of text |
//! | `PRIORITY` | 3 for `error`, 4 for `warn`, 6 for `info`, 7 below |
//! | `SYSLOG_IDENTIFIER` | `mcp-host` |
//! | `TARGET` | the target |
//! | `TRACE_ID` | the id of the trace that the line belongs to |
//! | `MCP_HOST_PLUGIN`, `MCP_HOST_ERROR`, … | each field of the line |
//!
//! The thread that writes standard error sends the entries, because the journal may be slow. An entry that the journal
//! rejects is written as a line.

use std::fmt::Write as _;
use std::io;

use mcp_host_base::escape;
use serde_json::{Map, Value};

/// The socket of the journal.
#[cfg(target_os = "linux")]
const SOCKET: &str = "/run/systemd/journal/socket";
/// The maximum length of the name of a field.
const MAX_FIELD_NAME: usize = 64;

/// A connection to the journal.
#[derive(Debug)]
pub(super) struct Journal {
    #[cfg(target_os = "linux")]
    socket: std::os::unix::net::UnixDatagram,
}

impl Journal {
    /// Connects, if standard error is connected to the journal. Call it before the process is confined: after that,
    /// Unix sockets cannot be opened.
    #[cfg(target_os = "linux")]
    pub(super) fn connect() -> Option<Self> {
        let stderr = rustix::fs::fstat(io::stderr()).ok()?;
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        (stream == format!("{}:{}", stderr.st_dev, stderr.st_ino)).then_some(())?;
        let socket = std::os::unix::net::UnixDatagram::unbound().ok()?;
        socket.connect(SOCKET).ok()?;
        Some(Self { socket })
    }

    /// Other systems have no journal.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn connect() -> Option<Self> {
        None
    }

    /// Sends a line of the log, a JSON object, as an entry.
    pub(super) fn send(&self, line: &[u8]) -> io::Result<()> {
        let entry = entry(&serde_json::from_slice(line)?);
        #[cfg(target_os = "linux")]
        self.socket.send(entry.as_bytes())?;
        #[cfg(not(target_os = "linux"))]
        let _ = entry;
        Ok(())
    }
}

/// The entry for a line, with one line per field: foreign text is escaped, so no value has a line break.
fn entry(line: &Map<String, Value>) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => escape::line(text).into_owned(),
        other => other.to_string(),
    };
    let member = |name: &str| line.get(name).map(text).unwrap_or_default();
    let priority = match line.get("level").and_then(Value::as_str) {
        Some("ERROR") => 3,
        Some("WARN") => 4,
        Some("INFO") => 6,
        _ => 7,
    };
    let (mut message, mut fields) = (member("message"), String::new());
    for (name, value) in line {
        if matches!(name.as_str(), "timestamp" | "level" | "target" | "message" | "span" | "spans") {
            continue;
        }
        let value = text(value);
        // Writing to memory does not fail.
        let _ = write!(message, " {name}={value}");
        let _ = writeln!(fields, "MCP_HOST_{}={value}", field_name(name));
    }
    if let Some(id) = line.get("span").and_then(|span| span.get("trace_id")) {
        let _ = writeln!(fields, "TRACE_ID={}", text(id));
    }
    let target = member("target");
    format!("MESSAGE={message}\nPRIORITY={priority}\nSYSLOG_IDENTIFIER=mcp-host\nTARGET={target}\n{fields}")
}

/// A name in the journal's form: capital letters, digits and underscores.
fn field_name(name: &str) -> String {
    let character = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().take(MAX_FIELD_NAME.saturating_sub("MCP_HOST_".len())).map(character).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_an_entry_whose_fields_have_no_line_breaks() {
        let line = json!({
            "timestamp": "2026-11-24T12:00:00Z",
            "level": "WARN",
            "target": "mcp_host::plugin",
            "message": "a call failed",
            "plugin": "notes\nPRIORITY=0",
            "retry.in-ms": 12,
            "span": { "name": "request", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736" },
            "spans": [],
        });
        assert_eq!(
            entry(line.as_object().unwrap()),
            "MESSAGE=a call failed plugin=notes\\nPRIORITY=0 retry.in-ms=12\nPRIORITY=4\nSYSLOG_IDENTIFIER=mcp-host\n\
             TARGET=mcp_host::plugin\nMCP_HOST_PLUGIN=notes\\nPRIORITY=0\nMCP_HOST_RETRY_IN_MS=12\n\
             TRACE_ID=4bf92f3577b34da6a3ce929d0e0e4736\n"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_journal_does_not_take_is_an_error() {
        let (socket, other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let journal = Journal { socket };
        journal.send(b"{\"level\":\"INFO\",\"message\":\"hello\",\"target\":\"t\"}\n").unwrap();
        let mut received = [0; 256];
        let length = other.recv(&mut received).unwrap();
        assert!(received[..length].starts_with(b"MESSAGE=hello\nPRIORITY=6\n"));
        assert!(journal.send(b"no JSON").is_err());
        drop(other);
        assert!(journal.send(b"{}").is_err());
    }
}
