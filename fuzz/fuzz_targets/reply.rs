#![no_main]

use allocation_counter::measure;
use mcp_resource_host::fuzzing::{REPLY_MEMORY, reply};

/// Bytes of an answer that are made of one byte of the input, at most: an entry with nothing in it takes few.
const LIFTED: u64 = 512;

// An answer is charged before anything is made of it, so checking it takes no more than its plugin has, beside the answer itself.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let spent = measure(|| reply(data));
    let most = REPLY_MEMORY + data.len() as u64 * LIFTED + (64 << 10);
    assert!(spent.bytes_max <= most, "{} bytes took {} at once", data.len(), spent.bytes_max);
});
