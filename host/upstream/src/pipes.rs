//! Messages over the pipes of a program: one line for each message, of bounded length.
//!
//! rmcp's transport writes. Lines are read here, so that their content is bounded before it is parsed
//! ([`message`](crate::message)). A line that is too long, or not a message, is skipped. Each line that is not the
//! answer to a request takes an event and its bytes of the connection's [`Allowance`], and each short read takes some
//! bytes. A line that is too long counts as an answer if a request waits for one, up to [`max_skipped`] bytes.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use mcp_host_base::log_target;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, Empty};
use tokio::task::JoinHandle;

use crate::guard::{Allowance, Excess};
use crate::message::{Decoder, LONG, Undecoded, is_asked};

/// A byte order mark, which some programs write.
const MARK: &[u8] = "\u{feff}".as_bytes();
/// The maximum length of a line that is skipped, in bytes, unless twice the maximum length of a message is more.
const MAX_SKIPPED: u64 = 128 << 20;

/// What a line contains.
type Decoded = Result<ServerJsonRpcMessage, Undecoded>;

/// A transport over pipes.
pub(crate) struct Pipes<R: AsyncRead, W: AsyncWrite> {
    name: Arc<str>,
    writer: AsyncRwTransport<RoleClient, Empty, W>,
    reader: BufReader<R>,
    /// The bytes of the current line so far.
    line: Vec<u8>,
    /// The line that is too long, and is being skipped.
    skipped: Option<Skipped>,
    /// The maximum length of a message in bytes.
    max: usize,
    /// The maximum length of a line that is skipped, in bytes.
    max_skipped: u64,
    decoder: Decoder,
    allowance: Arc<Allowance>,
    /// The pending requests whose results rmcp parses: requests of the handshake, and streams.
    parsed: HashSet<RequestId>,
    /// A long line that is being decoded, and its length.
    decoding: Option<(JoinHandle<Decoded>, usize)>,
}

/// A line that is being skipped.
struct Skipped {
    /// The number of bytes so far.
    length: u64,
    /// Whether a request waits for an answer, which this line may be.
    is_awaited: bool,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Pipes<R, W> {
    pub(crate) fn new(
        name: Arc<str>,
        reader: R,
        writer: W,
        max: usize,
        decoder: Decoder,
        allowance: Arc<Allowance>,
    ) -> Self {
        Self {
            name,
            writer: AsyncRwTransport::new_client(tokio::io::empty(), writer),
            reader: BufReader::new(reader),
            line: Vec::new(),
            skipped: None,
            max,
            max_skipped: max_skipped(max),
            decoder,
            allowance,
            parsed: HashSet::new(),
            decoding: None,
        }
    }

    /// Reads a line; none at the end, and after an excess. Cancel safe: the bytes read so far are kept.
    async fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let piece = self.reader.fill_buf().await.ok()?;
            if piece.is_empty() {
                return None;
            }
            self.allowance.take_piece(piece.len()).ok()?;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |end| end.saturating_add(1));
            if self.skipped.is_none() {
                self.line.extend_from_slice(piece.get(..taken).unwrap_or_default());
            }
            self.reader.consume(taken);
            if self.skipped.is_some() {
                self.skip(taken).ok()?;
            } else if self.line.len() > self.max.saturating_add(1) {
                self.begin_to_skip().ok()?;
            }
            if end.is_some() && self.skipped.take().is_none() {
                return Some(std::mem::take(&mut self.line));
            }
        }
    }

    /// Begins to skip the current line.
    fn begin_to_skip(&mut self) -> Result<(), Excess> {
        let length = std::mem::take(&mut self.line).len();
        let max = self.max;
        tracing::warn!(target: log_target::PLUGIN, plugin = &*self.name, max, "a line of the upstream is too long, and passed over");
        let is_awaited = self.allowance.take_answer();
        self.skipped = Some(Skipped { length: u64::try_from(length).unwrap_or(u64::MAX), is_awaited });
        if is_awaited { Ok(()) } else { self.allowance.take(1, length) }
    }

    /// Skips more bytes of the current line.
    fn skip(&mut self, bytes: usize) -> Result<(), Excess> {
        let Some(skipped) = &mut self.skipped else { return Ok(()) };
        skipped.length = skipped.length.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if !skipped.is_awaited {
            self.allowance.take(0, bytes)
        } else if skipped.length > self.max_skipped {
            Err(self.allowance.exceed(Excess::Line(self.max_skipped)))
        } else {
            Ok(())
        }
    }

    /// Returns the message of the next line, or of the long line that is being decoded, with the length of the line.
    /// None at the end, and after an excess.
    async fn next_message(&mut self) -> Option<(Decoded, usize)> {
        loop {
            if let Some((decoding, length)) = &mut self.decoding {
                let decoded = (decoding.await.unwrap_or(Err(Undecoded::Ended)), *length);
                self.decoding = None;
                return Some(decoded);
            }
            let line = self.next_line().await?;
            let (decoder, parsed, length) = (self.decoder, &self.parsed, line.len());
            if length < LONG {
                let text = trim(&line);
                if text.is_empty() {
                    self.allowance.take(1, length).ok()?;
                    continue;
                }
                return Some((decoder.decode(text, |id| !parsed.contains(id)), length));
            }
            let parsed = parsed.clone();
            let decoding = tokio::task::spawn_blocking(move || decoder.decode(trim(&line), |id| !parsed.contains(id)));
            self.decoding = Some((decoding, length));
        }
    }
}

