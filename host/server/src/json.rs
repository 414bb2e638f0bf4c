//! A pull encoder of JSON: a document is encoded in chunks of at most [`MAX_CHUNK`] bytes, each on demand
//! (backpressure). Already encoded JSON is passed on without a copy, in chunks of at most [`MAX_SHARED_CHUNK`].
//!
//! An answer may have megabytes, and JSON escapes enlarge strings up to six-fold. A transport requests the next chunk
//! when the previous one has been sent, so an answer holds only its values, which are moved into the encoder, and one
//! chunk. Strings and blobs are dropped as soon as they are encoded, and items of a list one after the other. A chunk
//! takes microseconds, so it can be encoded on the threads of the transports.
//!
//! A document is written by functions with a [`Writer`], which writes directly into the chunk while there is room. The
//! rest is deferred: stored as [`Step`]s in order, for the following chunks. Lists are deferred with their iterator, so
//! at most one item of each nested list is being encoded. A document that fits one chunk is one buffer, written once.
//!
//! Strings are escaped as by `serde_json`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tracing::Span;

/// The maximum length of a chunk in bytes.
pub(crate) const MAX_CHUNK: usize = 64 << 10;

/// The maximum length of a chunk of shared JSON, which costs neither time nor memory; larger chunks need fewer system
/// calls.
pub(crate) const MAX_SHARED_CHUNK: usize = 8 * MAX_CHUNK;

/// The room for the small parts between two values, and for a number: with less room, a list is deferred.
const MIN_FREE: usize = 64;

/// The minimum length of shared JSON that is passed on without a copy: copying less costs less than a separate chunk.
const MIN_SHARED: usize = 8 << 10;

/// A JSON document that is encoded chunk by chunk.
pub struct Encoder {
    /// The pending steps, in reverse order: the next one is the last element.
    steps: Vec<Step>,
    /// The span of the encoding, which ends when the encoder is dropped.
    span: Span,
}

