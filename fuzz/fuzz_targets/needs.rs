#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_host_server::fuzzing::needs(data));