/// Returns the maximum length of a line that is skipped, in bytes: always longer than a message, so that an answer that
/// is too long fails its call only.
fn max_skipped(max_message: usize) -> u64 {
    u64::try_from(max_message).unwrap_or(u64::MAX).saturating_mul(2).max(MAX_SKIPPED)
}

/// Returns whether a line contains an answer.
fn is_answer(decoded: &Decoded) -> bool {
    matches!(
        decoded,
        Ok(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
            | Err(Undecoded::TooManyValues { answered: Some(_), .. })
    )
}

/// Removes the byte order mark and the white space around a line's message.
fn trim(line: &[u8]) -> &[u8] {
    line.strip_prefix(MARK).unwrap_or(line).trim_ascii()
}

impl<R, W> Transport<RoleClient> for Pipes<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        match &item {
            ClientJsonRpcMessage::Request(request) => {
                self.allowance.await_answer();
                if !is_asked(&item) {
                    self.parsed.insert(request.id.clone());
                }
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.parsed.remove(id);
                }
            }
            _ => {}
        }
        self.writer.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let (decoded, length) = self.next_message().await?;
            if !(is_answer(&decoded) && self.allowance.take_answer()) {
                self.allowance.take(1, length).ok()?;
            }
            match decoded {
                Ok(message) => {
                    match &message {
                        JsonRpcMessage::Response(response) => drop(self.parsed.remove(&response.id)),
                        JsonRpcMessage::Error(error) => drop(error.id.as_ref().map(|id| self.parsed.remove(id))),
                        _ => {}
                    }
                    return Some(message);
                }
                Err(error @ Undecoded::TooManyValues { .. }) => {
                    tracing::warn!(target: log_target::PLUGIN, plugin = &*self.name, %error, "message of the upstream ignored");
                    let text = format!("the upstream sends {error}");
                    let Undecoded::TooManyValues { answered: Some(id), .. } = error else { continue };
                    // Fails the request, so that its caller does not wait in vain.
                    if self.parsed.remove(&id) {
                        return Some(ServerJsonRpcMessage::error(ErrorData::internal_error(text, None), Some(id)));
                    }
                }
                Err(error) => {
                    tracing::debug!(target: log_target::PLUGIN, plugin = &*self.name, %error, "line of the upstream ignored");
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.close().await
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_config::limits::Limits;

    use super::*;
    use crate::message::max_message;

    #[test]
    fn a_line_that_is_too_long_for_a_message_is_skipped_with_any_response_size() {
        for (size, expected) in [("1KiB", MAX_SKIPPED), ("256MiB", (768 << 20) + (128 << 10))] {
            let limits = Limits { response_size: size.parse().unwrap(), ..Limits::default() };
            assert_eq!(max_skipped(max_message(&limits)), expected, "{size}");
        }
    }
}