/// A pending part of a document.
enum Step {
    /// JSON.
    Static(&'static str),
    /// JSON, from this offset on.
    Bytes(Vec<u8>, usize),
    /// Shared JSON. A part of at least [`MIN_SHARED`] bytes is passed on without a copy.
    Shared(Bytes),
    /// The rest of a string, from this offset on, and its closing quote.
    Text(String, usize),
    /// The rest of a Base64 string, from this offset of the bytes on, and its closing quote.
    Base64(Vec<u8>, usize),
    /// A function that writes the part.
    Then(Box<dyn FnOnce(&mut Writer<'_>) + Send>),
}

/// Writes a document into the current chunk.
pub(crate) struct Writer<'a> {
    chunk: &'a mut Vec<u8>,
    /// The steps that do not fit, in order.
    deferred: &'a mut Vec<Step>,
}

/// Writes the members of an object.
pub(crate) struct Members<'w, 'a> {
    writer: &'w mut Writer<'a>,
    is_first: bool,
}

impl Encoder {
    /// Creates a document from the output of a function.
    pub(crate) fn new(write: impl FnOnce(&mut Writer<'_>) + Send + 'static) -> Self {
        Self { steps: vec![Step::Then(Box::new(write))], span: Span::none() }
    }

    /// Creates a document from JSON.
    pub fn from_json(json: Vec<u8>) -> Self {
        Self { steps: vec![Step::Bytes(json, 0)], span: Span::none() }
    }

    /// Creates an array of documents.
    pub(crate) fn array(documents: Vec<Self>) -> Self {
        let mut rest = vec![Step::Static("]")];
        for (place, document) in documents.into_iter().enumerate().rev() {
            rest.extend(document.steps);
            rest.push(Step::Static(if place == 0 { "[" } else { "," }));
        }
        if rest.len() == 1 {
            rest.push(Step::Static("["));
        }
        Self { steps: rest, span: Span::none() }
    }

    /// Adds a text before and a text after the document.
    #[must_use]
    pub(crate) fn wrap(mut self, before: &'static str, after: &'static str) -> Self {
        self.steps.insert(0, Step::Static(after));
        self.steps.push(Step::Static(before));
        self
    }

    /// Adds a text before the document.
    #[must_use]
    pub(crate) fn prepend(mut self, before: Vec<u8>) -> Self {
        self.steps.push(Step::Bytes(before, 0));
        self
    }

    /// Holds a span until the encoder is dropped.
    #[must_use]
    pub(crate) fn in_span(self, span: Span) -> Self {
        Self { span, ..self }
    }

    /// Returns whether the whole document has been encoded.
    pub(crate) fn is_finished(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the length of the rest of the document. None unless the rest is already encoded JSON.
    pub(crate) fn known_len(&self) -> Option<usize> {
        self.steps.iter().try_fold(0_usize, |sum, step| Some(sum.saturating_add(step.known_len()?)))
    }

    /// Returns whether the next chunk is shared JSON, which needs no encoding.
    pub(crate) fn next_is_shared(&self) -> bool {
        self.steps.last().is_some_and(|step| matches!(step, Step::Shared(json) if json.len() >= MIN_SHARED))
    }

    /// Encodes the next chunk of at least one byte and at most [`MAX_CHUNK`], or [`MAX_SHARED_CHUNK`] of shared JSON.
    /// None at the end.
    pub fn next_chunk(&mut self) -> Option<Bytes> {
        let (mut piece, mut deferred) = (Vec::new(), Vec::new());
        while let Some(mut step) = self.steps.pop() {
            if let Step::Shared(json) = &mut step
                && json.len() >= MIN_SHARED
            {
                let chunk = piece.is_empty().then(|| json.split_to(json.len().min(MAX_SHARED_CHUNK)));
                if !json.is_empty() {
                    self.steps.push(step);
                }
                match chunk {
                    Some(chunk) => return Some(chunk),
                    None => break,
                }
            }
            Writer { chunk: &mut piece, deferred: &mut deferred }.run(step);
            if !deferred.is_empty() {
                self.steps.extend(deferred.drain(..).rev());
                if !piece.is_empty() {
                    break;
                }
            }
        }
        (!piece.is_empty()).then(|| piece.into())
    }

    /// Encodes the whole document into one buffer.
    pub fn into_vec(mut self) -> Vec<u8> {
        let mut all = self.next_chunk().map(Vec::from).unwrap_or_default();
        while let Some(piece) = self.next_chunk() {
            all.extend(piece);
        }
        all
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("steps", &self.steps.len()).field("span", &self.span.id()).finish()
    }
}

impl Step {
    /// The length of the step's JSON, if it is known before encoding.
    fn known_len(&self) -> Option<usize> {
        match self {
            Self::Static(text) => Some(text.len()),
            Self::Bytes(bytes, written) => Some(bytes.len().saturating_sub(*written)),
            Self::Shared(json) => Some(json.len()),
            Self::Text(..) | Self::Base64(..) | Self::Then(_) => None,
        }
    }
}

impl Writer<'_> {
    /// Reserves room in the chunk for about `bytes` bytes, so that it does not have to grow.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.chunk.reserve(bytes.min(self.remaining()));
    }

    /// Writes an object with the members that the function writes.
    pub(crate) fn object(&mut self, write: impl FnOnce(&mut Members<'_, '_>)) {
        self.raw("{");
        let mut members = Members { writer: self, is_first: true };
        write(&mut members);
        members.writer.raw("}");
    }

    /// Writes an array with an element for each item, which the function writes.
    pub(crate) fn array<I>(&mut self, items: I, write: impl Fn(&mut Writer<'_>, I::Item) + Send + 'static)
    where
        I: IntoIterator<IntoIter: Send + 'static>,
    {
        self.raw("[");
        self.items(items.into_iter(), write, "]", true);
    }

    /// Writes a string.
    pub(crate) fn text(&mut self, text: String) {
        self.raw("\"");
        self.continue_text(text, 0);
    }

    /// Writes a string with the bytes in base64.
    pub(crate) fn base64(&mut self, bytes: Vec<u8>) {
        self.raw("\"");
        self.continue_base64(bytes, 0);
    }

    /// Writes JSON that is encoded already.
    pub(crate) fn json(&mut self, json: Bytes) {
        if self.is_direct() && json.len() < MIN_SHARED && json.len() <= self.remaining() {
            self.chunk.extend_from_slice(&json);
        } else {
            self.deferred.push(Step::Shared(json));
        }
    }

    /// Writes any value.
    pub(crate) fn value(&mut self, value: Value) {
        match value {
            Value::Null => self.raw("null"),
            Value::Bool(true) => self.raw("true"),
            Value::Bool(false) => self.raw("false"),
            Value::Number(number) => self.bytes(number.to_string().into_bytes(), 0),
            Value::String(text) => self.text(text),
            Value::Array(values) => self.array(values, |writer, value| writer.value(value)),
            Value::Object(members) => {
                self.raw("{");
                let write = |writer: &mut Writer<'_>, (name, value): (String, Value)| {
                    writer.text(name);
                    writer.raw(":");
                    writer.value(value);
                };
                self.items(members.into_iter(), write, "}", true);
            }
        }
    }

    /// Writes a number or a boolean without splitting it, in at most [`MIN_FREE`] bytes.
    pub(crate) fn serialize(&mut self, value: &impl Serialize) {
        // Such values always serialize, and writes to a vector do not fail.
        if self.is_direct() && self.remaining() >= MIN_FREE {
            let _ = serde_json::to_writer(&mut *self.chunk, value);
        } else {
            self.bytes(serde_json::to_vec(value).unwrap_or_default(), 0);
        }
    }

    fn items<T, I, W>(&mut self, mut items: I, write: W, close: &'static str, mut is_first: bool)
    where
        I: Iterator<Item = T> + Send + 'static,
        W: Fn(&mut Writer<'_>, T) + Send + 'static,
    {
        while self.is_direct() && self.remaining() >= MIN_FREE {
            let Some(item) = items.next() else { return self.raw(close) };
            if !std::mem::take(&mut is_first) {
                self.raw(",");
            }
            write(self, item);
        }
        self.deferred.push(Step::Then(Box::new(move |writer| writer.items(items, write, close, is_first))));
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Static(text) => self.raw(text),
            Step::Bytes(bytes, written) => self.bytes(bytes, written),
            Step::Shared(json) => self.json(json),
            Step::Text(text, written) => self.continue_text(text, written),
            Step::Base64(bytes, written) => self.continue_base64(bytes, written),
            Step::Then(write) => write(self),
        }
    }

    /// Returns whether no step has been deferred.
    fn is_direct(&self) -> bool {
        self.deferred.is_empty()
    }

    fn remaining(&self) -> usize {
        MAX_CHUNK.saturating_sub(self.chunk.len())
    }

    fn raw(&mut self, text: &'static str) {
        self.raw_all([text]);
    }

    fn raw_all<const N: usize>(&mut self, texts: [&'static str; N]) {
        let len = texts.iter().map(|text| text.len()).fold(0, usize::saturating_add);
        if self.is_direct() && len <= self.remaining() {
            texts.iter().for_each(|text| self.chunk.extend_from_slice(text.as_bytes()));
        } else {
            self.deferred.extend(texts.map(Step::Static));
        }
    }

    fn bytes(&mut self, bytes: Vec<u8>, written: usize) {
        if !self.is_direct() {
            return self.deferred.push(Step::Bytes(bytes, written));
        }
        let rest = bytes.get(written..).unwrap_or_default();
        let next = rest.get(..self.remaining()).unwrap_or(rest);
        self.chunk.extend_from_slice(next);
        let written = written.saturating_add(next.len());
        if written < bytes.len() {
            self.deferred.push(Step::Bytes(bytes, written));
        }
    }

    fn continue_text(&mut self, text: String, written: usize) {
        if !self.is_direct() {
            return self.deferred.push(Step::Text(text, written));
        }
        let rest = text.as_bytes().get(written..).unwrap_or_default();
        let written = written.saturating_add(escape_into(self.chunk, rest));
        if written < text.len() {
            self.deferred.push(Step::Text(text, written));
        } else {
            self.raw("\"");
        }
    }

    fn continue_base64(&mut self, bytes: Vec<u8>, written: usize) {
        if !self.is_direct() {
            return self.deferred.push(Step::Base64(bytes, written));
        }
        let rest = bytes.get(written..).unwrap_or_default();
        // Whole groups of three bytes, except for the last one.
        let most = self.remaining().div_euclid(4).saturating_mul(3);
        let next = rest.get(..most).unwrap_or(rest);
        let start = self.chunk.len();
        self.chunk.resize(start.saturating_add(next.len().div_ceil(3).saturating_mul(4)), 0);
        // The slice has the length of the base64 text.
        let _ = STANDARD.encode_slice(next, self.chunk.get_mut(start..).unwrap_or_default());
        let written = written.saturating_add(next.len());
        if written < bytes.len() {
            self.deferred.push(Step::Base64(bytes, written));
        } else {
            self.raw("\"");
        }
    }
}

impl<'a> Members<'_, 'a> {
    /// Begins a member. Its value has to be written next.
    pub(crate) fn member(&mut self, name: &'static str) -> &mut Writer<'a> {
        let before = if std::mem::take(&mut self.is_first) { "\"" } else { ",\"" };
        self.writer.raw_all([before, name, "\":"]);
        self.writer
    }

    /// Writes a member that is a string.
    pub(crate) fn text(&mut self, name: &'static str, text: impl Into<String>) {
        self.member(name).text(text.into());
    }

    /// Writes a member that is a string, if there is one.
    pub(crate) fn optional_text(&mut self, name: &'static str, text: Option<String>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// Writes a member that is a number or a boolean.
    pub(crate) fn serialize(&mut self, name: &'static str, value: &impl Serialize) {
        self.member(name).serialize(value);
    }
}

#[cfg(test)]
mod tests;

/// Appends as much of a string to a chunk as fits, escaped as by `serde_json`, and returns the number of appended bytes
/// of the string.
fn escape_into(piece: &mut Vec<u8>, text: &[u8]) -> usize {
    let mut rest = text;
    loop {
        let room = MAX_CHUNK.saturating_sub(piece.len());
        let (plain, behind) = rest.split_at(plain_prefix(rest.get(..room).unwrap_or(rest)));
        piece.extend_from_slice(plain);
        rest = behind;
        let room = room.saturating_sub(plain.len());
        match behind.split_first() {
            Some((byte, behind)) if room >= MAX_ESCAPE => {
                escape(piece, *byte);
                rest = behind;
            }
            _ => return text.len().saturating_sub(rest.len()),
        }
    }
}

/// The longest escape sequence.
const MAX_ESCAPE: usize = 6;

/// Returns the length of the prefix without bytes that need an escape.
fn plain_prefix(text: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    // Whole blocks are checked without a branch for each byte, so that compilers can use vector instructions.
    let is_plain = |block: &[u8]| !block.iter().fold(false, |found, byte| found | is_special(byte));
    let blocks = text.chunks_exact(BLOCK).take_while(|block| is_plain(block)).count();
    let checked = blocks.saturating_mul(BLOCK);
    let rest = text.get(checked..).unwrap_or_default();
    checked.saturating_add(rest.iter().position(is_special).unwrap_or(rest.len()))
}

/// Appends the escape sequence of a byte.
fn escape(piece: &mut Vec<u8>, byte: u8) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        other => {
            let digit = |half: u8| HEX.get(usize::from(half)).map_or(b'0', |digit| *digit as u8);
            return piece.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(other >> 4), digit(other & 0xf)]);
        }
    };
    piece.extend_from_slice(&[b'\\', short]);
}
