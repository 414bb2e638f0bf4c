//! Deltas: objects encoded as copies from a base object, and inserted bytes.
//!
//! The format is defined in `gitformat-pack`, "Deltified representation": the sizes of base and result, then
//! instructions. A delta is applied while it is inflated, so only base and result are in memory. Everything is
//! validated: each copy must lie within the base, and the result must have its declared size.

use std::io::{self, BufRead, Read};

/// The sizes in a delta's header, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// The size of the base.
    pub(crate) base: u64,
    /// The size of the result.
    pub(crate) result: u64,
}

impl Sizes {
    /// Reads the sizes from the beginning of a delta.
    pub(crate) fn read(delta: &mut impl Read) -> io::Result<Self> {
        Ok(Self { base: size(delta)?, result: size(delta)? })
    }
}

/// Applies the instructions that follow the sizes. The caller must have checked the result's size against its limit.
pub(crate) fn apply(base: &[u8], sizes: Sizes, instructions: &mut impl BufRead) -> io::Result<Vec<u8>> {
    if sizes.base != base.len() as u64 {
        return Err(invalid("the delta's base size does not match its base"));
    }
    let size = usize::try_from(sizes.result).map_err(|_| invalid("the result is larger than memory"))?;
    let mut result = Vec::new();
    result.try_reserve_exact(size).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let left = |result: &Vec<u8>| size.saturating_sub(result.len());
    while let Some(instruction) = next(instructions)? {
        match instruction {
            0 => return Err(invalid("a reserved instruction")),
            length @ 1..=0x7f => {
                let length = usize::from(length);
                if length > left(&result) {
                    return Err(invalid("the result exceeds its declared size"));
                }
                let start = result.len();
                result.resize(start.saturating_add(length), 0);
                instructions.read_exact(result.get_mut(start..).unwrap_or_default())?;
            }
            copy => {
                let offset = number(copy, 4, instructions)?;
                let length = match number(copy >> 4, 3, instructions)? {
                    0 => 0x1_0000,
                    length => length,
                };
                let end = offset.checked_add(length).ok_or_else(|| invalid("a copy beyond the end of the base"))?;
                let bytes = base.get(offset..end).ok_or_else(|| invalid("a copy beyond the end of the base"))?;
                if length > left(&result) {
                    return Err(invalid("the result exceeds its declared size"));
                }
                result.extend_from_slice(bytes);
            }
        }
    }
    match left(&result) {
        0 => Ok(result),
        _ => Err(invalid("the result is shorter than its declared size")),
    }
}

/// Reads a size in LEB128: seven bits per byte, least significant first, continued while the highest bit is set.
fn size(delta: &mut impl Read) -> io::Result<u64> {
    let mut size = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let mut byte = [0];
        delta.read_exact(&mut byte)?;
        let [byte] = byte;
        let bits = u64::from(byte & 0x7f);
        let shifted = bits.wrapping_shl(shift);
        if shifted.wrapping_shr(shift) != bits {
            break;
        }
        size |= shifted;
        if byte & 0x80 == 0 {
            return Ok(size);
        }
    }
    Err(invalid("a size that exceeds 64 bits"))
}

/// Reads a little-endian number of up to `bytes` bytes. Only the bytes whose bit is set in `present` are stored; the
/// others are zero.
fn number(present: u8, bytes: u32, instructions: &mut impl BufRead) -> io::Result<usize> {
    let mut number = 0u32;
    for n in 0..bytes {
        if present.wrapping_shr(n) & 1 == 1 {
            let byte = next(instructions)?.ok_or_else(|| invalid("a truncated copy"))?;
            number |= u32::from(byte).wrapping_shl(n.saturating_mul(8));
        }
    }
    usize::try_from(number).map_err(invalid)
}

/// Reads the next byte; `None` at the end.
fn next(instructions: &mut impl BufRead) -> io::Result<Option<u8>> {
    let byte = instructions.fill_buf()?.first().copied();
    if byte.is_some() {
        instructions.consume(1);
    }
    Ok(byte)
}

