//! A pull encoder of JSON: a document is encoded in chunks of at most [`MAX_CHUNK`] bytes, each on demand
//! (backpressure).
//!
//! An answer may have megabytes, and JSON escapes up to six-fold. A transport requests the next chunk when the one
//! before has been sent, so an answer holds its values, which are moved into the encoder, and one chunk. Strings and
//! blobs are dropped as soon as they are encoded, items of a list one after the other. A chunk takes microseconds, so
//! it can be encoded on the threads of the transports.
//!
//! A document is written by functions that get a [`Writer`], which writes directly into the chunk as long as there is
//! room. The rest is deferred: stored as [`Step`]s in order, for the following chunks. Lists are deferred with their
//! iterator, so at most one item of each nested list is being encoded. A document that fits one chunk is one buffer,
//! written once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// The maximum length of a chunk in bytes.
pub(crate) const MAX_CHUNK: usize = 64 << 10;

/// The room for the small parts between two values: with less room, a list is deferred.
const MIN_FREE: usize = 64;

/// The minimum length of shared JSON that is passed on in place: copying less costs less than a chunk of its own.
const MIN_SHARED: usize = 8 << 10;

/// A JSON document that is encoded chunk by chunk.
pub(crate) struct Encoder {
    /// The pending steps, in reverse order: the next one is the last element.
    steps: Vec<Step>,
}

