#![no_main]

use allocation_counter::measure;
use mcp_resource_host::fuzzing::{REPLY_MEMORY, reply};

/// Bytes of an answer that are made of one byte of the input, at most: an entry with nothing in it takes few.
const BYTES_PER_INPUT_BYTE: u64 = 512;

// An answer is charged before anything is made of it, so checking it takes no more than its plugin has, beside the answer itself.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let spent = measure(|| reply(data));
    let limit = REPLY_MEMORY + data.len() as u64 * BYTES_PER_INPUT_BYTE + (64 << 10);
    assert!(spent.bytes_max <= limit, "{} bytes took {} at once", data.len(), spent.bytes_max);
});
