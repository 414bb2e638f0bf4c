#![no_main]

use allocation_counter::measure;
use mcp_host_server::fuzzing::message;

// Besides not panicking, parsing must stay within its memory bound: it runs several times in sequence, with at most
// four times the message's size and 64 KiB.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let spent = measure(|| message(data));
    let limit = data.len() as u64 * 4 + (64 << 10);
    assert!(spent.bytes_max <= limit, "{} bytes took {} at once", data.len(), spent.bytes_max);
});
