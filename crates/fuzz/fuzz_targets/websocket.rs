#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mainstay_fuzz::websocket(data));