/// A pending part of a document.
enum Step {
    /// JSON.
    Static(&'static str),
    /// JSON, from that offset on.
    Bytes(Vec<u8>, usize),
    /// JSON that is shared: at least [`MIN_SHARED`] bytes of it are passed on in place.
    Shared(Bytes),
    /// The rest of a string, from that offset on, and its closing quote.
    Text(String, usize),
    /// The rest of a string in base64, from that offset on, and its closing quote.
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
    /// Creates a document that the function writes.
    pub(crate) fn new(write: impl FnOnce(&mut Writer<'_>) + Send + 'static) -> Self {
        Self { steps: vec![Step::Then(Box::new(write))] }
    }

    /// Creates a document from JSON.
    pub(crate) fn from_json(json: Vec<u8>) -> Self {
        Self { steps: vec![Step::Bytes(json, 0)] }
    }

    /// Creates an array of documents.
    #[cfg(any(feature = "stdio", test))]
    pub(crate) fn array(documents: Vec<Self>) -> Self {
        let mut rest = vec![Step::Static("]")];
        for (place, document) in documents.into_iter().enumerate().rev() {
            rest.extend(document.steps);
            rest.push(Step::Static(if place == 0 { "[" } else { "," }));
        }
        if rest.len() == 1 {
            rest.push(Step::Static("["));
        }
        Self { steps: rest }
    }

    /// Puts the document between two other texts.
    #[must_use]
    pub(crate) fn wrap(mut self, before: &'static str, after: &'static str) -> Self {
        self.steps.insert(0, Step::Static(after));
        self.steps.push(Step::Static(before));
        self
    }

    /// Puts a text before the document.
    #[must_use]
    pub(crate) fn prepend(mut self, before: Vec<u8>) -> Self {
        self.steps.push(Step::Bytes(before, 0));
        self
    }

    /// Returns whether the whole document has been encoded.
    #[cfg(any(feature = "http", test))]
    pub(crate) fn is_finished(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the length of what has not been encoded yet, if that is known: it is for JSON that is there already.
    #[cfg(any(feature = "http", test))]
    pub(crate) fn known_len(&self) -> Option<usize> {
        self.steps.iter().try_fold(0_usize, |sum, step| Some(sum.saturating_add(step.known_len()?)))
    }

    /// Returns whether the next chunk is shared JSON, which costs nothing to encode.
    #[cfg(any(feature = "http", test))]
    pub(crate) fn next_is_shared(&self) -> bool {
        self.steps.last().is_some_and(|step| matches!(step, Step::Shared(json) if json.len() >= MIN_SHARED))
    }

    /// Encodes the next chunk, of at least one byte and at most [`MAX_CHUNK`]; none at the end.
    pub(crate) fn next_chunk(&mut self) -> Option<Bytes> {
        let (mut piece, mut deferred) = (Vec::new(), Vec::new());
        while let Some(mut step) = self.steps.pop() {
            if let Step::Shared(json) = &mut step
                && json.len() >= MIN_SHARED
            {
                let chunk = piece.is_empty().then(|| json.split_to(json.len().min(MAX_CHUNK)));
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

    /// Encodes the whole document at once.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        let mut all = self.next_chunk().map(Vec::from).unwrap_or_default();
        while let Some(piece) = self.next_chunk() {
            all.extend(piece);
        }
        all
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("steps", &self.steps.len()).finish()
    }
}

impl Step {
    /// The length of its JSON, if that is known before it is encoded.
    #[cfg(any(feature = "http", test))]
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
    /// Reserves room in the chunk for about so many bytes, so that it does not have to grow.
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

    /// Writes a small value at once.
    pub(crate) fn serialize(&mut self, value: &impl Serialize) {
        // The values that are written so do not fail to serialize.
        self.bytes(serde_json::to_vec(value).unwrap_or_default(), 0);
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
        if self.is_direct() && text.len() <= self.remaining() {
            self.chunk.extend_from_slice(text.as_bytes());
        } else {
            self.deferred.push(Step::Static(text));
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
    /// Begins a member, whose value is written next.
    pub(crate) fn member(&mut self, name: &'static str) -> &mut Writer<'a> {
        let before = if std::mem::take(&mut self.is_first) { "\"" } else { ",\"" };
        self.writer.raw(before);
        self.writer.raw(name);
        self.writer.raw("\":");
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

    /// Writes a member with a small value at once.
    pub(crate) fn serialize(&mut self, name: &'static str, value: &impl Serialize) {
        self.member(name).serialize(value);
    }
}

/// Appends as much of a string to a chunk as fits, escaped as by `serde_json`, and returns how many bytes of the string
/// that is.
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
    // Whole blocks are checked without a branch for each byte, which compilers turn into vector instructions.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The whole document, after a check of each of its pieces.
    fn encode_all(mut encoder: Encoder) -> String {
        let mut all = Vec::new();
        while let Some(piece) = encoder.next_chunk() {
            assert!((1..=MAX_CHUNK).contains(&piece.len()), "{} bytes", piece.len());
            all.extend(piece);
        }
        assert!(encoder.is_finished());
        String::from_utf8(all).unwrap()
    }

    fn value(value: &Value) -> String {
        let value = value.clone();
        encode_all(Encoder::new(move |writer| writer.value(value)))
    }

    #[test]
    fn a_string_of_any_length_is_written_as_serde_json_writes_it() {
        for unit in ["a", "\u{1}", "\"\\\n\t\r\u{8}\u{c}", "\u{7f}\u{1f}", "日本語", "a\u{1}\u{1f600}"] {
            for length in [0, 1, 31, 32, 33, 10_000, 65_530, 65_536, 200_000] {
                let text = Value::from(unit.repeat(length));
                assert_eq!(value(&text), text.to_string(), "{length} times {unit:?}");
            }
        }
    }

    #[test]
    fn a_blob_of_any_length_is_written_in_base64() {
        for length in [0, 1, 2, 3, 4, 49_000, 49_149, 49_150, 49_151, 49_152, 49_153, 300_000] {
            let blob: Vec<u8> = (0..length).map(|place| u8::try_from(place % 251).unwrap()).collect();
            let expected = format!("\"{}\"", STANDARD.encode(&blob));
            assert_eq!(encode_all(Encoder::new(move |writer| writer.base64(blob))), expected, "{length}");
        }
    }

    #[test]
    fn lists_in_lists_are_gone_on_with_where_they_were() {
        let inner: Vec<Value> =
            (0..20_000).map(|place| json!({ "name": place, "": [[], {}, null, true, 0.5] })).collect();
        let outer = json!([inner, { "a": inner, "b": "c".repeat(70_000) }, []]);
        assert_eq!(value(&outer), outer.to_string());
    }

    #[test]
    fn shared_json_of_any_length_is_written_as_it_is_and_copied_only_if_it_is_short() {
        for length in [0, 1, 8_000, 8_190, 8_191, 10_000, 65_000, 65_534, 65_535, 65_536, 65_537, 70_000, 200_000] {
            let shared = Bytes::from(format!("\"{}\"", "a".repeat(length)));
            let write = |shared: Bytes| {
                Encoder::new(move |writer| {
                    writer.object(|members| {
                        members.member("before").json(shared.clone());
                        members.member("again").json(shared);
                    });
                })
            };
            let text = str::from_utf8(&shared).unwrap();
            assert_eq!(
                encode_all(write(shared.clone())),
                format!("{{\"before\":{text},\"again\":{text}}}"),
                "{length}"
            );
            let mut encoder = write(shared.clone());
            let first = encoder.next_chunk().unwrap();
            let known = encoder.known_len().unwrap();
            let chunks: Vec<Bytes> = std::iter::from_fn(|| encoder.next_chunk()).collect();
            assert_eq!(known, chunks.iter().map(Bytes::len).sum::<usize>(), "after {} bytes", first.len());
            let is_part = |chunk: &&Bytes| shared.as_ptr_range().contains(&chunk.as_ptr());
            let in_place: usize = chunks.iter().filter(is_part).map(Bytes::len).sum();
            let copied = 2 * shared.len() - in_place;
            assert!(copied < 2 * MIN_SHARED, "{copied} of twice {}", shared.len());
        }
    }

    #[test]
    fn shared_json_alone_is_a_document() {
        for length in [MIN_SHARED, 3 * MAX_CHUNK] {
            let shared = Bytes::from("1".repeat(length));
            let encoder = Encoder::new({
                let shared = shared.clone();
                move |writer| writer.json(shared)
            });
            assert_eq!(encode_all(encoder), str::from_utf8(&shared).unwrap());
        }
    }

    #[test]
    fn documents_can_be_put_together() {
        let document = |text: &str| Encoder::from_json(text.as_bytes().to_vec());
        assert_eq!(encode_all(Encoder::array(vec![])), "[]");
        assert_eq!(encode_all(Encoder::array(vec![document("1")])), "[1]");
        let long = document(&"1".repeat(100_000));
        let all = encode_all(Encoder::array(vec![document("{}"), long, document("[]")]).wrap("data: ", "\n\n"));
        assert_eq!(all, format!("data: [{{}},{},[]]\n\n", "1".repeat(100_000)));
    }

    #[test]
    fn what_has_been_written_is_not_kept() {
        let mut encoder =
            Encoder::new(|writer| writer.array(vec![vec![0_u8; 1 << 20]; 3], |writer, blob| writer.base64(blob)));
        while let Some(_piece) = encoder.next_chunk() {
            assert!(encoder.steps.len() <= 3, "{encoder:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_json_writes_it(text in "\\PC*|[\\x00-\\x7f]{0,200}", times in 1_usize..2000) {
            let text = Value::from(text.repeat(times));
            prop_assert_eq!(value(&text), text.to_string());
        }
    }
}
