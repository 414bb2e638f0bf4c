#![no_main]

use allocation_counter::measure;
use mcp_resource_host::fuzzing::message;

// Beside that it is read: it is read several times, one after the other, at no more than four times its size and 64 KiB.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let spent = measure(|| message(data));
    let limit = data.len() as u64 * 4 + (64 << 10);
    assert!(spent.bytes_max <= limit, "{} bytes took {} at once", data.len(), spent.bytes_max);
});