fn invalid(fault: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: &[u8] = b"0123456789";

    fn run(base: &[u8], mut delta: &[u8]) -> io::Result<Vec<u8>> {
        let sizes = Sizes::read(&mut delta)?;
        if sizes.result > 1 << 20 {
            return Err(invalid("more than these tests afford"));
        }
        apply(base, sizes, &mut delta)
    }

    fn fault(delta: &[u8]) -> String {
        run(BASE, delta).unwrap_err().to_string()
    }

    #[test]
    fn copies_and_insertions_make_the_result() {
        // Copy 3 from 2, insert "ab", copy 1 from 0 (whose offset is omitted).
        let delta = [10, 6, 0x91, 2, 3, 2, b'a', b'b', 0x90, 1];
        assert_eq!(run(BASE, &delta).unwrap(), b"234ab0");
    }

    #[test]
    fn a_copy_of_no_length_means_65536_bytes() {
        let base = vec![b'x'; 0x1_0000];
        assert_eq!(run(&base, &[0x80, 0x80, 4, 0x80, 0x80, 4, 0x80]).unwrap(), base);
    }

    #[test]
    fn what_does_not_fit_base_or_result_is_refused() {
        assert!(fault(&[11, 1, 0x90, 1]).contains("does not match"));
        assert!(fault(&[10, 2, 0x91, 9, 2]).contains("beyond the end of the base"));
        assert!(fault(&[10, 2, 0x9f, 255, 255, 255, 255, 2]).contains("beyond the end of the base"));
        assert!(fault(&[10, 1, 0x90, 2]).contains("exceeds"));
        assert!(fault(&[10, 1, 2, b'a', b'b']).contains("exceeds"));
        assert!(fault(&[10, 3, 0x90, 2]).contains("shorter than"));
        assert!(fault(&[10, 1, 0]).contains("reserved"));
        assert!(fault(&[10, 1, 0x91]).contains("truncated"));
    }

    #[test]
    fn a_size_of_more_than_64_bits_is_refused() {
        assert_eq!(size(&mut [0xff; 9].iter().copied().chain([1]).collect::<Vec<_>>().as_slice()).unwrap(), u64::MAX);
        assert!(fault(&[0xff; 20]).contains("exceeds 64 bits"));
        assert!(fault(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).contains("exceeds 64 bits"));
    }

    /// Returns a valid delta, built from steps, and its expected result.
    fn valid_delta(base: &[u8], steps: &[(usize, usize, Vec<u8>)]) -> (Vec<u8>, Vec<u8>) {
        let mut result = Vec::new();
        let mut instructions = Vec::new();
        for (offset, length, insert) in steps {
            let offset = offset % base.len();
            let length = 1 + length % (base.len() - offset);
            result.extend(&base[offset..offset + length]);
            instructions.push(0xb3);
            instructions.extend(&(offset as u32).to_le_bytes()[..2]);
            instructions.extend(&(length as u32).to_le_bytes()[..2]);
            if !insert.is_empty() {
                instructions.push(insert.len() as u8);
                instructions.extend(insert);
                result.extend(insert);
            }
        }
        let mut delta = Vec::new();
        for mut size in [base.len(), result.len()] {
            while size > 0x7f {
                delta.push(size as u8 | 0x80);
                size >>= 7;
            }
            delta.push(size as u8);
        }
        delta.extend(instructions);
        (delta, result)
    }

    proptest! {
        #[test]
        fn a_right_delta_gives_its_result(
            base in proptest::collection::vec(0u8.., 1..600),
            steps in proptest::collection::vec(
                (0usize..10_000, 0usize..10_000, proptest::collection::vec(0u8.., 0..0x80)), 0..20),
        ) {
            let (delta, result) = valid_delta(&base, &steps);
            prop_assert_eq!(run(&base, &delta).unwrap(), result);
        }

        #[test]
        fn whatever_stands_in_a_delta_it_never_panics(delta in proptest::collection::vec(0u8.., 0..200)) {
            let _ = run(BASE, &delta);
            let _ = run(BASE, &[&[10, 20], delta.as_slice()].concat());
        }
    }
}
