#![no_main]

use allocation_counter::measure;
use mcp_host_server::fuzzing::{REPLY_MEMORY, reply};

/// The maximum number of bytes of a decoded answer per input byte: an empty entry takes few input bytes.
const BYTES_PER_INPUT_BYTE: u64 = 512;

// An answer is charged before it is converted, so validation takes no more memory than the plugin's limit, in addition
// to the answer itself.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let spent = measure(|| reply(data));
    let limit = REPLY_MEMORY + data.len() as u64 * BYTES_PER_INPUT_BYTE + (64 << 10);
    assert!(spent.bytes_max <= limit, "{} bytes took {} at once", data.len(), spent.bytes_max);
});
