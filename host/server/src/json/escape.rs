//! Strings of JSON, escaped as by `serde_json`, into chunks of a bounded length.

use super::MAX_CHUNK;

/// Appends as much of a string to a chunk as fits, escaped as by `serde_json`, and returns how many bytes of the string
/// that is.
pub(super) fn escape_into(piece: &mut Vec<u8>, text: &[u8]) -> usize {
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
