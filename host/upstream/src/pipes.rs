//! Messages over the pipes of a program: one line for each message, of bounded length.
//!
//! rmcp's transport writes. Lines are read here, so that their content is bounded before it is parsed ([`message`](crate::message)). A line
//! that is too long, or not a message, is skipped.

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

use crate::message::{Decoder, LONG, Undecoded, is_asked};

/// A byte order mark, which some programs write.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// A transport over pipes.
pub(crate) struct Pipes<R: AsyncRead, W: AsyncWrite> {
    name: Arc<str>,
    writer: AsyncRwTransport<RoleClient, Empty, W>,
    reader: BufReader<R>,
    /// The bytes of the current line so far.
    line: Vec<u8>,
    is_discarding: bool,
    max: usize,
    decoder: Decoder,
    /// The pending requests whose results rmcp parses: requests of the handshake, and streams.
    parsed: HashSet<RequestId>,
    /// A long line that is being decoded.
    decoding: Option<JoinHandle<Result<ServerJsonRpcMessage, Undecoded>>>,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Pipes<R, W> {
    pub(crate) fn new(name: Arc<str>, reader: R, writer: W, max: usize, decoder: Decoder) -> Self {
        Self {
            name,
            writer: AsyncRwTransport::new_client(tokio::io::empty(), writer),
            reader: BufReader::new(reader),
            line: Vec::new(),
            is_discarding: false,
            max,
            decoder,
            parsed: HashSet::new(),
            decoding: None,
        }
    }

    /// Reads a line; none at the end. Cancel safe: the bytes read so far are kept.
    async fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let piece = self.reader.fill_buf().await.ok()?;
            if piece.is_empty() {
                return None;
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |end| end.saturating_add(1));
            if !self.is_discarding {
                self.line.extend_from_slice(piece.get(..taken).unwrap_or_default());
            }
            self.reader.consume(taken);
            if !self.is_discarding && self.line.len() > self.max.saturating_add(1) {
                self.is_discarding = true;
                self.line = Vec::new();
                let max = self.max;
                tracing::warn!(target: log_target::PLUGIN, plugin = &*self.name, max, "a line of the upstream is too long, and passed over");
            }
            if end.is_some() && !std::mem::take(&mut self.is_discarding) {
                return Some(std::mem::take(&mut self.line));
            }
        }
    }

    /// Returns the message of the next line, or of the long line that is being decoded; none at the end.
    async fn next_message(&mut self) -> Option<Result<ServerJsonRpcMessage, Undecoded>> {
        loop {
            if let Some(decoding) = &mut self.decoding {
                let decoded = decoding.await.unwrap_or(Err(Undecoded::Ended));
                self.decoding = None;
                return Some(decoded);
            }
            let line = self.next_line().await?;
            let (decoder, parsed) = (self.decoder, &self.parsed);
            if line.len() < LONG {
                let text = trim(&line);
                if text.is_empty() {
                    continue;
                }
                return Some(decoder.decode(text, |id| !parsed.contains(id)));
            }
            let parsed = parsed.clone();
            self.decoding =
                Some(tokio::task::spawn_blocking(move || decoder.decode(trim(&line), |id| !parsed.contains(id))));
        }
    }
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
            ClientJsonRpcMessage::Request(request) if !is_asked(&item) => {
                self.parsed.insert(request.id.clone());
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
            match self.next_message().await? {
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
